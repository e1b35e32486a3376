package engine

import (
	"cmp"
	"context"
	"errors"

	"haft"
	"haft/policy"
)

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
	rules, err := e.orgs.Policy(e.calls.ctx, t.Org)
	if err != nil {
		e.cfg.Logger.Error("the policy for a review cannot be read", "org", t.Org, "error", err)
		rules = nil
	}
	return rules.Review(t, findings)
}
