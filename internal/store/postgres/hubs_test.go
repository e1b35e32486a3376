package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/internal/event"
	"haft/internal/store/storetest"
)

// Two servers share a database, and each has a hub. Whoever watches one of them, from
// whatever cursor, and changes between them, gets the events of both: each once, and all
// in the same order.
func TestHubs_of_two_servers_publish_the_same(t *testing.T) {
	const writers, each, restless = 6, 40, 4
	url := storetest.Postgres(t)
	var hubs []*event.Hub
	for range 2 {
		h := event.New(event.Config{Log: storetest.Log{Store: open(t, url)}, Queue: 64})
		t.Cleanup(h.Close)
		hubs = append(hubs, h)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	seen := make([][]int64, restless+len(hubs))
	var watching sync.WaitGroup
	for i := range seen {
		watching.Go(func() {
			for n := i; len(seen[i]) < writers*each && ctx.Err() == nil; n++ {
				most, h := writers*each, hubs[n%len(hubs)]
				if i >= len(hubs) { // leaves early, and comes back to any of them
					most, h = 1+rand.IntN(30), hubs[rand.IntN(len(hubs))]
				}
				seen[i] = append(seen[i], watchSome(ctx, t, h, seen[i], min(most, writers*each-len(seen[i])))...)
			}
		})
	}
	var writing sync.WaitGroup
	for i := range writers {
		writing.Go(func() { publish(t, hubs[i%len(hubs)], haft.CallID(fmt.Sprint("c", i)), each) })
	}
	writing.Wait()
	watching.Wait()
	for i, list := range seen {
		if len(list) != writers*each || !slices.Equal(list, seen[0]) || !slices.IsSorted(list) ||
			len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Errorf("watcher %d got %d events of %d: %v; the first one %v", i, len(list), writers*each, list, seen[0])
		}
	}
}

// watchSome watches a hub after the last cursor that was seen, for so many events.
func watchSome(ctx context.Context, t *testing.T, h *event.Hub, seen []int64, most int) (got []int64) {
	after := int64(0)
	if len(seen) > 0 {
		after = seen[len(seen)-1]
	}
	for e, err := range h.Watch(ctx, event.Filter{Org: "acme"}, after) {
		if errors.Is(err, event.ErrSlow) {
			return got
		}
		if err != nil {
			t.Errorf("watch after %d: %v", after, err)
			return got
		}
		if got = append(got, e.Cursor); len(got) == most {
			return got
		}
	}
	return got
}

// publish publishes events of a call, one after the other, and looks at their numbers.
func publish(t *testing.T, h *event.Hub, call haft.CallID, n int) {
	for i := range n {
		e, err := h.Publish(t.Context(), haft.Event{Type: haft.EventProgress, Time: at, Call: call, Tool: "f",
			Principal: haft.Principal{Org: "acme", User: "ann"}})
		if err != nil || e.Seq != int64(i+1) {
			t.Errorf("event %d of %s has the number %d: %v", i+1, call, e.Seq, err)
		}
	}
}

// A hub that nobody watched knows where the log stands, whoever wrote it.
func TestHubs_begin_where_the_others_are(t *testing.T) {
	url := storetest.Postgres(t)
	a, b := event.New(event.Config{Log: storetest.Log{Store: open(t, url)}}),
		event.New(event.Config{Log: storetest.Log{Store: open(t, url)}})
	t.Cleanup(a.Close)
	t.Cleanup(b.Close)
	publish(t, b, "b", 1)
	publish(t, a, "a", 3)
	last, err := a.Cursor(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := b.Cursor(t.Context()); err != nil || got != last {
		t.Errorf("the other hub is at %d, %v; want %d", got, err, last)
	}
	got := make(chan int64)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	go func() {
		defer close(got)
		for e, err := range b.Watch(ctx, event.Filter{Org: "acme", Marks: true}, last) {
			if err != nil {
				t.Errorf("resume on the other hub: %v", err)
				return
			}
			got <- e.Cursor
		}
	}()
	if mark := <-got; mark != last {
		t.Errorf("the watch begins at %d, want %d", mark, last)
	}
	began := time.Now()
	publish(t, a, "c", 1)
	for cursor := range got {
		if cursor > last {
			t.Logf("an event of the other server took %v", time.Since(began))
			cancel()
		}
	}
	if ctx.Err() != context.Canceled { //nolint:errorlint // it is not wrapped
		t.Error("the event of the other server never came")
	}
}

// A call may move from one server to another and back: the numbers of its events go on.
func TestHubs_number_the_events_of_a_call_together(t *testing.T) {
	url := storetest.Postgres(t)
	a, b := event.New(event.Config{Log: storetest.Log{Store: open(t, url)}}),
		event.New(event.Config{Log: storetest.Log{Store: open(t, url)}})
	t.Cleanup(a.Close)
	t.Cleanup(b.Close)
	publish(t, a, "c", 2)
	e := haft.Event{Type: haft.EventProgress, Time: at, Call: "c", Tool: "f",
		Principal: haft.Principal{Org: "acme", User: "ann"}}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	want := int64(3)
	for got, err := range a.Watch(ctx, event.Filter{Org: "acme"}, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if got.Seq < want-1 {
			continue
		}
		if got.Seq != want-1 || want > 6 {
			break
		}
		h := b // who is told of an event writes the next one, in turns
		if want%2 == 0 {
			h = a
		}
		if next, err := h.Publish(ctx, e); err != nil || next.Seq != want {
			t.Errorf("the next event has the number %d, want %d: %v", next.Seq, want, err)
		}
		want++
	}
	if want != 7 {
		t.Errorf("the watch ended at %d", want)
	}
}
