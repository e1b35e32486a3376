package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/agenttool"
	"haft/internal/conversation"
	"haft/internal/model"
)

var _ agenttool.Mailbox = (*conversation.Service)(nil)

// becomes lets everybody act as every agent.
func becomes(_ context.Context, from haft.Principal, id haft.AgentID) (haft.Principal, error) {
	from.Agent = string(id)
	return from, nil
}

// mailing is a process whose tool mail asks another agent, and waits for its answer. The agent helper asks helper1,
// that asks helper2, and so on, as far as the model wants.
func mailing(w *world) *process {
	p := w.begin(0, func(cfg *conversation.Config) { cfg.As = becomes })
	w.addTool("mail", tool{run: func(ctx context.Context, args string) (string, error) {
		w.mu.Lock()
		id := w.order[len(w.order)-1]
		w.mu.Unlock()
		turn, _ := w.ofTurn(id)
		text, err := p.Reply(ctx, turn.Principal, id, fmt.Sprint("helper", turn.Depth+1), args)
		if err != nil {
			return "", fmt.Errorf("mail: %s", haft.MessageOf(err))
		}
		return fmt.Sprintf("%q", text), nil
	}})
	return p
}

func TestReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := mailing(w)
		w.answer = func(req model.Request) (*model.Answer, error) {
			switch last := req.Messages[len(req.Messages)-1]; {
			case last.Text == "hi":
				return call("mail", `{"q":"how are you?"}`), nil
			case last.Name == string(agentID):
				return call("a", "{}"), nil
			case last.Name == "a":
				return say("very well"), nil
			}
			return say("it is well"), nil
		}
		o := p.send("hi")
		o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant mail, mail:success, assistant")
		if o.answers()[0] != "very well" {
			t.Errorf("answered with %s", o.answers()[0])
		}
		sub, kept := w.ofTurn(w.order[1])
		outcome{turn: sub, kept: kept}.check(t, haft.TurnCompleted, haft.StopEnd,
			"user, assistant a, a:success, assistant")
		if sub.Parent != o.turn.ID || sub.Depth != 1 || sub.Agent != agentID+"1" ||
			sub.Principal.User != "ann" || sub.Principal.Agent != string(sub.Agent) || kept[0].Name != string(agentID) {
			t.Errorf("the turn is %+v", sub)
		}
		// The steps and tokens of the second turn are of the first, too.
		if u := o.turn.Usage; u.Steps != 4 || u.Input != 40 || u.Output != 20 || sub.Usage.Steps != 2 {
			t.Errorf("usage %+v and %+v", u, sub.Usage)
		}
		if b := sub.Budget; b.Steps != 49 {
			t.Errorf("the second turn had %+v", b)
		}
	})
}

func TestReply_of_an_agent_that_speaks_by_a_tool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := mailing(w)
		w.addTool("send_message", tool{run: func(context.Context, string) (string, error) { return `"sent"`, nil }})
		w.answer = func(req model.Request) (*model.Answer, error) {
			if req.Messages[0].Name != "" {
				a := call("send_message", `{"message":"by the tool"}`)
				a.Text = "what I think"
				return a, nil
			}
			if len(req.Messages) > 1 {
				return say("done"), nil
			}
			return call("mail", "{}"), nil
		}
		if a := p.send("hi").answers(); a[0] != "by the tool" {
			t.Errorf("answered with %q", a)
		}
	})
}

func TestMail_depth_is_bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := mailing(w)
		w.answer = func(req model.Request) (*model.Answer, error) {
			if last := req.Messages[len(req.Messages)-1]; last.Role == haft.RoleTool {
				return say("it said: " + last.Text), nil
			}
			return call("mail", fmt.Sprintf(`{"n":%d}`, len(w.asked))), nil
		}
		o := p.send("hi")
		if len(w.order) != 5 || !strings.Contains(o.last(), "came over 4 agents") {
			t.Errorf("%d turns: %s", len(w.order), o.last())
		}
	})
}

func TestMail_budget_is_of_the_whole_tree(t *testing.T) {
	for _, c := range []struct {
		name   string
		budget haft.Budget
		stop   haft.StopReason
	}{
		{"tokens", haft.Budget{Tokens: 100}, haft.StopTokens},
		{"cost", haft.Budget{Cost: 140}, haft.StopCost},
		{"steps", haft.Budget{Steps: 7}, haft.StopSteps},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			p := mailing(w)
			w.answer = func(req model.Request) (*model.Answer, error) {
				if req.Messages[0].Name != "" { // the second agent would go on for ever
					return call("a", fmt.Sprintf(`{"n":%d}`, len(w.asked))), nil
				}
				return call("mail", fmt.Sprintf(`{"n":%d}`, len(w.asked))), nil
			}
			o := p.spend(c.budget)
			sub, _ := w.ofTurn(w.order[1])
			if o.turn.Stop != c.stop || sub.Stop != c.stop || len(w.asked) > 7 {
				t.Errorf("%s and %s after %d requests", o.turn.Stop, sub.Stop, len(w.asked))
			}
		})
	}
}

// Agents that are asked at once share what is left.
func TestMail_budget_is_shared_by_turns_beside_each_other(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.begin(0, func(cfg *conversation.Config) { cfg.As = becomes })
		w.addTool("mail", tool{run: func(ctx context.Context, _ string) (string, error) {
			var all sync.WaitGroup
			for i := range 5 {
				all.Go(func() {
					_, _ = p.Reply(ctx, as(ann, "helper"), w.first(), fmt.Sprint("helper", i+1), "go on for ever")
				})
			}
			all.Wait()
			return "1", nil
		}})
		var mu sync.Mutex
		asked := 0
		w.answer = func(req model.Request) (*model.Answer, error) {
			if req.Messages[0].Name == "" {
				return call("mail", "{}"), nil
			}
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			asked++
			return call("a", fmt.Sprintf(`{"n":%d}`, asked)), nil
		}
		o := p.spend(haft.Budget{Steps: 21})
		if asked > 25 || asked < 20 || o.turn.Stop != haft.StopSteps {
			t.Errorf("asked %d times, %s", asked, o.turn.Stop)
		}
	})
}

func TestDeliver_does_not_wait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.begin(0, func(cfg *conversation.Config) { cfg.As = becomes })
		w.addTool("mail", tool{run: func(ctx context.Context, args string) (string, error) {
			return "1", p.Deliver(ctx, as(ann, "helper"), w.first(), "helper1", "hello")
		}})
		hold := make(chan struct{})
		w.answer = func(req model.Request) (*model.Answer, error) {
			if req.Messages[0].Name != "" {
				<-hold
				return say("late"), nil
			}
			if len(req.Messages) > 1 {
				return say("done"), nil
			}
			return call("mail", "{}"), nil
		}
		p.send("hi").check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant mail, mail:success, assistant")
		close(hold)
		synctest.Wait()
		if sub, kept := w.ofTurn(w.order[1]); sub.Status != haft.TurnCompleted || shape(kept) != "user, assistant" {
			t.Errorf("%s: %s", sub.Status, shape(kept))
		}
	})
}

// A turn that a message began ends when the turn of its sender is cancelled.
func TestDeliver_of_a_sender_that_is_cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.begin(0, func(cfg *conversation.Config) { cfg.As = becomes })
		w.addTool("mail", tool{run: func(ctx context.Context, args string) (string, error) {
			return "1", p.Deliver(ctx, as(ann, "helper"), w.first(), "helper1", "hello")
		}})
		w.answer = func(req model.Request) (*model.Answer, error) {
			switch {
			case len(req.Messages) == 1 && req.Messages[0].Name == "":
				return call("mail", "{}"), nil
			case len(req.Messages) == 1:
				time.Sleep(time.Minute)
			}
			return call("a", fmt.Sprint(`{"n":`, len(req.Messages), "}")), nil // without end
		}
		w.addTool("a", tool{run: func(context.Context, string) (string, error) {
			time.Sleep(10 * time.Second)
			return "1", nil
		}})
		go p.send("hi")
		time.Sleep(time.Second)
		if err := p.CancelTurn(t.Context(), ann, w.first()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		sub, kept := w.ofTurn(w.order[1])
		if sub.Status != haft.TurnCancelled || !strings.Contains(sub.Error, "sent the message was cancelled") ||
			strings.Contains(shape(kept), "a:success") {
			t.Errorf("%s %q: %s", sub.Status, sub.Error, shape(kept))
		}
	})
}

// Nobody can agree any more to what a turn wants to do whose sender was cancelled.
func TestDeliver_of_a_sender_that_is_cancelled_while_a_person_is_asked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.begin(0, func(cfg *conversation.Config) { cfg.As = becomes })
		w.addTool("mail", tool{run: func(ctx context.Context, _ string) (string, error) {
			err := p.Deliver(ctx, as(ann, "helper"), w.first(), "helper1", "hello")
			return "1", errors.Join(err, sleep(ctx, time.Hour))
		}})
		w.addTool("ask", tool{approval: true, run: echo})
		w.answer = asking("ask")
		go p.send("hi")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if sub, _ := w.ofTurn(w.order[1]); sub.Status != haft.TurnWaiting {
			t.Fatalf("the turn is %s", sub.Status)
		}
		if err := p.CancelTurn(t.Context(), ann, w.first()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		sub, kept := w.ofTurn(w.order[1])
		if sub.Status != haft.TurnCancelled || shape(kept) != "user, assistant ask, ask:cancelled" {
			t.Errorf("%s: %s", sub.Status, shape(kept))
		}
	})
}

func TestReply_ends_the_turn_when_nobody_waits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := mailing(w)
		w.addTool("a", tool{run: func(ctx context.Context, _ string) (string, error) {
			return "1", sleep(ctx, 30*time.Minute)
		}})
		w.answer = asking("a")
		go p.send("hi")
		time.Sleep(10 * time.Second)
		if err := p.CancelTurn(t.Context(), ann, w.first()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		for _, id := range w.order {
			turn, kept := w.ofTurn(id)
			if turn.Status != haft.TurnCancelled || len(w.order) != 2 {
				t.Errorf("%s is %s: %s", id, turn.Status, shape(kept))
			}
		}
	})
}

// asking is a model by which the first agent sends a message, and the second one calls a tool.
func asking(name string) func(model.Request) (*model.Answer, error) {
	return func(req model.Request) (*model.Answer, error) {
		switch {
		case len(req.Messages) > 1:
			return say("done"), nil
		case req.Messages[0].Name != "":
			return call(name, "{}"), nil
		}
		return call("mail", "{}"), nil
	}
}

// Nobody waits long for an answer: what takes long goes on, and the sender is told.
func TestReply_that_comes_later(t *testing.T) {
	for _, c := range []struct {
		name  string
		what  tool
		words string
		least time.Duration
	}{
		{"a person is asked", tool{approval: true, run: echo}, "a person has to agree", 0},
		{"long work", tool{run: func(ctx context.Context, _ string) (string, error) {
			return "1", sleep(ctx, 30*time.Minute)
		}}, "it still works", 2 * time.Minute},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			p := mailing(w)
			w.addTool("a", c.what)
			w.answer = asking("a")
			began := time.Now()
			o := p.send("hi")
			o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant mail, mail:success, assistant")
			if took := time.Since(began); !strings.Contains(o.answers()[0], c.words) || took < c.least ||
				took > c.least+time.Second {
				t.Errorf("answered after %v with %s", took, o.answers()[0])
			}
			time.Sleep(20 * time.Minute)
			if c.what.approval {
				p.decide("a", true)
			}
			time.Sleep(20 * time.Minute)
			sub, kept := w.ofTurn(w.order[1])
			outcome{turn: sub, kept: kept}.check(t, haft.TurnCompleted, haft.StopEnd,
				"user, assistant a, a:success, assistant")
		})
	}
}

// A server that ends does not end the turn that an agent waits for: the next one goes on with both.
func TestReply_of_a_server_that_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := mailing(w)
		w.addTool("a", tool{run: func(ctx context.Context, _ string) (string, error) {
			return "1", sleep(ctx, time.Minute)
		}})
		w.answer = asking("a")
		done := make(chan outcome, 1)
		go func() { done <- p.send("hi") }()
		time.Sleep(10 * time.Second)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		<-done
		p.end()
		w.begin(0)
		time.Sleep(time.Minute)
		for _, id := range w.order {
			if turn, kept := w.ofTurn(id); turn.Status != haft.TurnCompleted {
				t.Errorf("%s is %s: %s", id, turn.Status, shape(kept))
			}
		}
	})
}

func TestMail_refuses(t *testing.T) {
	me := as(ann, "helper")
	type acts = func(context.Context, haft.Principal, haft.AgentID) (haft.Principal, error)
	as2 := func(change func(*haft.Principal)) acts {
		return func(ctx context.Context, p haft.Principal, id haft.AgentID) (haft.Principal, error) {
			p, err := becomes(ctx, p, id)
			change(&p)
			return p, err
		}
	}
	blind := me
	blind.Actions = []haft.Action{haft.CallsWrite}
	for _, c := range []struct {
		name        string
		from        haft.Principal
		turn        haft.TurnID
		agent, text string
		as          acts
		code        haft.Code
		words       string
	}{
		{"no messages here", me, "run-001", "helper1", "hi", nil, haft.CodeDenied, "no messages"},
		{"one who may not", me, "run-001", "helper1", "hi", func(context.Context, haft.Principal, haft.AgentID) (
			haft.Principal, error) {
			return me, &haft.Error{Code: haft.CodeDenied, Message: "the credential is not for that agent"}
		}, haft.CodeDenied, "not for that agent"},
		{"one who becomes another user", me, "run-001", "helper1", "hi",
			as2(func(p *haft.Principal) { p.User = "bob" }), haft.CodeDenied, "does not act"},
		{"one who becomes another agent", me, "run-001", "helper1", "hi",
			as2(func(p *haft.Principal) { p.Agent = me.Agent }), haft.CodeDenied, "does not act"},
		{"a credential without agents:read", blind, "run-001", "helper1", "hi", becomes, haft.CodeDenied, ""},
		{"no turn", me, "", "helper1", "hi", becomes, haft.CodeInvalid, "within its turns"},
		{"a turn of another user", as(bob, "helper"), "run-001", "helper1", "hi", becomes, haft.CodeInvalid, "within"},
		{"a turn of another agent", as(ann, "helper2"), "run-001", "helper1", "hi", becomes, haft.CodeInvalid,
			"within"},
		{"a turn, and no agent", ann, "run-001", "helper1", "hi", becomes, haft.CodeInvalid, "within"},
		{"a turn that has ended", as(ann, "helper9"), "run-002", "helper1", "hi", becomes, haft.CodeInvalid, "within"},
		{"the agent itself", me, "run-001", "helper", "hi", becomes, haft.CodeInvalid, "itself"},
		{"the agent above", as(ann, "helper5"), "run-003", "helper", "hi", becomes, haft.CodeConflict,
			"led to this message"},
		{"an unknown agent", me, "run-001", "nobody", "hi", becomes, haft.CodeNotFound, ""},
		{"no name", me, "run-001", "", "hi", becomes, haft.CodeInvalid, "name"},
		{"a long name", me, "run-001", strings.Repeat("x", 257), "hi", becomes, haft.CodeInvalid, "name"},
		{"no text", me, "run-001", "helper1", " ", becomes, haft.CodeInvalid, "text"},
		{"a huge text", me, "run-001", "helper1", strings.Repeat("x", 256<<10+1), becomes, haft.CodeInvalid, "text"},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			w.addTool("ask", tool{approval: true, run: echo})
			w.answer = func(req model.Request) (*model.Answer, error) {
				if req.Messages[0].Text == "end" {
					return say("done"), nil
				}
				return call("ask", "{}"), nil
			}
			p := w.begin(0, func(cfg *conversation.Config) { cfg.As = c.as })
			p.send("hi") // which waits
			for _, name := range []string{"helper9", "helper5"} {
				text := map[string]string{"helper9": "end", "helper5": "wait"}[name]
				listen(w, p.Send(t.Context(), as(ann, name), name, haft.NewMessage{Text: text}))
			}
			before := len(w.order)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := p.Reply(ctx, c.from, c.turn, c.agent, c.text)
			sent := p.Deliver(ctx, c.from, c.turn, c.agent, c.text)
			for _, err := range []error{err, sent} {
				if haft.CodeOf(err) != c.code || !strings.Contains(haft.MessageOf(err), c.words) {
					t.Errorf("error %v, want %s", err, c.code)
				}
			}
			if len(w.order) != before {
				t.Error("a turn was begun")
			}
		})
	}
}
