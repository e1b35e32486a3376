package client

import (
	"context"
	"iter"
	"net/http"

	"haft"
)

// Sandboxes manages sandbox configurations. It implements [haft.Sandboxes].
type Sandboxes struct{ api *transport }

var _ haft.Sandboxes = (*Sandboxes)(nil)

// SandboxConfig implements [haft.Sandboxes].
func (b *Sandboxes) SandboxConfig(ctx context.Context, p haft.Principal, ref string) (*haft.SandboxConfig, error) {
	return get[haft.SandboxConfig](ctx, b.api, query{path: "/v1/sandbox_configs",
		item: &item{"sandbox configuration", ref, ""}, as: p})
}

// SandboxConfigs implements [haft.Sandboxes].
func (b *Sandboxes) SandboxConfigs(ctx context.Context, p haft.Principal) iter.Seq2[haft.SandboxConfig, error] {
	return list[haft.SandboxConfig](ctx, b.api, query{path: "/v1/sandbox_configs", as: p}, 0)
}

// PutSandboxConfig implements [haft.Sandboxes].
func (b *Sandboxes) PutSandboxConfig(ctx context.Context, p haft.Principal,
	s haft.SandboxConfig) (*haft.SandboxConfig, error) {
	if err := s.Type.Check(); err != nil {
		return nil, err
	}
	return get[haft.SandboxConfig](ctx, b.api, query{method: http.MethodPut,
		path: "/v1/sandbox_configs/" + string(s.Type), as: p, header: match(s.If), body: struct {
			Description string                 `json:"description,omitempty"`
			Default     bool                   `json:"default,omitempty"`
			AllowRemote bool                   `json:"allow_remote,omitempty"`
			Limits      haft.Limits            `json:"limits,omitzero"`
			Network     []string               `json:"network,omitempty"`
			Needs       haft.Requirements      `json:"requirements,omitzero"`
			Templates   []haft.SandboxTemplate `json:"templates,omitempty"`
		}{s.Description, s.Default, s.AllowRemote, s.Limits, s.Network, s.Needs, s.Templates}})
}

// RemoveSandboxConfig implements [haft.Sandboxes].
func (b *Sandboxes) RemoveSandboxConfig(ctx context.Context, p haft.Principal, ref, revision string) error {
	return b.api.remove(ctx, p, "/v1/sandbox_configs", "sandbox configuration", ref, revision)
}
