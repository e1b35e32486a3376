package letta

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"haft"
)

// A flow makes messages of the events of a turn, in Letta's order: calls come when it is known whether they run or wait
// for a person.
type flow struct {
	view
	tokens bool // pieces of text are shown as they come
	// waits returns the calls that a turn waits for, or nil if that cannot be read.
	waits func(ctx context.Context, t haft.Turn) map[haft.CallID]bool

	turn     haft.Turn
	asked    haft.Message    // the last one of the model with calls
	shown    map[string]bool // calls of it, by the ids of the model
	answered map[string]bool
	sent     haft.Message // pieces of the message that the model writes
}

// take returns what an event shows.
func (f *flow) take(ctx context.Context, e haft.TurnEvent) []wireMessage {
	switch {
	case e.Delta+e.Thinking != "":
		return f.piece(e)
	case e.Message != nil:
		f.turn.ID = e.Message.Turn
		return f.message(*e.Message)
	case e.Event != nil:
		switch e.Event.Type {
		case haft.EventQueued, haft.EventApproval, haft.EventDecided: // it is not known yet, or shown as a request
			return nil
		}
		return f.calls(func(c haft.ToolCall) bool { return c.Call == e.Event.Call }, nil)
	case e.Turn != nil && e.Turn.Status == haft.TurnWaiting:
		f.turn = *e.Turn
		pending := f.pending(ctx)
		return f.calls(func(c haft.ToolCall) bool { return pending[c.Call] }, pending)
	case e.Turn != nil:
		f.turn = *e.Turn
	}
	return nil
}

// piece shows a piece of the text that the model writes.
func (f *flow) piece(e haft.TurnEvent) []wireMessage {
	if !f.tokens {
		return nil
	}
	if f.sent.ID == "" { // it gets another id when it is kept
		f.sent = haft.Message{ID: haft.MessageID(messageWord + strings.ToLower(rand.Text())), Created: time.Now()}
	}
	f.sent.Text += e.Delta
	f.sent.Reasoning += e.Thinking
	return f.show(haft.Message{ID: f.sent.ID, Turn: f.turn.ID, Role: haft.RoleAssistant, Text: e.Delta,
		Reasoning: e.Thinking, Created: f.sent.Created}, nil)
}

// message shows a message that was kept, but for its calls, and for what was shown in pieces.
func (f *flow) message(m haft.Message) []wireMessage {
	switch m.Role {
	case haft.RoleTool:
		f.answered[m.Answers] = true
		call := f.calls(func(c haft.ToolCall) bool { return c.ID == m.Answers }, nil)
		return append(call, f.show(m, nil)...)
	case haft.RoleAssistant:
		if len(m.Calls) > 0 {
			f.asked, f.shown, f.answered = m, map[string]bool{}, map[string]bool{}
		}
		for _, text := range []struct{ all, sent *string }{{&m.Text, &f.sent.Text}, {&m.Reasoning, &f.sent.Reasoning}} {
			// A request to a model that was tried again may have begun with another text.
			*text.all = strings.TrimPrefix(*text.all, *text.sent)
		}
		f.sent, m.Calls = haft.Message{}, nil
		return f.show(m, nil)
	}
	return nil // what the client sent, and summaries
}

// calls shows calls that were not shown yet, or that wait for a person.
func (f *flow) calls(fits func(haft.ToolCall) bool, pending map[haft.CallID]bool) []wireMessage {
	m := f.asked
	m.Text, m.Reasoning, m.Calls = "", "", nil
	for _, c := range f.asked.Calls {
		if fits(c) && (!f.shown[c.ID] || pending[c.Call]) {
			m.Calls, f.shown[c.ID] = append(m.Calls, c), true
		}
	}
	return f.show(m, pending)
}

// pending returns the calls that the turn waits for.
func (f *flow) pending(ctx context.Context) map[haft.CallID]bool {
	if known := f.waits(ctx, f.turn); known != nil {
		return known
	}
	all := map[haft.CallID]bool{}
	for _, c := range f.asked.Calls {
		if c.Call != "" && !f.answered[c.ID] {
			all[c.Call] = true
		}
	}
	return all
}
