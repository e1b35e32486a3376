package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/internal/goldentest"
	"haft/schema"
)

// A goldenCase is the input of a golden file: schema.json, the parameters of a
// tool, or tool.json, the tool itself.
type goldenCase struct {
	root any
	sig  *schema.Signature
}

// goldens says what each section of a golden file expects. A section named error
// expects the first kind of its directory to fail.
var goldens = map[string][]struct {
	section string
	make    func(goldenCase) (any, error)
}{
	"health": {
		{"health.txt", func(c goldenCase) (any, error) { return healthText(schema.Health(c.root)), nil }},
	},
	"strict": {
		{"strict.json", func(c goldenCase) (any, error) {
			p, ok := schema.Strict(c.sig.Parameters)
			return schema.Obj("strict", ok, "parameters", p), nil
		}},
	},
	"normalize": {
		{"normalized.json", func(c goldenCase) (any,
			error) {
			return schema.Normalize(c.root, schema.NormalizeOptions{})
		}},
		{"strict.json", func(c goldenCase) (any, error) {
			return schema.Normalize(c.root, schema.NormalizeOptions{Strict: true})
		}},
		{"health.txt", func(c goldenCase) (any, error) {
			p, err := schema.Normalize(c.root, schema.NormalizeOptions{})
			return healthText(schema.Health(p)), err
		}},
	},
	"args": {
		{"parameters.json", func(c goldenCase) (any, error) {
			sig, err := schema.FromArgsSchema("f", "", c.root)
			if err != nil {
				return nil, err
			}
			return sig.Parameters, nil
		}},
	},
	"forms": {
		{"gemini.json", rendered(schema.FormGemini, false)},
		{"anthropic.json", rendered(schema.FormAnthropic, false)},
		{"anthropic-strict.json", rendered(schema.FormAnthropic, true)},
		{"openai.json", rendered(schema.FormOpenAI, false)},
		{"openai-strict.json", rendered(schema.FormOpenAI, true)},
		{"openai-responses.json", rendered(schema.FormOpenAIResponses, false)},
		{"openai-responses-strict.json", rendered(schema.FormOpenAIResponses, true)},
		{"mcp.json", rendered(schema.FormMCP, false)},
		{"json.json", rendered(schema.FormJSON, false)},
		{"json-strict.json", rendered(schema.FormJSON, true)},
	},
}

func rendered(form schema.Form, strict bool) func(goldenCase) (any, error) {
	return func(c goldenCase) (any, error) { return schema.Render(c.sig, form, strict) }
}

// healthText writes a health as a status and one line for each reason.
func healthText(h haft.SchemaHealth) string {
	var b strings.Builder
	fmt.Fprintln(&b, h.Status)
	for _, r := range h.Reasons {
		fmt.Fprintln(&b, r)
	}
	return b.String()
}

func TestGolden(t *testing.T) {
	for dir := range goldens {
		t.Run(dir, func(t *testing.T) {
			goldentest.Run(t, "testdata/"+dir, 1, func(t *testing.T, f *goldentest.File) {
				checked := 0
				for _, section := range slices.Clone(f.Files) {
					if section.Name != "schema.json" && section.Name != "tool.json" {
						f.Expect(t, section.Name, goldenSection(t, dir, section.Name, readCase(t, f)))
						checked++
					}
				}
				if checked == 0 {
					t.Error("the golden file expects nothing")
				}
			})
		})
	}
}

// readCase reads the input of a golden file, afresh for each use.
func readCase(t *testing.T, archive *goldentest.File) goldenCase {
	t.Helper()
	for _, f := range archive.Files {
		if f.Name != "schema.json" && f.Name != "tool.json" {
			continue
		}
		v, err := schema.Decode(f.Data)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		o, _ := v.(*schema.Object)
		if f.Name == "tool.json" {
			return goldenCase{o.Value("parameters"), &schema.Signature{
				Name: o.String("name"), Description: o.String("description"),
				Parameters: o.Object("parameters"), Returns: o.Object("returns"),
			}}
		}
		return goldenCase{v, &schema.Signature{Name: "f", Description: "Does it.", Parameters: o}}
	}
	t.Fatal("there is neither schema.json nor tool.json")
	return goldenCase{}
}

// goldenSection returns what a section must hold. It also holds every operation
// to its promise not to change its argument.
func goldenSection(t *testing.T, dir, name string, c goldenCase) string {
	t.Helper()
	at := slices.IndexFunc(goldens[dir], func(g struct {
		section string
		make    func(goldenCase) (any, error)
	}) bool {
		return g.section == name || name == "error"
	})
	if at < 0 {
		t.Fatalf("nothing makes a section %s in %s", name, dir)
	}
	before := encode(t, c.root)
	got, err := goldens[dir][at].make(c)
	if after := encode(t, c.root); before != after {
		t.Errorf("%s changed its argument", name)
	}
	switch {
	case name == "error" && err == nil:
		t.Fatalf("%s: there is no error", goldens[dir][at].section)
	case name == "error":
		if haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("the code of %q is %s, want %s", err, haft.CodeOf(err), haft.CodeInvalid)
		}
		return haft.MessageOf(err) + "\n"
	case err != nil:
		t.Fatalf("%s: %v", name, err)
	}
	if text, ok := got.(string); ok {
		return text
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(encode(t, got)), "", "  "); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}

// encode writes a tree as JSON.
func encode(t testing.TB, v any) string {
	t.Helper()
	text, err := schema.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
