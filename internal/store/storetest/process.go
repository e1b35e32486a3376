package storetest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/internal/store"
)

// join registers processes.
func join(t testing.TB, s *store.Store, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := s.Processes.Join(t.Context(), name); err != nil {
			t.Fatalf("Join(%s): %v", name, err)
		}
	}
}

// owned makes a record of a process.
func owned(owner, id string, status haft.Status) haft.Record {
	r := record("acme", id, status)
	r.Owner, r.Sealed = owner, []byte(`{"a":1}`)
	return r
}

// moves tries every move of a call by its owner and by another process: what a final
// record says never changes, and what runs is moved by its owner only.
func moves(t testing.TB, s *store.Store) {
	join(t, s, "p1")
	if s.Shared() {
		join(t, s, "p2")
	}
	statuses := []haft.Status{haft.StatusPending, haft.StatusQueued, haft.StatusRunning, haft.StatusSuccess,
		haft.StatusCancelled}
	n := 0
	for _, from := range statuses {
		for _, to := range statuses {
			for _, by := range []string{"p1", "p2", ""} { // nobody ends what waits
				n++
				id := count("c", n)
				commit(t, s, store.Batch{Records: []haft.Record{owned("p1", id, from)}})
				next := owned(by, id, to)
				next.Result = &haft.Result{Call: haft.CallID(id), Status: to, Stdout: "other"}
				err := s.Commit(t.Context(), store.Batch{Records: []haft.Record{next}})
				may := !from.Final() && (by == "p1" || from != haft.StatusRunning && to != haft.StatusRunning) &&
					(from != haft.StatusPending || to == haft.StatusQueued || to.Final() && by == "")
				stale, isStale := errors.AsType[*store.Stale](err)
				if may != (err == nil) || !may && (!isStale ||
					!slices.Equal(stale.Calls, []haft.CallID{haft.CallID(id)}) || len(stale.Kept) > 0) {
					t.Errorf("%s to %s by %s: %v, %+v", from, to, by, err, stale)
				}
				got, err := s.Calls.Record(t.Context(), "acme", haft.CallID(id))
				if want := map[bool]haft.Status{true: to, false: from}[may]; err != nil || got.Status != want {
					t.Errorf("%s to %s by %s: the call is %s, %v, want %s", from, to, by, got.Status, err, want)
				}
			}
		}
	}
}

// unasked ends calls that wait: not while a person is still asked about them.
func unasked(t testing.TB, s *store.Store) {
	join(t, s, "p1")
	for n, from := range []haft.Status{haft.StatusQueued, haft.StatusPending} {
		id := count("c", n)
		a := haft.Approval{ID: haft.ApprovalID(count("a", n)), Call: haft.CallID(id), State: haft.ApprovalPending,
			Requester: principal("acme"), Created: at, Expires: at.Add(time.Hour)}
		commit(t, s, store.Batch{Records: []haft.Record{owned("p1", id, from)}, Approvals: []haft.Approval{a}})
		end := owned("", id, haft.StatusCancelled)
		err := s.Commit(t.Context(), store.Batch{Records: []haft.Record{end}})
		stale, ok := errors.AsType[*store.Stale](err)
		if haft.CodeOf(err) != haft.CodeConflict || !ok || !slices.Equal(stale.Calls, []haft.CallID{haft.CallID(id)}) {
			t.Errorf("%s: the end of a call about which a person is asked: %v, %+v", from, err, stale)
		}
		pending, err := s.Approvals.PendingOf(t.Context(), "acme", haft.CallID(id))
		if err != nil || len(pending) != 1 || pending[0].ID != a.ID {
			t.Errorf("PendingOf: %+v, %v", pending, err)
		}
		a.State = haft.ApprovalExpired
		commit(t, s, store.Batch{Records: []haft.Record{end}, Approvals: []haft.Approval{a}})
		pending, err = s.Approvals.PendingOf(t.Context(), "acme", haft.CallID(id))
		if err != nil || len(pending) > 0 {
			t.Errorf("PendingOf of a call that has ended: %+v, %v", pending, err)
		}
	}
}

// kept tries a batch again whose outcome is unknown: it is not kept twice, and
// the others of it can be told.
func kept(t testing.TB, s *store.Store) {
	a, b, c := owned("p1", "a", haft.StatusSuccess), owned("p1", "b", haft.StatusSuccess),
		owned("p1", "c", haft.StatusRunning)
	commit(t, s, store.Batch{Records: []haft.Record{a, c}})
	done := c
	done.Status = haft.StatusSuccess
	err := s.Commit(t.Context(), store.Batch{Records: []haft.Record{a, b, done}, Again: true})
	stale, ok := errors.AsType[*store.Stale](err)
	if !ok || !slices.Equal(stale.Kept, []haft.CallID{"a"}) || len(stale.Calls) > 0 {
		t.Fatalf("Commit again: %v, %+v", err, stale)
	}
	if _, err := s.Calls.Record(t.Context(), "acme", "b"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("a part of a refused batch was kept: %v", err)
	}
	commit(t, s, store.Batch{Records: []haft.Record{b, done}, Again: true})
	sums, err := s.Calls.Usage(t.Context(), "acme", haft.UsageQuery{From: at.Add(-1), Until: at.Add(1 << 40)})
	if err != nil || len(sums) != 1 || sums[0].Calls != 3 {
		t.Errorf("three calls that ended are counted as %+v, %v", sums, err)
	}
}

// processes join, beat and are given up, and what is left is adopted once.
func processes(t testing.TB, s *store.Store) {
	ctx := t.Context()
	join(t, s, "p1")
	if err := errors.Join(s.Processes.Beat(ctx, "p1"), s.Processes.Beat(ctx, "p1")); err != nil {
		t.Fatal(err)
	}
	beats, err := s.Processes.Beats(ctx)
	if err != nil || beats["p1"] != 3 {
		t.Errorf("Beats = %v, %v", beats, err)
	}
	if done, err := s.Processes.GiveUp(ctx, "p1", 2); done || err != nil {
		t.Errorf("GiveUp of one that has beaten since = %v, %v", done, err)
	}
	if done, err := s.Processes.GiveUp(ctx, "p1", 3); !done || err != nil {
		t.Errorf("GiveUp = %v, %v", done, err)
	}
	if err := s.Processes.Beat(ctx, "p1"); !errors.Is(err, store.ErrGivenUp) {
		t.Errorf("Beat of one that was given up: %v", err)
	}
	if !s.Shared() {
		join(t, s, "p2")
		join(t, s, "p3")
		if beats, err := s.Processes.Beats(ctx); err != nil || len(beats) != 1 || beats["p3"] != 1 {
			t.Errorf("who opens the store next is not the only one: %v, %v", beats, err)
		}
		return
	}
	err = s.Commit(ctx, store.Batch{Owner: "p1", Records: []haft.Record{owned("p1", "late", haft.StatusQueued)}})
	if !errors.Is(err, store.ErrGivenUp) {
		t.Errorf("Commit of one that was given up: %v", err)
	}
	if _, err := s.Calls.Record(ctx, "acme", "late"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("it was kept: %v", err)
	}
	if _, err := s.Processes.Adopt(ctx, "p1", true); !errors.Is(err,
		store.ErrGivenUp) { // or it would adopt the same for ever
		t.Errorf("Adopt of one that was given up: %v", err)
	}
	join(t, s, "p4")
	commit(t, s, store.Batch{Owner: "p4", Records: []haft.Record{owned("p4", "c4", haft.StatusQueued)}})
	if err := s.Processes.Leave(ctx, "p4"); err != nil {
		t.Fatal(err)
	}
	join(t, s, "p5")
	if n, err := s.Processes.Adopt(ctx, "p5", true); n != 1 || err != nil {
		t.Errorf("Adopt after one has left = %d, %v", n, err)
	}
}

// adopted: what belongs to nobody has one new owner.
func adopted(t testing.TB, s *store.Store) {
	ctx := t.Context()
	var b store.Batch
	for i := range 1500 {
		b.Records = append(b.Records, owned("gone", count("q", i), haft.StatusQueued))
	}
	for i := range 20 {
		b.Records = append(b.Records, owned("gone", count("r", i), haft.StatusRunning),
			owned("gone", count("s", i), haft.StatusSuccess))
	}
	b.Owner = "gone"
	for i := range 5 {
		b.Chains = append(b.Chains, haft.Chain{ID: haft.ChainID(count("ch", i)), Principal: principal("acme"),
			Status: haft.StatusRunning, Created: at})
	}
	names := []string{"me"}
	if s.Shared() {
		names = append(names, "you", "they")
		join(t, s, "gone")
	}
	commit(t, s, b)
	join(t, s, names...)
	if s.Shared() {
		if n, err := s.Processes.Adopt(ctx, "me", true); n != 0 || err != nil {
			t.Errorf("Adopt from one that lives = %d, %v", n, err)
		}
		if err := s.Processes.Leave(ctx, "gone"); err != nil {
			t.Fatal(err)
		}
	}
	first, err := s.Processes.Adopt(ctx, names[0], false)
	if err != nil || first != 25 {
		t.Errorf("Adopt of what does not wait = %d, %v, want 25", first, err)
	}
	var won atomic.Int64
	won.Add(int64(first))
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() {
			n, err := s.Processes.Adopt(ctx, name, true)
			if err != nil {
				t.Errorf("Adopt: %v", err)
			}
			won.Add(int64(n))
		})
	}
	wg.Wait()
	if won.Load() != 1525 {
		t.Errorf("%d calls and chains were adopted, want 1525", won.Load())
	}
	var queued, running, idle int
	for _, name := range names {
		counts, err := s.Calls.QueuedByOrg(ctx, name)
		queued += counts[store.OrgKey("acme")]
		list, err2 := s.Calls.Running(ctx, name)
		running += len(list)
		chains, err3 := s.Chains.IdleChains(ctx, name)
		idle += len(chains)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
	}
	if queued != 1500 || running != 20 || idle != 5 {
		t.Errorf("%d queued, %d running, %d chains have an owner", queued, running, idle)
	}
}

// queued calls are read oldest first, and can be left to others.
func queued(t testing.TB, s *store.Store) {
	ctx := t.Context()
	join(t, s, "p1")
	var b store.Batch
	for i := range 5 {
		r := owned("p1", count("c", 9-i), haft.StatusQueued)
		r.Created = at.AddDate(0, 0, i)
		b.Records = append(b.Records, r)
	}
	other := owned("p1", "other", haft.StatusQueued)
	other.Call.Principal.Org = "a\x00b" // is kept as its digest
	b.Records = append(b.Records, other, owned("p2", "theirs", haft.StatusQueued))
	commit(t, s, b)
	list, err := s.Calls.Queued(ctx, "p1", store.OrgKey("acme"), 3)
	if err != nil || ids(list) != "c00009 c00008 c00007" || string(list[0].Sealed) != `{"a":1}` {
		t.Errorf("Queued = %q, %v", ids(list), err)
	}
	list, err = s.Calls.Queued(ctx, "p1", store.OrgKey("a\x00b"), 3)
	if err != nil || ids(list) != "other" || list[0].Call.Principal.Org != "a\x00b" {
		t.Errorf("Queued of another = %q, %v", ids(list), err)
	}
	if err := s.Calls.ReleaseCalls(ctx, "p1", []haft.CallID{"c00009"}); err != nil {
		t.Fatal(err)
	}
	if counts, err := s.Calls.QueuedByOrg(ctx, "p1"); err != nil || counts[store.OrgKey("acme")] != 4 {
		t.Errorf("after one was disowned: %v, %v", counts, err)
	}
	if err := s.Calls.ReleaseCalls(ctx, "p1", nil); err != nil {
		t.Fatal(err)
	}
	if counts, err := s.Calls.QueuedByOrg(ctx, "p1"); err != nil || len(counts) != 0 {
		t.Errorf("after all were disowned: %v, %v", counts, err)
	}
}

// chainsOwned: a chain is taken further by its owner only, and is idle while none of its
// calls is open.
func chainsOwned(t testing.TB, s *store.Store) {
	ctx := t.Context()
	join(t, s, "p1")
	c := haft.Chain{ID: "ch", Principal: principal("acme"), Status: haft.StatusRunning, Created: at}
	commit(t, s, store.Batch{Owner: "p1", Chains: []haft.Chain{c}})
	call := owned("p1", "c1", haft.StatusRunning)
	call.Call.Chain = "ch"
	for _, tt := range []struct {
		status haft.Status
		want   int
	}{{haft.StatusRunning, 0}, {haft.StatusPending, 0}, {haft.StatusQueued, 0}, {haft.StatusSuccess, 1}} {
		call.Status = tt.status
		commit(t, s, store.Batch{Records: []haft.Record{call}})
		idle, err := s.Chains.IdleChains(ctx, "p1")
		if err != nil || len(idle) != tt.want {
			t.Errorf("with a call that is %s: %v, %v", tt.status, idle, err)
		}
		if len(idle) == 1 {
			if got, err := s.Chains.ChainOf(ctx, idle[0]); err != nil || got.ID != "ch" {
				t.Errorf("ChainOf = %+v, %v", got, err)
			}
		}
	}
	if s.Shared() {
		join(t, s, "p2")
	}
	refused(t, "a chain of another", s.Commit(ctx, store.Batch{Owner: "p2", Chains: []haft.Chain{c}}),
		haft.CodeConflict)
	c.Status = haft.StatusSuccess
	commit(t, s, store.Batch{Owner: "p1", Chains: []haft.Chain{c}})
	c.Status = haft.StatusCancelled
	refused(t, "a chain that has ended", s.Commit(ctx, store.Batch{Owner: "p1", Chains: []haft.Chain{c}}),
		haft.CodeConflict)
}

// answers: a request is answered once, with what becomes of its call.
func answers(t testing.TB, s *store.Store) {
	ctx := t.Context()
	pending := owned("p1", "c1", haft.StatusPending)
	a := haft.Approval{ID: "a1", Call: "c1", Requester: principal("acme"), State: haft.ApprovalPending, Created: at,
		Expires: at}
	commit(t, s, store.Batch{Records: []haft.Record{pending, owned("p1", "c2", haft.StatusPending)},
		Approvals: []haft.Approval{a}})
	list, err := s.Calls.Answered(ctx)
	if err != nil || len(list) != 1 || list[0].ID != "c2" {
		t.Errorf("Answered = %v, %v", list, err)
	}
	next := pending
	next.Status = haft.StatusQueued
	states := []struct {
		state haft.ApprovalState
		may   bool
	}{{haft.ApprovalApproved, true}, {haft.ApprovalDenied, false}, {haft.ApprovalExpired, false},
		{haft.ApprovalUsed, true}, {haft.ApprovalUsed, false}, {haft.ApprovalApproved, false}}
	for _, tt := range states {
		a.State = tt.state
		err := s.Commit(ctx, store.Batch{Records: []haft.Record{next}, Approvals: []haft.Approval{a}})
		stale, ok := errors.AsType[*store.Stale](err)
		if tt.may != (err == nil) || !tt.may && (!ok || !slices.Equal(stale.Calls, []haft.CallID{"c1"})) {
			t.Errorf("to %s: %v", tt.state, err)
		}
	}
}
