package engine

import (
	"context"
	"slices"

	"haft"
	"haft/internal/callenv"
)

// resolve finds the tool, in the version that is to run, and the agent on whose
// behalf it is called.
func (au *authorizer) resolve(ctx context.Context, ex *execution) error {
	refused := au.caller(ctx, ex)
	if !ex.probe { // of which nothing is kept, and whose variables are no question of permission
		// Also for a call that is refused: what is stored must not be in its record.
		if err := au.env.Read(ctx, &ex.env, ex.call.Principal.Org, ex.agent, ex.call.Env); err != nil {
			return err
		}
		if err := callenv.CheckLabels(ex.call, ex.ours, au.env.HoldsOf(&ex.env, ex.call.Env)); err != nil {
			return err
		}
	}
	if refused != nil {
		return refused
	}
	tool, err := au.registry.Resolve(ctx, ex.call.Principal.Org, ex.call.Tool, ex.call.Digest)
	if err == nil && ex.agent != nil && !slices.Contains(ex.agent.Tools, tool.Tool.Name) {
		// The same words as for a tool that is not there: it is not, for the agent.
		err = &haft.Error{Code: haft.CodeNotFound, Message: "there is no such tool"}
	}
	if haft.CodeOf(err) == haft.CodeNotFound && ex.rec.Status == haft.StatusQueued {
		// It was accepted while the tool was there, and has to end.
		return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever, "there is no such tool")
	}
	if err != nil {
		return err
	}
	ex.tool = tool
	if ex.trace != nil {
		ex.trace.Tool(tool.Tool.Name)
	}
	if now := tool.Current; now != nil && now.Settings.Sandbox != "" {
		// The configuration is that of the sandbox which the current version asks for.
		pinned := *tool
		pinned.Tool.Version.Settings.Sandbox = now.Settings.Sandbox
		ex.tool = &pinned
	}
	if err := au.workspaces.Default(ctx, au.authority, &ex.call, ex.agent, &tool.Tool); err != nil {
		return err
	}
	ex.rec.Call.Workspace, ex.rec.Call.Requirements = ex.call.Workspace, ex.call.Requirements
	ex.rec.Call.Sandbox = ex.call.Sandbox
	return au.choosePlace(ctx, ex)
}

// choosePlace chooses the sandbox that the call runs in, with the isolation that is demanded as far as that is known.
func (au *authorizer) choosePlace(ctx context.Context, ex *execution) (err error) {
	ex.place, err = au.orgs.Choose(ctx, au.orgs.AskOf(ex.call, ex.tool.Tool, ex.agent, au.isolation(ex)))
	switch haft.CodeOf(err) {
	case "":
		return au.egress.holdVersions(ex)
	case haft.CodeInvalid:
		if ex.probe { // that the sandbox cannot be had any more is no answer to what the rules say
			return nil
		}
		return refuse(haft.StatusValidation, haft.FailValidation, haft.RetryChanged, haft.MessageOf(err))
	case haft.CodeDenied:
		return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever, haft.MessageOf(err)).by("sandbox")
	}
	return err
}

// canonical returns a principal whose agent is named by its id, so that rules, limits,
// records and filters mean the same agent whatever it was called by. An agent that
// cannot be found stays as it is, and its call is refused and recorded under that name.
// It reads nothing for a principal that has an id already.
func (au *authorizer) canonical(ctx context.Context, p haft.Principal) haft.Principal {
	if p.Agent == "" || haft.IsAgentID(p.Agent) || p.Org == "" {
		return p
	}
	if a, err := au.store.Agents.Agent(ctx, p.Org, p.Agent); err == nil {
		p.Agent = string(a.ID)
	}
	return p
}

// caller finds the agent on whose behalf the call is made, unless calls are
// stopped.
func (au *authorizer) caller(ctx context.Context, ex *execution) error {
	p := ex.call.Principal
	if p.Agent != "" {
		agent, err := au.store.Agents.Agent(ctx, p.Org, p.Agent)
		if haft.CodeOf(err) == haft.CodeNotFound {
			return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever,
				"there is no such agent in this organisation").by("agent")
		}
		if err != nil {
			return err
		}
		ex.agent = agent                           // also if it may not call: what is stored for it stays hidden
		if id := string(agent.ID); p.Agent != id { // kept by an older haft, which knew it by its name
			ex.call.Principal.Agent, ex.rec.Call.Principal.Agent = id, id
		}
	}
	if ex.confirm {
		if err := au.confirm(ctx, ex); err != nil {
			return err
		}
	}
	if note := au.operator.stopped.Load(); note != nil && !ex.probe && !(note.leaving && (ex.async ||
		ex.call.Chain != "")) {
		return refuse(haft.StatusDenied, haft.FailStopped, haft.RetrySame,
			"calls are stopped: "+note.Reason).by("stopped")
	}
	if ex.agent != nil && ex.agent.Disabled {
		return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever, "the agent is disabled").by("agent")
	}
	return nil
}
