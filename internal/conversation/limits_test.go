package conversation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/conversation"
	"haft/internal/model"
)

func TestSend_budgets(t *testing.T) {
	slow := tool{run: func(ctx context.Context, _ string) (string, error) {
		select {
		case <-time.After(40 * time.Second):
			return "1", nil
		case <-ctx.Done():
			return "", context.Canceled
		}
	}}
	for _, c := range []struct {
		name   string
		budget haft.Budget
		server haft.Budget
		stop   haft.StopReason
		steps  int
		note   string
	}{
		{"steps", haft.Budget{Steps: 3}, haft.Budget{}, haft.StopSteps, 3, "3 steps"},
		{"steps of the server", haft.Budget{Steps: 30}, haft.Budget{Steps: 4}, haft.StopSteps, 4, "4 steps"},
		{"default steps", haft.Budget{}, haft.Budget{}, haft.StopSteps, 50, "50 steps"},
		{"tokens", haft.Budget{Tokens: 45}, haft.Budget{}, haft.StopTokens, 3, "45 tokens"},
		{"time", haft.Budget{Time: haft.Millis(time.Minute)}, haft.Budget{}, haft.StopTime, 2, "1m0s of time"},
		{"cost", haft.Budget{Cost: 41}, haft.Budget{}, haft.StopCost, 3, "0.000041"},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			w.addTool("a", slow)
			n := 0
			w.answer = func(model.Request) (*model.Answer, error) {
				n++
				a := call("a", `{"n":`+strings.Repeat("1", n)+`}`)
				a.Usage.Cached = 4
				return a, nil
			}
			p := w.begin(0, func(cfg *conversation.Config) {
				if cfg.Budget = c.server; c.stop != haft.StopTime {
					cfg.Budget.Time = haft.Millis(24 * time.Hour)
				}
			})
			o := listen(w, p.Send(t.Context(), as(ann, "helper"), "helper",
				haft.NewMessage{Text: "hi", Budget: c.budget}))
			want := "user" + strings.Repeat(", assistant a, a:success", c.steps) + ", assistant"
			if c.stop == haft.StopTime { // which ends the second call
				want = "user, assistant a, a:success, assistant a, a:cancelled, assistant"
			}
			o.check(t, haft.TurnCompleted, c.stop, want)
			if !strings.Contains(o.last(), c.note) || o.turn.Usage.Steps != c.steps {
				t.Errorf("%d steps, the user is told %q", o.turn.Usage.Steps, o.last())
			}
			// 6 tokens for 1, 4 cached ones for a tenth, and 5 written ones for 2.
			if u := o.turn.Usage; u.Input != 10*c.steps || u.Output != 5*c.steps || u.Cached != 4*c.steps ||
				u.Cost != int64(16*c.steps) {
				t.Errorf("usage: %+v", u)
			}
		})
	}
}

func TestSend_faults_of_the_model(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault error
		times int
		stop  haft.StopReason
		asked int
		least time.Duration
	}{
		{"a limit", &model.Fault{Kind: model.RateLimited, RetryAfter: 20 * time.Second}, 2, haft.StopEnd, 3,
			40 * time.Second},
		{"a long limit", &model.Fault{Kind: model.Overloaded, RetryAfter: time.Hour}, 1, haft.StopEnd, 2,
			time.Minute},
		{"a cut", &model.Fault{Kind: model.Cut}, 5, haft.StopEnd, 6, 0},
		{"a server that stays away", &model.Fault{Kind: model.Unavailable, Message: "it is away"}, 6,
			haft.StopModel, 6, 0},
		{"a wrong key", &model.Fault{Kind: model.Unauthorized, Message: "it is wrong"}, 1, haft.StopModel, 1, 0},
		{"something else", errors.New("secret"), 1, haft.StopModel, 1, 0},
		{"a wrong request", &haft.Error{Code: haft.CodeDenied, Message: "no network"}, 1, haft.StopModel, 1, 0},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			n := 0
			w.answer = func(model.Request) (*model.Answer, error) {
				if n++; n <= c.times {
					return nil, c.fault
				}
				return say("done"), nil
			}
			began := time.Now()
			o := w.begin(0).send("hi")
			status, want := haft.TurnCompleted, "user, assistant"
			if c.stop == haft.StopModel {
				status, want = haft.TurnFailed, "user"
			}
			o.check(t, status, c.stop, want)
			if took := time.Since(began); n != c.asked || took < c.least || took > c.least+2*time.Minute {
				t.Errorf("asked %d times in %v, want %d in at least %v", n, took, c.asked, c.least)
			}
			if len(o.notes) != min(c.asked-1, 5) || strings.Contains(o.turn.Error, "secret") {
				t.Errorf("notices %q, error %q", o.notes, o.turn.Error)
			}
		})
	}
}

// The operator learns why a model cannot be reached, and nobody the key in its address.
func TestSend_logs_why_a_model_does_not_answer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		w := newWorld(t)
		w.answer = func(model.Request) (*model.Answer, error) {
			return nil, &model.Fault{Kind: model.Unauthorized, Status: 403, Message: "no", Err: fmt.Errorf("ask: %w",
				&url.Error{Op: "Post", URL: "https://example.com/?key=secret", Err: errors.New("no route")})}
		}
		p := w.begin(0, func(cfg *conversation.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		p.send("hi")
		for _, want := range []string{"kind=unauthorized", "status=403", "no route", "model=m"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %s: %s", want, log.String())
			}
		}
		if strings.Contains(log.String(), "secret") || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("the log: %s", log.String())
		}
	})
}

func TestSend_a_model_that_hangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.model.Context = 1000
		hang := make(chan struct{})
		w.answer = func(model.Request) (*model.Answer, error) { <-hang; return say("late"), nil }
		p := w.begin(0)
		go func() { time.Sleep(2 * time.Hour); close(hang) }()
		o := p.send("hi")
		o.check(t, haft.TurnCompleted, haft.StopTime, "user, assistant")
	})
}

// A strict store takes no message with calls.
type strict struct{ *process }

func (s strict) AdvanceTurn(ctx context.Context, owner string, t haft.Turn, list ...haft.Message) ([]haft.Message,
	error) {
	if len(list) > 0 && len(list[0].Calls) > 0 {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the message is too large"}
	}
	return s.process.AdvanceTurn(ctx, owner, t, list...)
}

func TestSend_a_message_that_cannot_be_kept_ends_the_turn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(call("a", "{}"))
		o := w.begin(0, func(cfg *conversation.Config) { cfg.Turns = strict{cfg.Calls.(*process)} }).send("hi")
		o.check(t, haft.TurnFailed, haft.StopInternal, "user")
		if len(w.asked) != 1 || !strings.Contains(o.turn.Error, "too large") {
			t.Errorf("asked %d times, error %q", len(w.asked), o.turn.Error)
		}
	})
}

func TestSend_one_turn_at_a_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{approval: true, run: echo})
		w.script(call("a", "{}"))
		p := w.begin(0)
		p.send("hi")
		if o := p.send("hi"); haft.CodeOf(o.err) != haft.CodeConflict {
			t.Errorf("error %v", o.err)
		}
	})
}

func TestSend_bounds_what_a_model_writes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		huge := strings.Repeat("x", 1<<20)
		first := call("a", `{"x":"`+huge+`"}`, "b", "{}")
		first.Text, first.Reasoning, first.Opaque = huge, huge, json.RawMessage(`"`+huge+`"`)
		w.script(first, say("done"))
		o := w.begin(0).send("hi")
		o.check(t, haft.TurnCompleted, haft.StopEnd,
			"user, assistant a b, a:validation_error, b:validation_error, assistant")
		if !strings.Contains(o.answers()[0], "more than 262144 bytes") {
			t.Errorf("answered with %s", o.answers()[0])
		}
	})
}

func TestSend_cuts_a_large_result(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{run: func(context.Context, string) (string, error) {
			text, err := json.Marshal(strings.Repeat("ä", 1<<20))
			return string(text), err
		}})
		w.script(call("a", "{}"), say("done"))
		o := w.begin(0).send("hi")
		if a := o.answers()[0]; len(a) > 200_100 || !strings.Contains(a, "[cut: ") || strings.Contains(a, "\ufffd") {
			t.Errorf("the answer has %d bytes and ends with %q", len(a), a[len(a)-40:])
		}
	})
}
