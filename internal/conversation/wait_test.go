package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/conversation"
	"haft/internal/model"
)

// stumbles is a store that fails to keep the first answer to a call.
type stumbles struct {
	conversation.Turns
	n atomic.Int32
}

func (s *stumbles) AdvanceTurn(ctx context.Context, owner string, t haft.Turn, list ...haft.Message) ([]haft.Message,
	error) {
	if len(list) == 1 && list[0].Role == haft.RoleTool && s.n.Add(1) == 1 {
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "away for a moment"}
	}
	return s.Turns.AdvanceTurn(ctx, owner, t, list...)
}

func TestWait_a_failure_beside_it_is_mended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{parallel: true, run: echo})
		w.addTool("ask", tool{parallel: true, approval: true, run: echo})
		w.script(call("a", "{}", "ask", "{}"))
		p := w.begin(0, func(cfg *conversation.Config) { cfg.Turns = &stumbles{Turns: cfg.Turns} })
		go p.send("hi")
		time.Sleep(10 * time.Second)
		turn, kept := w.ofTurn(w.first())
		if turn.Status != haft.TurnWaiting || len(turn.Approvals) != 1 ||
			shape(kept) != "user, assistant a ask, a:success" {
			t.Errorf("%s for %v: %s", turn.Status, turn.Approvals, shape(kept))
		}
	})
}

// elsewhere is an engine whose calls of b run on another machine, without end.
type elsewhere struct {
	*process
	b atomic.Value
}

func (e *elsewhere) Call(ctx context.Context, c haft.Call) (*haft.Result, error) {
	if c.Tool == "b" {
		e.b.Store(c.ID)
		return nil, conflict()
	}
	return e.process.Call(ctx, c)
}

func (e *elsewhere) Wait(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error) {
	if id == e.b.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return e.process.Wait(ctx, p, id)
}

func TestCalls_elsewhere_are_not_waited_for_by_what_has_failed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{parallel: true, run: echo})
		w.addTool("b", tool{parallel: true, run: echo})
		w.script(call("b", "{}", "a", "{}"))
		p := w.begin(0, func(cfg *conversation.Config) {
			cfg.Turns, cfg.Calls = &stumbles{Turns: cfg.Turns}, &elsewhere{process: cfg.Calls.(*process)}
		})
		go p.send("hi")
		time.Sleep(10 * time.Second)
		if _, kept := w.ofTurn(w.first()); shape(kept) != "user, assistant b a, a:success" {
			t.Errorf("kept %s", shape(kept))
		}
	})
}

// unread is a history whose messages cannot be read for a while.
type unread struct {
	history
	left *atomic.Int32
}

func (u unread) Messages(ctx context.Context, org, owner string, agent haft.AgentID, f haft.MessageFilter) (
	[]haft.Message, error) {
	if u.left.Add(-1) >= 0 {
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "away"}
	}
	return u.history.Messages(ctx, org, owner, agent, f)
}

func TestCancelTurn_answers_calls_that_cannot_be_read_at_first(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("ask", tool{approval: true, run: echo})
		w.script(call("ask", "{}"))
		var left atomic.Int32
		p := w.begin(0, func(cfg *conversation.Config) { cfg.History = unread{cfg.History.(history), &left} })
		o := p.send("hi")
		synctest.Wait()
		left.Store(3)
		if err := p.CancelTurn(t.Context(), ann, o.turn.ID); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		turn, kept := w.ofTurn(o.turn.ID)
		outcome{turn: turn, kept: kept}.check(t, haft.TurnCancelled, haft.StopCancelled,
			"user, assistant ask, ask:cancelled")
	})
}

// steal gives the first turn to another process.
func (w *world) steal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns[w.order[0]].owner, w.alive["another"] = "another", true
}

func TestWait_a_turn_that_was_lost_is_left(t *testing.T) {
	var most atomic.Int32
	for name, what := range map[string]tool{"it waits": {approval: true, run: echo},
		"a call runs": sleeper(false, &most)} {
		each(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.addTool("a", what)
			w.script(call("a", `{"s":90000}`))
			p := w.begin(0, func(cfg *conversation.Config) { cfg.Budget.Time = haft.Millis(48 * time.Hour) })
			ctx, cancel := context.WithCancel(t.Context())
			go listen(w, p.Send(ctx, as(ann, "helper"), "helper", haft.NewMessage{Text: "hi"}))
			time.Sleep(time.Second)
			w.steal()
			cancel()
			time.Sleep(10 * time.Second)
			w.mu.Lock()
			before := p.ops
			for id, r := range w.calls {
				if r.status == haft.StatusRunning {
					t.Errorf("the call %s runs", id)
				}
			}
			w.mu.Unlock()
			time.Sleep(20 * time.Hour)
			w.mu.Lock()
			defer w.mu.Unlock()
			if p.ops != before {
				t.Errorf("%d operations on it", p.ops-before)
			}
		})
	}
}

func TestWait_takes_no_place(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("ask", tool{approval: true, run: echo})
		w.script(call("ask", "{}"), say("done"))
		p := w.begin(0, func(cfg *conversation.Config) { cfg.PerOrg, cfg.Running = 4, 1 })
		for i := range 20 {
			name := fmt.Sprint("helper", i)
			o := listen(w, p.Send(t.Context(), as(ann, name), name, haft.NewMessage{Text: "hi"}))
			o.check(t, haft.TurnWaiting, "", "user, assistant ask")
			synctest.Wait() // until the work has ended
		}
		// But not any number of turns waits.
		o := p.send("hi")
		if haft.CodeOf(o.err) != haft.CodeRateLimited || len(w.order) != 20 {
			t.Errorf("%d turns, error %v", len(w.order), o.err)
		}
		p.approveAll()
		time.Sleep(time.Minute) // there is one place, so not all go on at once
		for _, id := range w.order {
			if turn, _ := w.ofTurn(id); turn.Status != haft.TurnCompleted {
				t.Errorf("%s is %s", id, turn.Status)
			}
		}
		p.send("hi").check(t, haft.TurnWaiting, "", "user, assistant ask")
	})
}

// Whoever agrees sees soon that the turn goes on, before the call has ended.
func TestWait_goes_on_when_a_person_agrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("ask", tool{approval: true, run: func(ctx context.Context, args string) (string, error) {
			return args, sleep(ctx, time.Minute)
		}})
		w.script(call("ask", "{}"), say("done"))
		p := w.begin(0)
		o := p.send("hi")
		var seen []string
		go func() {
			for e := range p.Follow(t.Context(), ann, o.turn.ID) {
				if e.Turn != nil {
					seen = append(seen, string(e.Turn.Status))
				}
			}
		}()
		time.Sleep(5 * time.Hour)
		go p.decide("ask", true)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if turn, _ := w.ofTurn(o.turn.ID); turn.Status != haft.TurnRunning || len(turn.Approvals) != 0 {
			t.Errorf("the turn is %s for %v", turn.Status, turn.Approvals)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := fmt.Sprint(seen); got != "[waiting running completed]" {
			t.Errorf("seen: %s", got)
		}
	})
}

func TestWait_ends_when_the_credential_is_withdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("ask", tool{approval: true, run: echo})
		w.script(call("ask", "{}"), say("done"))
		var withdrawn atomic.Bool
		p := w.begin(0, func(cfg *conversation.Config) {
			cfg.Recheck = func(_ context.Context, p haft.Principal) (haft.Principal, error) {
				if withdrawn.Load() {
					return p, &haft.Error{Code: haft.CodeDenied, Message: "withdrawn"}
				}
				return p, nil
			}
		})
		o := p.send("hi")
		time.Sleep(time.Hour)
		withdrawn.Store(true)
		time.Sleep(15 * time.Minute)
		turn, kept := w.ofTurn(o.turn.ID)
		outcome{turn: turn, kept: kept}.check(t, haft.TurnCancelled, haft.StopCancelled,
			"user, assistant ask, ask:cancelled")
	})
}

func TestSweep_looks_at_all_turns_and_cancels_where_no_place_is_free(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("ask", tool{approval: true, run: echo})
		hold := make(chan struct{})
		w.answer = func(req model.Request) (*model.Answer, error) {
			if req.Messages[0].Text == "hold" {
				<-hold
			}
			return call("ask", "{}"), nil
		}
		first := w.begin(0)
		for i := range 10 { // the world has pages of 3
			name := fmt.Sprint("helper", i)
			listen(w, first.Send(t.Context(), as(ann, name), name, haft.NewMessage{Text: "hi"}))
		}
		first.end()
		p := w.begin(0, func(cfg *conversation.Config) { cfg.Running = 1 })
		time.Sleep(time.Minute)
		go listen(w, p.Send(t.Context(), as(bob, "helper"), "helper", haft.NewMessage{Text: "hold"}))
		synctest.Wait()
		// One is cancelled here, and another as from another process.
		if err := p.CancelTurn(t.Context(), ann, w.order[9]); err != nil {
			t.Error(err)
		}
		if err := (claims{p}).CancelTurn(t.Context(), "org", w.order[8]); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		for i, want := range map[int]haft.TurnStatus{9: haft.TurnCancelled, 8: haft.TurnCancelled,
			7: haft.TurnWaiting} {
			if turn, _ := w.ofTurn(w.order[i]); turn.Status != want || w.turns[turn.ID].owner != p.name {
				t.Errorf("turn %d of %s is %s", i, w.turns[turn.ID].owner, turn.Status)
			}
		}
		close(hold)
	})
}

// slow is a store that takes its time to begin a turn.
type slow struct{ *process }

func (s slow) BeginTurn(ctx context.Context, owner string, t haft.Turn, key string, m haft.Message) (*haft.Turn, bool,
	error) {
	if err := sleep(ctx, time.Millisecond); err != nil {
		return nil, false, err
	}
	return s.process.BeginTurn(ctx, owner, t, key, m)
}

func TestSend_takes_a_place_before_it_begins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hold := make(chan struct{})
		var now, refused atomic.Int32
		w.answer = func(model.Request) (*model.Answer, error) { now.Add(1); <-hold; return say("done"), nil }
		p := w.begin(0, func(cfg *conversation.Config) { cfg.PerOrg, cfg.Turns = 2, slow{cfg.Calls.(*process)} })
		send := func(i int) error {
			name := fmt.Sprint("helper", i)
			return listen(w, p.Send(t.Context(), as(ann, name), name, haft.NewMessage{Text: "hi"})).err
		}
		for i := range 100 {
			go func() {
				if haft.CodeOf(send(i)) == haft.CodeRateLimited {
					refused.Add(1)
				}
			}()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if now.Load() != 2 || refused.Load() != 98 {
			t.Errorf("%d run, %d are refused", now.Load(), refused.Load())
		}
		close(hold)
		synctest.Wait()
		for i := range 3 { // places come back, also of messages that are not taken
			listen(w, p.Send(t.Context(), as(ann, "helper"), "helper", haft.NewMessage{Text: "hi", Model: "none"}))
			if err := send(i); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		}
	})
}

// panics is an engine that breaks.
type panics struct {
	*process
	in string
}

func (p panics) Call(ctx context.Context, c haft.Call) (*haft.Result, error) {
	if p.in == "call" && c.Tool == "b" {
		panic("oops")
	}
	return p.process.Call(ctx, c)
}

func (p panics) Cancel(ctx context.Context, by haft.Principal, id haft.CallID) error {
	if p.in == "cancel" {
		panic("oops")
	}
	return p.process.Cancel(ctx, by, id)
}

func (p panics) Watch(context.Context, haft.Principal, haft.EventFilter, int64) iter.Seq2[haft.Event, error] {
	return func(func(haft.Event, error) bool) {
		if p.in == "watch" {
			panic("oops")
		}
	}
}

func TestCalls_that_panic_end_the_turn_only(t *testing.T) {
	for _, in := range []string{"call", "watch", "cancel"} {
		each(t, in, func(t *testing.T) {
			w := newWorld(t)
			w.addTool("a", tool{parallel: true, run: func(ctx context.Context, args string) (string, error) {
				return args, sleep(ctx, time.Hour)
			}})
			w.addTool("b", tool{parallel: true, run: echo})
			w.script(call("a", "{}", "b", "{}"))
			began := time.Now()
			p := w.begin(0, func(cfg *conversation.Config) {
				engine := panics{cfg.Calls.(*process), in}
				cfg.Calls, cfg.Events = engine, engine
			})
			done := make(chan outcome)
			go func() { done <- p.send("hi") }()
			time.Sleep(time.Second)
			if in == "cancel" { // twice: when the turn is cancelled, and when its calls are answered
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := p.CancelTurn(ctx, ann, w.first()); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				p.end()
				<-done
				return
			}
			o := <-done
			if o.turn.Status != haft.TurnFailed || o.turn.Stop != haft.StopInternal || time.Since(began) > time.Minute {
				t.Errorf("%s %s: %v after %v", o.turn.Status, o.turn.Stop, o.err, time.Since(began))
			}
		})
	}
}

func TestSweep_only_failures_in_a_row_count(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		endless(w, func(*model.Answer) {})
		i := 0
		p := w.begin(0, func(cfg *conversation.Config) {
			cfg.Recheck = func(_ context.Context, p haft.Principal) (haft.Principal, error) {
				if i++; i%4 == 0 { // the store is away for a moment in every second step
					return p, &haft.Error{Code: haft.CodeUnavailable, Message: "away"}
				}
				return p, nil
			}
		})
		if o := p.send("hi"); o.turn.Stop != haft.StopSteps || o.turn.Usage.Steps != 50 {
			t.Errorf("%s %q after %d steps", o.turn.Stop, o.turn.Error, o.turn.Usage.Steps)
		}
	})
}
