package storetest

import (
	"testing"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
)

// auditChained: chained checkpoints are added after the last one only, and together.
func auditChained(t testing.TB, s *store.Store) {
	signer, err := audit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	commit(t, s, store.Batch{Audit: []audit.Entry{entry("acme", "a"), entry("o\x00dd", "a")}})
	grown, next, err := s.Audit.UnsignedChains(ctx, "", 0)
	if err != nil || len(grown) != 2 || next != "" || grown[0].Last != nil {
		t.Fatalf("UnsignedChains = %+v, %q, %v", grown, next, err)
	}
	first := signer.SignAfter(grown[0].Head, audit.Mark{}, audit.Tip{}, at)
	second := signer.SignAfter(grown[1].Head, audit.Mark{}, first.Tip(), at)
	if err := s.Audit.AddCheckpoints(ctx, 0, []audit.Checkpoint{first, second}); err != nil {
		t.Fatalf("AddCheckpoints: %v", err)
	}
	if grown, _, err := s.Audit.UnsignedChains(ctx, "", 0); err != nil || len(grown) != 0 {
		t.Errorf("UnsignedChains after all is signed = %+v, %v", grown, err)
	}
	// Whoever is late adds nothing, whatever the numbers say.
	late := signer.SignAfter(first.Head(), first.Mark(), first.Tip(), at)
	lost := signer.SignLoss(first.Head(), first.Mark(), first.Mark(), first.Tip(), audit.Tip{Serial: 9}, at)
	for _, tc := range []struct {
		tip int64
		c   audit.Checkpoint
	}{{0, first}, {1, late}, {1, lost}, {2, late}} {
		if err := s.Audit.AddCheckpoints(ctx, tc.tip, []audit.Checkpoint{tc.c}); haft.CodeOf(err) != haft.CodeConflict {
			t.Errorf("AddCheckpoints after %d = %v, want a conflict", tc.tip, err)
		}
	}
	got, err := s.Audit.ChainedFrom(ctx, 1, 0)
	if err != nil {
		t.Fatalf("ChainedFrom: %v", err)
	}
	same(t, "ChainedFrom", got, []audit.Checkpoint{first, second})
	last, err := s.Audit.LastChained(ctx)
	if err != nil || last.ID() != second.ID() {
		t.Errorf("LastChained = %+v, %v", last, err)
	}
	gone := first.Head()
	gone.Hash = second.Hash
	has, err := s.Audit.HasEntries(ctx, []audit.Head{first.Head(), second.Head(), gone, {Org: "nobody", Seq: 1,
		Hash: "x"}})
	if err != nil || len(has) != 2 || !has[first.Head()] || !has[second.Head()] {
		t.Errorf("HasEntries = %v, %v", has, err)
	}
	if err := s.Audit.ResetTip(ctx); err != nil {
		t.Fatalf("ResetTip: %v", err)
	}
	third := signer.SignAfter(first.Head(), first.Mark(), second.Tip(), at)
	if err := s.Audit.AddCheckpoints(ctx, 2, []audit.Checkpoint{third}); err != nil {
		t.Errorf("AddCheckpoints: %v", err)
	}
	all, err := s.Audit.AllCheckpoints(ctx, "acme")
	if err != nil || len(all) != 2 {
		t.Errorf("AllCheckpoints = %+v, %v", all, err)
	}
}
