package conversation_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/conversation"
	"haft/internal/model"
)

// refusing is a store that keeps no messages of some roles, for a reason.
type refusing struct {
	conversation.Turns
	code  haft.Code
	roles string
}

func (s refusing) AdvanceTurn(ctx context.Context, owner string, t haft.Turn, list ...haft.Message) ([]haft.Message,
	error) {
	if s.code == haft.CodeConflict {
		return nil, conflict()
	}
	for _, m := range list {
		if strings.Contains(s.roles, string(m.Role)) {
			return nil, &haft.Error{Code: s.code, Message: "the memory of the agent is full"}
		}
	}
	return s.Turns.AdvanceTurn(ctx, owner, t, list...)
}

// A turn whose messages have no room ends, with what it is about, and asks the model no more.
func TestFull_memory_ends_the_turn(t *testing.T) {
	for _, c := range []struct {
		name, roles string
		first       *model.Answer
		approval    bool
		kept        string
		asked       int
	}{
		{"the answer", "assistant tool", say("hello"), false, "user", 1},
		{"calls", "assistant tool", call("a", "{}"), false, "user", 1},
		// The model is asked while the answer is being kept.
		{"the answer to a call", "tool", call("a", "{}"), false, "user, assistant a", 2},
		{"a call that waits", "tool", call("a", "{}"), true, "user, assistant a", 1},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			w.addTool("a", tool{approval: c.approval, run: echo})
			w.script(c.first)
			p := w.begin(0, func(cfg *conversation.Config) {
				cfg.Turns = refusing{cfg.Turns, haft.CodeInvalid, c.roles}
			})
			go p.send("hi")
			time.Sleep(10 * time.Second)
			if c.approval {
				if err := p.CancelTurn(t.Context(), ann, w.first()); err != nil {
					t.Error(err)
				}
			}
			turn, kept := w.ofTurn(w.first())
			want := haft.TurnFailed
			if c.approval {
				want = haft.TurnCancelled
			}
			if turn.Status != want || shape(kept) != c.kept || len(w.asked) != c.asked || turn.Usage.Steps < 1 ||
				!strings.Contains(turn.Error, "memory of the agent is full") {
				t.Errorf("%s %q, asked %d times: %s", turn.Status, turn.Error, len(w.asked), shape(kept))
			}
		})
	}
}

// A turn that fails again and again asks the model as often as it may, and not for ever, also if it seems lost and is
// not.
func TestFailures_are_bounded(t *testing.T) {
	for _, c := range []struct {
		name  string
		code  haft.Code
		steps int
		asked int
	}{
		{"lost, and ours", haft.CodeConflict, 50, 10},
		{"lost, and ours, with a budget", haft.CodeConflict, 3, 3},
		{"a store that is away", haft.CodeUnavailable, 3, 3},
	} {
		each(t, c.name, func(t *testing.T) {
			w := newWorld(t)
			w.script(say("hello"))
			p := w.begin(0, func(cfg *conversation.Config) {
				cfg.Turns, cfg.Budget.Steps = refusing{cfg.Turns, c.code, "assistant"}, c.steps
			})
			done := make(chan outcome, 1)
			go func() { done <- p.send("hi") }()
			time.Sleep(time.Hour)
			w.mu.Lock()
			asked := len(w.asked)
			w.mu.Unlock()
			if asked != c.asked {
				t.Errorf("the model was asked %d times, want %d", asked, c.asked)
			}
			p.end()
			<-done
		})
	}
}
