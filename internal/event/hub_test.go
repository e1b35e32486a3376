package event_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"haft"
	"haft/internal/event"
	"haft/internal/event/eventtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var at = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// begin makes a hub whose cursors begin at 100.
func begin(t testing.TB, cfg event.Config) *event.Hub {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = eventtest.NewMemory(0, 100)
	}
	h := event.New(cfg)
	t.Cleanup(h.Close)
	return h
}

// made makes an event of a call "org/user/agent/call".
func made(t testing.TB, call string, typ haft.EventType) haft.Event {
	t.Helper()
	part := append(strings.Split(call, "/"), "", "", "")
	c := haft.Call{ID: haft.CallID(call), Tool: "add",
		Principal: haft.Principal{Org: part[0], User: part[1], Agent: part[2]}}
	e, err := haft.NewEvent(c, typ, at, json.RawMessage(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// publish publishes events of calls.
func publish(t testing.TB, h *event.Hub, calls ...string) {
	t.Helper()
	for _, call := range calls {
		if _, err := h.Publish(t.Context(), made(t, call, haft.EventProgress)); err != nil {
			t.Fatalf("Publish(%s): %v", call, err)
		}
	}
}

// read takes n events from a watch, as "cursor call#seq", and the error, if any.
func read(events iter.Seq2[haft.Event, error], n int) []string {
	var got []string
	if n == 0 {
		return nil
	}
	for e, err := range events {
		if err != nil {
			return append(got, haft.MessageOf(err))
		}
		got = append(got, fmt.Sprintf("%d %s#%d", e.Cursor, e.Call, e.Seq))
		if len(got) == n {
			break
		}
	}
	return got
}

func TestHub_Watch(t *testing.T) {
	const (
		gone = "events after that one are no longer kept; look at the calls and watch from now on"
		who  = "events are watched on behalf of an organisation"
	)
	published := []string{"a/ann/x/1", "b/bob/y/2", "a/ann/x/1", "a/amy/z/3", "a/ann/x/1"}
	tests := []struct {
		name   string
		filter event.Filter
		after  int64
		n      int
		want   []string
	}{
		{"all of an organisation", event.Filter{Org: "a"}, 0, 4,
			[]string{"101 a/ann/x/1#1", "103 a/ann/x/1#2", "104 a/amy/z/3#1", "105 a/ann/x/1#3"}},
		{"resumes after a cursor", event.Filter{Org: "a"}, 103, 2, []string{"104 a/amy/z/3#1", "105 a/ann/x/1#3"}},
		{"resumes after a cursor of somebody else's event", event.Filter{Org: "a"}, 102, 1,
			[]string{"103 a/ann/x/1#2"}},
		{"one user", event.Filter{Org: "a", User: "amy"}, 0, 1, []string{"104 a/amy/z/3#1"}},
		{"one agent", event.Filter{Org: "a", Agent: "z"}, 0, 1, []string{"104 a/amy/z/3#1"}},
		{"one call", event.Filter{Org: "a", Call: "a/amy/z/3"}, 0, 1, []string{"104 a/amy/z/3#1"}},
		{"a principal", event.For(haft.Principal{Org: "b", User: "bob", Agent: "y"}), 0, 1,
			[]string{"102 b/bob/y/2#1"}},
		{"no organisation", event.Filter{User: "ann"}, 0, 1, []string{who}},
		{"a cursor from before", event.Filter{Org: "a"}, 50, 1, []string{gone}},
		{"a cursor from before for somebody without events", event.Filter{Org: "c"}, 50, 1, []string{gone}},
		{"a cursor from the future", event.Filter{Org: "a"}, 1000, 1, []string{gone}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := begin(t, event.Config{})
			publish(t, h, published...)
			got := read(h.Watch(t.Context(), tt.filter, tt.after), tt.n)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Watch(%+v, %d) (-want +got):\n%s", tt.filter, tt.after, diff)
			}
			if n := h.Stats().Watchers; n != 0 {
				t.Errorf("%d watchers are left", n)
			}
		})
	}
}

func TestHub_Watch_another_tool_and_another_call_of_another_organisation_stay_away(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, event.Config{})
		publish(t, h, "a/ann/x/1", "b/bob/y/2")
		for _, f := range []event.Filter{{Org: "a", Tool: "sub"}, {Org: "a", Call: "b/bob/y/2"}, {Org: "c"}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			for e, err := range h.Watch(ctx, f, 0) {
				t.Errorf("Watch(%+v) gives %v, %v", f, e, err)
			}
			cancel()
		}
	})
}

func TestHub_Watch_only_what_is_to_come(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, event.Config{})
		publish(t, h, "a/ann/x/1")
		var got []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			got = read(h.Watch(t.Context(), event.Filter{Org: "a"}, -1), 2)
		}()
		synctest.Wait()
		publish(t, h, "a/ann/x/1", "a/ann/x/1")
		<-done
		if diff := cmp.Diff([]string{"102 a/ann/x/1#2", "103 a/ann/x/1#3"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestHub_Watch_a_slow_watcher_gets_an_error_and_costs_others_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := begin(t, event.Config{Queue: 4, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		next, stop := iter.Pull2(h.Watch(t.Context(), event.Filter{Org: "a"}, 0))
		defer stop()
		go func() {
			synctest.Wait() // it has read what is kept and waits
			publish(t, h, "a/ann/x/1")
		}()
		first, _, _ := next() // and now it reads no more
		fast := make(chan []string, 1)
		go func() { fast <- read(h.Watch(t.Context(), event.Filter{Org: "a"}, 0), 7) }()
		for range 6 {
			synctest.Wait() // the fast one keeps up
			publish(t, h, "a/ann/x/1")
		}
		if got := <-fast; len(got) != 7 {
			t.Errorf("the fast watcher got %v", got)
		}
		var got []int64
		var end error
		for {
			e, err, ok := next()
			if !ok {
				break
			}
			if end = err; err == nil {
				got = append(got, e.Seq)
			}
		}
		if want := []int64{2, 3, 4, 5}; !cmp.Equal(got, want) || first.Seq != 1 {
			t.Errorf("the slow watcher got %d, %v, want 1, %v", first.Seq, got, want)
		}
		if !errors.Is(end, event.ErrSlow) || haft.CodeOf(end) != haft.CodeUnavailable {
			t.Errorf("the slow watcher was told %v", end)
		}
		again := read(h.Watch(t.Context(), event.Filter{Org: "a"}, 105), 2)
		if want := []string{"106 a/ann/x/1#6", "107 a/ann/x/1#7"}; !cmp.Equal(again, want) {
			t.Errorf("it goes on with %v, want %v", again, want)
		}
		if s := h.Stats(); s.Dropped != 1 || s.Published != 7 || s.Watchers != 0 {
			t.Errorf("Stats() = %+v", s)
		}
		if !strings.Contains(log.String(), "too slow") || !strings.Contains(log.String(), "tenant=a") {
			t.Errorf("the operator reads %q", log.String())
		}
	})
}

func TestHub_Watch_reading_what_is_kept_is_never_too_slow(t *testing.T) {
	h := begin(t, event.Config{Queue: 2})
	publish(t, h, "a/ann/x/1")
	n := 0
	for e, err := range h.Watch(t.Context(), event.Filter{Org: "a"}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; e.Seq != int64(n) {
			t.Fatalf("event %d has seq %d", n, e.Seq)
		}
		if n == 1 { // while it is busy with the first one
			for range 1000 {
				publish(t, h, "a/ann/x/1")
			}
		}
		if n == 1001 {
			break
		}
	}
	if s := h.Stats(); n != 1001 || s.Watchers != 0 {
		t.Errorf("got %d events, %+v", n, s)
	}
}

func TestHub_Watch_says_what_is_gone(t *testing.T) {
	h := begin(t, event.Config{Log: eventtest.NewMemory(3, 100)})
	publish(t, h, "a/ann/x/1", "a/ann/x/1", "b/bob/y/2", "a/ann/x/1", "a/ann/x/1")
	for _, tt := range []struct {
		org   string
		after int64
		want  error
		n     int
	}{{"a", 100, event.ErrLost, 0}, {"a", 101, nil, 3}, {"a", 0, nil, 3}, {"b", 100, nil, 1}} {
		n := 0
		for _, err := range h.Watch(t.Context(), event.Filter{Org: tt.org}, tt.after) {
			if err != nil {
				if !errors.Is(err, tt.want) || haft.CodeOf(err) != haft.CodeConflict {
					t.Errorf("Watch(%s, %d): %v, want %v", tt.org, tt.after, err, tt.want)
				}
				break
			}
			if n++; n == tt.n {
				break
			}
		}
		if n != tt.n {
			t.Errorf("Watch(%s, %d) gave %d events, want %d", tt.org, tt.after, n, tt.n)
		}
	}
}

func TestHub_Watch_bounds_watchers(t *testing.T) {
	h := begin(t, event.Config{Watchers: 2, WatchersPerOrg: 1})
	publish(t, h, "a/ann/x/1", "b/bob/y/2")
	var stops []func()
	for _, org := range []string{"a", "b"} {
		next, stop := iter.Pull2(h.Watch(t.Context(), event.Filter{Org: org}, 0))
		stops = append(stops, stop)
		if _, err, _ := next(); err != nil {
			t.Fatalf("Watch(%s): %v", org, err)
		}
	}
	for org, want := range map[string]haft.Code{"c": haft.CodeUnavailable} {
		if got := read(h.Watch(t.Context(), event.Filter{Org: org}, 0), 1); len(got) != 1 ||
			got[0] != "too many are watching" {
			t.Errorf("Watch(%s) = %v, want %s", org, got, want)
		}
	}
	stops[1]()
	if got := read(h.Watch(t.Context(), event.Filter{Org: "a"}, 0), 1); len(got) != 1 ||
		got[0] != "the organisation watches 1 times already" {
		t.Errorf("Watch(a) = %v", got)
	}
	stops[0]()
}

func TestHub_Publish_refuses(t *testing.T) {
	h := begin(t, event.Config{})
	good := made(t, "a/ann/x/1", haft.EventOutput)
	for name, change := range map[string]func(*haft.Event){
		"a principal without organisation": func(e *haft.Event) { e.Principal.Org = "" },
		"no call":                          func(e *haft.Event) { e.Call = "" },
		"no type":                          func(e *haft.Event) { e.Type = "" },
		"data that is not JSON":            func(e *haft.Event) { e.Data = json.RawMessage(`{`) },
		"too much data":                    func(e *haft.Event) { e.Data = make(json.RawMessage, event.MaxData+1) },
	} {
		e := good
		change(&e)
		if _, err := h.Publish(t.Context(), e); err == nil || haft.CodeOf(err) == haft.CodeInternal {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e, err := h.Publish(ctx, good); err != nil || e.Seq != 1 || e.Cursor != 101 {
		t.Errorf("when the caller has left: %+v, %v", e, err)
	}
}

func TestHub_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := event.New(event.Config{Log: eventtest.NewMemory(0, 100)})
		got := make(chan []string, 1)
		go func() { got <- read(h.Watch(t.Context(), event.Filter{Org: "a"}, 0), 9) }()
		synctest.Wait()
		publish(t, h, "a/ann/x/1")
		h.Close()
		h.Close()
		if diff := cmp.Diff([]string{"101 a/ann/x/1#1", "the server is shutting down"}, <-got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if _, err := h.Publish(t.Context(), made(t, "a/ann/x/1", haft.EventOutput)); !errors.Is(err, event.ErrClosed) {
			t.Errorf("Publish after Close: %v", err)
		}
		if got := read(h.Watch(t.Context(), event.Filter{Org: "a"}, 0), 1); len(got) != 1 ||
			got[0] != "the server is shutting down" {
			t.Errorf("Watch after Close: %v", got)
		}
	})
}

// TestHub_hammer: many publish, watch, come, go and dawdle at once. Every watcher
// that keeps up gets each event of its organisation once, in order.
func TestHub_hammer(t *testing.T) {
	const orgs, calls, events = 4, 8, 200
	h := begin(t, event.Config{Queue: orgs * calls * events, Log: eventtest.NewMemory(calls*events, 100)})
	var watching, publishing sync.WaitGroup
	for org := range orgs {
		for w := range 3 {
			watching.Go(func() { checkOrder(t, h, fmt.Sprint("org", org), calls*events, w == 0) })
		}
		for call := range calls {
			publishing.Go(func() {
				id := fmt.Sprintf("org%d/u/a/%d", org, call)
				for i := range events {
					typ := haft.EventProgress
					if i == events-1 {
						typ = haft.EventCompleted
					}
					e, err := h.Publish(t.Context(), made(t, id, typ))
					if err != nil || e.Seq != int64(i+1) {
						t.Errorf("Publish(%s, %d) = seq %d, %v", id, i, e.Seq, err)
					}
				}
			})
		}
	}
	publishing.Wait()
	watching.Wait()
	if s := h.Stats(); s != (event.Stats{Published: orgs * calls * events}) {
		t.Errorf("Stats() = %+v", s)
	}
}

// checkOrder watches until n events have come. A restless watcher leaves after
// every 100 and comes back.
func checkOrder(t *testing.T, h *event.Hub, org string, n int, restless bool) {
	seqs := map[haft.CallID]int64{}
	var cursor int64
	got := 0
	for got < n {
		for e, err := range h.Watch(t.Context(), event.Filter{Org: org}, cursor) {
			if err != nil {
				t.Errorf("Watch(%s, %d): %v", org, cursor, err)
				return
			}
			if e.Principal.Org != org || e.Cursor <= cursor || e.Seq != seqs[e.Call]+1 {
				t.Errorf("%s got %+v after cursor %d and seq %d", org, e, cursor, seqs[e.Call])
				return
			}
			cursor, seqs[e.Call] = e.Cursor, e.Seq
			if got++; got == n || restless && got%100 == 0 {
				break
			}
		}
	}
}

func BenchmarkHub_Publish(b *testing.B) {
	h := begin(b, event.Config{})
	e := made(b, "a/ann/x/1", haft.EventProgress)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := h.Publish(b.Context(), e); err != nil {
				b.Fatal(err)
			}
		}
	})
}
