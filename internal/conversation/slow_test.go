package conversation_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"haft"
	"haft/internal/conversation"
)

// patience is how long these tests wait for what should happen at once.
const patience = 10 * time.Second

// slowBegin is a store that takes long to begin a turn of an agent.
type slowBegin struct {
	conversation.Turns
	agent   haft.AgentID
	entered chan struct{}
	let     chan struct{}
}

// BeginTurn implements [conversation.Turns].
func (s slowBegin) BeginTurn(ctx context.Context, owner string, t haft.Turn, key string, m haft.Message) (*haft.Turn,
	bool, error) {
	if t.Agent == s.agent {
		close(s.entered)
		<-s.let
	}
	return s.Turns.BeginTurn(ctx, owner, t, key, m)
}

// addUnclaimed keeps a turn of a process that has ended.
func (w *world) addUnclaimed(by haft.Principal) haft.TurnID {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := haft.Turn{ID: "run-001", Agent: haft.AgentID(by.Agent), Model: "m", Status: haft.TurnRunning, Principal: by,
		Created: time.Now()}
	w.turns[t.ID], w.order = &keptTurn{turn: t, owner: "dead"}, append(w.order, t.ID)
	w.add(t, haft.Message{Role: haft.RoleUser, Text: "hi"})
	return t.ID
}

// While the store takes long to begin a turn, other turns begin, turns of other processes go on, and the service can be
// closed. This test has no fake clock, which does not go on while somebody waits for a mutex.
func TestSend_a_slow_begin_delays_nobody_else(t *testing.T) {
	w := newWorld(t)
	w.script(say("done"), say("done"))
	entered, let := make(chan struct{}), make(chan struct{})
	end := sync.OnceFunc(func() { close(let) })
	p := w.begin(0, func(c *conversation.Config) {
		c.Beat = time.Millisecond
		c.Turns = slowBegin{c.Turns, agentID + "1", entered, let}
	})
	var sent sync.WaitGroup
	defer sent.Wait()
	defer end()
	sent.Go(func() { listen(w, p.Send(t.Context(), as(ann, "helper1"), "helper1", haft.NewMessage{Text: "hi"})) })
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	defer context.AfterFunc(ctx, end)()
	id := w.addUnclaimed(as(bob, "helper2"))
	if o := listen(w, p.Follow(ctx, bob, id)); o.err != nil || o.turn.Status != haft.TurnCompleted {
		t.Errorf("the turn of another process is %q: %v", o.turn.Status, o.err)
	}
	if o := listen(w, p.Send(ctx, as(bob, "helper3"), "helper3", haft.NewMessage{Text: "hi"})); o.err != nil {
		t.Errorf("a message to another agent: %v", o.err)
	}
	if err := p.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// lostBegin is a store that begins a turn, but does not say so in time.
type lostBegin struct{ conversation.Turns }

// BeginTurn implements [conversation.Turns].
func (l lostBegin) BeginTurn(ctx context.Context, owner string, t haft.Turn, key string, m haft.Message) (*haft.Turn,
	bool, error) {
	_, _, _ = l.Turns.BeginTurn(ctx, owner, t, key, m)
	time.Sleep(time.Minute)
	return nil, false, &haft.Error{Code: haft.CodeUnavailable, Message: "away"}
}

// A turn that was kept, but whose sender got an error, is left alone until then and goes on afterwards.
func TestSweep_takes_a_turn_whose_begin_failed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.script(say("done"))
		p := w.begin(0, func(c *conversation.Config) { c.Turns = lostBegin{c.Turns} })
		go p.send("hi")
		time.Sleep(50 * time.Second)
		if w.mu.Lock(); len(w.asked) > 0 {
			t.Error("the turn is worked on while it begins")
		}
		w.mu.Unlock()
		time.Sleep(20 * time.Second)
		if turn, _ := w.ofTurn(w.first()); turn.Status != haft.TurnCompleted {
			t.Errorf("the turn is %s", turn.Status)
		}
	})
}

// slowLook is an engine whose record of a call is read while another process takes its turn.
type slowLook struct {
	*process
	steals atomic.Bool
	after  atomic.Int64 // operations of the process until then
}

// Seen implements [conversation.Calls].
func (s *slowLook) Seen(ctx context.Context, by haft.Principal, id haft.CallID, acts ...haft.Action) (*haft.Record,
	error) {
	rec, err := s.process.Seen(ctx, by, id, acts...)
	if s.steals.Swap(false) {
		s.steal()
		time.Sleep(time.Minute) // until a sweep has left the turn
		s.mu.Lock()
		defer s.mu.Unlock()
		rec.Status = haft.StatusRejected
		s.after.Store(int64(s.ops))
	}
	return rec, err
}

// A turn that another process takes while its calls are looked at does not go on here.
func TestWait_a_turn_that_is_lost_while_it_is_looked_at_is_left(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addTool("ask", tool{approval: true, run: echo})
		w.script(call("ask", "{}"), say("done"))
		var engine *slowLook
		p := w.begin(0, func(c *conversation.Config) {
			engine = &slowLook{process: c.Calls.(*process)}
			c.Calls = engine
		})
		p.send("hi").check(t, haft.TurnWaiting, "", "user, assistant ask")
		engine.steals.Store(true)
		time.Sleep(5 * time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := int64(p.ops) - engine.after.Load(); engine.after.Load() == 0 || n > 0 {
			t.Errorf("%d operations on a turn of another process", n)
		}
	})
}

// A blockedWriter takes nothing for a while, as a pipe that nobody reads.
type blockedWriter struct{ entered, let chan struct{} }

// Write implements io.Writer.
func (b blockedWriter) Write(data []byte) (int, error) {
	if strings.Contains(string(data), "a turn cannot go on") {
		close(b.entered)
		<-b.let
	}
	return len(data), nil
}

// A log that cannot be written delays the turn that it is about, and no other one.
func TestSend_a_slow_log_delays_nobody_else(t *testing.T) {
	w := newWorld(t)
	w.script(say("done"))
	log := blockedWriter{make(chan struct{}), make(chan struct{})}
	end := sync.OnceFunc(func() { close(log.let) })
	var failed atomic.Bool
	p := w.begin(0, func(c *conversation.Config) {
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
		c.Recheck = func(_ context.Context, by haft.Principal) (haft.Principal, error) {
			if by.User == bob.User || failed.Swap(true) {
				return by, nil
			}
			return by, &haft.Error{Code: haft.CodeUnavailable, Message: "away"}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	var sent sync.WaitGroup
	defer sent.Wait()
	defer cancel()
	defer end()
	sent.Go(func() { listen(w, p.Send(ctx, as(ann, "helper1"), "helper1", haft.NewMessage{Text: "hi"})) })
	<-log.entered
	defer context.AfterFunc(ctx, end)()
	if o := listen(w, p.Send(ctx, as(bob, "helper2"), "helper2", haft.NewMessage{Text: "hi"})); o.err != nil {
		t.Errorf("a message of somebody else: %v", o.err)
	}
}
