package app

import (
	"context"
	"log/slog"

	"haft"
	"haft/egress"
	"haft/engine"
	"haft/oauth"
	"haft/secret"
)

// tokens exchanges stored secrets for access tokens, and keeps what servers give in
// the place of refresh tokens.
type tokens struct {
	client *oauth.Client
	vault  *vault
	logger *slog.Logger
}

// newTokens returns one whose endpoints are reached like the hosts of tools: who
// stores a secret is not always who runs the machine.
func newTokens(guard *egress.Guard, v *vault, logger *slog.Logger) *tokens {
	return &tokens{client: oauth.New(oauth.Config{HTTP: guard.Client()}), vault: v, logger: logger}
}

// token returns an access token for a bound secret.
func (t *tokens) token(ctx context.Context, org string, b engine.Bound) (secret.Value, error) {
	if t == nil {
		return secret.Value{}, &haft.Error{Code: haft.CodeUnavailable, Message: "tokens are not exchanged here"}
	}
	client, refresh := b.To.OAuth.Parts(b.Value)
	ask := oauth.Ask{OAuth: *b.To.OAuth, Client: client, Refresh: refresh}
	if b.Stored {
		ask.Rotated = func(ctx context.Context, prev, next secret.Value) {
			if err := t.rotated(ctx, org, b, prev, next); err != nil {
				// It works on from memory until this process ends.
				t.logger.Error("a new refresh token cannot be stored: store it again by hand if it does not work after a restart", "org", org, "secret", b.Name, "error", err)
			}
		}
	}
	return t.client.Token(ctx, ask)
}

// rotated stores a refresh token in the place of the one that it was given for, if
// that is still there.
func (t *tokens) rotated(ctx context.Context, org string, b engine.Bound, prev, next secret.Value) error {
	if t.vault == nil {
		return nil
	}
	stored, err := t.vault.Stored(ctx, org, b.Agent)
	if err != nil {
		return err
	}
	list := stored.Org
	if b.Agent != "" {
		list = stored.Agent
	}
	for _, v := range list {
		client, refresh := b.To.OAuth.Parts(v.Value)
		if v.Name != b.Name || !refresh.Equal(prev) {
			continue
		}
		value, err := b.To.OAuth.Join(client, next)
		if err != nil {
			return err
		}
		if err := t.vault.Put(ctx, org, b.Agent, b.Name, value, nil); err != nil {
			return err
		}
		t.logger.Info("a server replaced a refresh token, which is stored", "org", org, "secret", b.Name)
		return nil
	}
	return nil // somebody stored another one meanwhile
}
