package app

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

// envTries is how often the variables of an agent are encrypted that somebody else
// changes too.
const envTries = 5

// PutEnv implements [engine.Vault].
func (v *vault) PutEnv(ctx context.Context, org string, agent haft.AgentID, env map[string]secret.Value,
	write func(store.OwnSecrets) error) error {
	s := scope(org, agent)
	defer v.changed(org) // also if it failed: that may be after it was written
	for try := 1; ; try++ {
		have, err := v.store.Secrets(ctx, s.Org, string(s.Kind), s.ID, "", 0)
		if err != nil {
			return err
		}
		next, err := v.prepare(ctx, s, have, env)
		if err != nil {
			return err
		}
		if err := write(next); !errors.Is(err, store.ErrSecretChanged) || try == envTries {
			return err
		}
	}
}

// prepare encrypts what has a value, and names what stays.
func (v *vault) prepare(ctx context.Context, s keeper.Scope, have []store.Secret,
	env map[string]secret.Value) (store.OwnSecrets, error) {
	next := store.OwnSecrets{Kind: string(s.Kind)}
	rows := make([]keeper.Row, len(have))
	values := make(map[string]secret.Value, len(env))
	for name, value := range env {
		if value.IsZero() {
			next.Keep = append(next.Keep, name)
			continue
		}
		values[name] = value
	}
	for i, r := range have {
		rows[i] = row(r)
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
	ready, err := k.Prepare(ctx, s, rows, values)
	for _, r := range ready {
		next.Put = append(next.Put, kept(r))
	}
	return next, err
}

// checkBinding reports, as an error with [haft.CodeInvalid], why a value cannot be
// bound so.
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
