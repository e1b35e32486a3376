package event_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/event"
	"haft/internal/event/eventtest"
)

// frail is a durable log that fails on command.
type frail struct {
	mu     sync.Mutex
	events []haft.Event
	writes int
	delay  time.Duration
	// fail makes the next Append fail; kept says that it keeps the events all
	// the same.
	fail, kept bool
	// deaf makes Last fail.
	deaf bool
	// panics makes the next Append panic.
	panics bool
}

var errDisk = errors.New("disk full")

func (l *frail) Append(ctx context.Context, events []haft.Event) error {
	if l.delay > 0 {
		select {
		case <-time.After(l.delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes++
	if l.panics {
		l.panics = false
		panic("log")
	}
	failing := l.fail
	l.fail = false
	if !failing || l.kept {
		l.events = append(l.events, events...)
	}
	if failing {
		return errDisk
	}
	return nil
}

func (l *frail) After(_ context.Context, f event.Filter, after int64, limit int) ([]haft.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []haft.Event
	for _, e := range l.events {
		if e.Cursor > after && f.Fits(e) && len(found) < limit {
			found = append(found, e)
		}
	}
	return found, nil
}

func (l *frail) Last(_ context.Context, calls []haft.CallID) (int64, map[haft.CallID]int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deaf {
		return 0, nil, errDisk
	}
	var cursor int64
	seqs := map[haft.CallID]int64{}
	for _, e := range l.events {
		cursor = e.Cursor
		for _, id := range calls {
			if id == e.Call {
				seqs[id] = e.Seq
			}
		}
	}
	return cursor, seqs, nil
}

func TestHub_Publish_says_when_the_log_fails(t *testing.T) {
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("kept=%v", kept), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &frail{kept: kept, fail: true}
				h := begin(t, event.Config{Log: log})
				want := []string{"1 a/ann/x/1#1", "2 a/ann/x/1#2", "3 a/ann/x/1#3"}
				live := make(chan []string, 1)
				go func() { live <- read(h.Watch(t.Context(), event.Filter{Org: "a"}, 0), 3) }()
				synctest.Wait()
				e := made(t, "a/ann/x/1", haft.EventProgress)
				if _, err := h.Publish(t.Context(), e); !errors.Is(err, errDisk) {
					t.Errorf("Publish = %v, want %v", err, errDisk)
				}
				publish(t, h, "a/ann/x/1")
				log.mu.Lock()
				log.fail = true
				log.mu.Unlock()
				if _, err := h.Publish(t.Context(), e); !errors.Is(err, errDisk) {
					t.Errorf("Publish = %v, want %v", err, errDisk)
				}
				publish(t, h, "a/ann/x/1", "a/ann/x/1", "a/ann/x/1")
				if diff := cmp.Diff(want, <-live); diff != "" {
					t.Errorf("a watcher got (-want +got):\n%s", diff)
				}
				if s := h.Stats(); s.Refused != 2 {
					t.Errorf("Stats() = %+v", s)
				}
			})
		})
	}
}

func TestHub_goes_on_where_an_earlier_process_stopped(t *testing.T) {
	log := &frail{}
	h := begin(t, event.Config{Log: log})
	publish(t, h, "a/ann/x/1", "a/ann/x/1", "b/bob/y/2")
	h.Close()
	h = begin(t, event.Config{Log: log})
	publish(t, h, "a/ann/x/1")
	want := []string{"2 a/ann/x/1#2", "4 a/ann/x/1#3"}
	if got := read(h.Watch(t.Context(), event.Filter{Org: "a"}, 1), 2); !cmp.Equal(got, want) {
		t.Errorf("Watch = %v, want %v", got, want)
	}
	third := begin(t, event.Config{Log: log}) // it watches before it publishes
	if got := read(third.Watch(t.Context(), event.Filter{Org: "a"}, 1), 2); !cmp.Equal(got, want) {
		t.Errorf("Watch = %v, want %v", got, want)
	}
}

func TestHub_a_deaf_log_is_an_error_for_both_sides(t *testing.T) {
	h := begin(t, event.Config{Log: &frail{deaf: true}})
	if _, err := h.Publish(t.Context(), made(t, "a/ann/x/1", haft.EventOutput)); !errors.Is(err, errDisk) {
		t.Errorf("Publish = %v", err)
	}
	for _, err := range h.Watch(t.Context(), event.Filter{Org: "a"}, 0) {
		if !errors.Is(err, errDisk) {
			t.Errorf("Watch = %v", err)
		}
	}
}

func TestHub_a_panic_of_the_log_locks_nobody_out(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &frail{delay: time.Second}
		h := begin(t, event.Config{Log: log})
		var all sync.WaitGroup
		all.Go(func() { publish(t, h, "a/ann/x/1") }) // keeps the log busy
		synctest.Wait()
		panicked, failed := 0, 0
		var mu sync.Mutex
		for range 3 { // share the next batch
			all.Go(func() {
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					if recover() != nil {
						panicked++
					}
				}()
				if _, err := h.Publish(t.Context(), made(t, "a/ann/x/1", haft.EventOutput)); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed++
				}
			})
		}
		synctest.Wait()
		<-time.After(time.Second + time.Millisecond) // the first batch is through
		log.mu.Lock()
		log.panics = true
		log.mu.Unlock()
		all.Wait()
		if panicked != 1 || failed != 2 {
			t.Errorf("%d panicked and %d were told, want 1 and 2", panicked, failed)
		}
		e, err := h.Publish(t.Context(), made(t, "a/ann/x/1", haft.EventOutput))
		if err != nil || e.Seq != 2 {
			t.Errorf("Publish = %+v, %v", e, err)
		}
	})
}

func TestHub_Publish_goes_on_when_its_caller_leaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begin(t, event.Config{Log: &frail{delay: time.Second}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if e, err := h.Publish(ctx, made(t, "a/ann/x/1", haft.EventCompleted)); err != nil || e.Seq != 1 {
			t.Errorf("Publish = %+v, %v", e, err)
		}
	})
}

func TestHub_many_publishers_share_writes_and_a_stuck_log_is_given_up(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &frail{delay: time.Second}
		h := begin(t, event.Config{Log: log, Patience: time.Minute})
		start := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() { publish(t, h, fmt.Sprintf("a/ann/x/%d", i)) })
		}
		all.Wait()
		if took := time.Since(start); took > 2*time.Second || log.writes > 2 {
			t.Errorf("100 events took %v and %d writes", took, log.writes)
		}
		log.delay = time.Hour
		start = time.Now()
		_, err := h.Publish(t.Context(), made(t, "a/ann/x/1", haft.EventOutput))
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
			t.Errorf("a stuck log: %v after %v", err, took)
		}
		log.delay = 0
	})
}

// TestMemory_forgets_the_quietest_organisation: the number of organisations is
// bounded, and one that was pushed out is told so.
func TestMemory_forgets_the_quietest_organisation(t *testing.T) {
	h := begin(t, event.Config{Log: eventtest.NewMemory(1, 100)})
	publish(t, h, "first/u/a/1")
	for i := range 10_000 {
		publish(t, h, fmt.Sprintf("org%d/u/a/%d", i, i))
	}
	for _, err := range h.Watch(t.Context(), event.Filter{Org: "first"}, 100) {
		if !errors.Is(err, event.ErrLost) {
			t.Errorf("Watch = %v, want %v", err, event.ErrLost)
		}
		break
	}
	publish(t, h, "first/u/a/2") // it comes back, and what it lost stays lost
	for _, err := range h.Watch(t.Context(), event.Filter{Org: "first"}, 100) {
		if !errors.Is(err, event.ErrLost) {
			t.Errorf("Watch = %v, want %v", err, event.ErrLost)
		}
		break
	}
	if got := read(h.Watch(t.Context(), event.Filter{Org: "org7"}, 100), 1); len(got) != 1 ||
		got[0] != "109 org7/u/a/7#1" {
		t.Errorf("Watch = %v", got)
	}
}

func ExampleHub_Watch() {
	h := event.New(event.Config{Log: eventtest.NewMemory(0, 0)})
	defer h.Close()
	call := haft.Call{ID: "c_1", Tool: "add", Principal: haft.Principal{Org: "acme", User: "ann"}}
	for _, typ := range []haft.EventType{haft.EventExecuting, haft.EventCompleted} {
		e, err := haft.NewEvent(call, typ, time.Now(), nil)
		if err == nil {
			_, err = h.Publish(context.Background(), e)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	for e, err := range h.Watch(context.Background(), event.For(call.Principal), 0) {
		if err != nil {
			fmt.Println(haft.MessageOf(err))
			break
		}
		fmt.Println(e.Seq, e.Type)
		if e.Type == haft.EventCompleted {
			break
		}
	}
	// Output:
	// 1 tool_executing
	// 2 tool_completed
}

func TestMemory_is_a_log(t *testing.T) {
	eventtest.TestLog(t, func(*testing.T) event.Log { return eventtest.NewMemory(0, 0) })
}

// TestFrail_is_a_log: what the tests lean on keeps the contract too.
func TestFrail_is_a_log(t *testing.T) {
	eventtest.TestLog(t, func(*testing.T) event.Log { return &frail{} })
}
