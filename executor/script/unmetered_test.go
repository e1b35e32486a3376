package script_test

import (
	"testing"

	"haft"
	"haft/executor/script"
	"haft/internal/followup"
	"haft/sandbox"
)

// A tool that was ended because nothing limited it has run: it must not count as one that never began, which is run
// again although it is not idempotent.
func TestExecute_unmetered_has_run(t *testing.T) {
	res := script.Silent(sandbox.Exit{Cause: sandbox.CauseUnmetered, Signal: 9})
	if res.Error == nil || followup.NeverRan(res) || res.Error.Retry == haft.RetrySame ||
		res.Status != haft.StatusError {
		t.Errorf("an unmetered call is %s: %+v", res.Status, res.Error)
	}
	if followup.ToolAtFault(haft.Call{}, *res.Error) {
		t.Error("an unmetered call is a fault of the tool")
	}
}
