package conversation_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/conversation"
	"haft/internal/engine"
	"haft/internal/model"
)

// A brake stops all calls. The next call of the tool trips is refused by the engine, which is stopped just before it.
type brake struct {
	*process
	on    atomic.Bool
	trips atomic.Value
}

func (b *brake) Stopped() (string, bool) { return "for maintenance", b.on.Load() }

func (b *brake) Call(ctx context.Context, c haft.Call) (*haft.Result, error) {
	if b.trips.CompareAndSwap(c.Tool, "") {
		b.on.Store(true)
	}
	if !b.on.Load() {
		return b.process.Call(ctx, c)
	}
	r, _, err := b.enter(c)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r.end(failed(haft.StatusDenied, haft.FailStopped, "calls are stopped: for maintenance"))
	return r.result, nil
}

// braked is a process with a brake.
func braked(w *world) (*process, *brake) {
	b := &brake{}
	return w.begin(0, func(cfg *conversation.Config) {
		b.process = cfg.Calls.(*process)
		cfg.Calls, cfg.Stopped = b, b.Stopped
	}), b
}

func TestStopped_takes_no_message(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(say("hello"))
		p, b := braked(w)
		b.on.Store(true)
		if o := p.send("hi"); haft.CodeOf(o.err) != haft.CodeUnavailable || len(w.order) != 0 ||
			!strings.Contains(haft.MessageOf(o.err), "for maintenance") {
			t.Errorf("%d turns, error %v", len(w.order), o.err)
		}
		b.on.Store(false)
		p.send("hi").check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant")
	})
}

// Turns pause while calls are stopped, for any time, and go on then.
func TestStopped_turns_pause(t *testing.T) {
	for _, c := range []struct {
		name          string
		trips         string // the tool that the engine refuses
		during, after string // what is kept while calls are stopped, and at the end
	}{
		{"between steps", "", "user, assistant a b, a:success", "user, assistant a b, a:success, b:success, assistant"},
		{"by a refusal", "b", "user, assistant a b, a:success", "user, assistant a b, a:success, " +
			"b:permission_denied, assistant b, b:success, assistant"},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			p, b := braked(w)
			w.addTool("a", tool{run: func(context.Context, string) (string, error) {
				b.on.Store(c.trips == "")
				return "1", nil
			}})
			w.answer = func(req model.Request) (*model.Answer, error) {
				last := req.Messages[len(req.Messages)-1]
				switch {
				case last.Role == haft.RoleUser:
					return call("a", "{}", "b", "{}"), nil
				case strings.Contains(last.Text, "did not run"):
					return call("b", "{}"), nil
				}
				return say("done"), nil
			}
			b.trips.Store(c.trips)
			done := make(chan outcome, 1)
			go func() { done <- p.send("hi") }()
			time.Sleep(48 * time.Hour)
			turn, kept := w.ofTurn(w.first())
			if turn.Status != haft.TurnRunning || shape(kept) != c.during || len(w.asked) != 1 {
				t.Errorf("%s, asked %d times: %s", turn.Status, len(w.asked), shape(kept))
			}
			b.on.Store(false)
			o := <-done
			o.check(t, haft.TurnCompleted, haft.StopEnd, c.after)
			if o.turn.Usage.Time > haft.Millis(time.Minute) {
				t.Errorf("the pause took %v of the budget", o.turn.Usage.Time.D())
			}
		})
	}
}

func TestStopped_a_turn_that_pauses_is_cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p, b := braked(w)
		w.script(call("a", "{}"))
		b.trips.Store("a")
		go p.send("hi")
		time.Sleep(time.Minute)
		if err := p.CancelTurn(t.Context(), ann, w.first()); err != nil {
			t.Error(err)
		}
		if turn, _ := w.ofTurn(w.first()); turn.Status != haft.TurnCancelled {
			t.Errorf("the turn is %s", turn.Status)
		}
	})
}

// What an engine says that is about to end is no answer: the turn is left to the next process.
func TestEngine_that_leaves_spoils_no_turn(t *testing.T) {
	w, r, _, real := withEngine(t)
	paused := make(chan struct{})
	var once sync.Once
	p := w.begin(0, real, func(cfg *conversation.Config) {
		e := cfg.Calls.(*engine.Engine)
		cfg.Stopped = func() (string, bool) {
			why, stopped := e.Stopped()
			if stopped {
				once.Do(func() { close(paused) })
			}
			return why, stopped
		}
		w.answer = func(req model.Request) (*model.Answer, error) { // the server is told to end while the model thinks
			if len(req.Messages) > 1 {
				return say("I cannot"), nil
			}
			return call("a", `{"x":1}`), e.Drain(t.Context())
		}
	})
	done := make(chan outcome, 1)
	go func() { done <- p.sendAgain("hi") }()
	select {
	case <-paused:
	case o := <-done:
		done <- o
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	<-done
	turn, kept := w.ofTurn(w.first())
	if turn.Status != haft.TurnRunning || shape(kept) != "user, assistant a" || r.n.Load() != 0 {
		t.Errorf("%s: %s", turn.Status, shape(kept))
	}
}

// busyEngine cannot cancel calls for a while.
type busyEngine struct {
	*process
	until time.Time
}

func (e busyEngine) Cancel(ctx context.Context, p haft.Principal, id haft.CallID) error {
	if time.Now().Before(e.until) {
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the store is away"}
	}
	return e.process.Cancel(ctx, p, id)
}

// A turn that was cancelled does not end while a person could still have its call run.
func TestCancel_waits_until_calls_are_cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("ask", tool{approval: true, run: echo})
		w.script(call("ask", "{}"))
		p := w.begin(0, func(cfg *conversation.Config) {
			cfg.Calls = busyEngine{cfg.Calls.(*process), time.Now().Add(10 * time.Second)}
		})
		p.send("hi")
		if err := p.CancelTurn(t.Context(), ann, w.first()); err != nil {
			t.Fatal(err)
		}
		if turn, kept := w.ofTurn(w.first()); turn.Final() {
			t.Errorf("%s: %s", turn.Status, shape(kept))
		}
		time.Sleep(20 * time.Second)
		if turn, kept := w.ofTurn(w.first()); turn.Status != haft.TurnCancelled ||
			shape(kept) != "user, assistant ask, ask:cancelled" {
			t.Errorf("%s: %s", turn.Status, shape(kept))
		}
	})
}
