package schema_test

import (
	"testing"

	"haft/schema"
)

func TestSourceError_names_what_is_known(t *testing.T) {
	for _, tt := range []struct {
		err  schema.SourceError
		want string
	}{
		{schema.SourceError{Message: "there is no function"}, "there is no function"},
		{schema.SourceError{Line: 3, Message: "it ends"}, "line 3: it ends"},
		{schema.SourceError{Line: 3, Column: 7, Message: "it ends"}, "line 3, column 7: it ends"},
		{schema.SourceError{Column: 7, Message: "a column without a line"}, "a column without a line"},
		{schema.SourceError{Function: "f", Message: "has no docstring"}, "function f: has no docstring"},
		{schema.SourceError{Line: 1, Column: 2, Function: "f", Parameter: "x", Message: "has no type"},
			"line 1, column 2: function f: parameter x: has no type"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%+v = %q, want %q", tt.err, got, tt.want)
		}
	}
}
