package service

import (
	"context"
	"iter"
	"time"

	"haft"
	"haft/internal/authority"
)

// A SandboxManager keeps how the calls of an organisation run where tools do not say.
type SandboxManager struct{ *base }

// SandboxConfig implements [haft.Sandboxes].
func (m *SandboxManager) SandboxConfig(ctx context.Context, p haft.Principal, ref string) (*haft.SandboxConfig, error) {
	// Who writes one looks at it first.
	if err := m.authority.Any(p, authority.Resource{}, haft.SandboxesRead, haft.SandboxesWrite); err != nil {
		return nil, err
	}
	return m.store.Sandboxes.SandboxConfig(ctx, p.Org, ref)
}

// SandboxConfigs implements [haft.Sandboxes].
func (m *SandboxManager) SandboxConfigs(ctx context.Context, p haft.Principal) iter.Seq2[haft.SandboxConfig, error] {
	return func(yield func(haft.SandboxConfig, error) bool) {
		if err := m.authority.May(p, haft.SandboxesRead); err != nil {
			yield(haft.SandboxConfig{}, err)
			return
		}
		list, err := m.store.Sandboxes.SandboxConfigs(ctx, p.Org)
		if err != nil {
			yield(haft.SandboxConfig{}, err)
			return
		}
		for _, c := range list {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// PutSandboxConfig implements [haft.Sandboxes].
func (m *SandboxManager) PutSandboxConfig(ctx context.Context, p haft.Principal,
	c haft.SandboxConfig) (kept *haft.SandboxConfig, err error) {
	c.ID, c.Org, c.Created, c.Updated = "", p.Org, time.Time{}, time.Time{}
	err = m.manage(ctx, p, haft.SandboxesWrite, "sandbox.put", func(ctx context.Context) (any, error) {
		if err := m.registry.CheckSandbox(c); err != nil {
			return nil, err
		}
		if err := m.decisions.CheckSandbox(string(c.Type), "/type"); err != nil {
			return nil, err
		}
		if kept, err = m.store.Sandboxes.PutSandboxConfig(ctx, c); err != nil {
			return nil, err
		}
		return kept, nil
	})
	if err != nil {
		return nil, err
	}
	return kept, nil
}

// RemoveSandboxConfig implements [haft.Sandboxes].
func (m *SandboxManager) RemoveSandboxConfig(ctx context.Context, p haft.Principal, ref, revision string) error {
	return m.manage(ctx, p, haft.SandboxesWrite, "sandbox.remove", func(ctx context.Context) (any, error) {
		c, err := m.store.Sandboxes.SandboxConfig(ctx, p.Org, ref)
		if err != nil {
			return nil, err
		}
		if err := m.store.Sandboxes.RemoveSandboxConfig(ctx, p.Org, c.ID, revision); err != nil {
			return nil, err
		}
		return map[string]any{"id": c.ID, "type": c.Type}, nil
	})
}
