package conversation_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/conversation"
	"haft/internal/model"
)

// endless is a model that calls a tool again and again, and does not say what that takes.
func endless(w *world, answer func(a *model.Answer)) {
	n := 0
	w.answer = func(model.Request) (*model.Answer, error) {
		n++
		a := call("a", fmt.Sprintf(`{"n":%d}`, n))
		a.Usage = model.Usage{}
		answer(a)
		return a, nil
	}
}

// spend sends a message with a budget.
func (p *process) spend(b haft.Budget) outcome {
	return listen(p.world, p.Send(context.Background(), as(ann, "helper"), "helper",
		haft.NewMessage{Text: "hi", Budget: b}))
}

func TestBudget_binds_where_nobody_says_what_was_used(t *testing.T) {
	long := strings.Repeat("word ", 2000) // 2,500 tokens
	for _, c := range []struct {
		name   string
		budget haft.Budget
		answer func(a *model.Answer)
		stop   haft.StopReason
		steps  int
	}{
		{"text", haft.Budget{Tokens: 6000}, func(a *model.Answer) { a.Text = long }, haft.StopTokens, 2},
		{"reasoning", haft.Budget{Tokens: 6000}, func(a *model.Answer) { a.Reasoning = long }, haft.StopTokens, 3},
		{"arguments", haft.Budget{Tokens: 6000}, func(a *model.Answer) {
			a.Calls[0].Args = fmt.Appendf(nil, `{"x":"%s%s"}`, a.Calls[0].Args[5:6], long)
		}, haft.StopTokens, 2},
		{"cost", haft.Budget{Cost: 10_000}, func(a *model.Answer) { a.Text = long }, haft.StopCost, 2},
		{"input only", haft.Budget{Tokens: 6000}, func(a *model.Answer) {
			a.Text, a.Usage.Input = long, 10
		}, haft.StopTokens, 3},
		{"output only", haft.Budget{Tokens: 1000}, func(a *model.Answer) { a.Usage.Output = 1 }, haft.StopTokens, 12},
		{"less than nothing", haft.Budget{Tokens: 6000}, func(a *model.Answer) {
			a.Text, a.Usage = long, model.Usage{Input: -1 << 40, Output: -1 << 40, Cached: -1 << 40}
		}, haft.StopTokens, 2},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			endless(w, c.answer)
			o := w.begin(0).spend(c.budget)
			if o.turn.Stop != c.stop || o.turn.Usage.Steps > c.steps {
				t.Errorf("%s after %d steps: %+v", o.turn.Stop, o.turn.Usage.Steps, o.turn.Usage)
			}
		})
	}
}

// What a server wrote before it failed is paid for.
func TestBudget_counts_tries_that_fail(t *testing.T) {
	for name, c := range map[string]struct {
		wrote string
		kind  model.Kind
		most  int
	}{
		"cut":                       {strings.Repeat("x", 8000), model.Cut, 2},
		"overloaded on the way":     {strings.Repeat("x", 8000), model.Overloaded, 2},
		"not to be read":            {"", model.InvalidAnswer, 6},
		"refused before it began":   {"", model.RateLimited, 6},
		"cut before the first word": {"", model.Cut, 6},
	} {
		each(t, name, func(t *testing.T) {
			w := newWorld(t)
			if c.wrote != "" {
				w.prelude = []model.Chunk{{Text: c.wrote}}
			}
			w.answer = func(model.Request) (*model.Answer, error) { return nil, &model.Fault{Kind: c.kind} }
			o := w.begin(0).spend(haft.Budget{Tokens: 4000})
			u := o.turn.Usage
			if paid := u.Input+u.Output > 0; len(w.asked) > c.most || u.Steps != 0 ||
				paid != (c.kind != model.RateLimited) {
				t.Errorf("asked %d times: %+v", len(w.asked), u)
			}
			if c.most == 2 && o.turn.Stop != haft.StopTokens {
				t.Errorf("%s %s", o.turn.Stop, o.turn.Error)
			}
		})
	}
}

func TestBudget_bounds_the_answer_that_is_asked_for(t *testing.T) {
	for _, c := range []struct {
		name   string
		budget haft.Budget
		model  int
		want   int
	}{
		{"nothing to bound", haft.Budget{}, 1000, 1000},
		{"neither", haft.Budget{}, 0, 0},
		{"tokens", haft.Budget{Tokens: 200}, 1000, 200},
		{"tokens, and the vendor decides", haft.Budget{Tokens: 200}, 0, 200},
		{"more than the model writes", haft.Budget{Tokens: 20_000}, 1000, 1000},
		{"what vendors refuse", haft.Budget{Tokens: 3}, 1000, 16},
		{"a model that writes little", haft.Budget{Tokens: 3}, 5, 5},
		{"cost", haft.Budget{Cost: 400}, 1000, 201}, // 2 for each
		{"cost without end", haft.Budget{Cost: 1<<63 - 1}, 1000, 1000},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			w.model.MaxOutput = c.model
			w.script(say("done"))
			w.begin(0).spend(c.budget)
			if got := w.asked[0].MaxOutput; got != c.want {
				t.Errorf("asked for %d tokens, want %d", got, c.want)
			}
		})
	}
}

func TestBudget_cost_has_no_end_that_wraps(t *testing.T) {
	for _, c := range []struct {
		name                  string
		input, cached, output int64
		used                  model.Usage
		cost                  int64
	}{
		{"prices in won", 5_000_000_000, 0, 0, model.Usage{Input: 1<<31 - 1}, (1<<31 - 1) * 5000},
		{"absurd", 1 << 62, 1 << 62, 1 << 62, model.Usage{Input: 1 << 62, Output: 1 << 62}, 1<<62 - 1},
		{"cached without a price", 1_000_000, 0, 0, model.Usage{Input: 100, Cached: 100}, 100},
		{"cached", 1_000_000, 100_000, 0, model.Usage{Input: 100, Cached: 50}, 55},
		{"more cached than all", 1_000_000, 100_000, 0, model.Usage{Input: 100, Cached: 1 << 40}, 10},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			w.model.Input, w.model.Cached, w.model.Output = c.input, c.cached, c.output
			a := say("done")
			a.Usage = c.used
			w.script(a)
			if got := w.begin(0).send("hi").turn.Usage.Cost; got < c.cost || got > c.cost+c.cost/1000 {
				t.Errorf("cost %d, want %d", got, c.cost)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // many absurd ones
		w := newWorld(t)
		w.model.Input = 1 << 62
		endless(w, func(a *model.Answer) { a.Usage.Input = 1 << 62 })
		if o := w.begin(0).send("hi"); o.turn.Usage.Cost < 1<<62 || o.turn.Usage.Input < 1<<45 {
			t.Errorf("%+v", o.turn.Usage)
		}
	})
}

func TestBudget_time_ends_calls(t *testing.T) {
	hours := func(ctx context.Context, _ string) (string, error) {
		select {
		case <-time.After(10 * time.Hour):
			return "1", nil
		case <-ctx.Done():
			return "", context.Canceled
		}
	}
	for name, c := range map[string]struct {
		calls *model.Answer
		want  string
	}{
		"one":       {call("a", "{}"), "user, assistant a, a:cancelled, assistant"},
		"more":      {call("a", "{}", "b", "{}"), "user, assistant a b, a:cancelled, b:cancelled, assistant"},
		"one waits": {call("ask", "{}", "a", "{}"), "user, assistant ask a, a:cancelled, ask:cancelled, assistant"},
	} {
		each(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.addTool("a", tool{parallel: name == "one waits", run: hours})
			w.addTool("ask", tool{parallel: true, approval: true, run: echo})
			w.script(c.calls)
			began, p := time.Now(), w.begin(0)
			o := p.spend(haft.Budget{Time: haft.Millis(time.Minute)})
			if name == "one waits" {
				o = listen(w, p.Follow(t.Context(), ann, o.turn.ID))
			}
			o.check(t, haft.TurnCompleted, haft.StopTime, c.want)
			if took := time.Since(began); took > 2*time.Minute || o.turn.Usage.Time.D() < time.Minute {
				t.Errorf("it took %v, and says %v", took, o.turn.Usage.Time)
			}
		})
	}
}

// A call that ran before counts, also in another process; a person who thinks does not.
func TestBudget_time_outlives_the_process(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{run: func(ctx context.Context, args string) (string, error) {
			return args, sleep(ctx, 40*time.Second)
		}})
		w.addTool("ask", tool{approval: true, run: echo})
		w.script(call("a", "{}"), call("ask", "{}"), call("a", `{"n":1}`), say("done"))
		p := w.begin(0)
		o := p.spend(haft.Budget{Time: haft.Millis(time.Minute)})
		o.check(t, haft.TurnWaiting, "", "user, assistant a, a:success, assistant ask")
		time.Sleep(time.Hour)
		p.end()
		p = w.begin(0)
		time.Sleep(5 * time.Second)
		p.decide("ask", true)
		o = listen(w, p.Follow(t.Context(), ann, o.turn.ID))
		o.check(t, haft.TurnCompleted, haft.StopTime, "user, assistant a, a:success, assistant ask, ask:success, "+
			"assistant a, a:cancelled, assistant")
	})
}

// sleep waits, or is cancelled.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Canceled
	}
}

// broken is a list of models that gives each once.
type broken struct {
	*process
	given *bool
}

func (b broken) Model(ctx context.Context, p haft.Principal, name string) (*conversation.Model, error) {
	if *b.given {
		return nil, &haft.Error{Code: haft.CodeInternal, Message: "the key cannot be opened"}
	}
	*b.given = true
	return b.process.Model(ctx, p, name)
}

func TestSweep_ends_a_turn_that_cannot_be_read(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(say("done"))
		given := false
		p := w.begin(0, func(cfg *conversation.Config) { cfg.Models = broken{cfg.Calls.(*process), &given} })
		began := time.Now()
		p.send("hi").check(t, haft.TurnFailed, haft.StopInternal, "user")
		if took := time.Since(began); took > 5*time.Minute {
			t.Errorf("after %v", took)
		}
	})
}
