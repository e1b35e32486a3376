package engine

import (
	"context"
	"slices"

	"haft"
)

// resolve finds the tool, in the version that is to run, and the agent on whose
// behalf it is called.
func (e *Engine) resolve(ctx context.Context, f *flight) error {
	refused := e.caller(ctx, f)
	// Also for a call that is refused: what is stored must not be in its record.
	if err := e.equip(ctx, f); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	tool, err := e.registry.Resolve(ctx, f.call.Principal.Org, f.call.Tool, f.call.Digest)
	if err != nil {
		return err
	}
	if f.agent != nil && !slices.Contains(f.agent.Tools, tool.Tool.Name) {
		// The same words as for a tool that is not there: it is not, for the agent.
		return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such tool"}
	}
	f.tool = tool
	return e.house(ctx, f)
}

// caller finds the agent on whose behalf the call is made, unless calls are
// stopped.
func (e *Engine) caller(ctx context.Context, f *flight) error {
	p := f.call.Principal
	if p.Agent != "" {
		agent, err := e.store.Agent(ctx, p.Org, p.Agent)
		if haft.CodeOf(err) == haft.CodeNotFound {
			return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever, "there is no such agent in this organisation")
		}
		if err != nil {
			return err
		}
		f.agent = agent // also if it may not call: what is stored for it stays hidden
	}
	if note := e.stopped.Load(); note != nil && !(note.leaving && f.async) {
		return refuse(haft.StatusDenied, haft.FailStopped, haft.RetrySame, "calls are stopped: "+note.Reason)
	}
	if f.agent != nil && f.agent.Disabled {
		return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever, "the agent is disabled")
	}
	return nil
}
