package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/registry"
	"haft/internal/store"
	"haft/internal/store/sqlite"
	"haft/schema"
)

// open opens an empty store.
func open(t testing.TB) *store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{})
	if err != nil {
		t.Fatalf("open a store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return s
}

var function = regexp.MustCompile(`(?m)^def (\w+)\(([^)]*)\):( #.*)?$`)

// derive reads "def NAME(ARG: TYPE, ...): # DESCRIPTION", which is all the Python
// that these tests speak. ARG? is optional, and agent_id is injected.
func derive(_ context.Context, src registry.Source) (*registry.Derived, error) {
	for _, m := range function.FindAllStringSubmatch(string(src.Text), -1) {
		if src.Function != "" && src.Function != m[1] {
			continue
		}
		sig := &schema.Signature{Name: m[1], Description: strings.TrimPrefix(m[3], " # ")}
		if sig.Description == "" {
			sig.Undocumented = append(sig.Undocumented,
				&schema.SourceError{Line: 1, Function: m[1], Message: "has no description"})
		}
		properties, required := schema.Obj(), []any{}
		for _, arg := range strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' }) {
			name, typ, _ := strings.Cut(strings.TrimSpace(arg), ": ")
			if name == "agent_id" {
				sig.Injected = append(sig.Injected, name)
				continue
			}
			bare := strings.TrimSuffix(name, "?")
			if bare == name {
				required = append(required, name)
			}
			properties.Set(bare, schema.Obj("type", typ))
		}
		sig.Parameters = schema.Obj("type", "object", "properties", properties, "required", required)
		sig.Returns = schema.Obj("type", "string")
		return &registry.Derived{Signature: sig, Function: m[1], Pass: []haft.Argument{{Name: "all", Whole: true}}}, nil
	}
	return nil, &schema.SourceError{Message: "there is no function"}
}

// scan finds what a source says about itself: "# finding SEVERITY".
func scan(_ context.Context, _ haft.Kind, source string, _ bool) ([]haft.Finding, error) {
	var list []haft.Finding
	for i, line := range strings.Split(source, "\n") {
		if s, ok := strings.CutPrefix(line, "# finding "); ok {
			list = append(list, haft.Finding{Scanner: "test", Rule: "self", Severity: haft.Severity(s), Line: i + 1,
				Message: "it says so"})
		}
	}
	return list, nil
}

// newRegistry makes a registry over an empty store.
func newRegistry(t testing.TB, names ...string) *registry.Registry {
	t.Helper()
	cfg := registry.Config{Derive: derive, Review: scan}
	for _, n := range names {
		cfg.Builtin = append(cfg.Builtin, builtin(n))
	}
	return registry.New(open(t), cfg)
}

// mustPut puts a source.
func mustPut(t testing.TB, r *registry.Registry, p haft.Principal, d haft.Draft) *haft.Change {
	t.Helper()
	c, err := r.Put(t.Context(), p, d)
	if err != nil {
		t.Fatalf("Put(%s): %v", d.Name, err)
	}
	return c
}

func TestPut_derives_what_is_left_out(t *testing.T) {
	r := newRegistry(t)
	source := "def greet(who: string, n?: integer, agent_id: string): # Greets."
	c := mustPut(t, r, ann, haft.Draft{Source: source, Category: "talk", Tags: []string{"a", "b", "a"}})
	got := c.Tool
	want := haft.Tool{
		ID: got.ID, Org: "acme", Name: "greet", Category: "talk", Tags: []string{"a", "b"}, Created: got.Created,
		Updated: got.Updated,
		Version: haft.Version{
			Number: 1, Kind: haft.KindPython, Description: "Greets.", Source: source, Function: "greet",
			Pass: []haft.Argument{{Name: "all", Whole: true}}, Injected: []string{"agent_id"},
			Parameters: json.RawMessage(
				`{"type":"object","properties":{"who":{"type":"string"},"n":{"type":"integer"}},"required":["who"]}`),
			Returns: json.RawMessage(`{"type":"string"}`),
			Health:  got.Version.Health, Author: "ann", Created: got.Version.Created, Digest: got.Version.Digest,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Put (-want +got):\n%s", diff)
	}
	if !c.Created || c.Same || c.Waiting != 0 || c.Warnings != nil || c.Schema != nil {
		t.Errorf("Put = %+v", c)
	}
	if got.Version.Health.Status != haft.HealthNonStrict || got.Version.Digest != registry.Digest(got.Version) ||
		got.Created.IsZero() {
		t.Errorf("Put = %+v", got.Version)
	}
	kept, err := r.Tool(t.Context(), ann, "greet")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, *kept); diff != "" {
		t.Errorf("Tool differs from what Put gave (-put +kept):\n%s", diff)
	}
}

func TestPut_schema_precedence(t *testing.T) {
	r := newRegistry(t)
	parameters := json.RawMessage(`{"properties":{"p":{"type":"string"}}}`)
	args := json.RawMessage(`{"properties":{"q":{"minLength":1}}}`)
	source := "def f(r: string): # F."
	for name, tt := range map[string]struct {
		d    haft.Draft
		want string
	}{
		"given": {haft.Draft{Parameters: parameters, ArgsSchema: args},
			`{"type":"object","properties":{"p":{"type":"string"}},"required":[]}`},
		"args_json_schema": {haft.Draft{ArgsSchema: args},
			`{"type":"object","properties":{"q":{"minLength":1}},"required":[]}`},
		"null is nothing": {haft.Draft{Parameters: json.RawMessage("null")},
			`{"type":"object","properties":{"r":{"type":"string"}},"required":["r"]}`},
		"derived": {haft.Draft{}, `{"type":"object","properties":{"r":{"type":"string"}},"required":["r"]}`},
	} {
		tt.d.Source = source
		v := mustPut(t, r, ann, tt.d).Tool.Version
		if string(v.Parameters) != tt.want || v.Function != "f" || v.Description != "F." {
			t.Errorf("%s: parameters %s of %s (%s), want %s", name, v.Parameters, v.Function, v.Description, tt.want)
		}
	}
}

func TestPut_warns(t *testing.T) {
	given := json.RawMessage(`{"properties":{}}`)
	for name, tt := range map[string]struct {
		d    haft.Draft
		want []string
	}{
		"other name": {haft.Draft{Name: "g", Source: "def f(): # F."},
			[]string{"the tool is called g, but its function f"}},
		"no documentation": {haft.Draft{Source: "def f():"}, []string{"line 1: function f: has no description"}},
		"unreadable source": {haft.Draft{Name: "f", Function: "f", Source: "lambda", Parameters: given},
			[]string{"the source says nothing that can be used: there is no function"}},
		"cache time": {haft.Draft{Source: "def f(): # F.", Settings: haft.Settings{CacheFor: 5}},
			[]string{"cache_ms does nothing: the tool is not cacheable"}},
		"unknown fallback": {haft.Draft{Source: "def f(): # F.", Settings: haft.Settings{Fallback: "g"}},
			[]string{"there is no tool that is called like the fallback"}},
		"findings of a scan": {haft.Draft{Source: "def f(): # F.\n# finding low\n# finding medium"},
			[]string{"line 3: it says so (self, medium)", "line 2: it says so (self, low)"}},
		"nothing to warn of":  {haft.Draft{Source: "def f(): # F."}, nil},
		"function of several": {haft.Draft{Source: "def g(): # G.\ndef f(): # F.", Function: "f"}, nil},
	} {
		c := mustPut(t, newRegistry(t), ann, tt.d)
		if diff := cmp.Diff(tt.want, c.Warnings); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", name, diff)
		}
	}
	_, err := newRegistry(t).Put(t.Context(), ann, haft.Draft{Source: "def f():", DescriptionsRequired: true})
	if haft.CodeOf(err) != haft.CodeInvalid || haft.MessageOf(err) != "the tool is not described to a model: line 1: "+
		"function f: has no description\nor accept it as it is: --descriptions-optional" {
		t.Errorf("Put of a source that must be documented: %v", err)
	}
	described := haft.Draft{Source: "def f():", DescriptionsRequired: true, Description: "F."}
	if c := mustPut(t, newRegistry(t), ann, described); c.Warnings != nil {
		t.Errorf("warnings about a draft with a description: %q", c.Warnings)
	}
	r := newRegistry(t)
	mustPut(t, r, ann, haft.Draft{Name: "t", Source: "def f(): # F."})
	c := mustPut(t, r, ann, haft.Draft{Name: "t", Source: "def g(): # F."})
	if !slices.Contains(c.Warnings, "it calls the function g now; version 1 calls f") {
		t.Errorf("warnings about another function: %q", c.Warnings)
	}
	// Findings are kept with the version, also those that only warn.
	c = mustPut(t, newRegistry(t), ann, haft.Draft{Source: "def f(): # F.\n# finding low"})
	if f := c.Tool.Version.Review; len(f.Findings) != 1 || f.State != haft.ReviewNone {
		t.Errorf("review = %+v", f)
	}
}

func TestPut_reports_clashes(t *testing.T) {
	r := newRegistry(t)
	d := haft.Draft{Source: "def f(a: string): # F."}
	first := mustPut(t, r, ann, d)
	again := mustPut(t, r, bob, d)
	if !again.Same || again.Created || again.Tool.Version.Number != 1 || again.Tool.Version.Author != "ann" {
		t.Errorf("Put of the same = %+v", again)
	}
	for name, change := range map[string]func(*haft.Draft){
		"new":                   func(d *haft.Draft) { d.New = true },
		"other digest":          func(d *haft.Draft) { d.If = "sha256:other" },
		"digest of nothing yet": func(d *haft.Draft) { d.Name, d.If = "g", first.Tool.Version.Digest },
	} {
		d := d
		change(&d)
		if _, err := r.Put(t.Context(), ann, d); haft.CodeOf(err) != haft.CodeConflict {
			t.Errorf("%s: Put = %v, want %s", name, err, haft.CodeConflict)
		}
	}
	second := mustPut(t, r, ann, haft.Draft{Source: "def f(a?: integer, b: string): # F.",
		If: first.Tool.Version.Digest})
	want := []string{"/a: not required any more", "/a: the type is integer now, it was string", "/b: new and required"}
	if diff := cmp.Diff(want, second.Schema); diff != "" || second.Tool.Version.Number != 2 ||
		second.Tool.ID != first.Tool.ID {
		t.Errorf("second version %+v, schema (-want +got):\n%s", second.Tool, diff)
	}
	// The names of one organisation are no business of another's.
	if c := mustPut(t, r, haft.Principal{Org: "other", User: "eve"}, d); !c.Created || c.Tool.ID == first.Tool.ID {
		t.Errorf("Put in another organisation = %+v", c)
	}
}

func TestPut_keeps_what_a_draft_leaves_out(t *testing.T) {
	r := newRegistry(t)
	mustPut(t, r, ann, haft.Draft{Source: "def f(): # F.", Category: "c", Tags: []string{"t"}})
	got := mustPut(t, r, ann, haft.Draft{Source: "def f(): # G."}).Tool
	if got.Category != "c" || !slices.Equal(got.Tags, []string{"t"}) {
		t.Errorf("category %q, tags %q", got.Category, got.Tags)
	}
	got = mustPut(t, r, ann, haft.Draft{Source: "def f(): # G.", Category: "d", Tags: []string{}}).Tool
	if got.Category != "d" || len(got.Tags) != 0 || got.Version.Number != 2 {
		t.Errorf("category %q, tags %q, version %d", got.Category, got.Tags, got.Version.Number)
	}
}

func TestPut_fallbacks_lead_nowhere_back(t *testing.T) {
	r := newRegistry(t)
	to := func(name, fallback string) haft.Draft {
		return haft.Draft{Source: "def " + name + "(): # F.", Settings: haft.Settings{Fallback: fallback}}
	}
	b := mustPut(t, r, ann, to("b", "")).Tool
	mustPut(t, r, ann, to("a", string(b.ID)))
	if _, err := r.Put(t.Context(), ann, to("b", "a")); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("Put of a circle = %v", err)
	}
	for i := range 9 {
		d := to(fmt.Sprintf("c%d", i), fmt.Sprintf("c%d", i-1))
		if i == 0 {
			d.Settings.Fallback = ""
		}
		mustPut(t, r, ann, d)
	}
	if _, err := r.Put(t.Context(), ann, to("c9", "c8")); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("Put with a long way of fallbacks = %v", err)
	}
}

// A description that the source makes is held to the same bounds as one that is
// given.
func TestPut_refuses_a_derived_description(t *testing.T) {
	for name, description := range map[string]string{"long": strings.Repeat("x", registry.MaxDescription+1),
		"NUL": "a\x00b"} {
		r := registry.New(open(t), registry.Config{Review: scan,
			Derive: func(ctx context.Context, src registry.Source) (*registry.Derived, error) {
				d, err := derive(ctx, src)
				if err == nil {
					d.Description = description
				}
				return d, err
			}})
		if _, err := r.Put(t.Context(), ann, haft.Draft{Source: "def f(): # F."}); haft.CodeOf(
			err) != haft.CodeInvalid {
			t.Errorf("%s: Put = %v", name, err)
		}
	}
}

// What is exported and imported again is the same, by its digest.
func TestWriteDir_round_trip(t *testing.T) {
	r := newRegistry(t)
	yes := true
	drafts := []haft.Draft{
		{Source: "def add(a: integer, b?: integer, agent_id: string): # Adds <b> & \"c\" \u2028.\n", Category: "math",
			Tags: []string{"x"}},
		{Source: "def Add(a: integer): # Adds too."},
		{Name: "other", Source: "def f(a: string): # F.\ndef g(): # G.", Function: "g",
			Annotations: haft.Annotations{ReadOnly: &yes, Title: "T"}},
		{Name: "test_it", Source: "def f(): # F.", Needs: haft.Requirements{Pip: []string{"numpy>=1,<3"}}},
		{Name: "given", Source: "def f(x: string): # F.",
			ArgsSchema: json.RawMessage(`{"properties":{"x":{"enum":["<a>",1.50]}}}`),
			Returns:    json.RawMessage(`{ "type" : "number" }`)},
		{Source: "def all_of_it(): # S.", Settings: haft.Settings{
			Limits: haft.Limits{Wall: haft.Millis(1500)}, Network: []string{"*.a.test:443"}, Sandbox: "local",
			MinIsolation:     haft.LevelNamespaces,
			RequiresApproval: true, Parallel: true, Idempotent: true, Cacheable: true, CacheFor: 7e6,
			Roles: []string{"r"},
			Retry: haft.Backoff{Tries: 3, Stretch: 1.5}, Rate: haft.Rate{PerSecond: 0.5, Burst: 2}, Concurrency: 4,
			Fallback: "add",
			Output:   haft.Output{Type: haft.OutputText, Validators: []string{"size(value) < 10"}, MaxChars: 5},
		}},
	}
	var tools []haft.Tool
	digests := map[string]string{}
	for _, d := range drafts {
		tool := mustPut(t, r, ann, d).Tool
		tools = append(tools, tool)
		digests[tool.Name] = tool.Version.Digest
	}
	tools = append(tools, builtin("no_source"))
	dir := filepath.Join(t.TempDir(), "out")
	for range 2 { // the second time over the first
		written, err := registry.WriteDir(dir, tools)
		if err != nil || len(written) != len(drafts) {
			t.Fatalf("WriteDir = %q, %v", written, err)
		}
	}
	found, err := registry.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	other := newRegistry(t)
	got := map[string]string{}
	for _, f := range found {
		if f.Err != nil {
			t.Errorf("%s: %v", f.Path, f.Err)
			continue
		}
		tool := mustPut(t, other, bob, f.Draft).Tool
		got[tool.Name] = tool.Version.Digest
	}
	if diff := cmp.Diff(digests, got); diff != "" {
		t.Errorf("digests (-exported +imported):\n%s", diff)
	}
	add, err := other.Tool(t.Context(), ann, "add")
	if err != nil || add.Category != "math" || !slices.Equal(add.Tags, []string{"x"}) {
		t.Errorf("Tool(add) = %+v, %v", add, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("WriteDir left %q (%v)", left, err)
	}
	// A link in the directory is replaced, and what it leads to is not touched.
	target := filepath.Join(t.TempDir(), "mine")
	put(t, filepath.Dir(target), "mine", "precious")
	if err := os.Remove(filepath.Join(dir, "other.py")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, filepath.Join(dir, "other.py")); err != nil {
		t.Fatal(err)
	}
	if _, err := registry.WriteDir(dir, tools); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "precious" {
		t.Errorf("what a link leads to is now %q (%v)", text, err)
	}
}
