package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"haft"
	"haft/policy"
)

// policies are compiled once and kept.
type policies struct {
	mu  sync.Mutex
	all map[string]compiledPolicy
}

// compiledPolicy is a policy and when it was read.
type compiledPolicy struct {
	policy *policy.Policy
	at     time.Time
}

// policyFresh is how long a policy is taken for current when other processes may
// change it.
const policyFresh = time.Second

// policyOf returns what holds in an organisation.
func (e *Engine) policyOf(ctx context.Context, org string) (*policy.Policy, error) {
	e.rules.mu.Lock()
	k, ok := e.rules.all[org]
	e.rules.mu.Unlock()
	if ok && (!e.store.Shared() || time.Since(k.at) < policyFresh) {
		return k.policy, nil
	}
	both, err := e.compose(ctx, org)
	if err != nil {
		return nil, err
	}
	e.rules.mu.Lock()
	defer e.rules.mu.Unlock()
	if e.rules.all == nil || len(e.rules.all) > 10_000 {
		e.rules.all = make(map[string]compiledPolicy)
	}
	e.rules.all[org] = compiledPolicy{both, time.Now()}
	return both, nil
}

// compose puts the policies of server and organisation together.
func (e *Engine) compose(ctx context.Context, org string) (*policy.Policy, error) {
	if org == canaryOrg {
		return policy.Compile([]byte(canaryRules))
	}
	server, err := e.readPolicy(ctx, "", e.cfg.Policy)
	if err != nil {
		return nil, err
	}
	own, err := e.readPolicy(ctx, org, nil)
	if err != nil {
		return nil, err
	}
	return policy.Compose(server, own), nil
}

// readPolicy reads and compiles one, or returns what to take where there is none.
func (e *Engine) readPolicy(ctx context.Context, org string, or *policy.Policy) (*policy.Policy, error) {
	kept, err := e.store.Policy(ctx, org)
	if haft.CodeOf(err) == haft.CodeNotFound || err == nil && len(kept.Text) == 0 {
		return or, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := policy.Compile(kept.Text)
	if err != nil { // it was compiled before it was kept
		return nil, fmt.Errorf("compile the policy of %q: %w", org, err)
	}
	return p, nil
}

// Policy returns the document of p's organisation, or of the server. Its text is
// nil if there is none.
func (e *Engine) Policy(ctx context.Context, p haft.Principal, server bool) (*haft.PolicyText, error) {
	if err := e.manager(p); err != nil {
		return nil, err
	}
	org := p.Org
	if server {
		org = ""
	}
	kept, err := e.store.Policy(ctx, org)
	if err != nil {
		return nil, err
	}
	return &kept, nil
}

// PutPolicy replaces the document of p's organisation, or of the server, if that is
// what next.If says, and else returns [haft.CodeConflict]. It is compiled first: what
// is wrong changes nothing.
func (e *Engine) PutPolicy(ctx context.Context, p haft.Principal, server bool, next haft.PolicyText) (*haft.PolicyText, error) {
	if err := e.manager(p); err != nil {
		return nil, err
	}
	compiled, err := policy.Compile(next.Text)
	if err != nil {
		return nil, err
	}
	org := p.Org
	if server {
		org = ""
	}
	next.Updated = time.Now()
	kept, err := e.store.PutPolicy(ctx, org, next, p.User)
	if err != nil {
		return nil, err
	}
	e.rules.mu.Lock()
	e.rules.all = nil
	e.rules.mu.Unlock()
	return kept, e.log(ctx, p, "policy.put", map[string]any{"server": server, "digest": compiled.Digest()})
}

// Explain says what policy would decide about a call, and why.
func (e *Engine) Explain(ctx context.Context, c haft.Call) (policy.Decision, error) {
	if err := c.Principal.Check(); err != nil {
		return policy.Decision{}, err
	}
	f := &flight{call: c}
	if err := e.resolve(ctx, f); err != nil {
		return policy.Decision{}, asCoded(err)
	}
	rules, err := e.policyOf(ctx, c.Principal.Org)
	if err != nil {
		return policy.Decision{}, err
	}
	args, failure := f.tool.Fit(c.Args)
	if failure != nil {
		return policy.Decision{}, &haft.Error{Code: haft.CodeInvalid, Message: failure.Message, Misfits: failure.Misfits}
	}
	return rules.Explain(f.request(args)), nil
}

// Review says what the policy of an organisation demands of a source in which
// this was found. Where the policy cannot be had, a person has to look.
func (e *Engine) Review(org string, findings []haft.Finding) policy.ReviewVerdict {
	rules, err := e.policyOf(e.ctx, org)
	if err != nil {
		e.cfg.Logger.Error("the policy for a review cannot be read", "org", org, "error", err)
		rules = nil
	}
	return rules.Review(haft.Tool{Org: org}, findings)
}
