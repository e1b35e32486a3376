package engine_test

import (
	"encoding/json"
	"sync"
	"testing"

	"haft"
	"haft/internal/engine"
)

// Calls that wait for each other's entries are dated when they are written: the times of
// a chain do not go back, by nothing at all, while the clock does not.
func TestAudit_times_do_not_go_back(t *testing.T) {
	w := setup(t, allowAll, engine.Config{})
	w.tool("o", "f", nil)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 10 {
				if _, err := w.Call(t.Context(), haft.Call{Tool: "f", Principal: user("o", "ann"),
					Args: json.RawMessage(`{}`)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	list := w.audit("o")
	for i := 1; i < len(list); i++ {
		if list[i].Time.Before(list[i-1].Time) {
			t.Fatalf("entry %d (%s) is %v earlier than the one before", list[i].Seq, list[i].Kind,
				list[i-1].Time.Sub(list[i].Time))
		}
	}
	if len(list) < 320 {
		t.Errorf("there are %d entries only", len(list))
	}
	w.verify("o")
}
