package service

import (
	"context"

	"haft"
	"haft/internal/secret"
)

// A SecretManager keeps the variables of organisations and agents.
type SecretManager struct{ *base }

// BindSecret stores a variable as [Engine.PutSecret] does, and where it may go. A
// nil binding leaves it bound as it is, and one without hosts unbinds it.
func (m *SecretManager) BindSecret(ctx context.Context, p haft.Principal, agent, name string, v secret.Value,
	b *secret.Binding) error {
	id, err := m.scope(ctx, p, haft.SecretsWrite, agent)
	if err != nil {
		return err
	}
	if err := secret.CheckEnvName(name); err != nil {
		return err
	}
	if err := m.cfg.Vault.Put(ctx, p.Org, id, name, v, b); err != nil {
		return err
	}
	body := map[string]any{"name": name, "agent": id}
	if b != nil {
		body["bound"] = b
	}
	return m.log(ctx, p, "secret.put", body)
}

// noVault is the error where nothing is kept.
func noVault() error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: "secrets are not kept here"}
}

// scope finds the agent of a secret; "" means the organisation.
func (m *SecretManager) scope(ctx context.Context, p haft.Principal, a haft.Action, ref string) (haft.AgentID, error) {
	if err := m.authority.May(p, a); err != nil {
		return "", err
	}
	if m.cfg.Vault == nil {
		return "", noVault()
	}
	if ref == "" {
		return "", nil
	}
	agent, err := m.store.Agents.Agent(ctx, p.Org, ref)
	if err != nil {
		return "", err
	}
	return agent.ID, nil
}

// PutSecret stores a variable for all calls of the organisation of p, or for those
// of one agent. The next call sees it; those that run do not. It cannot be read
// back.
func (m *SecretManager) PutSecret(ctx context.Context, p haft.Principal, agent, name string, v secret.Value) error {
	return m.BindSecret(ctx, p, agent, name, v, nil)
}

// Secrets says which variables are stored for the organisation, or for one agent.
func (m *SecretManager) Secrets(ctx context.Context, p haft.Principal, agent string) ([]secret.Info, error) {
	id, err := m.scope(ctx, p, haft.SecretsRead, agent)
	if err != nil {
		return nil, err
	}
	return m.cfg.Vault.List(ctx, p.Org, id)
}

// RemoveSecret removes a stored variable.
func (m *SecretManager) RemoveSecret(ctx context.Context, p haft.Principal, agent, name string) error {
	id, err := m.scope(ctx, p, haft.SecretsWrite, agent)
	if err != nil {
		return err
	}
	if err := m.cfg.Vault.Remove(ctx, p.Org, id, name); err != nil {
		return err
	}
	return m.log(ctx, p, "secret.remove", map[string]any{"name": name, "agent": id})
}
