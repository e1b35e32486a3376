package storetest

import (
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
)

// callsPruned: what has ended and is old goes with what belongs to it, in bounded steps; what
// is open, or needed by a chain that goes on, stays.
func callsPruned(t testing.TB, s *store.Store) {
	ctx := t.Context()
	const n = 450 // more than two steps
	b := store.Batch{Audit: []audit.Entry{entry("acme", "call.closed")}}
	for i := range n {
		r := record("acme", count("c", i), haft.StatusSuccess)
		r.Created = at.Add(time.Duration(i) * time.Second)
		r.Ended = r.Created
		b.Records = append(b.Records, r)
	}
	open := haft.CallID(count("c", 3))
	b.Records[3].Status = haft.StatusPending
	b.Records[4].Ended = at.Add(24 * time.Hour) // it waited for a person
	b.Records[5].Call.Chain, b.Records[6].Call.Chain = "going", "over"
	b.Records[7].Status, b.Records[8].Status = haft.StatusRate, haft.StatusRate
	b.Records[8].Result = &haft.Result{Tries: 1, Status: haft.StatusRate}
	other := record("other", "theirs", haft.StatusSuccess)
	b.Records = append(b.Records, other)
	for id, status := range map[haft.ChainID]haft.Status{"going": haft.StatusPending, "over": haft.StatusSuccess} {
		b.Chains = append(b.Chains, haft.Chain{ID: id, Principal: principal("acme"), Status: status, Created: at})
	}
	for id, call := range map[haft.ApprovalID]haft.CallID{"a_open": open, "a_done": haft.CallID(count("c", 9))} {
		b.Approvals = append(b.Approvals, haft.Approval{ID: id, Call: call, Requester: principal("acme"),
			State: haft.ApprovalPending, Created: at, Expires: at})
	}
	commit(t, s, b)
	usage := func() int64 {
		sums, err := s.Calls.Usage(ctx, "acme", haft.UsageQuery{From: at.Add(-time.Hour),
			Until: at.Add(48 * time.Hour)})
		if err != nil || len(sums) != 1 {
			t.Fatalf("Usage = %v, %v", sums, err)
		}
		return sums[0].Calls
	}
	before := usage()
	if gone, _ := prune(t, s, store.OldCalls{Org: "acme", Status: haft.StatusRate, Before: at.Add(time.Hour),
		Never: true}); gone != 1 {
		t.Errorf("%d refusals are gone, want the one that never began", gone)
	}
	newest, err := s.Calls.KeepNewest(ctx, "acme", "", 10)
	if err != nil || !newest.After(at.Add((n-11)*time.Second)) || newest.After(at.Add((n-10)*time.Second)) {
		t.Errorf("KeepNewest = %v, %v", newest, err)
	}
	if none, err := s.Calls.KeepNewest(ctx, "acme", "", n); err != nil || !none.IsZero() {
		t.Errorf("KeepNewest of all = %v, %v", none, err)
	}
	// Left: the newest 10, the open one, the one that ended late, and that of the open chain.
	if gone, steps := prune(t, s, store.OldCalls{Org: "acme", Before: newest}); gone != n-1-13 || steps < 3 {
		t.Errorf("%d calls are gone in %d steps, want %d in more than two", gone, steps, n-1-13)
	}
	all, refusals, oldest, err := s.Calls.KeptCalls(ctx, "acme", []haft.Status{haft.StatusRate})
	if err != nil || all != 13 || refusals != 0 || !oldest.Equal(at.Add(3*time.Second)) {
		t.Errorf("KeptCalls = %d, %d, %v, %v", all, refusals, oldest, err)
	}
	for _, id := range []haft.CallID{open, haft.CallID(count("c", 4)), haft.CallID(count("c", 5))} {
		if _, err := s.Calls.Record(ctx, "acme", id); err != nil {
			t.Errorf("call %s: %v", id, err)
		}
	}
	if _, err := s.Calls.Record(ctx, "other", "theirs"); err != nil {
		t.Errorf("the call of another organisation: %v", err)
	}
	approvals, err := s.Approvals.Approvals(ctx, "acme", haft.ApprovalFilter{})
	if err != nil || len(approvals) != 1 || approvals[0].ID != "a_open" {
		t.Errorf("Approvals = %v, %v", approvals, err)
	}
	if _, err := s.Chains.Chain(ctx, "acme", "going"); err != nil {
		t.Errorf("the open chain: %v", err)
	}
	_, err = s.Chains.Chain(ctx, "acme", "over")
	refused(t, "the chain that is over", err, haft.CodeNotFound)
	if after := usage(); after != before {
		t.Errorf("usage counts %d calls after pruning, and %d before", after, before)
	}
	if list, err := s.Audit.AuditEntries(ctx, "acme", 0, 10); err != nil || len(list) != 1 {
		t.Errorf("the audit has %d entries, %v; want 1", len(list), err)
	}
}

// prune prunes to the end, and returns how many calls are gone and in how many steps.
func prune(t testing.TB, s *store.Store, o store.OldCalls) (gone, steps int) {
	t.Helper()
	for place := (*store.CallPlace)(nil); ; {
		m, next, err := s.Calls.PruneCalls(t.Context(), o, place)
		if err != nil {
			t.Fatalf("PruneCalls: %v", err)
		}
		gone, steps = gone+m, steps+1
		if place = next; place == nil {
			return gone, steps
		}
	}
}
