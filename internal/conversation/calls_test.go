package conversation_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/conversation"
	"haft/internal/model"
)

// sleeper is a tool that takes so many seconds as its arguments say, and counts how many run at once.
func sleeper(parallel bool, most *atomic.Int32) tool {
	var now atomic.Int32
	return tool{parallel: parallel, run: func(ctx context.Context, args string) (string, error) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		var d time.Duration
		if _, err := fmt.Sscanf(args, `{"s":%d}`, &d); err != nil {
			return "", err
		}
		select {
		case <-time.After(d * time.Second):
			return "1", nil
		case <-ctx.Done():
			return "", context.Canceled
		}
	}}
}

func TestCalls_run_beside_each_other_where_all_tools_allow_it(t *testing.T) {
	for _, c := range []struct {
		name  string
		both  bool
		rules []haft.ToolRule
		most  int32
		took  time.Duration
		want  string
	}{
		{"all", true, nil, 3, 3 * time.Second, "user, assistant a b a, b:success, a:success, a:success, assistant"},
		{"not all", false, nil, 1, 6 * time.Second,
			"user, assistant a b a, a:success, b:success, a:success, assistant"},
		{"rules look at the order", true, []haft.ToolRule{{Type: haft.RuleMaxCount, Tool: "a", MaxCount: 5}}, 1,
			6 * time.Second, "user, assistant a b a, a:success, b:success, a:success, assistant"},
	} {
		each(t, c.name, func(t *testing.T) {
			var most atomic.Int32
			w := newWorld(t)
			s := sleeper(true, &most)
			w.addTool("a", s)
			s.parallel = c.both
			w.addTool("b", s)
			w.profile.Agent.Rules = c.rules
			w.script(call("a", `{"s":2}`, "b", `{"s":1}`, "a", `{"s":3}`), say("done"))
			began := time.Now()
			o := w.begin(0).send("hi")
			o.check(t, haft.TurnCompleted, haft.StopEnd, c.want)
			if took := time.Since(began); took != c.took || most.Load() != c.most {
				t.Errorf("%d at once in %v, want %d in %v", most.Load(), took, c.most, c.took)
			}
			// The model gets the answers in the order of its calls.
			if got := shape(w.asked[1].Messages); got != "user, assistant a b a, a:success, b:success, a:success" {
				t.Errorf("the model got %s", got)
			}
		})
	}
}

func TestCalls_at_once_are_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most atomic.Int32
		w := newWorld(t)
		w.addTool("a", sleeper(true, &most))
		w.script(call(slices.Repeat([]string{"a", `{"s":1}`}, 32)...), say("done"))
		w.begin(0).send("hi").check(t, haft.TurnCompleted, haft.StopEnd,
			"user, assistant"+strings.Repeat(" a", 32)+strings.Repeat(", a:success", 32)+", assistant")
		if most.Load() != 16 {
			t.Errorf("%d at once", most.Load())
		}
	})
}

func TestCalls_with_ids_that_vendors_repeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := call("a", `{"n":1}`, "a", `{"n":2}`, "a", `{"n":3}`)
		a.Calls[0].ID, a.Calls[1].ID, a.Calls[2].ID = "", "x", "x"
		w.script(a, call("b", `{}`), call("b", `{"n":1}`), say("done")) // each with the id t0
		o := w.begin(0).send("hi")
		o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant a a a, a:success, a:success, a:success, "+
			"assistant b, b:success, assistant b, b:success, assistant")
		if len(w.calls) != 5 || w.twice() != nil {
			t.Errorf("%d calls, %v", len(w.calls), w.twice())
		}
		for i, got := range o.answers()[:3] {
			if want := fmt.Sprintf(`{"got":{"n":%d}}`, i+1); got != want {
				t.Errorf("call %d is answered with %s", i, got)
			}
		}
	})
}

func TestCalls_whose_record_is_gone(t *testing.T) {
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
		q := w.begin(0, func(cfg *conversation.Config) { cfg.Calls = forgetful{p} })
		o := listen(w, q.Follow(t.Context(), ann, w.first()))
		o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant a, a:unknown, assistant")
		time.Sleep(time.Hour)
	})
}

// forgetful is an engine that knows that an id was used, and no more.
type forgetful struct{ *process }

func (forgetful) Call(context.Context, haft.Call) (*haft.Result, error) { return nil, conflict() }

func (forgetful) Wait(context.Context, haft.Principal, haft.CallID) (*haft.Result, error) {
	return nil, notFound()
}

func TestApprovals(t *testing.T) {
	for _, c := range []struct {
		name    string
		approve bool
		status  haft.Status
		restart bool
		words   string
	}{
		{"agreed to", true, haft.StatusSuccess, false, "got"},
		{"refused", false, haft.StatusRejected, false, "a person refused the call"},
		{"agreed to after a restart", true, haft.StatusSuccess, true, "got"},
		{"refused after a restart", false, haft.StatusRejected, true, "a person refused the call"},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			w.addTool("a", tool{approval: true, run: echo})
			w.script(call("a", "{}", "b", "{}"), say("done"))
			p := w.begin(0)
			o := p.send("hi")
			o.check(t, haft.TurnWaiting, "", "user, assistant a b")
			if len(o.turn.Approvals) != 1 || !strings.HasPrefix(string(o.turn.Approvals[0]), "ap_c_") {
				t.Errorf("approvals %v", o.turn.Approvals)
			}
			time.Sleep(10 * time.Hour) // which is no time that the turn takes
			if c.restart {
				p.end()
				p = w.begin(0)
				time.Sleep(5 * time.Second)
			}
			done := make(chan outcome)
			go func() { done <- listen(w, p.Follow(t.Context(), ann, o.turn.ID)) }()
			synctest.Wait()
			p.decide("a", c.approve)
			o = <-done
			o.check(t, haft.TurnCompleted, haft.StopEnd, fmt.Sprintf("user, assistant a b, a:%s, b:success, assistant",
				c.status))
			if a := o.answers()[0]; !strings.Contains(a, c.words) || len(o.turn.Approvals) != 0 || w.twice() != nil {
				t.Errorf("answered with %q, approvals %v, %v", a, o.turn.Approvals, w.twice())
			}
		})
	}
}

func TestApprovals_of_calls_beside_each_other(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{approval: true, parallel: true, run: echo})
		w.addTool("b", tool{approval: true, parallel: true, run: echo})
		w.addTool("c", tool{parallel: true, run: echo})
		w.script(call("a", "{}", "b", "{}", "c", "{}"), say("done"))
		p := w.begin(0)
		p.send("hi")
		synctest.Wait()
		turn, _ := w.ofTurn(w.first())
		if turn.Status != haft.TurnWaiting || len(turn.Approvals) != 2 {
			t.Errorf("%s, approvals %v", turn.Status, turn.Approvals)
		}
		p.decide("b", true)
		time.Sleep(3 * time.Second)
		if turn, _ = w.ofTurn(turn.ID); turn.Status != haft.TurnWaiting || len(turn.Approvals) != 1 {
			t.Errorf("%s, approvals %v", turn.Status, turn.Approvals)
		}
		p.decide("a", false)
		time.Sleep(3 * time.Second)
		turn, kept := w.ofTurn(turn.ID)
		if turn.Status != haft.TurnCompleted || shape(kept) != "user, assistant a b c, c:success, b:success, "+
			"a:denied_by_approver, assistant" {
			t.Errorf("%s: %s", turn.Status, shape(kept))
		}
	})
}

func TestCancelTurn(t *testing.T) {
	var most atomic.Int32
	for _, c := range []struct {
		name string
		tool tool
		want string
	}{
		{"a call that runs", sleeper(false, &most), "user, assistant a b, a:cancelled, b:cancelled"},
		{"calls that run", sleeper(true, &most), "user, assistant a b, a:cancelled, b:cancelled"},
		{"a call that waits", tool{approval: true, run: echo}, "user, assistant a b, a:cancelled, b:cancelled"},
	} {
		for _, elsewhere := range []bool{false, true} {
			each(t, fmt.Sprintf("%s, elsewhere %v", c.name, elsewhere), func(t *testing.T) {
				w := newWorld(t)
				w.addTool("a", c.tool)
				w.addTool("b", tool{parallel: true, approval: true, run: echo})
				w.script(call("a", `{"s":9000}`, "b", "{}"), say("done"))
				p := w.begin(0)
				go p.send("hi")
				synctest.Wait()
				time.Sleep(time.Second)
				by := p
				if elsewhere {
					by = w.begin(0)
				}
				if err := by.CancelTurn(t.Context(), bob, w.first()); haft.CodeOf(err) != haft.CodeNotFound {
					t.Errorf("somebody else cancels: %v", err)
				}
				if err := by.CancelTurn(t.Context(), ann, w.first()); err != nil {
					t.Fatal(err)
				}
				if elsewhere {
					time.Sleep(10 * time.Second) // until the other process looks
				}
				turn, kept := w.ofTurn(w.first())
				outcome{turn: turn, kept: kept}.check(t, haft.TurnCancelled, haft.StopCancelled, c.want)
				for id, r := range w.calls {
					if r.status != haft.StatusCancelled {
						t.Errorf("the call %s is %s", id, r.status)
					}
				}
				if err := by.CancelTurn(t.Context(), ann, w.first()); err != nil {
					t.Errorf("a second time: %v", err)
				}
			})
		}
	}
}

func TestCancelTurn_outlives_the_process(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{approval: true, run: echo})
		w.script(call("b", "{}", "a", "{}"), say("done"))
		p := w.begin(0)
		p.send("hi")
		p.kill()
		if err := (claims{p}).CancelTurn(t.Context(), "org", w.first()); err != nil {
			t.Fatal(err)
		}
		o := listen(w, w.begin(0).Follow(t.Context(), ann, w.first()))
		o.check(t, haft.TurnCancelled, haft.StopCancelled, "user, assistant b a, b:success, a:cancelled")
		if len(w.asked) != 1 {
			t.Errorf("the model was asked %d times", len(w.asked))
		}
	})
}

func TestCancelTurn_keeps_the_result_of_a_call_that_has_ended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(call("a", `{"x":1}`), say("done"))
		p := w.begin(0)
		w.addTool("a", tool{run: func(ctx context.Context, args string) (string, error) {
			time.Sleep(time.Millisecond) // until the sender has read what it reads, which are operations too
			p.mu.Lock()
			p.dies = p.ops + 2 // when the call has ended, and before anybody knows
			p.mu.Unlock()
			return echo(ctx, args)
		}})
		go p.send("hi")
		synctest.Wait()
		if err := (claims{p}).CancelTurn(t.Context(), "org", w.first()); err != nil {
			t.Fatal(err)
		}
		o := listen(w, w.begin(0).Follow(t.Context(), ann, w.first()))
		o.check(t, haft.TurnCancelled, haft.StopCancelled, "user, assistant a, a:success")
		if o.answers()[0] != `{"got":{"x":1}}` {
			t.Errorf("answered with %q", o.answers()[0])
		}
	})
}

func TestCancelTurn_while_the_model_is_asked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		hold := make(chan struct{})
		w.answer = func(model.Request) (*model.Answer, error) { <-hold; return call("a", "{}"), nil }
		p := w.begin(0)
		done := make(chan outcome)
		go func() { done <- p.send("hi") }()
		synctest.Wait()
		go func() { time.Sleep(time.Second); close(hold) }()
		if err := p.CancelTurn(t.Context(), ann, w.first()); err != nil {
			t.Fatal(err)
		}
		(<-done).check(t, haft.TurnCancelled, haft.StopCancelled, "user")
		if len(w.calls) != 0 {
			t.Error("a call was made")
		}
	})
}

// watcher tells two events of each call.
type watcher struct{}

func (watcher) Watch(ctx context.Context, p haft.Principal, f haft.EventFilter, _ int64) iter.Seq2[haft.Event, error] {
	return func(yield func(haft.Event, error) bool) {
		for i := range 2 {
			if !yield(haft.Event{Call: f.Call, Seq: int64(i), Principal: p}, nil) {
				return
			}
		}
		<-ctx.Done()
		yield(haft.Event{}, ctx.Err())
	}
}

func TestSend_events_of_calls_are_for_those_who_may_read_them(t *testing.T) {
	for _, c := range []struct {
		name    string
		actions []haft.Action
		events  int
	}{
		{"with events:read", []haft.Action{haft.AgentsRead, haft.CallsRead, haft.CallsWrite, haft.EventsRead}, 2},
		{"without", []haft.Action{haft.AgentsRead, haft.CallsRead, haft.CallsWrite}, 0},
	} {
		each(t, c.name, func(t *testing.T) {
			var most atomic.Int32
			w := newWorld(t)
			w.addTool("a", sleeper(false, &most))
			w.script(call("b", "{}"), call("a", `{"s":2}`), say("done"))
			p := w.begin(0, func(cfg *conversation.Config) { cfg.Events = watcher{} })
			by := as(ann, "helper")
			by.Actions = c.actions
			count := func(o outcome) (n int) {
				for _, e := range o.events {
					if e.Event != nil {
						n++
					}
				}
				return n
			}
			follows := make(chan outcome)
			go func() {
				time.Sleep(time.Second)
				follows <- listen(w, p.Follow(t.Context(), by, w.first()))
			}()
			w.addTool("b", tool{run: func(ctx context.Context, _ string) (string, error) {
				return "1", sleep(ctx, 3*time.Second)
			}})
			sent := listen(w, p.Send(t.Context(), by, "helper", haft.NewMessage{Text: "hi"}))
			if a, b := count(sent), count(<-follows); a != 2*c.events || b != c.events || !sent.turn.Final() {
				t.Errorf("the sender sees %d events, and who follows %d", a, b)
			}
		})
	}
}

func TestSend_reports_what_happens(t *testing.T) {
	for _, late := range []time.Duration{0, time.Minute} { // until the sender reads, when the turn has long ended
		t.Run(late.String(), func(t *testing.T) { reportsWhatHappens(t, late) })
	}
}

// lateHistory is slow for all but those who work on turns.
type lateHistory struct {
	conversation.History
	late time.Duration
}

// working is the key of what contexts have in which somebody works on a turn.
type working struct{}

func (h lateHistory) Messages(ctx context.Context, org, owner string, agent haft.AgentID,
	f haft.MessageFilter) ([]haft.Message, error) {
	if ctx.Value(working{}) == nil {
		time.Sleep(h.late)
	}
	return h.History.Messages(ctx, org, owner, agent, f)
}

func reportsWhatHappens(t *testing.T, late time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		var most atomic.Int32
		w := newWorld(t)
		w.addTool("a", sleeper(false, &most))
		w.prelude = []model.Chunk{{Reasoning: "hm"}, {Tool: "a"}}
		w.script(call("a", `{"s":1}`), say("done"))
		o := w.begin(0, func(cfg *conversation.Config) {
			cfg.Events, cfg.History = watcher{}, lateHistory{cfg.History, late}
			cfg.Observe = func(ctx context.Context, _, _ string, _ haft.Turn) (context.Context,
				func(model.Usage, string, error)) {
				return context.WithValue(ctx, working{}, true), func(model.Usage, string, error) {}
			}
		}).send("hi")
		var got []string
		for _, e := range o.events {
			switch {
			case e.Delta != "":
				got = append(got, "delta "+e.Delta)
			case e.Thinking != "":
				got = append(got, "thinking "+e.Thinking)
			case e.Message != nil:
				got = append(got, "message "+string(e.Message.Role))
			case e.Result != nil:
				got = append(got, "result "+string(e.Result.Status))
			case e.Event != nil:
				got = append(got, "event "+string(e.Event.Call[:2]))
			case e.Turn != nil:
				got = append(got, "turn "+string(e.Turn.Status))
			}
		}
		want := "message user, thinking hm, message assistant, event c_, event c_, result success, message tool, " +
			"thinking hm, delta done, message assistant, turn completed"
		if strings.Join(got, ", ") != want {
			t.Errorf("told: %s\nwant: %s", strings.Join(got, ", "), want)
		}
	})
}
