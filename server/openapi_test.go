package server_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "rewrite the pinned document")

func TestOpenAPI_is_what_is_pinned(t *testing.T) {
	w := setup(t, nil)
	got := w.must(200, nobody, "GET", "/openapi.json", "").body
	name := filepath.Join("testdata", "openapi.json")
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("the document has changed (go test ./server -update rewrites it; -pinned +got):\n%s", diff)
	}
}

// A document holds answers against what is promised of them.
type document struct {
	t        *testing.T
	tree     map[string]any
	compiler *jsonschema.Compiler
	seen     map[string]*jsonschema.Schema
}

// docURL is what the document goes by in its test.
const docURL = "https://haft.example/openapi.json"

// open reads a document.
func open(t *testing.T, raw []byte) *document {
	t.Helper()
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	d := &document{t: t, tree: tree.(map[string]any), compiler: jsonschema.NewCompiler(),
		seen: map[string]*jsonschema.Schema{}}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := d.compiler.AddResource(docURL, tree); err != nil {
		t.Fatal(err)
	}
	return d
}

// schema compiles what is at a place of the document, or returns nil.
func (d *document) schema(place ...string) *jsonschema.Schema {
	d.t.Helper()
	var at any = d.tree
	pointer := ""
	for _, p := range place {
		m, ok := at.(map[string]any)
		if !ok || m[p] == nil {
			return nil
		}
		at = m[p]
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D", "+", "%2B").Replace(p)
	}
	if s := d.seen[pointer]; s != nil {
		return s
	}
	s, err := d.compiler.Compile(docURL + "#" + pointer)
	if err != nil {
		d.t.Fatalf("%s is not a schema: %v", pointer, err)
	}
	d.seen[pointer] = s
	return s
}

// fits holds an answer against the document.
func (d *document) fits(t *testing.T, op string, a answer) {
	t.Helper()
	method, path, _ := strings.Cut(op, " ")
	responses := d.tree["paths"].(map[string]any)[path].(map[string]any)[strings.ToLower(method)].(map[string]any)["responses"].(map[string]any)
	status := strconv.Itoa(a.status)
	response, ok := responses[status].(map[string]any)
	if !ok {
		t.Errorf("%s answers %s, which the document does not have: %s", op, status, a.body)
		return
	}
	content, _ := response["content"].(map[string]any)
	kind := a.header.Get("Content-Type")
	if len(content) == 0 && len(a.body) == 0 {
		return
	}
	if content[kind] == nil {
		t.Errorf("%s answers %s with %q, which the document does not have", op, status, kind)
		return
	}
	if !strings.HasSuffix(kind, "json") {
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(a.body))
	if err != nil {
		t.Errorf("%s answers %s, which is not JSON: %v", op, a.body, err)
		return
	}
	s := d.schema("paths", path, strings.ToLower(method), "responses", status, "content", kind, "schema")
	if err := s.Validate(value); err != nil {
		t.Errorf("%s answers what the document does not say: %v\n%s", op, err, a.body)
	}
}

func TestOpenAPI_is_sound(t *testing.T) {
	w := setup(t, nil)
	d := open(t, w.server.OpenAPI())
	if d.tree["openapi"] != "3.1.0" {
		t.Errorf("the document is of version %v", d.tree["openapi"])
	}
	for name := range d.tree["components"].(map[string]any)["schemas"].(map[string]any) {
		d.schema("components", "schemas", name)
	}
	if d.schema("components", "schemas", "ErrorModel") != nil {
		t.Error("the document has the library's errors")
	}
	for path, item := range d.tree["paths"].(map[string]any) {
		for method, op := range item.(map[string]any) {
			o := op.(map[string]any)
			if o["summary"] == "" || o["responses"].(map[string]any)["default"] == nil {
				t.Errorf("%s %s: no summary, or not every answer", method, path)
			}
			named := map[string]bool{}
			params, _ := o["parameters"].([]any)
			for _, p := range params {
				q := p.(map[string]any)
				if q["in"] == "path" {
					named[q["name"].(string)] = q["required"] == true
				}
			}
			for part := range strings.SplitSeq(path, "/") {
				if name, ok := strings.CutPrefix(part, "{"); ok && !named[strings.TrimSuffix(name, "}")] {
					t.Errorf("%s %s does not say what %s is", method, path, part)
				}
			}
		}
	}
}

// A character of a query takes up to 12 bytes in a request line, and a line that is too long is refused by
// closing the connection: no parameter may promise more than fits.
func TestOpenAPI_queries_fit_a_request_line(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name, In string
				Schema   struct {
					MaxLength int `json:"maxLength"`
				}
			}
		}
	}
	if err := json.Unmarshal(setup(t, nil).must(200, nobody, "GET", "/openapi.json", "").body, &doc); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for path, ops := range doc.Paths {
		for method, op := range ops {
			for _, p := range op.Parameters {
				if p.In != "query" {
					continue
				}
				if seen++; p.Schema.MaxLength > 1024 {
					t.Errorf("%s %s: %s takes %d characters", method, path, p.Name, p.Schema.MaxLength)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no operation has a query")
	}
}
