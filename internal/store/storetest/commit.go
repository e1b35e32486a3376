package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/event"
	"haft/internal/limit"
	"haft/internal/store"
)

func commitKeeps(t testing.TB, s *store.Store) {
	ctx := t.Context()
	r := record("acme", "c1", haft.StatusRunning)
	r.Call.Env, r.Call.Turn, r.Call.Parent, r.Call.Chain = map[string]string{"A": "b"}, "t1", "c0", "ch1"
	r.Call.Args = json.RawMessage(`{"big":123456789012345678901234567890.10,"t":"<é&\u0000>"}`)
	r.Call.Principal.Scope = []string{}
	r.Redacted, r.ToolID, r.Digest, r.Tries, r.ArgsDigest, r.Started = true, "tool_1", "sha256:1", 2, "sha256:2",
		at.Add(time.Second)
	r.Sealed = json.RawMessage(`{"args":{"a":1.50}}`)
	a := haft.Approval{ID: "a1", Call: "c1", Tool: "add", State: haft.ApprovalPending, Binds: "sha256:3",
		Requester: principal("acme"), Created: at, Expires: at.Add(time.Hour)}
	c := haft.Chain{ID: "ch1", Principal: principal("acme"),
		Plan: haft.Plan{Steps: []haft.Step{{ID: "s", Tool: "add"}}}, Status: haft.StatusRunning, Created: at,
		Updated: at}
	e := happened("acme", "c1", 1, 1)
	commit(t, s, store.Batch{
		Records: []haft.Record{r}, Events: []haft.Event{e}, Audit: []audit.Entry{entry("acme", "call.started")},
		Approvals: []haft.Approval{a}, Chains: []haft.Chain{c},
		Limits: []limit.State{{Key: "k", Tokens: 1.25, Used: 3, At: at}},
	})
	got, err := s.Calls.Record(ctx, "acme", "c1")
	if err != nil {
		t.Fatalf("Record: %v", err)
	}
	same(t, "Record", got, &r)
	gotA, err := s.Approvals.Approval(ctx, "acme", "a1")
	if err != nil {
		t.Fatalf("Approval: %v", err)
	}
	same(t, "Approval", gotA, &a)
	gotC, err := s.Chains.Chain(ctx, "acme", "ch1")
	if err != nil {
		t.Fatalf("Chain: %v", err)
	}
	same(t, "Chain", gotC, &c)
	events, err := s.Events.EventsAfter(ctx, event.Filter{Org: "acme"}, 0, 10)
	if err != nil || len(events) != 1 {
		t.Fatalf("EventsAfter = %v, %v", events, err)
	}
	e.Cursor = events[0].Cursor
	same(t, "EventsAfter", events[0], e)
	entries, err := s.Audit.AuditEntries(ctx, "acme", 0, 10)
	if err != nil {
		t.Fatalf("AuditEntries: %v", err)
	}
	same(t, "AuditEntries", entries, []audit.Entry{audit.Link(audit.Genesis("acme"), entry("acme", "call.started"))})
	limits, err := s.Limits.Limits(ctx, []string{"k", "other"})
	if err != nil {
		t.Fatalf("Limits: %v", err)
	}
	same(t, "Limits", limits, []limit.State{{Key: "k", Tokens: 1.25, Used: 3, At: at}})
}

func commitAllOrNothing(t testing.TB, s *store.Store) {
	commit(t, s, store.Batch{Records: []haft.Record{record("acme", "done", haft.StatusSuccess)},
		Audit: []audit.Entry{entry("acme", "one")}})
	before, _, err := s.Events.LastEvents(t.Context(), nil)
	if err != nil {
		t.Fatalf("LastEvents: %v", err)
	}
	bad := store.Batch{
		Records: []haft.Record{record("acme", "c1", haft.StatusRunning), record("acme", "done", haft.StatusRunning)},
		Events:  []haft.Event{happened("acme", "c1", before+1, 1)},
		Audit:   []audit.Entry{entry("acme", "two")},
		Approvals: []haft.Approval{{ID: "a1", Call: "c1", State: haft.ApprovalPending, Requester: principal("acme"),
			Created: at}},
		Limits: []limit.State{{Key: "k", Tokens: 1, At: at}},
		Chains: []haft.Chain{{ID: "ch", Principal: principal("acme"), Status: haft.StatusRunning, Created: at}},
	}
	refused(t, "Commit of a call that has ended", s.Commit(t.Context(), bad), haft.CodeConflict)
	for name, broken := range map[string]store.Batch{
		"a record without organisation": {Records: []haft.Record{{Call: haft.Call{ID: "x"},
			Status: haft.StatusRunning}}},
		"a record without id":           {Records: []haft.Record{record("acme", "", haft.StatusRunning)}},
		"an event without organisation": {Events: []haft.Event{{Call: "x", Type: haft.EventProgress}}},
		"an entry without organisation": {Audit: []audit.Entry{{Kind: "x"}}},
		"an approval without id": {Approvals: []haft.Approval{{State: haft.ApprovalPending,
			Requester: principal("acme")}}},
		"a chain without organisation": {Chains: []haft.Chain{{ID: "x", Status: haft.StatusRunning}}},
	} {
		broken.Limits = []limit.State{{Key: "k", Tokens: 1, At: at}}
		refused(t, "Commit of "+name, s.Commit(t.Context(), broken), haft.CodeInvalid)
	}
	_, err = s.Calls.Record(t.Context(), "acme", "c1")
	refused(t, "Record of a batch that failed", err, haft.CodeNotFound)
	_, err = s.Approvals.Approval(t.Context(), "acme", "a1")
	refused(t, "Approval of a batch that failed", err, haft.CodeNotFound)
	_, err = s.Chains.Chain(t.Context(), "acme", "ch")
	refused(t, "Chain of a batch that failed", err, haft.CodeNotFound)
	limits, err := s.Limits.Limits(t.Context(), []string{"k"})
	after, _, err2 := s.Events.LastEvents(t.Context(), nil)
	head, err3 := s.Audit.AuditHead(t.Context(), "acme")
	if err := errors.Join(err, err2, err3); err != nil || len(limits) != 0 || after != before || head.Seq != 1 {
		t.Errorf("a batch that failed left limits %v, cursor %d (was %d), audit %d: %v", limits, after, before,
			head.Seq, err)
	}
	commit(t, s, store.Batch{Audit: []audit.Entry{entry("acme", "two")}})
	verify(t, s, "acme", 2)
}

func commitSeals(t testing.TB, s *store.Store) {
	r := record("acme", "c1", haft.StatusQueued)
	r.Sealed = json.RawMessage(`{"secret":1}`)
	sealed := func(status haft.Status, give json.RawMessage, want string) {
		t.Helper()
		r.Status, r.Sealed = status, give
		commit(t, s, store.Batch{Records: []haft.Record{r}})
		got, err := s.Calls.Record(t.Context(), "acme", "c1")
		if err != nil || string(got.Sealed) != want || got.Status != status {
			t.Errorf("after %s the call is %+v, %v, want %q sealed", status, got, err, want)
		}
	}
	sealed(haft.StatusQueued, r.Sealed, `{"secret":1}`)
	sealed(haft.StatusPending, nil, `{"secret":1}`)
	list, err := s.Calls.Records(t.Context(), haft.CallFilter{Org: "acme"})
	if err != nil || len(list) != 1 || list[0].Sealed != nil {
		t.Errorf("a list shows what is sealed: %+v, %v", list, err)
	}
	sealed(haft.StatusQueued, nil, `{"secret":1}`) // only so it goes on: a person has agreed
	sealed(haft.StatusRunning, json.RawMessage(`{"secret":2}`), `{"secret":2}`)
	sealed(haft.StatusSuccess, json.RawMessage(`{"secret":3}`), "")
}

func commitFinal(t testing.TB, s *store.Store) {
	for _, from := range haft.Statuses() {
		for _, to := range haft.Statuses() {
			r := record("acme", string(from+"-"+to), from)
			commit(t, s, store.Batch{Records: []haft.Record{r}})
			r.Status = to
			err := s.Commit(t.Context(),
				store.Batch{Records: []haft.Record{r, record("acme", "other", haft.StatusRunning)}})
			if from.Final() || from == haft.StatusPending && to != haft.StatusQueued {
				refused(t, "Commit from "+string(from)+" to "+string(to), err, haft.CodeConflict)
				stale, ok := errors.AsType[*store.Stale](err)
				if ok && from == to { // it is there already
					stale.Calls, stale.Kept = stale.Kept, stale.Calls
				}
				if !ok || !slices.Equal(stale.Calls, []haft.CallID{r.Call.ID}) || len(stale.Kept) > 0 {
					t.Errorf("from %s to %s: the error does not name the call: %v", from, to, err)
				}
			} else if err != nil {
				t.Errorf("Commit from %s to %s: %v", from, to, err)
			}
		}
	}
	both := []haft.Record{record("acme", "twice", haft.StatusSuccess), record("acme", "twice", haft.StatusRunning)}
	refused(t, "Commit of both at once", s.Commit(t.Context(), store.Batch{Records: both}), haft.CodeConflict)
	slices.Reverse(both)
	commit(t, s, store.Batch{Records: both})
	if got, err := s.Calls.Record(t.Context(), "acme", "twice"); err != nil || got.Status != haft.StatusSuccess {
		t.Errorf("of two the last one counts: %+v, %v", got, err)
	}
	later := record("acme", "twice", haft.StatusError)
	later.Created = later.Created.Add(time.Second)
	for name, r := range map[string]haft.Record{
		"of another organisation": record("other", "twice", haft.StatusError), "of another time": later,
	} {
		err := s.Commit(t.Context(),
			store.Batch{Records: []haft.Record{r, record("acme", "other", haft.StatusRunning)}})
		refused(t, "Commit of the call "+name, err, haft.CodeConflict)
		if stale, ok := errors.AsType[*store.Stale](err); !ok || !slices.Equal(stale.Calls, []haft.CallID{"twice"}) {
			t.Errorf("the error about the call %s does not name it: %v", name, err)
		}
	}
	c := haft.Chain{ID: "ch", Principal: principal("acme"), Status: haft.StatusSuccess, Created: at}
	commit(t, s, store.Batch{Chains: []haft.Chain{c}})
	c.Status = haft.StatusRunning
	refused(t, "Commit of a chain that has ended", s.Commit(t.Context(), store.Batch{Chains: []haft.Chain{c}}),
		haft.CodeConflict)
}

func commitMany(t testing.TB, s *store.Store) {
	total, cursor := 0, int64(0)
	for _, n := range []int{1, 2, 3, 7, 8, 63, 64, 65, 100, 0, 200} {
		var b store.Batch
		for i := range n {
			id := count("c", total+n-i) // not in order
			b.Records = append(b.Records, record("acme", id, haft.StatusRunning))
			cursor++
			b.Events = append(b.Events, happened("acme", id, cursor, 1))
			b.Audit = append(b.Audit, entry("acme", "call.started"))
			b.Limits = append(b.Limits, limit.State{Key: id, Used: int64(i), At: at})
		}
		commit(t, s, b)
		total += n
	}
	verify(t, s, "acme", total)
	n := 0
	for before := haft.CallID(""); ; {
		list, err := s.Calls.Records(t.Context(), haft.CallFilter{Org: "acme", Before: before, Limit: 100})
		if err != nil {
			t.Fatalf("Records: %v", err)
		}
		if n += len(list); len(list) < 100 {
			break
		}
		before = list[len(list)-1].Call.ID
	}
	if last, _, err := s.Events.LastEvents(t.Context(), nil); err != nil || n != total || last != cursor {
		t.Errorf("%d calls and cursor %d are kept of %d, %v", n, last, total, err)
	}
}

// odd are texts that databases stumble over.
var odd = []string{"'; DROP TABLE calls; --", `"`, `\`, "%", "_", "é", "e\u0301", "日本", "\U0001f528", "a\x00b",
	"\xff\xfe", "�", strings.Repeat("x", 10_000), " ", "NULL", "$1", "?"}

func commitText(t testing.TB, s *store.Store) {
	for i, text := range odd {
		r := record("acme", count("c", i), haft.StatusRunning)
		r.Call.Tool, r.Call.Turn, r.Call.Principal.User, r.Call.IdempotencyKey = text, text, text, text
		e := happened("acme", count("c", i), int64(i+1), 1)
		e.Tool, e.Principal.User = text, text
		a := entry("acme", "call.started")
		a.Tool, a.Actor.User = text, text
		commit(t, s, store.Batch{Records: []haft.Record{r}, Events: []haft.Event{e}, Audit: []audit.Entry{a}})
		for _, f := range []haft.CallFilter{{Org: "acme", Tool: text}, {Org: "acme", User: text},
			{Org: "acme", Turn: text}} {
			list, err := s.Calls.Records(t.Context(), f)
			if err != nil || ids(list) != count("c", i) {
				t.Errorf("Records(%.20q) = %q, %v", text, ids(list), err)
			}
		}
		events, err := s.Events.EventsAfter(t.Context(), event.Filter{Org: "acme", User: text, Tool: text}, 0, 10)
		if err != nil || len(events) != 1 || strings.ToValidUTF8(events[0].Tool,
			"") != strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\xff", "") && text != "\xff\xfe" {
			t.Errorf("EventsAfter(%.20q) = %+v, %v", text, events, err)
		}
	}
	verify(t, s, "acme", len(odd))
	r := record("acme", "bad", haft.StatusRunning)
	r.Sealed = json.RawMessage("\"\xff\"")
	refused(t, "Commit of arguments that are not UTF-8", s.Commit(t.Context(), store.Batch{Records: []haft.Record{r}}),
		haft.CodeInvalid)
	e := happened("acme", "c", 1000, 1)
	e.Data = json.RawMessage("\"\xff\"")
	a := entry("acme", "x")
	a.Body = json.RawMessage("\"\xff\"")
	commit(t, s, store.Batch{Events: []haft.Event{e}, Audit: []audit.Entry{a}})
	verify(t, s, "acme", len(odd)+1)
}

func commitHuge(t testing.TB, s *store.Store) {
	// The value alone is too large, so that all else has to go before it does. More
	// would say no more, and every byte is encoded four times.
	const some = 1000
	r := record("acme", "c1", haft.StatusSuccess)
	r.Result = &haft.Result{
		Call: "c1", Status: haft.StatusSuccess,
		Value:  json.RawMessage(`"` + strings.Repeat("v", store.MaxRecord) + `"`),
		Stdout: strings.Repeat("o", some), Artifacts: []haft.Artifact{{Name: "f", Size: 1, Data: make([]byte, some)}},
	}
	commit(t, s, store.Batch{Records: []haft.Record{r}})
	got, err := s.Calls.Record(t.Context(), "acme", "c1")
	if err != nil {
		t.Fatalf("Record: %v", err)
	}
	res := got.Result
	if string(res.Value) != "null" || res.Stdout != "" || len(res.Artifacts) != 1 || res.Artifacts[0].Data != nil {
		t.Errorf("what is too large is kept")
	}
	if want := (haft.Truncated{Value: store.MaxRecord + 2, Stdout: some, Artifacts: 1}); res.Truncated != want {
		t.Errorf("Truncated = %+v, want %+v", res.Truncated, want)
	}
	if len(r.Result.Stdout) != some || r.Result.Artifacts[0].Data == nil {
		t.Error("Commit changed the caller's result")
	}
	r = record("acme", "c2", haft.StatusQueued)
	r.Sealed = make(json.RawMessage, store.MaxSealed+1)
	refused(t, "Commit of arguments that are too large", s.Commit(t.Context(), store.Batch{Records: []haft.Record{r}}),
		haft.CodeInvalid)
	r.Sealed, r.Call.Args = nil, json.RawMessage(`"`+strings.Repeat("a", store.MaxRecord)+`"`)
	refused(t, "Commit of a record that is too large", s.Commit(t.Context(), store.Batch{Records: []haft.Record{r}}),
		haft.CodeInvalid)
}

func commitCancelled(t testing.TB, s *store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := store.Batch{Records: []haft.Record{record("acme", "c1", haft.StatusRunning)},
		Audit: []audit.Entry{entry("acme", "x")}}
	refused(t, "Commit after cancel", s.Commit(ctx, b), haft.CodeUnavailable)
	_, err := s.Calls.Record(t.Context(), "acme", "c1")
	refused(t, "Record", err, haft.CodeNotFound)
	// Cancelled at any moment, a batch is kept as a whole or not at all.
	for i := range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
		id := count("r", i)
		_ = s.Commit(ctx, store.Batch{Records: []haft.Record{record("acme", id, haft.StatusRunning)},
			Limits: []limit.State{{Key: id, At: at}}})
		cancel()
		_, err := s.Calls.Record(t.Context(), "acme", haft.CallID(id))
		limits, err2 := s.Limits.Limits(t.Context(), []string{id})
		if err2 != nil || (err == nil) != (len(limits) == 1) {
			t.Fatalf("cancelled after %d: record %v, limits %v, %v", i, err, limits, err2)
		}
	}
	commit(t, s, b)
	verify(t, s, "acme", 1)
}

func commitStates(t testing.TB, s *store.Store) {
	c := haft.Chain{ID: "ch", Principal: principal("acme"), Status: haft.StatusRunning, Created: at}
	for i := range 3 {
		c.Turn = count("t", i)
		commit(t, s, store.Batch{
			Chains: []haft.Chain{c, {ID: haft.ChainID(count("o", i)), Principal: principal("acme"),
				Status: haft.StatusRunning, Created: at.Add(time.Duration(i) * time.Second)}},
			// The latest counts: a later time, or at the same time more that is used.
			Limits: []limit.State{{Key: "k", Used: int64(i), At: at},
				{Key: "k", Used: 100, At: at.Add(-time.Minute)}, {Key: "j", Used: 7, At: at.Add(-time.Hour)}},
		})
	}
	got, err := s.Chains.Chain(t.Context(), "acme", "ch")
	if err != nil || got.Turn != "t00002" {
		t.Errorf("Chain = %+v, %v", got, err)
	}
	commit(t, s, store.Batch{Limits: []limit.State{{Key: "k", Used: 1, At: at}}})
	limits, err := s.Limits.Limits(t.Context(), []string{"k"})
	if err != nil || len(limits) != 1 || limits[0].Used != 2 {
		t.Errorf("Limits = %+v, %v", limits, err)
	}
	c.Status = haft.StatusSuccess
	commit(t, s, store.Batch{Chains: []haft.Chain{c}})
	open, err := s.Chains.OpenChains(t.Context(), 2)
	if err != nil || len(open) != 2 || open[0].ID != "o00000" || open[1].ID != "o00001" {
		t.Errorf("OpenChains = %+v, %v", open, err)
	}
	n, err := s.Limits.PruneLimits(t.Context(), at)
	limits, err2 := s.Limits.Limits(t.Context(), []string{"k", "j"})
	if err := errors.Join(err, err2); err != nil || n != 1 || len(limits) != 1 || limits[0].Key != "k" {
		t.Errorf("PruneLimits = %d, left %+v, %v", n, limits, err)
	}
}
