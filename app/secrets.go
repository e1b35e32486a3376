package app

import (
	"cmp"
	"context"
	"os"

	"haft"
	"haft/internal/authority"
	"haft/internal/egress"
	"haft/internal/egress/session"
	"haft/internal/engine"
	"haft/internal/secret/vault"
)

// masterKey returns where the master key is: by cfg, else by the environment.
func (cfg ServiceConfig) masterKey() vault.Config {
	vc := vault.Config{MasterKey: cfg.MasterKey, MasterKeyFile: cmp.Or(cfg.MasterKeyFile, os.Getenv(vault.FileVar)),
		MasterKeyCommand: os.Getenv(vault.CommandVar), Environ: os.Environ(), Data: cfg.Data, Serving: cfg.Deliver,
		Logger: cfg.Logger}
	if len(vc.MasterKey) == 0 && vc.MasterKeyFile == "" {
		vc.MasterKey = []byte(os.Getenv(vault.KeyVar))
	}
	return vc
}

// openSecrets opens the vault and the client that fetches credentials, for the engine.
func (s *Service) openSecrets(ctx context.Context, cfg ServiceConfig, ec *engine.Config) (err error) {
	if s.vault, err = vault.Open(ctx, s.Store, cfg.masterKey()); err != nil {
		return err
	}
	if ec.Vault == nil {
		ec.Vault = s.vault
	}
	if ec.Sealer == nil {
		ec.Sealer = s.vault
	}
	if g, ok := ec.Egress.(*session.Opener); ok {
		// Token endpoints are reached like the hosts of tools: the person who stores a
		// secret need not be the operator.
		client := *g.Guard.Client()
		client.Transport = egress.ByScope(client.Transport)
		g.Tokens = s.vault.Tokens(&client)
	}
	others := ec.Changed
	ec.Changed = func(org string) {
		s.vault.Changed(org) // an erasure may have removed secrets
		if others != nil {
			others(org)
		}
	}
	fetch, end, err := openCredentials(cfg.Credentials, cfg.Egress.Mock)
	if err != nil || fetch == nil {
		return err
	}
	s.closers = append(s.closers, end)
	if ec.Credentials == nil {
		ec.Credentials = fetch
	}
	return nil
}

// RotateSecrets is [vault.Vault.Rotate] for those who run the server.
func (s *Service) RotateSecrets(ctx context.Context, p haft.Principal, cfg vault.RotateConfig) (done vault.Rotation,
	err error) {
	if err := s.Authorize(p, haft.SecretsWrite, authority.Resource{Server: true}); err != nil {
		return done, err
	}
	err = s.Manage(ctx, p, haft.SecretsWrite, "secret.rotate", func(ctx context.Context) (any, error) {
		done, err = s.vault.Rotate(ctx, cfg)
		return done, err
	})
	return done, err
}
