package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"haft"
	"haft/policy"
	"haft/schema"
	"haft/toolrule"
)

// authorize asks whether this principal may call this tool, by the tool's own
// roles, the rules of the agent and the policies of server and organisation. It
// looks at the arguments as they came; [Engine.approve] decides again with those
// that will run. [Engine.Explain] asks by the same functions.
func (e *Engine) authorize(ctx context.Context, f *flight) error {
	if err := e.blocks.check(f); err != nil {
		return err
	}
	if !hasRoles(f.call.Principal, f.tool) {
		message := "the tool is for callers with a certain role"
		if f.explains { // who asks why may know which
			message = "the tool is for callers with one of the roles " + strings.Join(rolesOf(f.tool), ", ")
		}
		return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever, message).by("roles")
	}
	if err := e.followRules(ctx, f); err != nil {
		return err
	}
	rules, err := e.policyOf(ctx, f.call.Principal.Org)
	if err != nil {
		return err
	}
	f.rules = rules
	return e.decide(f, readable(f.call.Args))
}

// readable returns arguments as rules look at them before they are validated.
func readable(args json.RawMessage) json.RawMessage {
	tree, err := schema.ReadArguments(args)
	if err != nil {
		// Arguments that cannot be read do not fit, which validate says better.
		return json.RawMessage("{}")
	}
	if raw, err := schema.Encode(tree); err == nil {
		return raw
	}
	return args
}

// decide asks policy about args and keeps the answer.
func (e *Engine) decide(f *flight, args json.RawMessage) error {
	if f.decided != nil && bytes.Equal(f.decided, args) {
		return nil // equal policies and requests give equal decisions
	}
	if f.explains {
		f.decision = f.rules.Explain(f.request(args))
	} else {
		f.decision = f.rules.Decide(f.request(args))
	}
	f.decided = args
	return denied(f.decision)
}

// denied returns the refusal of a decision, or nil.
func denied(d policy.Decision) error {
	err := d.Err()
	if err == nil {
		return nil
	}
	r := refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever, haft.MessageOf(err))
	r.cause = err
	return r
}

// followRules holds the call against the tool rules of its agent. Rules that look
// at the turn so far take its lock, so that two calls of one turn cannot both be
// the first.
func (e *Engine) followRules(ctx context.Context, f *flight) error {
	if f.agent == nil || len(f.agent.Rules) == 0 {
		return nil
	}
	rules, p := f.agent.Rules, f.call.Principal
	var history []toolrule.Past
	if toolrule.NeedsTurn(rules) {
		if f.call.Turn == "" {
			return refuse(haft.StatusDenied, haft.FailRule, haft.RetryChanged, "the agent's tool rules depend on what was called before: the call has to say in which turn it is made").by("tool_rules")
		}
		var err error
		if !f.explains && !f.parent.turning() { // else the call that made this one has it, and waits
			if f.unlock, err = e.turns.take(ctx, p.Org+"\x00"+p.Agent+"\x00"+f.call.Turn); err != nil {
				return err
			}
		}
		if history, err = e.past(ctx, f); err != nil {
			return err
		}
	}
	state, err := toolrule.Evaluate(rules, history, f.agent.Tools)
	if err == nil {
		err = state.Admit(f.tool.Tool.Name)
	}
	if err != nil {
		r := refuse(haft.StatusDenied, haft.FailRule, haft.RetryChanged, haft.MessageOf(err)).by("tool_rules")
		r.cause = err
		return r
	}
	if state.NeedsApproval(f.tool.Tool.Name) {
		asks := *f.tool
		asks.Tool.Version.Settings.RequiresApproval = true
		f.tool = &asks
	}
	args, err := state.Prefilled(f.tool.Tool.Name, f.call.Args, f.tool.Tool.Version.Parameters)
	if err != nil {
		r := refuse(haft.StatusValidation, haft.FailRule, haft.RetryNever, haft.MessageOf(err))
		r.cause = err
		return r
	}
	f.call.Args = args
	return nil
}

// past returns what was called in the turn before, also what waits. Package
// toolrule sorts out what was refused.
func (e *Engine) past(ctx context.Context, f *flight) ([]toolrule.Past, error) {
	p := f.call.Principal
	records, err := e.store.Turn(ctx, p.Org, p.Agent, f.call.Turn)
	if err != nil {
		return nil, err
	}
	var history []toolrule.Past
	for _, r := range records {
		if r.Call.ID == f.call.ID {
			continue
		}
		past := toolrule.Past{Tool: r.Call.Tool, Status: r.Status}
		if r.Result != nil {
			past.Value = r.Result.Value
		}
		history = append(history, past)
	}
	return history, nil
}
