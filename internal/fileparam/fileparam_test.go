package fileparam_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/executor"
	"haft/internal/fileparam"
	"haft/internal/jsontree"
)

const id = "file_6607324f1fad5y5jx37kqzvs7dukmgj43qzcyfb"

// resolve finds the files among arguments, of which one comes with the call.
func resolve(t *testing.T, kind haft.Kind, schema, args string) ([]executor.FileArg, *haft.Failure) {
	t.Helper()
	tree, err := jsontree.Decode([]byte(args), jsontree.Limits{Bytes: 1 << 20, Depth: 200})
	if err != nil {
		t.Fatal(err)
	}
	refs, ok := fileparam.Compile(kind, json.RawMessage(schema)).Refs(tree)
	if !ok {
		t.Fatal("there is too much to look at")
	}
	given := []string{"a.png", "file_given"}
	found, failure, err := fileparam.Resolve(refs, given, func(f haft.FileID) (string, error) {
		if f == "file_given" {
			return "kept", nil
		}
		if f != id {
			return "", &haft.Error{Code: haft.CodeInvalid, Message: "there is no such file"}
		}
		return "at/" + string(f), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, failure
}

func TestResolve(t *testing.T) {
	const file, path, bytes = `{"type":"string","format":"haft-file"}`, `{"type":"string","format":"path"}`,
		`{"type":"string","format":"byte"}`
	one := func(s string) string { return `{"properties":{"x":` + s + `}}` }
	tests := map[string]struct {
		schema, args string
		want         string // at and path of each
		fails        string
	}{
		"id":           {one(file), `{"x":"` + id + `"}`, "x=at/" + id, ""},
		"resource":     {one(file), `{"x":"haft://files/` + id + `"}`, "x=at/" + id, ""},
		"name":         {one(file), `{"x":"a.png"}`, "x=a.png", ""},
		"unknown id":   {one(file), `{"x":"file_1"}`, "", "/x: there is no such file"},
		"another name": {one(file), `{"x":"../a.png"}`, "", "/x: expected the id of a file"},
		"not given":    {one(file), `{}`, "", ""},
		"id, and a file of the call of that name": {one(file), `{"x":"file_given"}`, "x=kept", ""},

		"path":              {one(path), `{"x":"file_list"}`, "", ""},
		"path that is none": {one(path), `{"x":"/etc/passwd"}`, "", ""},
		"id for a path":     {one(path), `{"x":"` + id + `"}`, "x=at/" + id, ""},
		"base64":            {one(bytes), `{"x":"aGk="}`, "", ""},
		"id for bytes":      {one(bytes), `{"x":"` + id + `"}`, "x=at/" + id, ""},
		"name for bytes":    {one(bytes), `{"x":"a.png"}`, "x=a.png", ""},
		"text":              {one(`{"type":"string"}`), `{"x":"` + id + `"}`, "", ""},
		"text beside":       {`{"properties":{"x":` + file + `,"y":{}}}`, `{"y":"` + id + `"}`, "", ""},
		"list":              {one(`{"items":` + file + `}`), `{"x":["a.png","` + id + `"]}`, "x/0=a.png x/1=at/" + id, ""},
		"fixed list":        {one(`{"prefixItems":[{},` + file + `]}`), `{"x":["a","a.png"]}`, "x/1=a.png", ""},
		"map":               {one(`{"additionalProperties":` + file + `}`), `{"x":{"a/b":"c"}}`, "", "/x/a~1b: expected"},
		"alternative":       {one(`{"anyOf":[{"type":"null"},` + file + `]}`), `{"x":"a.png"}`, "x=a.png", ""},
		"recursive": {`{"$defs":{"N":{"properties":{"f":` + file + `,"n":{"$ref":"#/$defs/N"}}}},"$ref":"#/$defs/N"}`,
			`{"n":{"n":{"f":"a.png"}}}`, "n/n/f=a.png", ""},
		"itself": {`{"$defs":{"N":{"anyOf":[{"$ref":"#/$defs/N"},` + file + `]}},"properties":{"x":{"$ref":"#/$defs/N"}}}`,
			`{"x":"a.png"}`, "x=a.png", ""},
		"nowhere": {`{"properties":{"x":{"$ref":"#/other/N"},"y":` + file + `}}`, `{"x":"b"}`, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			found, failure := resolve(t, haft.KindPython, tt.schema, tt.args)
			var got []string
			for _, f := range found {
				got = append(got, strings.Join(f.At, "/")+"="+f.Path)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("files: -want +got:\n%s", diff)
			}
			if (failure == nil) != (tt.fails == "") || failure != nil && !strings.Contains(failure.Message, tt.fails) {
				t.Errorf("failure %v, want %q", failure, tt.fails)
			}
		})
	}
}

// Other kinds of tools have no directory for files, and what a server calls a path is its own.
func TestCompile_kinds(t *testing.T) {
	const schema = `{"properties":{"x":{"format":"haft-file"}}}`
	for _, kind := range []haft.Kind{haft.KindMCP, haft.KindBuiltin} {
		if fileparam.Compile(kind, json.RawMessage(schema)) != nil {
			t.Errorf("tools of the kind %s take files", kind)
		}
	}
	if found, failure := resolve(t, haft.KindTypeScript, `{"properties":{"x":{"format":"byte"}}}`,
		`{"x":"`+id+`"}`); found != nil || failure != nil {
		t.Error("a tool in TypeScript gets a file for a text in base64")
	}
}

// Alternatives that lead to each other are looked at once for each value.
func TestRefs_is_bounded(t *testing.T) {
	const schema = `{"$defs":{"A":{"anyOf":[{"items":{"$ref":"#/$defs/A"}},{"items":{"$ref":"#/$defs/A"}},` +
		`{"format":"haft-file"}]}},"properties":{"x":{"$ref":"#/$defs/A"}}}`
	args := `{"x":` + strings.Repeat("[", 60) + `"a.png"` + strings.Repeat("]", 60) + `}`
	if found, _ := resolve(t, haft.KindPython, schema, args); len(found) != 1 {
		t.Errorf("%d files, want 1", len(found))
	}
}

// Very many texts that could be files take time by their number.
func TestRefs_of_a_long_list(t *testing.T) {
	const n = 90_000
	args := `{"x":[` + strings.Repeat(`"",`, n-1) + `""]}`
	tree, err := jsontree.Decode([]byte(args), jsontree.Limits{Bytes: 1 << 20, Depth: 9})
	if err != nil {
		t.Fatal(err)
	}
	schema := `{"properties":{"x":{"items":{"type":"string","format":"byte"}}}}`
	if refs, ok := fileparam.Compile(haft.KindPython, json.RawMessage(schema)).Refs(tree); len(refs) != n || !ok {
		t.Errorf("%d refs, %v", len(refs), ok)
	}
}
