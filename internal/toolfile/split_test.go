package toolfile_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"haft"
	"haft/app"
	"haft/internal/toolfile"
	"haft/schema"
)

func TestSplitter_Split(t *testing.T) {
	s := toolfile.Splitter{
		Tools: func(_ context.Context, src app.Source) ([]string, error) {
			switch text := string(src.Text); text {
			case "broken":
				return nil, &schema.SourceError{Message: "it is broken"}
			case "undocumented":
				return nil, &schema.AmbiguousError{Tools: []string{"a", "b"}, Undocumented: true}
			case "closed":
				return nil, errors.New("there is no interpreter")
			default:
				return strings.Fields(text), nil
			}
		},
		Function: func(_ context.Context, name string) string {
			return map[string]string{"old": "b",
				"gone": "z"}[name]
		},
	}
	const ambiguous = "f.py: 2 functions are tools: a, b: name one, such as f.py:a"
	for _, test := range []struct {
		name  string
		draft haft.Draft
		want  string // names and functions, or the error
	}{
		{"one", haft.Draft{Source: "a"}, ":a"},
		{"several", haft.Draft{Source: "a b"}, ":a :b"},
		{"named_function", haft.Draft{Source: "a b", Function: "c"}, ":c"},
		{"schema_given", haft.Draft{Source: "a b", Parameters: []byte("{}")}, ":"},
		{"name_of_one", haft.Draft{Source: "a", Name: "x"}, "x:a"},
		{"name_is_a_function", haft.Draft{Source: "a b", Name: "a"}, "a:a"},
		{"name_of_a_tool", haft.Draft{Source: "a b", Name: "old"}, "old:b"},
		{"name_of_a_tool_of_another_function", haft.Draft{Source: "a b", Name: "gone"}, ambiguous},
		{"new_name", haft.Draft{Source: "a b", Name: "x"}, ambiguous},
		{"description", haft.Draft{Source: "a b", Description: "X."}, ambiguous},
		{"undocumented", haft.Draft{Source: "undocumented"}, "f.py: 2 functions can be the tool, and none of them is " +
			"documented: a, b: document those that are tools, or name one, such as f.py:a"},
		{"broken", haft.Draft{Source: "broken"}, ":"},
		{"cannot_be_read_here", haft.Draft{Source: "closed", Name: "x"}, "x:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			drafts, err := s.Split(t.Context(), "f.py", test.draft)
			var got []string
			for _, d := range drafts {
				got = append(got, d.Name+":"+d.Function)
			}
			if err != nil {
				got = []string{err.Error()}
			}
			if text := strings.Join(got, " "); text != test.want {
				t.Errorf("Split = %q, want %q", text, test.want)
			}
		})
	}
}
