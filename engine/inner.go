package engine

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"haft"
	"haft/executor"
)

// others are the tools that a call may call while it runs: those of its principal.
type others struct {
	e *Engine
	f *flight
}

var _ executor.Others = others{}

// Tools implements [executor.Others].
func (o others) Tools(ctx context.Context) iter.Seq2[haft.Tool, error] {
	return o.e.Tools(ctx, o.f.call.Principal, haft.ToolFilter{})
}

// Call implements [executor.Others].
//
// The call that makes this one holds things which this one may need, and waits for
// it. So that neither waits for ever, its place in the queue is given up, and slots
// and the agent's turn that it holds count for both.
func (o others) Call(ctx context.Context, tool string, args json.RawMessage) (*haft.Result, error) {
	f := o.f
	if f.depth >= maxDepth {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "calls that make calls are nested too deep"}
	}
	child, err := o.e.enter(haft.Call{
		Tool: tool, Args: args, Principal: f.call.Principal, Deadline: f.call.Deadline, Env: f.call.Env,
		Parent: f.call.ID, Turn: f.call.Turn, Chain: f.call.Chain, Trace: f.call.Trace,
	})
	if err != nil {
		return nil, err
	}
	child.depth, child.parent, child.seen = f.depth+1, f, f.seen
	f.grant.Settle()
	return o.e.fly(ctx, child)
}

// turning reports whether f, or one that waits for it, has the agent's turn.
func (f *flight) turning() bool {
	return f != nil && (f.unlock != nil || f.parent.turning())
}

// holding reports whether f, or one that waits for it, has a slot of that key.
func (f *flight) holding(key string) bool {
	return f != nil && (slices.Contains(f.keys, key) || f.parent.holding(key))
}
