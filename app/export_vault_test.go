package app

import (
	"context"
	"log/slog"
	"net/http"

	"haft/internal/engine"
	"haft/internal/oauth"
	"haft/internal/secret"
	"haft/internal/secret/keeper"
	"haft/internal/store"
)

// Vault is what keeps secrets.
type Vault = vault

// OpenVault opens the secrets of a store.
func OpenVault(ctx context.Context, s *store.Store, cfg ServiceConfig) (*Vault, error) {
	return openVault(ctx, s, cfg)
}

// Rotate is what RotateSecrets does.
func (v *vault) Rotate(ctx context.Context, cfg RotateConfig) (Rotation, error) {
	return v.rotate(ctx, cfg)
}

// Backend is a store for a keeper.
func Backend(s *store.Store) keeper.Backend { return backend{s} }

// OwnMaster finds or makes the key of a directory, ParseMaster reads one.
func OwnMaster(path string, kept bool) ([]byte, error) {
	m, err := ownMaster(path, kept)
	return m.key, err
}

// ParseMaster reads a master key.
func ParseMaster(text []byte) ([]byte, error) { return parseMaster(text) }

// FromEnv completes c from the environment.
func (c CredentialsConfig) FromEnv() (CredentialsConfig, error) { return c.fromEnv() }

// Exchange returns what exchanges a stored secret for an access token, as the service
// of one process does.
func Exchange(v *Vault, client *http.Client) func(ctx context.Context, org string,
	b engine.Bound) (secret.Value, error) {
	t := &tokens{client: oauth.New(oauth.Config{HTTP: client}), vault: v, logger: slog.New(slog.DiscardHandler)}
	return t.Token
}

// StoredSecrets returns what calls of an organisation are given.
func (s *Service) StoredSecrets(ctx context.Context, org string) (*engine.Stored, error) {
	return s.vault.Stored(ctx, org, "")
}
