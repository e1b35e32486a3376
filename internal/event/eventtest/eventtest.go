// Package eventtest is the conformance suite of [event.Log].
//
// A store calls [TestLog] with a function that opens an empty log.
package eventtest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/internal/event"
)

// TestLog tests a log against its contract. open returns an empty one, and cleans up after
// itself.
func TestLog(t *testing.T, open func(t *testing.T) event.Log) {
	t.Run("keeps_every_field", func(t *testing.T) { keeps(t, open(t)) })
	t.Run("filters", func(t *testing.T) { filters(t, open(t)) })
	t.Run("pages_in_order", func(t *testing.T) { pages(t, open(t)) })
	t.Run("knows_where_it_stands", func(t *testing.T) { stands(t, open(t)) })
	t.Run("reads_while_it_is_written", func(t *testing.T) { together(t, open(t)) })
	t.Run("serves_a_hub", func(t *testing.T) { serves(t, open(t)) })
}

// made makes an event of a call of ann in org.
func made(org string, call haft.CallID, cursor, seq int64) haft.Event {
	return haft.Event{
		Seq: seq, Cursor: cursor, Type: haft.EventProgress, Call: call, Tool: "add",
		Time:      time.Date(2026, 11, 15, 12, 0, 0, 1000, time.UTC),
		Principal: haft.Principal{Org: org, User: "ann", Agent: "x", Roles: []string{"a", "b"}},
		Data:      json.RawMessage(`{"text": "<é>", "n": 1.50}`),
	}
}

// last returns the cursor that a log begins with.
func last(t *testing.T, l event.Log) int64 {
	t.Helper()
	cursor, _, err := l.Last(t.Context(), nil)
	if err != nil {
		t.Fatalf("Last: %v", err)
	}
	return cursor
}

// put appends events.
func put(t *testing.T, l event.Log, events ...haft.Event) {
	t.Helper()
	if err := l.Append(t.Context(), events); err != nil {
		t.Fatalf("Append: %v", err)
	}
}

func keeps(t *testing.T, l event.Log) {
	from := last(t, l)
	want := made("acme", "c1", from+1, 1)
	bare := haft.Event{Seq: 1, Cursor: from + 2, Type: haft.EventExecuting, Time: want.Time, Call: "c2",
		Principal: haft.Principal{Org: "acme"}}
	put(t, l, want, bare)
	got, err := l.After(t.Context(), event.Filter{Org: "acme"}, 0, 10)
	if err != nil || len(got) != 2 {
		t.Fatalf("After = %v, %v", got, err)
	}
	for i, e := range []haft.Event{want, bare} {
		if g, w := text(t, got[i]), text(t, e); g != w {
			t.Errorf("event %d is kept as %s, want %s", i, g, w)
		}
	}
}

// text is an event as APIs send it.
func text(t *testing.T, e haft.Event) string {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatalf("Marshal: %v", err)
	}
	return string(b)
}

func filters(t *testing.T, l event.Log) {
	from := last(t, l)
	all := make([]haft.Event, 5)
	for i := range all {
		all[i] = made("acme", haft.CallID(fmt.Sprint("c", i)), from+int64(i)+1, 1)
	}
	all[1].Principal.User, all[2].Principal.Agent, all[3].Tool, all[4].Principal.Org = "bob", "y", "sub", "other"
	put(t, l, all...)
	for _, tt := range []struct {
		f    event.Filter
		want string
	}{
		{event.Filter{Org: "acme"}, "c0 c1 c2 c3"},
		{event.Filter{Org: "other"}, "c4"},
		{event.Filter{Org: "nobody"}, ""},
		{event.Filter{Org: "ACME"}, ""},
		{event.Filter{Org: "acm%"}, ""},
		{event.Filter{Org: "acme", User: "bob"}, "c1"},
		{event.Filter{Org: "acme", Agent: "y"}, "c2"},
		{event.Filter{Org: "acme", Tool: "sub"}, "c3"},
		{event.Filter{Org: "acme", Call: "c2"}, "c2"},
		{event.Filter{Org: "acme", Call: "c4"}, ""},
		{event.Filter{Org: "acme", User: "ann", Agent: "x", Tool: "add", Call: "c0"}, "c0"},
	} {
		got, err := l.After(t.Context(), tt.f, 0, 10)
		if s := ids(got); err != nil || s != tt.want {
			t.Errorf("After(%+v) = %q, %v, want %q", tt.f, s, err, tt.want)
		}
	}
}

// ids lists the calls of events.
func ids(events []haft.Event) string {
	s := ""
	for i, e := range events {
		if i > 0 {
			s += " "
		}
		s += string(e.Call)
	}
	return s
}

func pages(t *testing.T, l event.Log) {
	from := last(t, l)
	for i := range int64(10) {
		put(t, l, made("acme", "c1", from+2*i+1, i+1), made("other", "c2", from+2*i+2, i+1))
	}
	var seq int64
	for after := from; ; {
		page, err := l.After(t.Context(), event.Filter{Org: "acme"}, after, 4)
		if err != nil {
			t.Fatalf("After(%d): %v", after, err)
		}
		for _, e := range page {
			if seq++; e.Seq != seq || e.Cursor <= after {
				t.Fatalf("after %d came %+v, want seq %d", after, e, seq)
			}
			after = e.Cursor
		}
		if len(page) < 4 {
			break
		}
	}
	if seq != 10 {
		t.Errorf("there were %d events, want 10", seq)
	}
	if rest, err := l.After(t.Context(), event.Filter{Org: "acme"}, last(t, l), 4); err != nil || len(rest) != 0 {
		t.Errorf("after the last one: %v, %v", rest, err)
	}
}

func stands(t *testing.T, l event.Log) {
	from := last(t, l)
	put(t, l, made("acme", "c1", from+1, 1), made("acme", "c1", from+2, 2), made("other", "c2", from+5, 1))
	cursor, seqs, err := l.Last(t.Context(), []haft.CallID{"c1", "c2", "new"})
	if err != nil || cursor != from+5 || seqs["c1"] != 2 || seqs["c2"] != 1 || seqs["new"] != 0 {
		t.Errorf("Last = %d, %v, %v, want %d", cursor, seqs, err, from+5)
	}
}

func together(t *testing.T, l event.Log) {
	from := last(t, l)
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for ctx.Err() == nil {
				got, err := l.After(t.Context(), event.Filter{Org: "acme"}, 0, 1000)
				if err != nil {
					t.Errorf("After: %v", err)
					return
				}
				if len(got)%2 != 0 {
					t.Errorf("half a batch is seen: %d events", len(got))
					return
				}
			}
		})
	}
	for i := range int64(100) {
		put(t, l, made("acme", "c1", from+2*i+1, 2*i+1), made("acme", "c1", from+2*i+2, 2*i+2))
	}
	stop()
	readers.Wait()
}

func serves(t *testing.T, l event.Log) {
	var cursor, seq int64
	for range 2 { // two lives
		h := event.New(event.Config{Log: l})
		for range 3 {
			e, err := h.Publish(t.Context(), made("acme", "c1", 0, 0))
			if err != nil {
				t.Fatalf("Publish: %v", err)
			}
			if seq++; e.Seq != seq || e.Cursor <= cursor {
				t.Errorf("Publish = %+v, want seq %d after cursor %d", e, seq, cursor)
			}
			cursor = e.Cursor
		}
		n := int64(0)
		for e, err := range h.Watch(t.Context(), event.Filter{Org: "acme"}, 0) {
			if err != nil {
				t.Fatalf("Watch: %v", err)
			}
			if n++; e.Seq != n {
				t.Errorf("event %d has seq %d", n, e.Seq)
			}
			if n == seq {
				break
			}
		}
		h.Close()
	}
}
