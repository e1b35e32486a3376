package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/conversation"
	"haft/internal/model"
)

// kill ends a process at once.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.dead:
	default:
		close(p.dead)
		delete(p.alive, p.name)
	}
}

// approveAll agrees to whatever waits, in p.
func (p *process) approveAll() {
	p.mu.Lock()
	var waiting []*record
	for _, r := range p.calls {
		if r.status == haft.StatusPending {
			r.status, r.owner = haft.StatusRunning, p.name
			r.change()
			waiting = append(waiting, r)
		}
	}
	p.mu.Unlock()
	for _, r := range waiting {
		p.run(context.Background(), r, p.tools[r.call.Tool])
	}
}

// A story is a turn that is told again and again, with a crash at each of its operations.
type story struct {
	name  string
	setUp func(w *world)
	stop  haft.StopReason
	kept  string // without what becomes of calls
}

func stories() []story {
	yes := tool{run: func(context.Context, string) (string, error) { return `"yes"`, nil }}
	return []story{
		{"an answer", func(w *world) { w.script(say("done")) }, haft.StopEnd, "user, assistant"},
		{"two steps", func(w *world) { w.script(call("a", `{"x":1}`, "b", "{}"), call("c", "{}"), say("done")) },
			haft.StopEnd, "user, assistant a b, a, b, assistant c, c, assistant"},
		{"calls beside each other", func(w *world) {
			w.addTool("a", tool{parallel: true, run: echo})
			w.script(call("a", `{"x":1}`, "a", "{}", "a", `{"x":2}`), say("done"))
		}, haft.StopEnd, "user, assistant a a a, a, a, a, assistant"},
		{"approvals", func(w *world) {
			w.addTool("a", tool{approval: true, run: echo})
			w.script(call("b", "{}", "a", "{}", "c", "{}"), say("done"))
		}, haft.StopEnd, "user, assistant b a c, b, a, c, assistant"},
		{"calls that cannot be made", func(w *world) { w.script(call("x", "{}", "a", "[", "b", "{}"), say("done")) },
			haft.StopEnd, "user, assistant x a b, x, a, b, assistant"},
		{"a tool rule", func(w *world) {
			w.addTool("a", yes)
			w.profile.Agent.Rules = []haft.ToolRule{{Type: haft.RuleConditional, Tool: "a", Outputs: map[string]string{
				"yes": "c"}, Default: "c"}, {Type: haft.RuleExit, Tool: "c"}}
			w.answer = func(req model.Request) (*model.Answer, error) {
				if len(req.Tools) == 1 {
					return call("c", "{}"), nil
				}
				return call("a", "{}"), nil
			}
		}, haft.StopRule, "user, assistant a, a, assistant c, c"},
		{"a budget", func(w *world) {
			n := 0
			w.answer = func(req model.Request) (*model.Answer, error) {
				n++
				return call("a", fmt.Sprintf(`{"n":%d}`, n)), nil
			}
		}, haft.StopSteps, "user" + strings.Repeat(", assistant a, a", 4) + ", assistant"},
		{"the same call for ever", func(w *world) {
			w.answer = func(req model.Request) (*model.Answer, error) { return call("b", "{}"), nil }
			w.profile.Instructions = "many steps"
		}, haft.StopLoop, "user" + strings.Repeat(", assistant b, b", 5) + ", assistant"},
	}
}

// plain is the shape of messages without what became of calls.
func plain(list []haft.Message) string {
	for i := range list {
		list[i].Status = ""
	}
	return strings.ReplaceAll(shape(list), ":", "")
}

// play plays a story with processes that die at these operations, and one that does not. It returns how many operations
// the first one made.
func (s story) play(t *testing.T, dies ...int) (ops int) {
	w := newWorld(t)
	s.setUp(w)
	four := func(cfg *conversation.Config) {
		if cfg.Budget.Steps = 4; w.profile.Instructions == "many steps" {
			cfg.Budget.Steps = 20
		}
	}
	first := w.begin(dies[0], four)
	go func() {
		listen(w, first.Send(context.Background(), as(ann, "helper"), "helper", haft.NewMessage{Text: "hi", Key: "k"}))
	}()
	last := first
	for _, d := range append(dies[1:], 0) {
		for range 3 {
			time.Sleep(2 * time.Second)
			synctest.Wait()
			last.approveAll()
		}
		last.kill()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		last = w.begin(d, four)
	}
	// Whoever sends it again gets the same turn.
	done := make(chan outcome, 1)
	go func() {
		for {
			o := listen(w, last.Send(context.Background(), as(ann, "helper"), "helper",
				haft.NewMessage{Text: "hi", Key: "k"}))
			if o.err != nil || o.turn.Final() {
				done <- o
				return
			}
			last.approveAll()
			time.Sleep(time.Second)
		}
	}()
	o := <-done
	if o.err != nil || o.turn.Status == haft.TurnCancelled || o.turn.Stop != s.stop || len(w.turns) != 1 {
		t.Errorf("%v: %s, %s (%s), %v, %d turns", dies, o.turn.Status, o.turn.Stop, o.turn.Error, o.err, len(w.turns))
	}
	if got := plain(o.kept); got != s.kept {
		t.Errorf("%v: kept: %s\nwant: %s", dies, got, s.kept)
	}
	if why := unacceptable(append(o.kept, haft.Message{Role: haft.RoleUser, Text: "next"})); why != "" {
		t.Errorf("%v: %s", dies, why)
	}
	if twice := w.twice(); twice != nil {
		t.Errorf("%v: %v", dies, twice)
	}
	for _, m := range o.kept {
		if m.Role == haft.RoleTool && m.Call != "" && w.calls[m.Call] == nil {
			t.Errorf("%v: the answer of %s is made up", dies, m.Call)
		}
	}
	return first.ops
}

func TestCrash_at_every_operation(t *testing.T) {
	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) {
			ops := 0
			synctest.Test(t, func(t *testing.T) { ops = s.play(t, 0) })
			if ops < 6 {
				t.Fatalf("the story has %d operations", ops)
			}
			for at := 1; at <= ops+1; at++ {
				synctest.Test(t, func(t *testing.T) { s.play(t, at) })
				if at%3 == 0 { // the next one dies too
					synctest.Test(t, func(t *testing.T) { s.play(t, at, 1+at%7) })
					synctest.Test(t, func(t *testing.T) { s.play(t, at, 5+at%11, 9) })
				}
			}
		})
	}
}

func TestCrash_the_model_learns_that_nobody_knows_an_outcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{run: func(context.Context, string) (string, error) {
			time.Sleep(time.Hour)
			return "1", nil
		}})
		w.script(call("a", "{}"), say("done"))
		p := w.begin(0)
		go p.send("hi")
		time.Sleep(time.Second)
		p.kill()
		q := w.begin(0)
		o := listen(w, q.Follow(t.Context(), ann, w.first()))
		o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant a, a:unknown, assistant")
		if a := o.answers()[0]; !strings.Contains(a, "It may have run") {
			t.Errorf("the model is told %q", a)
		}
		time.Sleep(time.Hour)
	})
}

// A call of an idempotent tool is made again, once: of a process that died while it ran, and of a second one.
func TestCrash_idempotent_tools_run_again(t *testing.T) {
	for deaths, want := range map[int]string{1: "a:success", 2: "a:unknown"} {
		each(t, want, func(t *testing.T) {
			w, runs := newWorld(t), atomic.Int32{}
			w.addTool("a", tool{idempotent: true, run: func(context.Context, string) (string, error) {
				if int(runs.Add(1)) <= deaths {
					time.Sleep(time.Hour)
				}
				return "1", nil
			}})
			w.script(call("a", "{}"), say("done"))
			p := w.begin(0)
			go p.send("hi")
			for range deaths {
				time.Sleep(20 * time.Second)
				p.kill()
				p = w.begin(0)
			}
			o := listen(w, p.Follow(t.Context(), ann, w.first()))
			o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant a, "+want+", assistant")
			if twice := w.twice(); runs.Load() != 2 || len(w.calls) != 2 || len(twice) > 0 {
				t.Errorf("the tool ran %d times, in %d calls: %v", runs.Load(), len(w.calls), twice)
			}
			time.Sleep(time.Hour)
		})
	}
}

// A second try that a person has to agree to waits like any call, and does not outlive the turn.
func TestCrash_second_try_waits_for_a_person(t *testing.T) {
	for name, approve := range map[string]bool{"approved": true, "cancelled": false} {
		each(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.addTool("a", tool{idempotent: true, run: func(ctx context.Context, args string) (string, error) {
				return args, sleep(ctx, time.Hour)
			}})
			w.script(call("a", "{}"), say("done"))
			p := w.begin(0)
			go p.send("hi")
			time.Sleep(20 * time.Second)
			p.kill()
			w.mu.Lock()
			w.addTool("a", tool{idempotent: true, approval: true, run: echo})
			w.mu.Unlock()
			p = w.begin(0)
			time.Sleep(10 * time.Second)
			changes := 0
			go func() {
				for e := range p.Follow(t.Context(), ann, w.first()) {
					if e.Turn != nil && !e.Turn.Final() {
						changes++
					}
				}
			}()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			if turn, _ := w.ofTurn(w.first()); turn.Status != haft.TurnWaiting || changes != 1 {
				t.Errorf("the turn is %s, and has changed %d times", turn.Status, changes)
			}
			status, stop, want := haft.TurnCompleted, haft.StopEnd, "user, assistant a, a:success, assistant"
			if approve {
				p.decide("a", true)
			} else {
				status, stop, want = haft.TurnCancelled, haft.StopCancelled, "user, assistant a, a:cancelled"
				if err := p.CancelTurn(t.Context(), ann, w.first()); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(2 * time.Hour)
			turn, kept := w.ofTurn(w.first())
			outcome{turn: turn, kept: kept}.check(t, status, stop, want)
			for id, r := range w.calls {
				if !r.status.Final() {
					t.Errorf("the call %s is left %s", id, r.status)
				}
			}
		})
	}
}

func TestCrash_a_rule_looks_at_a_value_that_another_process_got(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{run: func(context.Context, string) (string, error) { return `"yes"`, nil }})
		w.profile.Agent.Rules = []haft.ToolRule{{Type: haft.RuleConditional, Tool: "a", Default: "c",
			Outputs: map[string]string{"yes": "b"}}}
		p := w.begin(0)
		w.answer = func(req model.Request) (*model.Answer, error) {
			switch len(w.asked) {
			case 1:
				return call("a", "{}"), nil
			case 2:
				p.kill()
			case 3:
				return call(req.Tools[0].Name, "{}"), nil
			}
			return say("done"), nil
		}
		go p.send("hi")
		synctest.Wait()
		o := listen(w, w.begin(0).Follow(t.Context(), ann, w.first()))
		o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant a, a:success, assistant b, b:success, assistant")
	})
}

func TestCrash_a_process_that_lost_its_turn_writes_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hold := make(chan struct{})
		w.answer = func(model.Request) (*model.Answer, error) { <-hold; return say("done"), nil }
		p := w.begin(0)
		go p.send("hi")
		synctest.Wait()
		w.mu.Lock()
		delete(w.alive, p.name) // it is only slow
		w.mu.Unlock()
		q := w.begin(0)
		synctest.Wait()
		close(hold)
		o := listen(w, q.Follow(t.Context(), ann, w.first()))
		time.Sleep(time.Minute)
		_, kept := w.ofTurn(o.turn.ID)
		if shape(kept) != "user, assistant" || o.turn.Status != haft.TurnCompleted {
			t.Errorf("kept %s", shape(kept))
		}
	})
}

// late is a store whose lists are old: they have turns that have ended meanwhile.
type late struct{ claims }

func (l late) OpenTurns(_ context.Context, _ string, after haft.TurnID) (list []haft.Turn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.turns {
		if after != "" {
			break
		}
		t := k.turn
		t.Status = haft.TurnRunning
		list = append(list, t)
	}
	return list, nil
}

func TestSweep_leaves_a_turn_that_has_ended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(say("done"))
		p := w.begin(0, func(cfg *conversation.Config) { cfg.Claims = late{cfg.Claims.(claims)} })
		p.send("hi")
		time.Sleep(time.Minute)
		if len(w.asked) != 1 {
			t.Errorf("the model was asked %d times", len(w.asked))
		}
	})
}

func TestClose_waits_for_calls_and_leaves_the_turn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{run: func(ctx context.Context, _ string) (string, error) {
			select {
			case <-time.After(time.Minute):
				return "1", nil
			case <-ctx.Done():
				return "", context.Canceled
			}
		}})
		w.script(call("a", "{}", "b", "{}"), say("done"))
		p := w.begin(0)
		go p.send("hi")
		time.Sleep(time.Second)
		if err := p.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		turn, kept := w.ofTurn(w.first())
		if turn.Status != haft.TurnRunning || shape(kept) != "user, assistant a b, a:success" {
			t.Errorf("%s: %s", turn.Status, shape(kept))
		}
		p.kill()
		q := w.begin(0)
		listen(w, q.Follow(t.Context(), ann, turn.ID)).check(t, haft.TurnCompleted, haft.StopEnd,
			"user, assistant a b, a:success, b:success, assistant")
	})
}

func TestClose_ends_calls_when_it_may_wait_no_longer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{run: func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", context.Canceled
		}})
		w.script(call("a", "{}"), say("done"))
		p := w.begin(0)
		go p.send("hi")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close = %v", err)
		}
		if turn, _ := w.ofTurn(w.first()); turn.Final() {
			t.Errorf("the turn is %s", turn.Status)
		}
	})
}

func TestSend_logs_nothing_where_nothing_is_wrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		w := newWorld(t)
		w.script(call("a", "{}"), say("done"))
		p := w.begin(0, func(cfg *conversation.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		p.send("hi")
		synctest.Wait()
		if log.Len() > 0 {
			t.Error(log.String())
		}
	})
}

func TestSweep_ends_a_turn_that_never_goes_on(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(say("done"))
		p := w.begin(0, func(cfg *conversation.Config) {
			cfg.Recheck = func(_ context.Context, p haft.Principal) (haft.Principal, error) {
				return p, &haft.Error{Code: haft.CodeUnavailable, Message: "the store is away"}
			}
		})
		o := p.send("hi")
		o.check(t, haft.TurnFailed, haft.StopInternal, "user")
	})
}

func TestCrash_many_turns_in_many_processes(t *testing.T) {
	const turns = 100
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nap := func(ctx context.Context, args string) (string, error) {
			select {
			case <-time.After(time.Duration(rand.IntN(3000)) * time.Millisecond):
				return echo(ctx, args)
			case <-ctx.Done():
				return "", context.Canceled
			}
		}
		w.addTool("a", tool{parallel: true, run: nap})
		w.addTool("b", tool{parallel: true, run: nap})
		w.addTool("c", tool{approval: true, run: nap})
		w.script(call("a", "{}", "b", "{}", "a", `{"x":1}`), call("a", "{}", "c", "{}"), call("b", `{"y":1}`), say("done"))
		var mu sync.Mutex
		live := w.begin(0)
		current := func() *process { mu.Lock(); defer mu.Unlock(); return live }
		var all, killer sync.WaitGroup
		killer.Go(func() {
			for range 12 {
				time.Sleep(time.Duration(500+rand.IntN(4000)) * time.Millisecond)
				old := current()
				old.kill()
				next := w.begin(0)
				mu.Lock()
				live = next
				mu.Unlock()
			}
		})
		for i := range turns {
			all.Go(func() {
				time.Sleep(time.Duration(rand.IntN(20_000)) * time.Millisecond)
				who, agent := haft.Principal{Org: "org", User: fmt.Sprintf("user%d", i%7)}, fmt.Sprint("helper", i)
				m := haft.NewMessage{Text: "hi", Key: fmt.Sprint(i)}
				for {
					o := listen(w, current().Send(context.Background(), as(who, agent), agent, m))
					if o.err == nil && o.turn.Final() {
						return
					}
					current().approveAll()
					time.Sleep(time.Second)
				}
			})
		}
		all.Wait()
		killer.Wait()
		if twice := w.twice(); twice != nil || len(w.turns) != turns {
			t.Errorf("%d turns, %v", len(w.turns), twice)
		}
		for _, id := range w.order {
			turn, kept := w.ofTurn(id)
			if got := plain(kept); turn.Stop != haft.StopEnd || got != "user, assistant a b a, "+
				strings.Join(tools(kept[2:5]), ", ")+", assistant a c, a, c, assistant b, b, assistant" {
				t.Errorf("%s, %s: %s", turn.Status, turn.Stop, got)
			}
		}
	})
}

// tools are the names of the tools that messages answer.
func tools(list []haft.Message) (names []string) {
	for _, m := range list {
		names = append(names, m.Name)
	}
	return names
}
