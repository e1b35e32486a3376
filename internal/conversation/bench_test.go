package conversation_test

import (
	"context"
	"fmt"
	"testing"

	"haft"
	"haft/internal/authority"
	"haft/internal/conversation"
	"haft/internal/model"
)

// BenchmarkStep measures what a step of a turn costs beside its model and its tools: a call with everything around it.
// The agent has 30 tools, and a conversation of 400 messages.
func BenchmarkStep(b *testing.B) {
	w := newWorld(&testing.T{})
	for i := range 30 {
		w.addTool(fmt.Sprintf("tool_%d", i), tool{run: echo})
	}
	w.profile.Blocks = []haft.Block{{Label: "persona", Value: "I am kind.", Limit: 100}}
	w.profile.Agent.Rules = []haft.ToolRule{{Type: haft.RuleMaxCount, Tool: "b", MaxCount: 3}}
	steps := 0
	w.answer = func(req model.Request) (*model.Answer, error) {
		if steps--; steps < 0 {
			return say("done"), nil
		}
		return call("a", fmt.Sprintf(`{"n":%d}`, steps)), nil
	}
	p := &process{world: w, name: "p", dead: make(chan struct{})}
	p.Service = conversation.New(conversation.Config{Turns: p, Claims: claims{p}, History: history{p}, Agents: p,
		Models: p, Calls: p, Authority: authority.Rules{}, Owner: func() string { return p.name },
		Budget: haft.Budget{Steps: 1 << 30}})
	defer p.Close(context.Background()) //nolint:errcheck // it waits for nothing
	for range 200 {
		p.send("hi")
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; left -= 40 { // turns of 40 steps
		w.asked, steps = nil, min(left, 40)
		if o := p.send("hi"); o.turn.Status != haft.TurnCompleted {
			b.Fatalf("%s: %s", o.turn.Status, o.turn.Error)
		}
		w.mu.Lock()
		w.messages = w.messages[:400]
		w.mu.Unlock()
	}
}
