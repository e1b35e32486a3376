// Package orgconfig reads what organisations have configured for their calls, policies and sandbox
// configurations, and keeps it in memory until it is changed.
package orgconfig

import (
	"context"
	"fmt"

	"haft"
	"haft/policy"
)

// Policies has the policies of organisations, that of the server under an empty name.
type Policies interface {
	Policy(ctx context.Context, org string) (haft.PolicyText, error)
}

// Sandboxes has the sandbox configurations of organisations.
type Sandboxes interface {
	SandboxConfigs(ctx context.Context, org string) ([]haft.SandboxConfig, error)
}

// Config is what a reader is made of.
type Config struct {
	Policies  Policies
	Sandboxes Sandboxes
	Shared    bool // other processes may change them too
	// Policy is the server's where the store has none.
	Policy *policy.Policy
	// Fixed are policies of organisations that are not in the store, and that nothing is added to.
	Fixed map[string]string
	// Places are the sandboxes that tools run in, in the order of auto; empty means [haft.SandboxLocal].
	Places []Place
	// RunsCode says which built-in tools run code of their callers; nil means none.
	RunsCode func(tool string) bool
}

// A Reader returns what organisations have configured. It is safe for concurrent use.
type Reader struct {
	cfg       Config
	policies  cache[*policy.Policy] // compiled
	sandboxes cache[map[haft.SandboxType]*haft.SandboxConfig]
}

// New makes a reader that has read nothing yet.
func New(cfg Config) *Reader { return &Reader{cfg: cfg} }

// Forget has everything of an organisation read again, or of all if it is empty.
func (r *Reader) Forget(org string) {
	r.policies.forget(org)
	r.sandboxes.forget(org)
}

// Policy returns the policy that holds in an organisation.
func (r *Reader) Policy(ctx context.Context, org string) (*policy.Policy, error) {
	return r.policies.get(ctx, org, r.cfg.Shared, r.composePolicy)
}

// composePolicy puts the policies of server and organisation together.
func (r *Reader) composePolicy(ctx context.Context, org string) (*policy.Policy, error) {
	if text, ok := r.cfg.Fixed[org]; ok {
		return policy.Compile([]byte(text))
	}
	server, err := r.readPolicy(ctx, "", r.cfg.Policy)
	if err != nil {
		return nil, err
	}
	own, err := r.readPolicy(ctx, org, nil)
	if err != nil {
		return nil, err
	}
	return policy.Compose(server, own), nil
}

// readPolicy reads and compiles one policy, or returns what to take where there is none.
func (r *Reader) readPolicy(ctx context.Context, org string, or *policy.Policy) (*policy.Policy, error) {
	kept, err := r.cfg.Policies.Policy(ctx, org)
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
