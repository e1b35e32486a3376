package conversation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/conversation"
	"haft/internal/model"
)

// tokens is how many tokens the model of these tests makes of a request: one of each 4 bytes.
func tokens(req model.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		n += len(m.Text)
		for _, c := range m.Calls {
			n += len(c.Args)
		}
	}
	return n / 4
}

// isSummary reports whether a request asks for a summary.
func isSummary(req model.Request) bool { return strings.Contains(req.System, "Write a summary") }

// talkative is a world in which each answer is long, and the context is small.
func talkative(t *testing.T, summary func() (*model.Answer, error)) *world {
	w := newWorld(t)
	w.model.Context = 2000
	n := 0
	w.answer = func(req model.Request) (*model.Answer, error) {
		if tokens(req) > w.model.Context {
			t.Errorf("a request has %d tokens", tokens(req))
		}
		var a *model.Answer
		if isSummary(req) {
			var err error
			if a, err = summary(); err != nil {
				return nil, err
			}
		} else {
			n++
			a = say(fmt.Sprintf("answer %d %s", n, strings.Repeat("x", 1000)))
		}
		a.Usage = model.Usage{Input: tokens(req), Output: len(a.Text) / 4}
		return a, nil
	}
	return w
}

func TestContext_is_summarised(t *testing.T) {
	for _, c := range []struct {
		name    string
		summary func() (*model.Answer, error)
		want    string
	}{
		{"by the model", func() (*model.Answer, error) { return say("they talked"), nil }, "they talked"},
		{"not, since the model refuses", func() (*model.Answer, error) {
			a := say("no")
			a.Stop = model.StopRefusal
			return a, nil
		}, "Earlier messages were left out"},
		{"not, since even that is too long", func() (*model.Answer, error) {
			return nil, &model.Fault{Kind: model.TooLong}
		}, "Earlier messages were left out"},
		{"not, since the model says nothing", func() (*model.Answer, error) { return say(" "), nil },
			"Earlier messages were left out"},
	} {
		each(t, c.name, func(t *testing.T) {
			w := talkative(t, c.summary)
			p := w.begin(0)
			summaries := 0
			for i := range 20 {
				o := p.send(fmt.Sprintf("question %d", i))
				if o.turn.Stop != haft.StopEnd {
					t.Fatalf("turn %d: %s %s", i, o.turn.Stop, o.turn.Error)
				}
				req := w.asked[len(w.asked)-1]
				if last := req.Messages[len(req.Messages)-1]; last.Text != fmt.Sprintf("question %d", i) {
					t.Errorf("turn %d: the model is asked %.60q", i, last.Text)
				}
				for _, m := range o.kept {
					if m.Role != haft.RoleSummary {
						continue
					}
					summaries++
					if !strings.HasPrefix(m.Text, c.want) || m.Replaces >= m.Seq || m.Replaces == 0 {
						t.Errorf("summary of %d: %d: %q", m.Seq, m.Replaces, m.Text)
					}
					if first := req.Messages[0]; first.Role != haft.RoleSummary || first.Seq != m.Seq ||
						req.Messages[1].Seq <= m.Replaces {
						t.Errorf("the model gets %s", shape(req.Messages))
					}
				}
				if i == 10 { // what was summarised is not read again
					p.end()
					p = w.begin(0)
				}
			}
			if summaries < 3 || summaries > 10 {
				t.Errorf("%d summaries", summaries)
			}
		})
	}
}

// What passes must not cost the conversation.
func TestContext_is_whole_after_a_fault_of_a_summary(t *testing.T) {
	for name, c := range map[string]struct {
		fault error
		hangs time.Duration
		stop  haft.StopReason
	}{
		"a limit":         {&model.Fault{Kind: model.RateLimited}, 0, haft.StopModel},
		"away":            {&model.Fault{Kind: model.Unavailable}, 0, haft.StopModel},
		"cut":             {&model.Fault{Kind: model.Cut}, 0, haft.StopModel},
		"a wrong key":     {&model.Fault{Kind: model.Unauthorized}, 0, haft.StopModel},
		"something else":  {errors.New("away"), 0, haft.StopModel},
		"no time is left": {&model.Fault{Kind: model.RateLimited}, 2 * time.Hour, haft.StopTime},
	} {
		each(t, name, func(t *testing.T) {
			down := false
			w := talkative(t, func() (*model.Answer, error) {
				if down {
					return say("they talked"), nil
				}
				time.Sleep(c.hangs)
				return nil, c.fault
			})
			p := w.begin(0)
			for i := 0; !down && i < 20; i++ {
				o := p.send(fmt.Sprintf("question %d", i))
				down = o.turn.Stop != haft.StopEnd
				if down && (o.turn.Stop != c.stop || strings.Contains(shape(o.kept), "summary")) {
					t.Errorf("%s: %s", o.turn.Stop, shape(o.kept))
				}
			}
			p.send("and now?").check(t, haft.TurnCompleted, haft.StopEnd, "user, summary, assistant")
			n := slices.IndexFunc(w.asked, func(req model.Request) bool {
				return isSummary(req) && strings.Contains(req.Messages[0].Text, "question 0")
			})
			if !down || n < 0 {
				t.Error("what was said first is in no summary")
			}
		})
	}
}

func TestContext_a_summary_stands_for_what_it_has_seen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := talkative(t, func() (*model.Answer, error) { return say("they talked"), nil })
		p := w.begin(0)
		for i := range 12 {
			p.send(fmt.Sprintf("question %d", i))
		}
		// Every message was seen by a request, as it was or in a transcript.
		seen := map[string]bool{}
		for _, req := range w.asked {
			for _, m := range req.Messages {
				for i := range 12 {
					if text := fmt.Sprintf("question %d", i); isSummary(req) && strings.Contains(m.Text, text) {
						seen[text] = true
					}
				}
			}
		}
		for i := range 5 {
			if !seen[fmt.Sprintf("question %d", i)] {
				t.Errorf("question %d is in no summary", i)
			}
		}
	})
}

func TestContext_long_turns_are_summarised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.model.Context = 2000
		w.addTool("a", tool{run: func(context.Context, string) (string, error) {
			return `"` + strings.Repeat("y", 1000) + `"`, nil
		}})
		n := 0
		w.answer = func(req model.Request) (*model.Answer, error) {
			if tokens(req) > w.model.Context {
				t.Errorf("a request has %d tokens", tokens(req))
			}
			if isSummary(req) {
				if text := req.Messages[0].Text; !strings.Contains(text, "calls a ") {
					t.Errorf("the transcript is %q", text)
				}
				return say("it called a"), nil
			}
			if n++; n > 20 {
				return say("done"), nil
			}
			a := call("a", fmt.Sprintf(`{"n":%d}`, n))
			a.Usage.Input = tokens(req)
			return a, nil
		}
		o := w.begin(0).send("hi")
		if o.turn.Stop != haft.StopEnd || o.turn.Usage.Steps != 21 {
			t.Errorf("%s %s after %d steps", o.turn.Stop, o.turn.Error, o.turn.Usage.Steps)
		}
		if got := strings.Count(shape(o.kept), "summary"); got < 3 {
			t.Errorf("%d summaries", got)
		}
	})
}

func TestContext_the_model_says_that_it_is_too_long(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.model.Context = 1_000_000 // which is not true
		w.answer = func(req model.Request) (*model.Answer, error) {
			switch {
			case isSummary(req):
				return say("short"), nil
			case tokens(req) > 1000:
				return nil, &model.Fault{Kind: model.TooLong, Message: "too long"}
			}
			return say(strings.Repeat("x", 1000)), nil
		}
		p := w.begin(0)
		for range 8 {
			if o := p.send("hi"); o.turn.Stop != haft.StopEnd {
				t.Errorf("%s: %s", o.turn.Stop, o.turn.Error)
			}
		}
		o := p.send(strings.Repeat("y", 5000))
		if o.turn.Stop != haft.StopModel || !strings.Contains(o.turn.Error, "too long") {
			t.Errorf("%s: %s", o.turn.Stop, o.turn.Error)
		}
	})
}

func TestContext_many_large_results_fit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.model.Context = 20_000
		w.addTool("a", tool{parallel: true, run: func(context.Context, string) (string, error) {
			return `"` + strings.Repeat("y", 100_000) + `"`, nil
		}})
		w.answer = func(req model.Request) (*model.Answer, error) {
			if tokens(req) > w.model.Context {
				t.Errorf("a request has %d tokens", tokens(req))
			}
			if len(req.Messages) > 1 {
				return say("done"), nil
			}
			return call(slices.Repeat([]string{"a", "{}"}, 16)...), nil
		}
		o := w.begin(0).send("hi")
		if o.turn.Stop != haft.StopEnd || !strings.Contains(o.answers()[0], "[cut: ") {
			t.Errorf("%s: %d answers", o.turn.Stop, len(o.answers()))
		}
	})
}

func TestContext_is_read_as_far_as_it_fits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(say(strings.Repeat("x", 500)))
		p := w.begin(0)
		for range 300 {
			p.send("hi")
		}
		if n := len(w.asked[299].Messages); n != 599 {
			t.Errorf("%d messages fit", n)
		}
		w.model.Context = 4000
		w.answer = func(req model.Request) (*model.Answer, error) {
			if tokens(req) > 4000 {
				t.Errorf("a request has %d tokens", tokens(req))
			}
			return say("short"), nil
		}
		p.send("hi")
	})
}

func TestContext_learns_how_the_model_counts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.model.Context = 4000
		counted := func(req model.Request) int { return 3 * tokens(req) } // as of a text that is not English
		w.answer = func(req model.Request) (*model.Answer, error) {
			if counted(req) > w.model.Context {
				t.Errorf("a request has %d tokens", counted(req))
			}
			if isSummary(req) {
				return say("short"), nil
			}
			last := req.Messages[len(req.Messages)-1]
			if len(req.Messages) > 60 || strings.Contains(last.Text, "n\":20") {
				return say("done"), nil
			}
			a := call("a", fmt.Sprintf(`{"n":%d,"x":"%s"}`, len(w.asked), strings.Repeat("x", 200)))
			a.Usage.Input = counted(req)
			return a, nil
		}
		if o := w.begin(0).send("hi"); o.turn.Stop != haft.StopEnd || !strings.Contains(shape(o.kept), "summary") {
			t.Errorf("%s: %s", o.turn.Stop, shape(o.kept))
		}
	})
}

func TestContext_a_summary_of_the_turn_outlives_the_process(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.model.Context = 2000
		w.addTool("a", tool{run: func(context.Context, string) (string, error) {
			return `"` + strings.Repeat("y", 1000) + `"`, nil
		}})
		w.addTool("ask", tool{approval: true, run: echo})
		n, left := 0, -1
		w.answer = func(req model.Request) (*model.Answer, error) {
			n, left = n+1, left-1
			switch {
			case isSummary(req):
				left = 1
				return say("it called a"), nil
			case left == 0:
				return call("ask", "{}"), nil
			case left == -1 && n > 3:
				return say("done"), nil
			}
			return call("a", fmt.Sprintf(`{"n":%d}`, n)), nil
		}
		p := w.begin(0)
		o := p.send("hi")
		if !strings.Contains(shape(o.kept), "summary") || o.turn.Status != haft.TurnWaiting {
			t.Fatalf("%s: %s", o.turn.Status, shape(o.kept))
		}
		p.kill()
		q := w.begin(0)
		done := make(chan outcome)
		go func() { done <- listen(w, q.Follow(t.Context(), ann, o.turn.ID)) }()
		synctest.Wait()
		q.decide("ask", true)
		o = <-done
		if got := w.asked[len(w.asked)-1].Messages; got[0].Role != haft.RoleSummary || got[1].Role == haft.RoleUser {
			t.Errorf("the model gets %s", shape(got))
		}
	})
}

func TestContext_reasoning_matters_within_a_turn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := call("a", "{}")
		first.Reasoning, first.Opaque = "hm", json.RawMessage(`{"signature":"s"}`)
		w.script(first, say("done"))
		p := w.begin(0)
		p.send("one")
		p.send("two")
		for i, want := range []string{"", `hm {"signature":"s"}`, " "} {
			if i > 0 {
				m := w.asked[i].Messages[1]
				if got := m.Reasoning + " " + string(m.Opaque); got != want {
					t.Errorf("request %d has %q, want %q", i, got, want)
				}
			}
		}
	})
}

func TestContext_leaves_out_calls_without_an_answer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(call("a", "{}"), say("done"))
		p := w.begin(0)
		p.send("one")
		p.send("two")
		w.messages[2].Answers = "lost" // of the first turn, whose call has the id that one of the second has, too
		p.send("three")
		if got := shape(w.asked[4].Messages); got != "user, assistant, user, assistant a, a:success, assistant, user" {
			t.Errorf("the model gets %s", got)
		}
	})
}

// away is a list of models that cannot be read for a while.
type away struct {
	*process
	fails *int
}

func (a away) Model(ctx context.Context, p haft.Principal, name string) (*conversation.Model, error) {
	if *a.fails--; *a.fails >= 0 && *a.fails < 3 {
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "away"}
	}
	return a.process.Model(ctx, p, name)
}

func TestSend_goes_on_when_the_model_is_found_again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(say("done"))
		fails := 4 // after the message was taken
		p := w.begin(0, func(cfg *conversation.Config) { cfg.Models = away{cfg.Calls.(*process), &fails} })
		p.send("hi").check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant")
	})
}

func TestCancelTurn_while_the_conversation_is_summarised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		w := talkative(t, func() (*model.Answer, error) { <-hold; return say("late"), nil })
		p := w.begin(0)
		last := make(chan outcome, 1)
		go func() {
			for {
				if o := p.send("hi"); o.turn.Stop != haft.StopEnd {
					last <- o
					return
				}
			}
		}()
		synctest.Wait()
		go func() { time.Sleep(time.Second); close(hold) }()
		w.mu.Lock()
		id := w.order[len(w.order)-1]
		w.mu.Unlock()
		if err := p.CancelTurn(t.Context(), ann, id); err != nil {
			t.Fatal(err)
		}
		o := <-last
		o.check(t, haft.TurnCancelled, haft.StopCancelled, "user")
	})
}
