package toolfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"haft/internal/toolfile"
	"haft/schema"
)

func TestArguments(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	tree, err := schema.Decode([]byte(`{"type": "object", "properties": {
		"code": {"type": "string"}, "n": {"type": "integer"}, "any": {},
		"tags": {"type": "array", "items": {"type": "string"}},
		"maybe": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	params := tree.(*schema.Object)
	for _, test := range []struct {
		name, document string
		pairs          []string
		want           string // the arguments, or a part of the error
	}{
		{"text_by_schema", "", []string{"code=90210"}, `{"code":"90210"}`},
		{"number_by_schema", "", []string{"n=90210"}, `{"n":90210}`},
		{"unknown_is_json", "", []string{"any=1", "other=2"}, `{"any":1,"other":2}`},
		{"over_the_document", `{"code": "a", "n": 1}`, []string{"code=b"}, `{"code":"b","n":1}`},
		{"again_is_a_list", "", []string{"tags=a", "tags=2"}, `{"tags":["a","2"]}`},
		{"again_in_an_alternative", "", []string{"maybe=1", "maybe=2"}, `{"maybe":[1,2]}`},
		{"again_of_any_type", "", []string{"any=1", "any=2"}, `{"any":[1,2]}`},
		{"again_is_refused", "", []string{"code=1", "code=2"},
			"--arg code is given 2 times, and the parameter takes no list: give it once"},
		{"file_is_text", "", []string{"code=@" + file("a.txt", "12\n")}, `{"code":"12\n"}`},
		{"file_is_json", "", []string{"tags=@" + file("a.json", `["a", "b"]`)}, `{"tags":["a","b"]}`},
		{"at_sign", "", []string{"code=@@ann"}, `{"code":"@ann"}`},
		{"content_with_at_sign", "", []string{"code=@" + file("at.txt", "@b")}, `{"code":"@b"}`},
		{"no_file", "", []string{"code=@" + filepath.Join(dir, "none")}, "a text that begins with @ is written " +
			"with @@"},
		{"no_text", "", []string{"code=@" + file("b", "\xff")}, "the file is no text: hand it to the tool with --file"},
		{"too_large", "", []string{"code=@" + file("large", strings.Repeat("x", schema.MaxBytes+1))}, "has more than"},
		{"no_name", "", []string{"=1"}, "--arg is NAME=VALUE"},
		{"no_value", "", []string{"code"}, "--arg is NAME=VALUE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := toolfile.Arguments(test.pairs)
			err := a.Resolve()
			var raw []byte
			if err == nil {
				raw, err = a.AddTo([]byte(test.document))
			}
			if err == nil {
				raw, err = a.AsDeclared(raw, params)
			}
			if err != nil {
				if !strings.Contains(err.Error(), test.want) || strings.HasPrefix(test.want, "{") {
					t.Errorf("error %v, want %s", err, test.want)
				}
				return
			}
			if string(raw) != test.want {
				t.Errorf("got %s, want %s", raw, test.want)
			}
		})
	}
}
