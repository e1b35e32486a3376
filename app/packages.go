package app

import (
	"context"
	"os"
	"path/filepath"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/requirement"
	"haft/supply"
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
	a.Supply = supply.New(a.provider, func(ctx context.Context, kind haft.Kind) (*script.Runtime, error) { return a.Runtime(ctx, kind) }, cfg)
	a.closers = append(a.closers, a.Supply.Close)
}

// Provide has the packages of a set installed for a source, and returns them, as
// [supply.Supply.Open] does. What was found for the set once is found again, until
// renew is true.
func (a *App) Provide(ctx context.Context, set requirement.Set, source []byte, renew bool, progress func(string)) ([]executor.Layer, func(), error) {
	if set.Empty() {
		return nil, func() {}, nil
	}
	locks, err := a.Supply.LockOnce(ctx, set, renew, progress)
	if err != nil {
		return nil, nil, err
	}
	return a.Supply.Open(ctx, locks, string(source), progress)
}
