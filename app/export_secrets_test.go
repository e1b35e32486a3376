package app

import (
	"context"

	"haft/internal/callenv"
	"haft/internal/secret/vault"
)

// MasterKey says where the master key is.
func MasterKey(cfg ServiceConfig) vault.Config { return cfg.masterKey() }

// FromEnv completes c from the environment.
func (c CredentialsConfig) FromEnv() (CredentialsConfig, error) { return c.fromEnv() }

// StoredSecrets returns what calls of an organisation are given.
func (s *Service) StoredSecrets(ctx context.Context, org string) (*callenv.Stored, error) {
	return s.vault.Stored(ctx, org, "")
}
