package registry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/registry"
)

// names lists tools as "name@version".
func names(t testing.TB, r *registry.Registry, p haft.Principal, f haft.ToolFilter) []string {
	t.Helper()
	var list []string
	for tool, err := range r.Tools(t.Context(), p, f) {
		if err != nil {
			t.Fatalf("Tools(%+v): %v", f, err)
		}
		list = append(list, fmt.Sprintf("%s@%d", tool.Name, tool.Version.Number))
	}
	return list
}

// risky is a source that a person has to look at.
func risky(n int) haft.Draft {
	return haft.Draft{Source: fmt.Sprintf("def f(): # %d.\n# finding high", n)}
}

func TestReview_of_a_version_that_waits(t *testing.T) {
	r := newRegistry(t)
	c := mustPut(t, r, ann, risky(1))
	if c.Waiting != 1 || !c.Created || c.Tool.Version.Review.State != haft.ReviewWaiting ||
		len(c.Tool.Version.Review.Findings) != 1 {
		t.Fatalf("Put = %+v", c)
	}
	for _, digest := range []string{"", c.Tool.Version.Digest} {
		if got := resolve(t, r, "acme", "f", digest); got != "denied: the version waits for review" {
			t.Errorf("Resolve(%q) of what waits = %q", digest, got)
		}
	}
	if again := mustPut(t, r, ann, risky(1)); !again.Same || again.Waiting != 1 {
		t.Errorf("Put of what waits = %+v", again)
	}
	if _, err := r.Set(t.Context(), ann, "f", haft.ToolState{Version: new(1)}); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Set to a version that waits = %v", err)
	}
	yes := haft.ToolState{Review: &haft.Answer{Approve: true, Reason: "looked"}}
	for name, p := range map[string]haft.Principal{"author": ann,
		"author through an agent": {Org: "acme", User: "ann", Agent: "x"}, "nobody": {Org: "acme"}} {
		if _, err := r.Set(t.Context(), p, "f", yes); haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("review by %s = %v", name, err)
		}
	}
	if _, err := r.Set(t.Context(), haft.Principal{Org: "other", User: "bob"}, "f",
		yes); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("review from another organisation = %v", err)
	}
	got := set(t, r, bob, "f", yes)
	if v := got.Version; v.Number != 1 || v.Review.State != haft.ReviewPassed || v.Review.By != "bob" ||
		v.Review.Reason != "looked" || len(v.Review.Findings) != 1 || v.Review.At.IsZero() {
		t.Errorf("accepted: %+v", v.Review)
	}
	if got := resolve(t, r, "acme", "f", ""); !strings.HasPrefix(got, "def f(): # 1.") {
		t.Errorf("Resolve of what was accepted = %q", got)
	}
	if _, err := r.Set(t.Context(), bob, "f", yes); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("a second answer = %v", err)
	}
	// What runs already is not asked about again.
	if again := mustPut(t, r, ann, risky(1)); !again.Same || again.Waiting != 0 {
		t.Errorf("Put of what was accepted = %+v", again)
	}
}

func TestReview_refuses_a_version(t *testing.T) {
	r := newRegistry(t)
	mustPut(t, r, ann, haft.Draft{Source: "def f(): # 0."})
	two := mustPut(t, r, ann, risky(2))
	if two.Waiting != 2 {
		t.Fatalf("Put = %+v", two)
	}
	if got := resolve(t, r, "acme", "f", ""); got != "def f(): # 0." {
		t.Errorf("Resolve while another version waits = %q", got)
	}
	no := haft.ToolState{Review: &haft.Answer{Reason: "no"}}
	if got := set(t, r, ann, "f", no); got.Version.Number != 1 { // the author may take it back
		t.Errorf("current after a refusal: %d", got.Version.Number)
	}
	if got := resolve(t, r, "acme", "f",
		two.Tool.Version.Digest); got != "denied: the version was refused at its review" {
		t.Errorf("Resolve of what was refused = %q", got)
	}
	if _, err := r.Set(t.Context(), bob, "f", haft.ToolState{Version: new(2)}); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Set to a refused version = %v", err)
	}
	if _, err := r.Set(t.Context(), bob, "f", haft.ToolState{Version: new(2),
		Review: &haft.Answer{Approve: true}}); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("an answer to what was refused = %v", err)
	}
	other := newRegistry(t)
	mustPut(t, other, ann, risky(1))
	set(t, other, bob, "f", no)
	if got := resolve(t, other, "acme", "f", ""); got != "denied: the version was refused at its review" {
		t.Errorf("Resolve of a tool whose only version was refused = %q", got)
	}
}

// A version that is accepted late does not take the place of a newer one.
func TestReview_of_an_old_version(t *testing.T) {
	r := newRegistry(t)
	mustPut(t, r, ann, risky(1))
	mustPut(t, r, ann, risky(2))
	mustPut(t, r, ann, haft.Draft{Source: "def f(): # 3."})
	got := set(t, r, bob, "f", haft.ToolState{Version: new(1), Review: &haft.Answer{Approve: true}})
	if got.Version.Number != 3 {
		t.Errorf("current after an old version was accepted: %d, want 3", got.Version.Number)
	}
	set(t, r, bob, "f", haft.ToolState{Version: new(1)})
	if got := resolve(t, r, "acme", "f", ""); !strings.HasPrefix(got, "def f(): # 1.") {
		t.Errorf("Resolve after going back = %q", got)
	}
	var states []haft.ReviewState
	for v, err := range r.Versions(t.Context(), ann, "f") {
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, v.Review.State)
	}
	if diff := cmp.Diff([]haft.ReviewState{"", haft.ReviewWaiting, haft.ReviewPassed}, states); diff != "" {
		t.Errorf("states, newest first (-want +got):\n%s", diff)
	}
}

func TestReview_by_oneself(t *testing.T) {
	r := registry.New(open(t), registry.Config{Derive: derive, Review: scan,
		SelfReview: func(_ context.Context, p haft.Principal) bool { return p.User == ann.User }})
	mustPut(t, r, ann, risky(1))
	if got := set(t, r, ann, "f", haft.ToolState{Review: &haft.Answer{Approve: true}}); got.Version.Number != 1 {
		t.Errorf("accepted: %+v", got)
	}
}

func TestSet(t *testing.T) {
	r := newRegistry(t, "run_code")
	mustPut(t, r, ann, haft.Draft{Source: "def f(): # F."})
	got := set(t, r, ann, "f", haft.ToolState{Category: new("c"), Tags: &[]string{"a", "a", "b"}})
	if got.Category != "c" || !slices.Equal(got.Tags, []string{"a", "b"}) || got.Version.Number != 1 {
		t.Errorf("Set = %+v", got)
	}
	for name, tt := range map[string]struct {
		ref  string
		s    haft.ToolState
		code haft.Code
	}{
		"unknown tool":    {"g", haft.ToolState{}, haft.CodeNotFound},
		"unknown version": {"f", haft.ToolState{Version: new(9)}, haft.CodeNotFound},
		"version zero":    {"f", haft.ToolState{Version: new(0)}, haft.CodeNotFound},
		"bad tag":         {"f", haft.ToolState{Tags: &[]string{""}}, haft.CodeInvalid},
		"bad category":    {"f", haft.ToolState{Category: new(" ")}, haft.CodeInvalid},
		"review and something": {"f", haft.ToolState{Review: &haft.Answer{}, Disabled: new(true)},
			haft.CodeInvalid},
		"nothing waits":               {"f", haft.ToolState{Review: &haft.Answer{}}, haft.CodeConflict},
		"built-in tool":               {"run_code", haft.ToolState{Disabled: new(true)}, haft.CodeDenied},
		"built-in tool by its id":     {"builtin.run_code", haft.ToolState{Disabled: new(true)}, haft.CodeDenied},
		"tool that is called by \"\"": {"", haft.ToolState{}, haft.CodeNotFound},
	} {
		if _, err := r.Set(t.Context(), ann, tt.ref, tt.s); haft.CodeOf(err) != tt.code {
			t.Errorf("%s: Set = %v, want %s", name, err, tt.code)
		}
	}
	if err := r.Remove(t.Context(), ann, "run_code", ""); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Remove of a built-in tool = %v", err)
	}
	if err := r.Remove(t.Context(), haft.Principal{Org: "other"}, "f", ""); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("Remove from another organisation = %v", err)
	}
	if err := r.Remove(t.Context(), haft.Principal{}, "f", ""); haft.CodeOf(err) != haft.CodeUnauthenticated {
		t.Errorf("Remove by nobody = %v", err)
	}
}

func TestTools_merges_built_in_tools_in_order(t *testing.T) {
	r := newRegistry(t, "b", "run_code")
	for _, n := range []string{"a", "c", "d", "z"} {
		mustPut(t, r, ann, haft.Draft{Source: "def " + n + "(): # F.", Category: "code"})
	}
	set(t, r, ann, "d", haft.ToolState{Disabled: new(true)})
	set(t, r, ann, "z", haft.ToolState{Tags: &[]string{"builtin"}})
	for name, tt := range map[string]struct {
		f    haft.ToolFilter
		want []string
	}{
		"all":        {haft.ToolFilter{}, []string{"a@1", "b@1", "c@1", "run_code@1", "z@1"}},
		"disabled":   {haft.ToolFilter{Disabled: true}, []string{"a@1", "b@1", "c@1", "d@1", "run_code@1", "z@1"}},
		"after":      {haft.ToolFilter{After: "b"}, []string{"c@1", "run_code@1", "z@1"}},
		"limit":      {haft.ToolFilter{Limit: 2}, []string{"a@1", "b@1"}},
		"page":       {haft.ToolFilter{After: "b", Limit: 2}, []string{"c@1", "run_code@1"}},
		"kind":       {haft.ToolFilter{Kind: haft.KindBuiltin}, []string{"b@1", "run_code@1"}},
		"other kind": {haft.ToolFilter{Kind: haft.KindPython}, []string{"a@1", "c@1", "z@1"}},
		"tag":        {haft.ToolFilter{Tag: "builtin"}, []string{"b@1", "run_code@1", "z@1"}},
		"category":   {haft.ToolFilter{Category: "code", Limit: 3}, []string{"a@1", "b@1", "c@1"}},
		"none":       {haft.ToolFilter{Category: "x"}, nil},
	} {
		if diff := cmp.Diff(tt.want, names(t, r, ann, tt.f)); diff != "" {
			t.Errorf("%s: Tools (-want +got):\n%s", name, diff)
		}
	}
	if got := names(t, r, haft.Principal{Org: "other"}, haft.ToolFilter{}); !slices.Equal(got,
		[]string{"b@1", "run_code@1"}) {
		t.Errorf("Tools of another organisation = %q", got)
	}
	for _, err := range r.Tools(t.Context(), haft.Principal{}, haft.ToolFilter{}) {
		if haft.CodeOf(err) != haft.CodeUnauthenticated {
			t.Errorf("Tools for nobody = %v", err)
		}
	}
}

func TestTools_finds_words(t *testing.T) {
	r := newRegistry(t, "run_code", "fetch")
	mustPut(t, r, ann, haft.Draft{Source: "def weather(): # Tells the weather of a city."})
	mustPut(t, r, ann, haft.Draft{Source: "def city_code(): # Knows codes."})
	for search, want := range map[string][]string{
		"weather": {"weather@1"}, "code": {"run_code@1", "city_code@1", "fetch@1"}, "run co": {"run_code@1"},
		"nothing_like_it": nil,
	} {
		got := names(t, r, ann, haft.ToolFilter{Search: " " + search})
		if search == "run co" { // the store also finds those with some of the words
			got = got[:min(len(got), 1)]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Tools that have %q (-want +got):\n%s", search, diff)
		}
	}
	if got := names(t, r, ann, haft.ToolFilter{Search: "code", Kind: haft.KindPython}); !slices.Equal(got,
		[]string{"city_code@1"}) {
		t.Errorf("Python tools that have code = %q", got)
	}
	if got := names(t, r, ann, haft.ToolFilter{Search: "code", Limit: 1}); !slices.Equal(got, []string{"run_code@1"}) {
		t.Errorf("the best tool that has code = %q", got)
	}
}

// More than a page, and every one once.
func TestTools_and_versions_over_pages(t *testing.T) {
	r := newRegistry(t, "t_150")
	const tools, versions = 230, 60
	for n := range tools {
		mustPut(t, r, ann, haft.Draft{Source: fmt.Sprintf("def f%03d(): # F.", n)})
	}
	got := names(t, r, ann, haft.ToolFilter{})
	if len(got) != tools+1 || !slices.IsSorted(got) || len(slices.Compact(got)) != tools+1 {
		t.Errorf("%d tools are listed, want %d in order", len(got), tools+1)
	}
	if got := names(t, r, ann, haft.ToolFilter{Limit: 215}); len(got) != 215 {
		t.Errorf("%d tools are listed, want 215", len(got))
	}
	for n := range versions {
		mustPut(t, r, ann, haft.Draft{Source: fmt.Sprintf("def g(): # %d.", n)})
	}
	want := versions
	for v, err := range r.Versions(t.Context(), ann, "g") {
		if err != nil || v.Number != want {
			t.Fatalf("Versions gave %d, want %d (%v)", v.Number, want, err)
		}
		want--
	}
	if want != 0 {
		t.Errorf("%d versions are missing", want)
	}
	n := 0
	for v, err := range r.Versions(t.Context(), ann, "t_150") {
		if n++; err != nil || v.Kind != haft.KindBuiltin {
			t.Errorf("version of a built-in tool = %+v, %v", v, err)
		}
	}
	if n != 1 {
		t.Errorf("a built-in tool has %d versions", n)
	}
	for _, err := range r.Versions(t.Context(), ann, "nothing") {
		if haft.CodeOf(err) != haft.CodeNotFound {
			t.Errorf("Versions of nothing = %v", err)
		}
	}
}

// A tool that was registered before the binary had a built-in tool of that name
// is hidden by it.
func TestBuiltin_hides_older_tools_of_its_name(t *testing.T) {
	s := open(t)
	before := registry.New(s, registry.Config{Derive: derive, Review: scan})
	old := mustPut(t, before, ann, haft.Draft{Source: "def run_code(): # Not the real one."}).Tool
	mustPut(t, before, ann, haft.Draft{Source: "def zoo(): # F."})
	after := registry.New(s, registry.Config{Builtin: []haft.Tool{builtin("run_code")}})
	if got := resolve(t, after, "acme", "run_code", ""); got != "" {
		t.Errorf("Resolve = %q, want the built-in tool", got)
	}
	if got := resolve(t, after, "acme", string(old.ID), ""); !strings.HasPrefix(got, "not_found") {
		t.Errorf("Resolve by id = %q", got)
	}
	if got := names(t, after, ann, haft.ToolFilter{Limit: 2}); !slices.Equal(got, []string{"run_code@1", "zoo@1"}) {
		t.Errorf("Tools = %q", got)
	}
	if got := names(t, after, ann, haft.ToolFilter{Search: "run"}); !slices.Equal(got, []string{"run_code@1"}) {
		t.Errorf("Tools that have run = %q", got)
	}
}
