package app

import (
	"context"
	"os"
	"path/filepath"

	"haft"
	"haft/executor/script"
	"haft/internal/supply"
)

// openSupply makes the supply, which locks and installs packages. It touches nothing until
// the first tool needs packages.
func (a *App) openSupply() {
	cfg := a.cfg.Packages
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(cacheDir(), "layers")
		if cacheDir() == "" {
			cfg.Dir = "" // the first tool that needs packages fails
		}
	}
	if cfg.Path == "" {
		cfg.Path = os.Getenv("PATH")
	}
	if cfg.Logger == nil {
		cfg.Logger = a.cfg.Logger
	}
	cfg.Need = a.cfg.Need
	a.Supply = supply.New(a.provider, func(ctx context.Context, kind haft.Kind) (*script.Runtime,
		error) {
		return a.Runtime(ctx, kind)
	}, cfg)
	a.closers = append(a.closers, a.Supply.Close)
}

// Build installs the packages of a tool's current version, so that its first call does
// not wait for them.
func (s *Service) Build(ctx context.Context, p haft.Principal, ref string) (haft.Version, error) {
	t, err := s.Tool(ctx, p, ref)
	if err != nil {
		return haft.Version{}, err
	}
	more, err := s.shared(ctx, p.Org)
	if err != nil {
		return t.Version, err
	}
	_, release, err := s.locker.Open(ctx, p.Org, t.Version, more, nil)
	if err != nil {
		return t.Version, err
	}
	release()
	return t.Version, nil
}

// Locked returns the lock files of a tool's current version, by installer: "pip" or
// "npm".
func (s *Service) Locked(ctx context.Context, p haft.Principal, ref string) (map[string]string, error) {
	t, err := s.Tool(ctx, p, ref)
	if err != nil {
		return nil, err
	}
	more, err := s.shared(ctx, p.Org)
	if err != nil {
		return nil, err
	}
	locks, err := s.locker.Locks(ctx, p.Org, t.Version, more, nil)
	if err != nil {
		return nil, err
	}
	lists := map[string]string{}
	for _, l := range locks {
		lists[l.Kind] = string(l.Text)
	}
	return lists, nil
}

// shared returns the requirements in the sandbox configuration of an organisation.
func (s *Service) shared(ctx context.Context, org string) (haft.Requirements, error) {
	c, err := s.Orgs().Sandbox(ctx, org, haft.SandboxType(s.App.name))
	return c.Needs, err
}
