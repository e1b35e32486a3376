package engine_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"haft"
)

// TestID_chosen_by_two_organisations: a call that came in before another one of its id was written, in the log or in
// the database, is refused when it is to begin. It does not run, and leaves no record.
func TestID_chosen_by_two_organisations(t *testing.T) {
	w := logged(t)
	of := func(org string, id haft.CallID) haft.Call {
		return haft.Call{ID: id, Tool: "work", Args: json.RawMessage(`{"x":1}`), Principal: user(org, "ann")}
	}
	for _, org := range []string{"a", "b"} {
		w.tool(org, "work", nil)
		want(t, w.do(of(org, "")), haft.StatusSuccess) // so that the log knows the organisation
	}
	for i, orgs := range [][2]string{{"a", "b"}, {"b", "a"}, {"a", "a"}} {
		for _, submitted := range []bool{false, true} {
			id, before := haft.CallID(fmt.Sprintf("c_%d_%t", i, submitted)), w.script.count()
			_, err := w.CallWith(t.Context(), of(orgs[1], id), func() {
				if submitted {
					check(t, second(w.Submit(t.Context(), of(orgs[0], id))))
					want(t, w.end(user(orgs[0], "ann"), id), haft.StatusSuccess)
				} else {
					want(t, w.do(of(orgs[0], id)), haft.StatusSuccess)
				}
			})
			if haft.CodeOf(err) != haft.CodeConflict {
				t.Errorf("%s: %v", id, err)
			}
			_, err = w.store.Calls.Record(t.Context(), orgs[1], id)
			if n := w.script.count() - before; n != 1 || (err == nil) != (orgs[0] == orgs[1]) {
				t.Errorf("%s: the tool ran %d times, record: %v", id, n, err)
			}
			want(t, w.record(orgs[0], id).Result, haft.StatusSuccess)
		}
	}
}
