package place_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/internal/place"
	"haft/sandbox"
)

// fake is an executor that answers with an error, or with a result of its name.
type fake struct {
	name string
	err  error
	got  *executor.Request
}

// Execute implements [executor.Executor].
func (f fake) Execute(_ context.Context, req executor.Request) (*haft.Result, error) {
	if f.got != nil {
		*f.got = req
	}
	if f.err != nil {
		return nil, f.err
	}
	return &haft.Result{Sandbox: haft.Sandbox{Provider: f.name}}, nil
}

func TestExecute_leaves_a_place_only_before_the_tool_began(t *testing.T) {
	coded := func(c haft.Code) error { return &haft.Error{Code: c, Message: "it is full"} }
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"it works":     {nil, "e2b"},
		"away":         {coded(haft.CodeUnavailable), "local"},
		"full":         {coded(haft.CodeRateLimited), "local"},
		"refused":      {coded(haft.CodeDenied), "error"},
		"wrong":        {coded(haft.CodeInvalid), "error"},
		"lost":         {&haft.Error{Code: haft.CodeUnavailable, Message: "lost", Err: sandbox.ErrLost}, "error"},
		"maybe it ran": {fmt.Errorf("%w: %w", executor.ErrMaybeRan, coded(haft.CodeUnavailable)), "error"},
		"not ours":     {fmt.Errorf("disk"), "error"},
	} {
		t.Run(name, func(t *testing.T) {
			x := &place.Executor{Home: haft.SandboxLocal, Places: map[haft.SandboxType]place.Place{
				haft.SandboxLocal: {Executor: fake{name: "local"}},
				haft.SandboxE2B:   {Executor: fake{name: "e2b", err: c.err}, Remote: true}}}
			res, err := x.Execute(t.Context(), executor.Request{PlaceReason: "auto",
				Places: []haft.SandboxType{haft.SandboxE2B, haft.SandboxLocal}})
			got, reason := "error", ""
			if err == nil {
				got, reason = res.Sandbox.Provider, res.Sandbox.Reason
			}
			if got != c.want || got == "local" && !strings.Contains(reason, "auto; e2b was not available: it is full") {
				t.Errorf("it ran in %s because %q: %v, want %s", got, reason, err, c.want)
			}
			_, err = x.Execute(t.Context(), executor.Request{Places: []haft.SandboxType{haft.SandboxE2B}})
			if (err == nil) != (c.err == nil) {
				t.Errorf("a named place was left: %v", err)
			}
		})
	}
}

func TestExecute_gives_packages_a_place_elsewhere(t *testing.T) {
	var got executor.Request
	x := &place.Executor{Home: haft.SandboxE2B, Places: map[haft.SandboxType]place.Place{
		haft.SandboxE2B: {Executor: fake{got: &got}, Remote: true}}}
	layers := []executor.Layer{{Digest: "abc", Dir: "/host", Inside: "/opt/haft/node_modules"}}
	if _, err := x.Execute(t.Context(), executor.Request{Layers: layers}); err != nil {
		t.Fatal(err)
	}
	if got.Layers[0].Inside != "/tmp/haft-packages/abc/node_modules" || layers[0].Inside != "/opt/haft/node_modules" {
		t.Errorf("the layer is at %s, and that of the caller at %s", got.Layers[0].Inside, layers[0].Inside)
	}
	if _, err := x.Execute(t.Context(), executor.Request{Places: []haft.SandboxType{"moon"}}); haft.CodeOf(err) !=
		haft.CodeUnavailable {
		t.Errorf("a place that is not there: %v", err)
	}
}
