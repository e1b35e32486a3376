package vault

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"time"

	"haft/internal/callenv"
	"haft/internal/oauth"
	"haft/internal/secret"
)

// Tokens exchanges stored secrets for access tokens, and stores the new refresh tokens that
// servers return.
type Tokens struct {
	client *oauth.Client
	vault  *Vault
	logger *slog.Logger
}

// Tokens returns an exchange for secrets of the vault that sends its requests by client.
func (v *Vault) Tokens(client *http.Client) *Tokens {
	return &Tokens{client: oauth.New(oauth.Config{HTTP: client}), vault: v, logger: v.logger}
}

// Token returns an access token for a bound secret.
func (t *Tokens) Token(ctx context.Context, org string, b callenv.Bound) (secret.Value, error) {
	client, refresh := b.To.OAuth.Parts(b.Value)
	ask := oauth.Ask{OAuth: *b.To.OAuth, Client: client, Refresh: refresh}
	if b.Stored {
		ask.Rotated = func(ctx context.Context, prev, next secret.Value) {
			if err := t.rotated(ctx, org, b, prev, next); err != nil {
				// This process continues with the token in memory.
				t.logger.Error("a new refresh token cannot be stored: store it again by hand if it does not work "+
					"after a restart", "org", org, "secret", b.Name, "error", err)
			}
		}
	}
	if b.Stored && t.vault.store.Shared() {
		ask.Alone = func(ctx context.Context) (secret.Value, func(), error) { return t.alone(ctx, org, b) }
	}
	return t.client.Token(ctx, ask)
}

// Processes that share a store take turns at a refresh token. A lease lasts longer than an
// exchange may take.
const (
	tokenLease = 30 * time.Second
	tokenPoll  = 50 * time.Millisecond
)

// alone waits until no other process exchanges the same refresh token, and returns the
// stored one. A server that returns a new refresh token with each exchange takes one that is
// used twice for stolen, and revokes them all.
func (t *Tokens) alone(ctx context.Context, org string, b callenv.Bound) (secret.Value, func(), error) {
	name, owner := "oauth/"+org+"/"+string(b.Agent)+"/"+b.Name, rand.Text()
	for {
		mine, err := t.vault.store.Settings.Lease(ctx, name, owner, tokenLease)
		if err != nil {
			return secret.Value{}, nil, err
		}
		if mine {
			break
		}
		select {
		case <-time.After(tokenPoll):
		case <-ctx.Done():
			return secret.Value{}, nil, context.Cause(ctx)
		}
	}
	done := func() {
		if err := t.vault.store.Settings.EndLease(context.WithoutCancel(ctx), name, owner); err != nil {
			t.logger.Warn("a lease of a refresh token cannot be given back, and ends by itself", "org", org, "secret",
				b.Name, "error", err)
		}
	}
	refresh, _, err := t.stored(ctx, org, b)
	if err != nil {
		done()
		return secret.Value{}, nil, err
	}
	return refresh, done, nil
}

// stored returns the parts of a bound secret as it is stored now; they are zero if it was
// removed.
func (t *Tokens) stored(ctx context.Context, org string, b callenv.Bound) (refresh, client secret.Value, err error) {
	stored, err := t.vault.Stored(ctx, org, b.Agent)
	if err != nil {
		return secret.Value{}, secret.Value{}, err
	}
	list := stored.Org
	if b.Agent != "" {
		list = stored.Agent
	}
	for _, v := range list {
		if v.Name == b.Name {
			client, refresh = b.To.OAuth.Parts(v.Value)
			return refresh, client, nil
		}
	}
	return secret.Value{}, secret.Value{}, nil
}

// rotated replaces a stored refresh token by its successor, if it is still the stored one.
func (t *Tokens) rotated(ctx context.Context, org string, b callenv.Bound, prev, next secret.Value) error {
	refresh, client, err := t.stored(ctx, org, b)
	if err != nil || refresh.IsZero() || !refresh.Equal(prev) {
		return err // another one was stored meanwhile
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
