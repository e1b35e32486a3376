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
	rn *runner
	ex *execution
}

var _ executor.Others = others{}

// Tools implements [executor.Others].
func (o others) Tools(ctx context.Context) iter.Seq2[haft.Tool, error] {
	p := o.ex.call.Principal
	return func(yield func(haft.Tool, error) bool) {
		var agent *haft.Agent
		err := o.rn.authority.MayFind(p, haft.ToolsRead)
		if err == nil && p.Agent != "" {
			agent, err = o.rn.store.Agents.Agent(ctx, p.Org, p.Agent)
		}
		if err != nil {
			yield(haft.Tool{}, err)
			return
		}
		for t, err := range o.rn.registry.Tools(ctx, p, haft.ToolFilter{}) {
			if err == nil && agent != nil && !slices.Contains(agent.Tools, t.Name) {
				continue
			}
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

// Call implements [executor.Others].
//
// The call that makes this one holds things which this one may need, and waits for
// it. So that neither waits for ever, its place in the queue is given up, and slots
// and the agent's turn that it holds count for both.
func (o others) Call(ctx context.Context, tool string, args json.RawMessage) (*haft.Result, error) {
	ex := o.ex
	if ex.depth >= maxDepth {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "calls that make calls are nested too deep"}
	}
	child, err := o.rn.entrance.enter(haft.Call{
		Tool: tool, Args: args, Principal: ex.call.Principal, Deadline: ex.call.Deadline, Env: ex.call.Env,
		Parent: ex.call.ID, Turn: ex.call.Turn, Chain: ex.call.Chain, Trace: ex.call.Trace,
	})
	if err != nil {
		return nil, err
	}
	child.depth, child.parent, child.seen = ex.depth+1, ex, ex.seen
	ex.grant.Settle()
	return o.rn.pipeline.runCall(ctx, child)
}

// turning reports whether f, or one that waits for it, has the agent's turn.
func (ex *execution) turning() bool {
	return ex != nil && (ex.unlock != nil || ex.parent.turning())
}

// holding reports whether f, or one that waits for it, has a slot of that key.
func (ex *execution) holding(key string) bool {
	return ex != nil && (slices.Contains(ex.keys, key) || ex.parent.holding(key))
}
