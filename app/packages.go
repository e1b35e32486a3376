package app

import (
	"context"
	"os"
	"path/filepath"

	"haft"
	"haft/executor/script"
	"haft/internal/supply"
)

// openSupply makes what locks and installs packages. It touches nothing until the
// first tool needs some.
func (a *App) openSupply() {
	cfg := a.cfg.Packages
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(cacheDir(), "layers")
		if cacheDir() == "" {
			cfg.Dir = "" // who needs it is told that there is no directory
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

// Build has the packages of a tool's current version installed, so that its first
// call need not wait.
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

// Locked returns the lists of packages that a tool's current version runs with, by
// who installs them.
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

// shared returns what the sandbox configuration of an organisation asks for.
func (s *Service) shared(ctx context.Context, org string) (haft.Requirements, error) {
	c, err := s.SandboxFor(ctx, org, haft.SandboxType(s.App.name))
	return c.Needs, err
}
