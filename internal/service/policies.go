package service

import (
	"context"
	"time"

	"haft"
	"haft/internal/authority"
	"haft/policy"
)

// A PolicyManager keeps the policies of organisations and of the server.
type PolicyManager struct{ *base }

// Policy returns the document of p's organisation, or of the server. Its text is
// nil if there is none.
func (m *PolicyManager) Policy(ctx context.Context, p haft.Principal, server bool) (*haft.PolicyText, error) {
	if err := m.authority.Any(p, authority.Resource{Server: server}, haft.PoliciesRead,
		haft.PoliciesWrite); err != nil {
		return nil, err
	}
	org := p.Org
	if server {
		org = ""
	}
	kept, err := m.store.Policies.Policy(ctx, org)
	if err != nil {
		return nil, err
	}
	return &kept, nil
}

// PutPolicy replaces the document of p's organisation, or of the server, if that is
// what next.If says, and else returns [haft.CodeConflict]. It is compiled first: what
// is wrong changes nothing.
func (m *PolicyManager) PutPolicy(ctx context.Context, p haft.Principal, server bool,
	next haft.PolicyText) (*haft.PolicyText, error) {
	if err := m.authority.Authorize(p, haft.PoliciesWrite, authority.Resource{Server: server}); err != nil {
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
	kept, err := m.store.Policies.PutPolicy(ctx, org, next, p.User)
	if err != nil {
		return nil, err
	}
	return kept, m.changes.Log(ctx, p, org, "policy.put", map[string]any{"server": server, "digest": compiled.Digest()})
}
