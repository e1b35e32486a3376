package conversation

import (
	"fmt"
	"testing"

	"haft"
)

// One organisation with many turns that wait does not delay the approvals of the others.
func TestLooks_are_fair(t *testing.T) {
	waits := map[haft.TurnID]*wait{}
	for org, n := range map[string]int{"many": 5000, "few": 90, "one": 1} {
		for i := range n {
			id := haft.TurnID(fmt.Sprint(org, i))
			waits[id] = &wait{turn: haft.Turn{ID: id, Principal: haft.Principal{Org: org}}}
		}
	}
	seen, of := map[haft.TurnID]bool{}, map[string]int{}
	for _, w := range looks(waits) {
		seen[w.turn.ID] = true
		of[w.turn.Principal.Org]++
	}
	if len(seen) != maxLooks || of["one"] != 1 || of["few"] != 90 || of["many"] != 109 {
		t.Errorf("%d looks: %v", len(seen), of)
	}
}
