package yamltree_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/yamltree"
)

type inner struct {
	Wait haft.Millis `json:"wait"`
	Size int64       `json:"size"`
}

type doc struct {
	At    yamltree.Pos
	Name  string            `json:"name"`
	List  []string          `json:"list"`
	Env   map[string]string `json:"env"`
	Args  json.RawMessage   `json:"args"`
	Yes   *bool             `json:"yes"`
	When  time.Time         `json:"when"`
	Rows  []inner           `json:"rows"`
	Other string            `yaml:"other"`
}

func TestRead(t *testing.T) {
	yes := true
	for name, tt := range map[string]struct {
		text string
		want doc
	}{
		"texts": {"name: 42\nother: x\nenv: {PORT: 8080, ON: true}",
			doc{Name: "42", Other: "x", Env: map[string]string{"PORT": "8080", "ON": "true"}}},
		"one of list": {"name: a\nlist: x", doc{Name: "a", List: []string{"x"}}},
		"list":        {"name: a\nlist: [x, y]", doc{Name: "a", List: []string{"x", "y"}}},
		"JSON stays as it is written": {"args: {b: 1.50, a: [yes, null, 0x10], \"c\": \"x\\n\"}",
			doc{Args: json.RawMessage(`{"b":1.50,"a":["yes",null,16],"c":"x\n"}`)}},
		"order":   {"args:\n  z: 1\n  a: 2", doc{Args: json.RawMessage(`{"z":1,"a":2}`)}},
		"null":    {"args: null\nyes: null", doc{Args: json.RawMessage("null")}},
		"pointer": {"yes: true", doc{Yes: &yes}},
		"units": {"rows: [{wait: 1.5s, size: 64KiB}, {wait: 20, size: 7}]",
			doc{Rows: []inner{{haft.Millis(1500 * time.Millisecond), 65536}, {haft.Millis(20 * time.Millisecond), 7}}}},
		"time": {"when: 2026-01-02T03:04:05Z", doc{When: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}},
	} {
		t.Run(name, func(t *testing.T) {
			var got doc
			if err := yamltree.Read("f.yaml", []byte(tt.text), &got); err != nil {
				t.Fatal(err)
			}
			if got.At.Line != 1 || got.At.Column != 1 {
				t.Errorf("the document begins at %v", got.At)
			}
			got.At = yamltree.Pos{}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRead_refuses(t *testing.T) {
	for text, want := range map[string]string{
		"name: a\nnames: b":                     `f.yaml:2:1: the file has no field "names"; it has args, env`,
		"rows:\n- wait: 1s\n  weight: 2":        `f.yaml:3:3: rows has no field "weight"`,
		"name: a\nname: b":                      "f.yaml:2:1",
		"rows: [{wait: soon}]":                  "f.yaml:1:15: wait must be a time such as",
		"rows: [{wait: -1s}]":                   "must not be negative",
		"rows: [{size: big}]":                   "a size such as 64MiB",
		"yes: 7":                                "f.yaml:1:6: yes must be true or false",
		"when: yesterday":                       "when must be a time such as",
		"name: [a]":                             "name must be a text",
		"name: {a: b}":                          "name must be a text",
		"env: [a]":                              "env must be a mapping",
		"rows: text":                            "rows must be a mapping",
		"- a":                                   "the file must be a mapping",
		"":                                      "expected one document, found 0",
		"name: a\n---\nname: b":                 "expected one document, found 2",
		"name: &x a\nother: *x":                 "anchors, aliases",
		"name: !!binary aGk=":                   "anchors, aliases",
		"name: \"\x1b\"":                        "control characters",
		"name: \xff":                            "UTF-8",
		"name: [":                               "f.yaml:1",
		"args: .inf":                            "JSON has no such value",
		"args: " + strings.Repeat("[", 10_000):  "nested too deep",
		"args: " + strings.Repeat("{a: ", 1000): "nested too deep",
		strings.Repeat("- ", 1000) + "x":        "nested too deep",
		strings.Repeat(" ", yamltree.MaxBytes):  "is the most",
	} {
		var d doc
		if len(text) == yamltree.MaxBytes {
			text += " "
		}
		err := yamltree.Read("f.yaml", []byte(text), &d)
		if haft.CodeOf(err) != haft.CodeInvalid || !strings.Contains(haft.MessageOf(err), want) {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
	}
}

// Nothing that somebody writes ends the reader, and what it takes it writes as JSON.
func FuzzRead(f *testing.F) {
	f.Add("name: a\nargs: {b: [1, 'x', null]}\nrows: [{wait: 1s}]")
	f.Add("args: |\n  text\nlist:\n- a\n- b: c")
	f.Add("? a\n: b")
	f.Fuzz(func(t *testing.T, text string) {
		var d doc
		if err := yamltree.Read("f.yaml", []byte(text), &d); err != nil {
			if haft.CodeOf(err) != haft.CodeInvalid || !strings.HasPrefix(haft.MessageOf(err), "f.yaml:") {
				t.Errorf("the error has no place: %v", err)
			}
			return
		}
		if len(d.Args) > 0 && !json.Valid(d.Args) {
			t.Errorf("%q is no JSON", d.Args)
		}
	})
}

func TestWrite(t *testing.T) {
	text, err := yamltree.Write(map[string]any{"name": "a: b", "args": json.RawMessage(`{"x":[1,2]}`)})
	if err != nil {
		t.Fatal(err)
	}
	var d doc
	if err := yamltree.Read("f.yaml", text, &d); err != nil || d.Name != "a: b" || string(d.Args) != `{"x":[1,2]}` {
		t.Errorf("%s reads as %+v: %v", text, d, err)
	}
}
