package followup_test

import (
	"testing"
	"time"

	"haft"
	"haft/internal/followup"
)

func TestToolAtFault(t *testing.T) {
	for name, c := range map[string]haft.Call{
		"limits":    {Limits: haft.Limits{Memory: 1}},
		"deadline":  {Deadline: time.Unix(1, 0)},
		"env":       {Env: map[string]string{"a": "b"}},
		"files":     {Files: []haft.CallFile{{}}},
		"workspace": {Workspace: &haft.CallWorkspace{}},
		"sandbox":   {Sandbox: "local"},
		"template":  {Template: "pandas"},
		"packages":  {Requirements: haft.Requirements{Pip: []string{"pandas"}}},
	} {
		if followup.ToolAtFault(c, haft.Failure{Kind: haft.FailException}) {
			t.Errorf("a call with its own %s blames the tool", name)
		}
	}
	for kind, want := range map[haft.FailureKind]bool{
		haft.FailException: true, haft.FailTimeout: true, haft.FailMemory: true, haft.FailInternal: false,
		haft.FailIsolation: false, haft.FailNetwork: false, haft.FailRuntime: false, haft.FailUnknown: false,
		haft.FailLogin: false,
	} {
		if got := followup.ToolAtFault(haft.Call{Tool: "work"}, haft.Failure{Kind: kind}); got != want {
			t.Errorf("%s: %t", kind, got)
		}
	}
}

// The call that is made after a failure runs where the caller wanted the first to run.
func TestAfter_keeps_the_sandbox(t *testing.T) {
	c := followup.After(haft.Call{ID: "c_1", Sandbox: "firecracker", Template: "pandas"}, "work", nil)
	if c.Sandbox != "firecracker" || c.Template != "pandas" {
		t.Errorf("sandbox %q, template %q", c.Sandbox, c.Template)
	}
}
