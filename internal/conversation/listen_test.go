package conversation_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/conversation"
	"haft/internal/model"
)

func TestSend_goes_on_when_nobody_listens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(call("a", "{}"), say("done"))
		p := w.begin(0)
		ctx, cancel := context.WithCancel(t.Context())
		for range p.Send(ctx, as(ann, "helper"), "helper", haft.NewMessage{Text: "hi"}) {
			break
		}
		cancel()
		synctest.Wait()
		turn, kept := w.ofTurn(w.first())
		outcome{turn: turn, kept: kept}.check(t, haft.TurnCompleted, haft.StopEnd,
			"user, assistant a, a:success, assistant")
	})
}

// A turn that is looked for in the store, while its sender has kept it and does not work on it yet, is left to the
// sender, who gets all of it.
func TestSend_gets_the_beginning_beside_a_sweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := 0
		w.answer = func(model.Request) (*model.Answer, error) {
			if n++; n == 1 {
				return nil, &model.Fault{Kind: model.Unavailable}
			}
			return say("done"), nil
		}
		found := make(chan struct{})
		p := w.begin(0, func(c *conversation.Config) {
			c.Turns, c.Claims = beginning{c.Turns, found}, finding{c.Claims, sync.OnceFunc(func() { close(found) })}
		})
		o := p.send("hi")
		o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant")
		if len(o.notes) != 1 {
			t.Errorf("notices %q, want that of the first try", o.notes)
		}
	})
}

// beginning begins turns that are found before the sender goes on.
type beginning struct {
	conversation.Turns
	found chan struct{}
}

func (b beginning) BeginTurn(ctx context.Context, owner string, t haft.Turn, key string, m haft.Message) (*haft.Turn,
	bool, error) {
	turn, begun, err := b.Turns.BeginTurn(ctx, owner, t, key, m)
	<-b.found
	for range 1000 {
		runtime.Gosched() // for who found it
	}
	return turn, begun, err
}

// finding reports that a turn was found.
type finding struct {
	conversation.Claims
	report func()
}

func (f finding) OpenTurns(ctx context.Context, owner string, after haft.TurnID) ([]haft.Turn, error) {
	list, err := f.Claims.OpenTurns(ctx, owner, after)
	if len(list) > 0 {
		f.report()
	}
	return list, err
}

func TestSend_slow_listeners_miss_text_and_nothing_else(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 10_000 {
			w.prelude = append(w.prelude, model.Chunk{Text: "x"})
		}
		w.script(call("a", "{}"), call("b", "{}"), say("done"))
		p := w.begin(0)
		var o outcome
		for e, err := range p.Send(t.Context(), as(ann, "helper"), "helper", haft.NewMessage{Text: "hi"}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(o.events) == 0 {
				synctest.Wait() // the turn is over before the listener goes on
			}
			o.events = append(o.events, e)
			o.text += e.Delta
			if e.Message != nil {
				o.kept = append(o.kept, *e.Message)
			}
			if e.Turn != nil {
				o.turn = *e.Turn
			}
			if e.Notice != "" {
				o.notes = append(o.notes, e.Notice)
			}
		}
		o.check(t, haft.TurnCompleted, haft.StopEnd, "user, assistant a, a:success, assistant b, b:success, assistant")
		if len(o.events) > 600 {
			t.Errorf("%d events, notices %v", len(o.events), o.notes)
		}
	})
}

func TestSend_a_listener_that_was_slow_gets_text_again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 1000 {
			w.prelude = append(w.prelude, model.Chunk{Text: "x"})
		}
		next := make(chan struct{})
		w.addTool("a", tool{run: func(context.Context, string) (string, error) {
			<-next
			w.mu.Lock()
			defer w.mu.Unlock()
			w.prelude = nil
			return "1", nil
		}})
		w.script(call("a", "{}"), say("done"))
		text := ""
		for e, err := range w.begin(0).Send(t.Context(), as(ann, "helper"), "helper", haft.NewMessage{Text: "hi"}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Message != nil && e.Message.Role == haft.RoleUser {
				synctest.Wait() // until the call runs
			}
			if text += e.Delta; e.Message != nil && len(e.Message.Calls) > 0 {
				close(next)
			}
		}
		if n := strings.Count(text, "x"); n > 300 || !strings.HasSuffix(text, "done") {
			t.Errorf("%d pieces of the first text, and the last is %q", n, text[n:])
		}
	})
}

func TestSend_again_yields_a_long_turn_as_a_whole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := 0
		w.answer = func(model.Request) (*model.Answer, error) {
			if n++; n > 120 {
				return say("done"), nil
			}
			return call("a", fmt.Sprintf(`{"n":%d}`, n)), nil
		}
		p := w.begin(0, func(cfg *conversation.Config) { cfg.Budget.Steps = 200 })
		m := haft.NewMessage{Text: "hi", Key: "k"}
		listen(w, p.Send(t.Context(), as(ann, "helper"), "helper", m))
		seen := 0
		for _, e := range listen(w, p.Send(t.Context(), as(ann, "helper"), "helper", m)).events {
			if e.Message != nil {
				seen++
			}
		}
		if seen != 242 {
			t.Errorf("%d messages", seen)
		}
	})
}

func TestFollow_sees_each_message_once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(call("a", "{}"), call("b", "{}"), call("c", "{}"), say("done"))
		n := 0
		p := w.begin(0, func(cfg *conversation.Config) {
			cfg.Recheck = func(_ context.Context, p haft.Principal) (haft.Principal, error) {
				if n++; n%3 == 0 { // the work stops, and is begun again
					return p, &haft.Error{Code: haft.CodeUnavailable, Message: "away"}
				}
				return p, nil
			}
		})
		o := p.send("hi")
		var seen []haft.Message
		for _, e := range o.events {
			if e.Message != nil {
				seen = append(seen, *e.Message)
			}
		}
		if shape(seen) != shape(o.kept) || o.turn.Stop != haft.StopEnd {
			t.Errorf("%s: seen %s\nkept %s", o.turn.Stop, shape(seen), shape(o.kept))
		}
	})
}

func TestFollow(t *testing.T) {
	for name, elsewhere := range map[string]bool{"here": false, "elsewhere": true} {
		each(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.addTool("a", tool{run: func(context.Context, string) (string, error) {
				time.Sleep(5 * time.Second)
				return "1", nil
			}})
			w.script(call("a", "{}"), say("done"))
			p := w.begin(0)
			go p.send("hi")
			time.Sleep(time.Second)
			by := p
			if elsewhere {
				by = w.begin(0)
			}
			o := listen(w, by.Follow(t.Context(), ann, w.first()))
			var seen []haft.Message
			for _, e := range o.events {
				if e.Message != nil {
					seen = append(seen, *e.Message)
				}
			}
			if o.err != nil || o.events[0].Turn == nil || shape(seen) != "a:success, assistant" || !o.turn.Final() {
				t.Errorf("error %v, %s, %+v", o.err, shape(seen), o.turn)
			}
			if (o.text == "done") == elsewhere {
				t.Errorf("the text is %q", o.text)
			}
			again := listen(w, by.Follow(t.Context(), ann, w.first()))
			if len(again.events) != 1 || !again.turn.Final() {
				t.Errorf("a turn that has ended has %d events", len(again.events))
			}
		})
	}
}

func TestFollow_goes_on_where_another_process_does(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{approval: true, run: echo})
		w.script(call("a", "{}"), say("done"))
		p, q := w.begin(0), w.begin(0)
		p.send("hi")
		done := make(chan outcome)
		go func() { done <- listen(w, q.Follow(t.Context(), ann, w.first())) }()
		time.Sleep(time.Second)
		p.end()
		time.Sleep(10 * time.Second) // q claims it
		q.decide("a", true)
		if o := <-done; o.err != nil || o.turn.Status != haft.TurnCompleted || o.text != "done" {
			t.Errorf("error %v, %s, text %q", o.err, o.turn.Status, o.text)
		}
	})
}

// Whoever begins to listen behind a change, or beside another process, still learns what the turn waits for.
func TestFollow_sees_a_second_request(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{approval: true, run: echo})
		w.script(call("a", "{}", "a", "{}"), say("done"))
		p, q := w.begin(0), w.begin(0)
		first := p.send("hi").turn.Approvals
		var seen [][]haft.ApprovalID
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e := range q.Follow(t.Context(), ann, w.first()) {
				if e.Turn != nil && e.Turn.Status == haft.TurnWaiting {
					seen = append(seen, e.Turn.Approvals)
				}
			}
		}()
		synctest.Wait()
		p.decide("a", true)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		second, _ := w.ofTurn(w.first())
		if want := [][]haft.ApprovalID{first, second.Approvals}; !reflect.DeepEqual(seen, want) {
			t.Errorf("seen %v, not %v", seen, want)
		}
		p.decide("a", false)
		<-done
		turn, kept := w.ofTurn(w.first())
		outcome{turn: turn, kept: kept}.check(t, haft.TurnCompleted, haft.StopEnd,
			"user, assistant a a, a:success, a:denied_by_approver, assistant")
	})
}

func TestFollow_ends_with_the_service(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{approval: true, run: echo})
		w.script(call("a", "{}"), say("done"))
		p := w.begin(0)
		p.send("hi")
		done := make(chan outcome)
		go func() { done <- listen(w, p.Follow(t.Context(), ann, w.first())) }()
		synctest.Wait()
		p.end()
		if o := <-done; haft.CodeOf(o.err) != haft.CodeUnavailable {
			t.Errorf("error %v", o.err)
		}
		if o := p.send("hi"); haft.CodeOf(o.err) != haft.CodeRateLimited && haft.CodeOf(o.err) != haft.CodeUnavailable {
			t.Errorf("a closed service says %v", o.err)
		}
	})
}

func TestFollow_bounds_listeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("a", tool{approval: true, run: echo})
		w.script(call("a", "{}"), say("done"))
		p := w.begin(0)
		p.send("hi")
		ctx, cancel := context.WithCancel(t.Context())
		for range 100 {
			go listen(w, p.Follow(ctx, ann, w.first()))
		}
		synctest.Wait()
		if o := listen(w, p.Follow(ctx, ann, w.first())); haft.CodeOf(o.err) != haft.CodeRateLimited {
			t.Errorf("error %v", o.err)
		}
		cancel()
		synctest.Wait()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if o := listen(w, p.Follow(ctx, ann, w.first())); haft.CodeOf(o.err) == haft.CodeRateLimited {
			t.Error("listeners that left still count")
		}
	})
}

func TestRead_own_turns_only(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(say("hello"))
		p := w.begin(0)
		id := p.send("the secret of ann").turn.ID
		approver := bob
		approver.Roles = []string{haft.RoleApprover}
		asAgent, asOther, blind, foreign := ann, ann, ann, ann
		asAgent.Agent, asOther.Agent = "helper", "ag_other"
		asAgent.Agent = string(agentID)
		blind.Actions = []haft.Action{haft.AgentsRead, haft.CallsWrite}
		foreign.Org = "elsewhere"
		for _, c := range []struct {
			name string
			p    haft.Principal
			sees bool
			code haft.Code // of lists
		}{
			{"ann", ann, true, ""}, {"a manager", admin, true, ""}, {"an approver", approver, true, ""},
			{"ann's agent", asAgent, true, ""}, {"bob", bob, false, ""},
			{"nobody", haft.Principal{Org: "org"}, false, ""},
			{"another agent of ann", asOther, false, haft.CodeNotFound},
			{"a credential without calls:read", blind, false, haft.CodeDenied},
			{"another organisation", foreign, false, haft.CodeNotFound},
		} {
			_, err := p.Turn(t.Context(), c.p, id)
			turns, errTurns := p.Turns(t.Context(), c.p, "helper", "", 0)
			list, errList := p.Messages(t.Context(), c.p, "helper", haft.MessageFilter{})
			if (err == nil) != c.sees || (len(turns) == 1) != c.sees || (len(list) == 2) != c.sees {
				t.Errorf("%s sees %v, %d turns, %d messages", c.name, err, len(turns), len(list))
			}
			if haft.CodeOf(errTurns) != c.code || haft.CodeOf(errList) != c.code {
				t.Errorf("%s: %v, %v", c.name, errTurns, errList)
			}
			if o := listen(w, p.Follow(t.Context(), c.p, id)); (o.err == nil) != c.sees {
				t.Errorf("%s follows: %v", c.name, o.err)
			}
		}
	})
}

func TestSend_the_model_gets_the_sender_s_conversation_only(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(say("hello"))
		p := w.begin(0)
		p.send("the secret of ann")
		listen(w, p.Send(t.Context(), as(bob, "helper"), "helper", haft.NewMessage{Text: "what did ann say?"}))
		if got := shape(w.asked[1].Messages); got != "user" {
			t.Errorf("bob's model gets %s", got)
		}
		p.send("and again")
		if got := shape(w.asked[2].Messages); got != "user, assistant, user" {
			t.Errorf("ann's model gets %s", got)
		}
	})
}
