package engine

import (
	"bytes"
	"context"
	"strings"

	"haft"
	"haft/internal/authority"
	"haft/internal/callenv"
	"haft/internal/chains"
	"haft/internal/circuit"
	"haft/internal/filestore"
	"haft/internal/jsontree"
	"haft/internal/orgconfig"
	"haft/internal/registry"
	"haft/internal/secret"
	"haft/internal/store"
	"haft/internal/toolrule"
	"haft/internal/workspace"
	"haft/policy"
)

// An authorizer decides about calls: it has the stages resolve, authorize, validate and approve, and
// decides again when permissions change.
type authorizer struct {
	cfg         *Config
	store       *store.Store
	registry    *registry.Registry
	calls       *callTable
	digests     *secret.Digester
	egress      *egressPlanner
	env         *callenv.Builder
	filters     *filters
	operator    *operator
	permissions *permissions
	redaction   *redaction
	orgs        *orgconfig.Reader
	files       *filestore.Store
	workspaces  *workspace.Store
	authority   authority.Rules

	turns  *chains.Locks // by turn of an agent
	blocks *circuit.Blocks
}

// authorize asks whether this principal may call this tool, by the tool's own
// roles, the rules of the agent and the policies of server and organisation. It
// looks at the arguments as they came; [Engine.approve] decides again with those
// that will run. [Engine.Explain] asks by the same functions.
func (au *authorizer) authorize(ctx context.Context, ex *execution) error {
	if err := au.unblocked(ex); err != nil {
		return err
	}
	if !ex.tool.For(ex.call.Principal) {
		message := "the tool is for callers with a certain role"
		if ex.explains { // who asks why may know which
			message = "the tool is for callers with one of the roles " + strings.Join(ex.tool.Roles(), ", ")
		}
		return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever, message).by("roles")
	}
	if err := au.followRules(ctx, ex); err != nil {
		return err
	}
	rules, err := au.orgs.Policy(ctx, ex.call.Principal.Org)
	if err != nil {
		return err
	}
	ex.rules = rules
	if err = au.decide(ex, jsontree.OrEmpty(ex.readArgs())); err == nil && ex.decision.MinIsolation != "" {
		err = au.choosePlace(ctx, ex) // policy may demand more than the tool
	}
	return err
}

// decide asks policy about args and keeps the answer.
func (au *authorizer) decide(ex *execution, args jsontree.Document) error {
	if ex.decided.Text != nil && bytes.Equal(ex.decided.Text, args.Text) {
		return nil // equal policies and requests give equal decisions
	}
	if ex.explains {
		ex.decision = ex.rules.Explain(ex.request(args))
	} else {
		ex.decision = ex.rules.Decide(ex.request(args))
	}
	ex.decided = args
	return denied(ex.decision)
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
func (au *authorizer) followRules(ctx context.Context, ex *execution) error {
	if ex.agent == nil || len(ex.agent.Rules) == 0 {
		return nil
	}
	rules, p := ex.agent.Rules, ex.call.Principal
	var history []toolrule.Past
	if toolrule.NeedsTurn(rules) {
		if ex.call.Turn == "" {
			return refuse(haft.StatusDenied, haft.FailRule, haft.RetryChanged,
				"the agent's tool rules depend on what was called before: the call has to say in which turn it "+
					"is made").by("tool_rules")
		}
		var err error
		if !ex.explains && !ex.parent.turning() { // else the call that made this one has it, and waits
			if ex.unlock, err = au.turns.Take(ctx, p.Org+"\x00"+p.Agent+"\x00"+ex.call.Turn); err != nil {
				return err
			}
		}
		if history, err = au.past(ctx, ex); err != nil {
			return err
		}
	}
	state, err := toolrule.Evaluate(rules, history, ex.agent.Tools)
	if err == nil {
		err = state.Admit(ex.tool.Tool.Name)
	}
	if err != nil {
		r := refuse(haft.StatusDenied, haft.FailRule, haft.RetryChanged, haft.MessageOf(err)).by("tool_rules")
		r.cause = err
		return r
	}
	if state.NeedsApproval(ex.tool.Tool.Name) {
		asks := *ex.tool
		asks.Tool.Version.Settings.RequiresApproval = true
		ex.tool = &asks
	}
	args, err := state.Prefilled(ex.tool.Tool.Name, ex.call.Args, ex.tool.Tool.Version.Parameters)
	if err != nil {
		r := refuse(haft.StatusValidation, haft.FailRule, haft.RetryNever, haft.MessageOf(err))
		r.cause = err
		return r
	}
	ex.call.Args = args
	return nil
}

// past returns what was called in the turn before, also what waits. Package
// toolrule sorts out what was refused.
func (au *authorizer) past(ctx context.Context, ex *execution) ([]toolrule.Past, error) {
	p := ex.call.Principal
	records, err := au.store.Calls.Turn(ctx, p.Org, p.Agent, ex.call.Turn)
	if err != nil {
		return nil, err
	}
	var history []toolrule.Past
	for _, r := range records {
		if r.Call.ID == ex.call.ID {
			continue
		}
		past := toolrule.Past{Tool: r.Call.Tool, Status: toolrule.StatusOf(r.Status, r.Result)}
		if r.Result != nil {
			past.Value = r.Result.Value
		}
		history = append(history, past)
	}
	return history, nil
}
