package backend_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/backend"
)

func TestCompare(t *testing.T) {
	old := &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(`{"a": 1}`), Stdout: "x\n"}
	same := &haft.Result{Status: haft.StatusSuccess, Value: json.RawMessage(`{"a":1}`), Stdout: "x\n",
		Usage: haft.Usage{MaxRSS: 7}}
	if got := backend.Compare(old, same).Differences; len(got) != 0 {
		t.Errorf("equal results differ in %v", got)
	}
	other := &haft.Result{Status: haft.StatusError, Value: json.RawMessage(`null`),
		Error: &haft.Failure{Kind: haft.FailException, Message: "no"}}
	want := []backend.Difference{
		{"status", "success", "error"}, {"value", `{"a":1}`, "null"}, {"error", "", "exception: no"},
		{"stdout", "x\n", ""},
	}
	if diff := cmp.Diff(want, backend.Compare(old, other).Differences); diff != "" {
		t.Errorf("compare differs (-want +got):\n%s", diff)
	}
}
