package engine

import (
	"context"
	"slices"

	"haft"
)

// resolve finds the tool, in the version that is to run, and the agent on whose
// behalf it is called.
func (e *Engine) resolve(ctx context.Context, f *flight) error {
	if note := e.stopped.Load(); note != nil && !(note.leaving && f.async) {
		return refuse(haft.StatusDenied, haft.FailStopped, haft.RetrySame, "calls are stopped: "+note.Reason)
	}
	p := f.call.Principal
	if p.Agent != "" {
		agent, err := e.store.Agent(ctx, p.Org, p.Agent)
		if haft.CodeOf(err) == haft.CodeNotFound {
			return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever, "there is no such agent in this organisation")
		}
		if err != nil {
			return err
		}
		if agent.Disabled {
			return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever, "the agent is disabled")
		}
		f.agent = agent
	}
	tool, err := e.registry.Resolve(ctx, p.Org, f.call.Tool, f.call.Digest)
	if err != nil {
		return err
	}
	if f.agent != nil && !slices.Contains(f.agent.Tools, tool.Tool.Name) {
		// The same words as for a tool that is not there: it is not, for the agent.
		return &haft.Error{Code: haft.CodeNotFound, Message: "there is no such tool"}
	}
	f.tool = tool
	env, err := joinEnv(f.agent, f.call.Env)
	if err != nil {
		return err
	}
	if f.agent != nil && len(f.agent.Env) > 0 {
		f.redactor = e.redactor(f.agent, f.call.Env)
	}
	f.env = env
	return nil
}
