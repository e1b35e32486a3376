package vault

import (
	"context"
	"errors"
	"fmt"

	"haft"
	"haft/internal/egress"
	"haft/internal/oauth"
	"haft/internal/secret"
	"haft/internal/secret/keeper"
	"haft/internal/store"
)

// maxTries is how often a change is tried again because another process changed the same
// secrets.
const maxTries = 5

// Retry calls put again while another process changes the same secrets.
func Retry(put func() error) error {
	for try := 1; ; try++ {
		if err := put(); !errors.Is(err, store.ErrSecretChanged) || try == maxTries {
			return err
		}
	}
}

// PutEnv implements [service.Vault].
func (v *Vault) PutEnv(ctx context.Context, org string, agent haft.AgentID, env map[string]secret.Value,
	write func(store.OwnSecrets) error) error {
	s := scope(org, agent)
	defer v.Changed(org) // also if it failed: that may be after it was written
	return Retry(func() error {
		have, err := v.store.Secrets.Secrets(ctx, &s, keeper.Row{}, 0)
		if err != nil {
			return err
		}
		next, err := v.Prepare(ctx, s, have, env)
		if err != nil {
			return err
		}
		return write(next)
	})
}

// Prepare encrypts what has a value, and names what stays, of a scope that has those rows.
func (v *Vault) Prepare(ctx context.Context, s keeper.Scope, have []keeper.Row,
	env map[string]secret.Value) (store.OwnSecrets, error) {
	next := store.OwnSecrets{Kind: s.Kind}
	values := make(map[string]secret.Value, len(env))
	for name, value := range env {
		if value.IsZero() {
			next.Keep = append(next.Keep, name)
			continue
		}
		values[name] = value
	}
	for _, r := range have {
		bound, err := secret.DecodeBinding(r.Bound)
		if err != nil {
			return next, fmt.Errorf("read the binding of the secret %s: %w", r.Name, err)
		}
		if value, ok := values[r.Name]; ok {
			if err := checkBinding(r.Name, value, bound); err != nil {
				return next, err
			}
		}
	}
	if len(values) == 0 {
		return next, nil // which needs no key
	}
	k, err := v.open(ctx)
	if err != nil {
		return next, err
	}
	next.Put, err = k.Prepare(ctx, s, have, values)
	return next, err
}

// checkBinding reports, as an error with [haft.CodeInvalid], why a value cannot have this
// binding.
func checkBinding(name string, v secret.Value, b *secret.Binding) error {
	if b == nil || len(b.Hosts) == 0 {
		return nil
	}
	s, err := egress.FromBinding(name, b)
	if err != nil {
		return err
	}
	s.Placeholder = secret.Placeholder("")
	s.Value = func(context.Context) (string, error) { return "", nil }
	if b.OAuth == nil {
		return s.Check(v.Reveal())
	}
	if err := s.Check(""); err != nil {
		return err
	}
	return oauth.Check(*b.OAuth, false)
}

// ValueName is the name under which a scope has its one value.
const ValueName = "VALUE"

// Value reads the one value of a scope, or returns [haft.CodeNotFound].
func (v *Vault) Value(ctx context.Context, s keeper.Scope) ([]byte, error) {
	if _, err := v.store.Secrets.Secret(ctx, s, ValueName); err != nil {
		return nil, err // without asking for the master key
	}
	k, err := v.open(ctx)
	if err != nil {
		return nil, err
	}
	values, err := k.Values(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, n := range values {
		if n.Name == ValueName {
			return []byte(n.Value.Reveal()), nil
		}
	}
	return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such secret"}
}

// PutValue stores the one value of a scope; nil removes it.
func (v *Vault) PutValue(ctx context.Context, s keeper.Scope, value []byte) error {
	if value == nil {
		err := v.store.Secrets.RemoveSecret(ctx, s, ValueName)
		if haft.CodeOf(err) == haft.CodeNotFound {
			return nil
		}
		return err
	}
	k, err := v.open(ctx)
	if err != nil {
		return err
	}
	return k.Put(ctx, s, ValueName, secret.New(string(value)))
}
