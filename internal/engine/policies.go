package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"haft"
	"haft/internal/store"
	"haft/policy"
)

// policies are compiled once and kept, by organisation.
type policies struct {
	cfg   *Config
	store *store.Store

	orgCache[*policy.Policy]
}

// policyOf returns what holds in an organisation.
func (p *policies) policyOf(ctx context.Context, org string) (*policy.Policy, error) {
	return p.get(ctx, org, p.store.Shared(), p.compose)
}

// compose puts the policies of server and organisation together.
func (p *policies) compose(ctx context.Context, org string) (*policy.Policy, error) {
	if org == canaryOrg {
		return policy.Compile([]byte(canaryRules))
	}
	server, err := p.readPolicy(ctx, "", p.cfg.Policy)
	if err != nil {
		return nil, err
	}
	own, err := p.readPolicy(ctx, org, nil)
	if err != nil {
		return nil, err
	}
	return policy.Compose(server, own), nil
}

// readPolicy reads and compiles one, or returns what to take where there is none.
func (p *policies) readPolicy(ctx context.Context, org string, or *policy.Policy) (*policy.Policy, error) {
	kept, err := p.store.Policy(ctx, org)
	if haft.CodeOf(err) == haft.CodeNotFound || err == nil && len(kept.Text) == 0 {
		return or, nil
	}
	if err != nil {
		return nil, err
	}
	compiled, err := policy.CompileKept(kept.Text)
	if err != nil { // it was compiled before it was kept
		return nil, fmt.Errorf("compile the policy of %q: %w", org, err)
	}
	return compiled, nil
}

// Explain says what would be decided about a call, and why. It takes the call through
// the very stages that decide about one that is made, and through no other.
func (au *authorizer) Explain(ctx context.Context, c haft.Call) (policy.Decision, error) {
	if err := c.Principal.Check(); err != nil {
		return policy.Decision{}, err
	}
	if err := checkCall(c); err != nil {
		return policy.Decision{}, err
	}
	c.Principal = au.canonical(ctx, c.Principal)
	ex := &execution{call: c, arrival: arrival{explains: true}}
	ex.rec.Call = c
	defer ex.release()
	for _, stage := range []func(context.Context, *execution) error{au.resolve, au.authorize, au.validate,
		au.decideFinal} {
		if err := stage(ctx, ex); err != nil {
			return explained(ex, err)
		}
	}
	return ex.decision, nil
}

// explained makes a decision of what a stage says to a call that would be denied.
// Other errors are about the question, and not about the call.
func explained(ex *execution, err error) (policy.Decision, error) {
	coded := asCoded(err)
	if haft.CodeOf(coded) != haft.CodeDenied {
		return policy.Decision{}, coded
	}
	if ex.decision.Effect == policy.Deny {
		return ex.decision, nil
	}
	rule := "haft/tool" // it is disabled, or waits for review
	if r, ok := errors.AsType[*refusal](err); ok {
		rule = cmp.Or(r.rule, "haft/"+string(r.failure.Kind))
	}
	return policy.Decision{Effect: policy.Deny, Rule: rule, Reason: haft.MessageOf(coded),
		Considered: ex.decision.Considered}, nil
}

// Review says what the policy of its organisation demands of a tool in whose source
// this was found. Where the policy cannot be had, a person has to look.
func (e *Engine) Review(t haft.Tool, findings []haft.Finding) policy.ReviewVerdict {
	rules, err := e.rules.policyOf(e.calls.ctx, t.Org)
	if err != nil {
		e.cfg.Logger.Error("the policy for a review cannot be read", "org", t.Org, "error", err)
		rules = nil
	}
	return rules.Review(t, findings)
}
