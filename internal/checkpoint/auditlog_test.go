package checkpoint_test

import (
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/checkpoint"
	"haft/internal/store"
)

// A checkpoint that is linked as it has to be, and that no trusted key signed, is found by
// every organisation: the chain of checkpoints is theirs too.
func TestVerifyAudit_finds_a_checkpoint_of_another_key(t *testing.T) {
	at := newPlace(t, embedded(t))
	s := &checkpoint.AuditLog{Store: at.store, Dir: at.dir, Keys: audit.MakeKeys(at.signer.Public())}
	var b store.Batch
	for _, org := range []string{"local", "other"} {
		b.Audit = append(b.Audit, audit.Entry{Org: org, Kind: "k", Time: time.Now()})
	}
	mallory, err := audit.NewKey()
	if err == nil {
		err = s.Store.Commit(t.Context(), b)
	}
	if err != nil {
		t.Fatal(err)
	}
	head, err := s.Store.Audit.AuditHead(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	forged := mallory.SignAfter(head, audit.Mark{}, audit.Tip{}, time.Now())
	if err := s.Store.Audit.AddCheckpoints(t.Context(), 0, []audit.Checkpoint{forged}); err != nil {
		t.Fatal(err)
	}
	rep, err := s.VerifyAudit(t.Context(), haft.Principal{Org: "local", User: "olga", Roles: []string{"admin"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range rep.Problems {
		if p.Kind == audit.Uncounted && p.Seq == forged.Place.Serial {
			return
		}
	}
	t.Errorf("problems: %v, want checkpoint %d among them", rep.Problems, forged.Place.Serial)
}
