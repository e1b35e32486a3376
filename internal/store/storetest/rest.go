package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/event"
	"haft/internal/limit"
	"haft/internal/store"
)

// Log is a store as an [event.Log].
type Log struct{ Store *store.Store }

// Append implements [event.Log].
func (l Log) Append(ctx context.Context, events []haft.Event) error {
	return l.Store.Commit(ctx, store.Batch{Events: events})
}

// Shared implements [event.SharedLog].
func (l Log) Shared() bool { return l.Store.Shared() }

// Tip implements [event.SharedLog].
func (l Log) Tip(ctx context.Context) (int64, error) { return l.Store.Events.EventTip(ctx) }

// After implements [event.Log].
func (l Log) After(ctx context.Context, f event.Filter, after int64, limit int) ([]haft.Event, error) {
	return l.Store.Events.EventsAfter(ctx, f, after, limit)
}

// Last implements [event.Log].
func (l Log) Last(ctx context.Context, calls []haft.CallID) (int64, map[haft.CallID]int64, error) {
	return l.Store.Events.LastEvents(ctx, calls)
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// entries reads a whole chain.
func entries(t testing.TB, s *store.Store, org string) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		for after := int64(0); ; {
			list, err := s.Audit.AuditEntries(t.Context(), org, after, 100)
			if err != nil {
				yield(audit.Entry{}, err)
				return
			}
			for _, e := range list {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if len(list) < 100 {
				return
			}
		}
	}
}

// verify checks that a chain is sound and has so many entries.
func verify(t testing.TB, s *store.Store, org string, n int) {
	t.Helper()
	seen := int64(0)
	counted := func(yield func(audit.Entry, error) bool) {
		for e, err := range entries(t, s, org) {
			seen++
			if !yield(e, err) {
				return
			}
		}
	}
	report, err := audit.Verify(counted, nil, nil, audit.Head{Org: org})
	if err == nil {
		err = report.Err()
	}
	head, err2 := s.Audit.AuditHead(t.Context(), org)
	if err := errors.Join(err, err2); err != nil || seen != int64(n) || head.Seq != int64(n) {
		t.Errorf("the chain of %s has %d entries and ends at %d, %v, want %d", org, seen, head.Seq, err, n)
	}
}

func auditVerifies(t testing.TB, s *store.Store) {
	Hammer(t, []*store.Store{s}, 4, 25)
}

// Hammer has goroutines commit to several stores over one database at once, and
// checks that every audit chain is sound and that the cursors of events rise and
// are all different.
func Hammer(t testing.TB, stores []*store.Store, goroutines, commits int) {
	t.Helper()
	orgs := []string{"acme", "other", "third"}
	var wg sync.WaitGroup
	for i, s := range stores {
		for g := range goroutines {
			wg.Go(func() {
				for c := range commits {
					var b store.Batch
					for k, org := range slices.Concat(orgs[g%3:], orgs[:g%3]) { // in any order
						id := count("c", ((i*goroutines+g)*commits+c)*3+k)
						b.Records = append(b.Records, record(org, id, haft.StatusRunning))
						b.Events = append(b.Events, happened(org, id, int64(c), 1))
						b.Audit = append(b.Audit, entry(org, "one"), entry(org, "two"))
						b.Limits = append(b.Limits, limit.State{Key: org, Used: int64(c), At: at})
					}
					if err := s.Commit(t.Context(), b); err != nil {
						t.Errorf("Commit: %v", err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	total := len(stores) * goroutines * commits
	for _, org := range orgs {
		verify(t, stores[0], org, 2*total)
	}
	seen, after := 0, int64(0)
	for {
		list, err := stores[0].Events.EventsAfter(t.Context(), event.Filter{}, after, 100)
		if err != nil {
			t.Fatalf("EventsAfter: %v", err)
		}
		for _, e := range list {
			after = e.Cursor
			seen++
		}
		if len(list) < 100 {
			break
		}
	}
	if seen != 3*total {
		t.Errorf("%d events are kept, want %d", seen, 3*total)
	}
}

func auditApart(t testing.TB, s *store.Store) {
	commit(t, s, store.Batch{Audit: []audit.Entry{entry("acme", "a"), entry("other", "b"), entry("acme", "c")}})
	commit(t, s, store.Batch{Audit: []audit.Entry{entry("o\x00dd", "d"), entry("other", "e")}})
	for org, n := range map[string]int{"acme": 2, "other": 2, "o\x00dd": 1, "nobody": 0} {
		verify(t, s, org, n)
	}
	orgs, err := s.Audit.AuditOrgs(t.Context())
	if err != nil {
		t.Fatalf("AuditOrgs: %v", err)
	}
	same(t, "AuditOrgs", sorted(orgs), []string{"acme", "o\x00dd", "other"})
	list, err := s.Audit.AuditEntries(t.Context(), "acme", 1, 10)
	if err != nil || len(list) != 1 || list[0].Kind != "c" || list[0].Seq != 2 {
		t.Errorf("AuditEntries after 1 = %+v, %v", list, err)
	}
	if list, err := s.Audit.AuditEntries(t.Context(), "acme", 0, 1); err != nil || len(list) != 1 ||
		list[0].Kind != "a" {
		t.Errorf("AuditEntries of one = %+v, %v", list, err)
	}
	head, err := s.Audit.AuditHead(t.Context(), "nobody")
	if err != nil || head != audit.Genesis("nobody") {
		t.Errorf("AuditHead of nobody = %+v, %v", head, err)
	}
}

func auditCheckpoints(t testing.TB, s *store.Store) {
	signer, err := audit.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	var want []audit.Checkpoint
	for range 3 {
		commit(t, s, store.Batch{Audit: []audit.Entry{entry("acme", "a")}})
		head, err := s.Audit.AuditHead(t.Context(), "acme")
		if err != nil {
			t.Fatalf("AuditHead: %v", err)
		}
		c := signer.Sign(head, at)
		want = append(want, c)
		if err := errors.Join(s.Audit.PutCheckpoint(t.Context(), c),
			s.Audit.PutCheckpoint(t.Context(), signer.Sign(head, at.Add(time.Hour)))); err != nil {
			t.Fatalf("PutCheckpoint: %v", err)
		}
	}
	got, err := s.Audit.Checkpoints(t.Context(), "acme", 0, 0)
	if err != nil {
		t.Fatalf("Checkpoints: %v", err)
	}
	same(t, "Checkpoints", got, want)
	got, err = s.Audit.Checkpoints(t.Context(), "acme", 1, 1)
	if err != nil {
		t.Fatalf("Checkpoints: %v", err)
	}
	same(t, "Checkpoints after 1", got, want[1:2])
	report, err := audit.Verify(entries(t, s, "acme"), want, audit.MakeKeys(signer.Public()), audit.Head{Org: "acme"})
	if err = errors.Join(err, report.Err()); err != nil {
		t.Errorf("Verify: %v", err)
	}
}

func eventsPruned(t testing.TB, s *store.Store) {
	ctx := t.Context()
	cursor, _, err := s.Events.LastEvents(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := store.Batch{Records: []haft.Record{record("acme", "open", haft.StatusRunning),
		record("acme", "done", haft.StatusSuccess)}}
	for i := range int64(10) {
		call := "done"
		if i == 2 {
			call = "open"
		}
		e := happened("acme", call, cursor+1+i, i+1)
		e.Time = at.Add(time.Duration(i) * time.Minute)
		b.Events = append(b.Events, e)
	}
	commit(t, s, b)
	if n, err := s.Events.PruneEvents(ctx, at.Add(5*time.Minute)); err != nil || n != 4 {
		t.Errorf("PruneEvents = %d, %v, want 4", n, err)
	}
	left := func(f event.Filter, after int64, want int, lost bool) {
		t.Helper()
		list, err := s.Events.EventsAfter(ctx, f, after, 100)
		if errors.Is(err, event.ErrLost) != lost || !lost && (err != nil || len(list) != want) {
			t.Errorf("EventsAfter(%d) = %d events, %v, want %d, lost %v", after-cursor, len(list), err, want, lost)
		}
		if lost {
			refused(t, "EventsAfter", err, haft.CodeConflict)
		}
	}
	acme := event.Filter{Org: "acme"}
	left(acme, 0, 6, false)
	left(acme, cursor+3, 0, true)
	left(acme, cursor+5, 5, false)
	left(acme, cursor+10, 0, false)
	if _, seqs, err := s.Events.LastEvents(ctx, []haft.CallID{"open", "done"}); err != nil || seqs["open"] != 3 ||
		seqs["done"] != 10 {
		t.Errorf("LastEvents = %v, %v", seqs, err)
	}
	if n, err := s.Events.PruneEvents(ctx, at.Add(time.Hour)); err != nil || n != 5 {
		t.Errorf("PruneEvents of all = %d, %v, want 5", n, err)
	}
	if last, _, err := s.Events.LastEvents(ctx, nil); err != nil || last != cursor+10 {
		t.Errorf("LastEvents = %d, %v, want %d", last-cursor, err, 10)
	}
	commit(t, s, store.Batch{Events: []haft.Event{happened("acme", "new", 0, 1)}})
	left(acme, cursor+10, 1, false)
	if n, err := s.Events.PruneEvents(ctx, at.Add(-time.Hour)); err != nil || n != 0 {
		t.Errorf("PruneEvents of none = %d, %v", n, err)
	}
}

func eventsRise(t testing.TB, s *store.Store) {
	events := []haft.Event{happened("acme", "a", 5, 1), happened("acme", "a", 5, 2), happened("acme", "a", 1, 3),
		happened("acme", "a", 100, 4)}
	commit(t, s, store.Batch{Events: events})
	for i := 1; i < len(events); i++ {
		if events[i].Cursor <= events[i-1].Cursor {
			t.Errorf("cursor %d follows %d", events[i].Cursor, events[i-1].Cursor)
		}
	}
	kept, err := s.Events.EventsAfter(t.Context(), event.Filter{Org: "acme"}, 0, 10)
	if err != nil {
		t.Fatalf("EventsAfter: %v", err)
	}
	same(t, "EventsAfter", kept, events)
	refused(t, "too much data", s.Commit(t.Context(), store.Batch{Events: []haft.Event{{
		Call: "a", Type: haft.EventOutput, Principal: principal("acme"), Data: make(json.RawMessage, event.MaxData+1),
	}}}), haft.CodeInvalid)
}

func approvalMoves(t testing.TB, s *store.Store) {
	ctx := t.Context()
	a := haft.Approval{ID: "a1", Call: "c1", State: haft.ApprovalPending, Requester: principal("acme"), Created: at,
		Expires: at.Add(time.Hour)}
	commit(t, s, store.Batch{Approvals: []haft.Approval{a}})
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			next := a
			next.State, next.Reason, next.Decided = haft.ApprovalApproved, count("r", i), at.Add(time.Minute)
			switch err := s.Commit(ctx, store.Batch{Approvals: []haft.Approval{next}}); {
			case err == nil:
				won.Add(1)
			case haft.CodeOf(err) != haft.CodeConflict:
				t.Errorf("Commit of an answer: %v", err)
			}
		})
	}
	wg.Wait()
	got, err := s.Approvals.Approval(ctx, "acme", "a1")
	if err != nil || won.Load() != 1 || got.State != haft.ApprovalApproved || got.Reason == "" {
		t.Errorf("%d have moved it to %+v, %v", won.Load(), got, err)
	}
	next := *got
	next.State = haft.ApprovalUsed
	commit(t, s, store.Batch{Approvals: []haft.Approval{next}})
	refused(t, "Commit of one that was used", s.Commit(ctx, store.Batch{Approvals: []haft.Approval{next}}),
		haft.CodeConflict)
	next.Requester.Org = "other"
	refused(t, "Commit by a stranger", s.Commit(ctx, store.Batch{Approvals: []haft.Approval{next}}), haft.CodeConflict)
	refused(t, "Commit of an approval that was answered", s.Commit(ctx, store.Batch{Approvals: []haft.Approval{a}}),
		haft.CodeConflict)
}

func approvalPending(t testing.TB, s *store.Store) {
	ctx := t.Context()
	var b store.Batch
	for i := range 20 {
		a := haft.Approval{ID: haft.ApprovalID(count("a", i)), Call: haft.CallID(count("c", i%10)),
			State: haft.ApprovalPending, Requester: principal("acme"),
			Created: at.Add(time.Duration(i/2) * time.Second), Expires: at.Add(time.Duration(i) * time.Minute)}
		if i == 3 {
			a.State = haft.ApprovalDenied
		}
		if i == 4 {
			a.Requester.Org = "other"
		}
		if i == 5 {
			a.Expires = time.Time{} // never
		}
		b.Approvals = append(b.Approvals, a)
	}
	commit(t, s, b)
	var got []string
	for f := (haft.ApprovalFilter{State: haft.ApprovalPending, Limit: 5}); ; {
		list, err := s.Approvals.Approvals(ctx, "acme", f)
		if err != nil {
			t.Fatalf("Approvals: %v", err)
		}
		for _, a := range list {
			got, f.After, f.AfterID = append(got, string(a.ID)), a.Created, a.ID
		}
		if len(list) < 5 {
			break
		}
	}
	if len(got) != 18 || !slices.IsSorted(got) || slices.Contains(got, "a00003") || slices.Contains(got, "a00004") {
		t.Errorf("Approvals = %v", got)
	}
	for _, tt := range []struct {
		f    haft.ApprovalFilter
		want int
	}{
		{haft.ApprovalFilter{State: haft.ApprovalDenied}, 1}, {haft.ApprovalFilter{}, 19},
		{haft.ApprovalFilter{User: "ann", Agent: "x"}, 19},
		{haft.ApprovalFilter{User: "bob"}, 0}, {haft.ApprovalFilter{Tool: "none"}, 0},
		{haft.ApprovalFilter{Limit: 3}, 3},
	} {
		if list, err := s.Approvals.Approvals(ctx, "acme", tt.f); err != nil || len(list) != tt.want {
			t.Errorf("Approvals(%+v) = %d of them, %v; want %d", tt.f, len(list), err, tt.want)
		}
	}
	list, err := s.Approvals.ExpiredApprovals(ctx, at.Add(5*time.Minute), 10)
	if err != nil || len(list) != 4 || list[3].ID != "a00004" {
		t.Errorf("ExpiredApprovals = %+v, %v", list, err)
	}
	if a, err := s.Approvals.ApprovalOf(ctx, "acme", "c00001"); err != nil || a.ID != "a00011" {
		t.Errorf("ApprovalOf = %+v, %v", a, err)
	}
	_, err = s.Approvals.ApprovalOf(ctx, "other", "c00001")
	refused(t, "ApprovalOf a stranger", err, haft.CodeNotFound)
}

func agents(t testing.TB, s *store.Store) {
	ctx := t.Context()
	want := haft.Agent{Org: "acme", Name: "helper", Tools: []string{"add"}, Env: map[string]string{"A": "b"},
		Rules: []haft.ToolRule{{Type: haft.RuleFirst, Tool: "add",
			Args: map[string]json.RawMessage{"n": json.RawMessage(`1.50`)}}}, Created: at, Updated: at}
	kept, err := s.Agents.PutAgent(ctx, want)
	if err != nil || kept.ID == "" {
		t.Fatalf("PutAgent = %+v, %v", kept, err)
	}
	want.ID = kept.ID
	for _, ref := range []string{"helper", string(kept.ID)} {
		got, err := s.Agents.Agent(ctx, "acme", ref)
		if err != nil {
			t.Fatalf("Agent(%s): %v", ref, err)
		}
		same(t, "Agent", *got, want)
	}
	want.ID, want.Disabled, want.Created, want.Updated = "", true, at.Add(time.Hour), at.Add(time.Hour)
	again, err := s.Agents.PutAgent(ctx, want)
	if err != nil || again.ID != kept.ID || !again.Created.Equal(at) || !again.Disabled {
		t.Errorf("PutAgent again = %+v, %v", again, err)
	}
	for _, name := range []string{"b", "a", "C"} {
		if _, err := s.Agents.PutAgent(ctx, haft.Agent{Org: "acme", Name: name}); err != nil {
			t.Fatalf("PutAgent: %v", err)
		}
	}
	_, err = s.Agents.PutAgent(ctx, haft.Agent{Org: "other", Name: "helper", ID: kept.ID})
	refused(t, "PutAgent with the id of another", err, haft.CodeConflict)
	list, err := s.Agents.Agents(ctx, "acme", "C", 2)
	if err != nil || len(list) != 2 || list[0].Name != "a" || list[1].Name != "b" {
		t.Errorf("Agents = %+v, %v", list, err)
	}
	_, err = s.Agents.Agent(ctx, "other", string(kept.ID))
	refused(t, "Agent of another", err, haft.CodeNotFound)
	refused(t, "RemoveAgent of another", s.Agents.RemoveAgent(ctx, "other", "helper", ""), haft.CodeNotFound)
	if err := s.Agents.RemoveAgent(ctx, "acme", "helper", ""); err != nil {
		t.Errorf("RemoveAgent: %v", err)
	}
	refused(t, "RemoveAgent again", s.Agents.RemoveAgent(ctx, "acme", "helper", ""), haft.CodeNotFound)
	for _, a := range []haft.Agent{{Org: "acme"}, {Name: "x"}, {Org: "acme", Name: strings.Repeat("x", 1000)},
		{Org: "acme", Name: "x", Env: map[string]string{"A": strings.Repeat("x", store.MaxText)}}} {
		_, err := s.Agents.PutAgent(ctx, a)
		refused(t, "PutAgent", err, haft.CodeInvalid)
	}
}

func cacheExpires(t testing.TB, s *store.Store) {
	ctx := t.Context()
	cached := func(org, key string, now time.Time, want string) {
		t.Helper()
		raw, ok, err := s.Cache.Cached(ctx, org, key, now)
		if err != nil || ok != (want != "") || string(raw) != want {
			t.Errorf("Cached(%s, %.10q) = %s, %v, %v, want %q", org, key, raw, ok, err, want)
		}
	}
	putCached := func(key, raw string, expires time.Time) {
		t.Helper()
		if err := s.Cache.PutCached(ctx, "acme", key, json.RawMessage(raw), at, expires); err != nil {
			t.Errorf("PutCached: %v", err)
		}
	}
	putCached("k", `{"n": 1.50}`, at.Add(time.Minute))
	putCached("gone", `1`, at)
	putCached("null", `null`, at.Add(time.Hour))
	cached("acme", "k", at, `{"n": 1.50}`)
	cached("acme", "k", at.Add(time.Minute), "")
	cached("other", "k", at, "")
	cached("acme", "gone", at.Add(-time.Hour), "")
	cached("acme", "null", at, "null")
	putCached("k", `2`, at.Add(time.Hour))
	cached("acme", "k", at.Add(time.Minute), "2")
	for i, key := range odd {
		putCached(key, count("1", i), at.Add(time.Second))
		cached("acme", key, at, count("1", i))
	}
	if n, err := s.Cache.PruneCached(ctx, at.Add(time.Minute)); err != nil || n != len(odd) {
		t.Errorf("PruneCached = %d, %v, want %d", n, err, len(odd))
	}
	cached("acme", "k", at, "2")
	for _, raw := range []string{"{", "", "\"\xff\"", `"` + strings.Repeat("x", store.MaxCached) + `"`} {
		refused(t, "PutCached", s.Cache.PutCached(ctx, "acme", "k", json.RawMessage(raw), at, at.Add(time.Hour)),
			haft.CodeInvalid)
	}
}

func settings(t testing.TB, s *store.Store) {
	ctx := t.Context()
	for _, org := range []string{"", "acme", "other"} {
		if p, err := s.Policies.Policy(ctx, org); err != nil || p.Text != nil || p.Revision() != "" {
			t.Errorf("Policy(%q) = %+v, %v", org, p, err)
		}
		if p, err := s.Policies.PutPolicy(ctx, org, haft.PolicyText{Text: []byte("rules of " + org + ": é"),
			Updated: at},
			"ann"); err != nil || p.Revision() == "" {
			t.Fatalf("PutPolicy = %+v, %v", p, err)
		}
	}
	// At the same moment as the one before, and yet another revision.
	again, err := s.Policies.PutPolicy(ctx, "acme", haft.PolicyText{Text: []byte("new"), Updated: at}, "bob")
	if err != nil || !again.Updated.After(at) {
		t.Fatalf("PutPolicy = %+v, %v", again, err)
	}
	if _, err := s.Policies.PutPolicy(ctx, "other", haft.PolicyText{}, "bob"); err != nil {
		t.Fatalf("PutPolicy: %v", err)
	}
	for org, want := range map[string]string{"": "rules of : é", "acme": "new", "other": ""} {
		p, err := s.Policies.Policy(ctx, org)
		if err != nil || string(p.Text) != want || want == "new" && p.Revision() != again.Revision() {
			t.Errorf("Policy(%q) = %+v, %v", org, p, err)
		}
	}
	for i, key := range odd {
		if err := errors.Join(s.Settings.PutSetting(ctx, key, "old"), s.Settings.PutSetting(ctx, key, count("v",
			i))); err != nil {
			t.Errorf("PutSetting(%.10q): %v", key, err)
		}
	}
	for i, key := range odd {
		if v, err := s.Settings.Setting(ctx, key); err != nil || v != count("v", i) {
			t.Errorf("Setting(%.10q) = %q, %v", key, v, err)
		}
	}
	if v, err := s.Settings.Setting(ctx, "none"); err != nil || v != "" {
		t.Errorf("Setting of none = %q, %v", v, err)
	}
	for _, value := range []string{"a\x00", "\xff", strings.Repeat("x", store.MaxText+1)} {
		refused(t, "PutSetting", s.Settings.PutSetting(ctx, "k", value), haft.CodeInvalid)
		_, err := s.Policies.PutPolicy(ctx, "acme", haft.PolicyText{Text: []byte(value)}, "ann")
		refused(t, "PutPolicy", err, haft.CodeInvalid)
	}
}

// isolation: with the name of another organisation, also one that looks much the
// same, nothing is found.
func isolation(t testing.TB, s *store.Store) {
	ctx := t.Context()
	put(t, s, tool("acme", "add", "d", "adds"))
	commit(t, s, store.Batch{
		Records: []haft.Record{record("acme", "c1", haft.StatusRunning)},
		Events:  []haft.Event{happened("acme", "c1", 1, 1)}, Audit: []audit.Entry{entry("acme", "a")},
		Approvals: []haft.Approval{{ID: "a1", Call: "c1", State: haft.ApprovalPending, Requester: principal("acme"),
			Created: at}},
		Chains: []haft.Chain{{ID: "ch", Principal: principal("acme"), Status: haft.StatusRunning, Created: at}},
	})
	for _, org := range []string{"", "other", "ACME", "acme ", " acme", "acm", "acme\x00", "acm%", "acm_", "äcme",
		"acme\u200b"} {
		_, err1 := s.Calls.Record(ctx, org, "c1")
		_, err2 := s.Approvals.Approval(ctx, org, "a1")
		_, err3 := s.Approvals.ApprovalOf(ctx, org, "c1")
		_, err4 := s.Chains.Chain(ctx, org, "ch")
		_, err5 := s.Tools.Tool(ctx, org, "add")
		_, err6 := s.Agents.Agent(ctx, org, "x")
		for i, err := range []error{err1, err2, err3, err4, err5, err6} {
			if haft.CodeOf(err) != haft.CodeNotFound {
				t.Errorf("%q finds thing %d: %v", org, i, err)
			}
		}
		tools, err1 := s.Tools.Tools(ctx, org, haft.ToolFilter{})
		found, err2 := s.Tools.SearchTools(ctx, org, "add", 0)
		pending, err3 := s.Approvals.Approvals(ctx, org, haft.ApprovalFilter{})
		chain, err4 := s.Audit.AuditEntries(ctx, org, 0, 0)
		turn, err5 := s.Calls.Turn(ctx, org, "x", "")
		n := len(tools) + len(found) + len(pending) + len(chain) + len(turn)
		if org != "" {
			calls, err := s.Calls.Records(ctx, haft.CallFilter{Org: org})
			events, err6 := s.Events.EventsAfter(ctx, event.Filter{Org: org}, 0, 10)
			n += len(calls) + len(events)
			err5 = errors.Join(err5, err, err6)
		}
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil || n != 0 {
			t.Errorf("%q sees %d things, %v", org, n, err)
		}
	}
}

func anyKeys(t testing.TB, s *store.Store) {
	var states []limit.State
	for i, key := range odd {
		states = append(states, limit.State{Key: key, Used: int64(i + 1), At: at})
	}
	commit(t, s, store.Batch{Limits: states})
	got, err := s.Limits.Limits(t.Context(), odd)
	if err != nil || len(got) != len(odd) {
		t.Fatalf("Limits = %d, %v, want %d", len(got), err, len(odd))
	}
	for _, g := range got {
		if g.Key != odd[g.Used-1] {
			t.Errorf("the state of %.10q comes back as that of %.10q", odd[g.Used-1], g.Key)
		}
	}
	if got, err := s.Limits.Limits(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("Limits of none = %v, %v", got, err)
	}
}

func closed(t testing.TB, s *store.Store) {
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
	_, err := s.Tools.Tool(t.Context(), "acme", "add")
	refused(t, "Tool", err, haft.CodeUnavailable)
	refused(t, "Commit", s.Commit(t.Context(), store.Batch{}), haft.CodeUnavailable)
}
