package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"haft"
	"haft/internal/registry"
	"haft/internal/review"
	"haft/schema"
)

// derive is what the registry derives schemas with.
func (s *Service) derive(ctx context.Context, src registry.Source) (*registry.Derived, error) {
	d, err := s.App.Derive(ctx, Source{Name: src.Name, Kind: src.Kind, Text: src.Text, Function: src.Function,
		Layers: s.locker.LayersOf(src.Org, src.Lock, src.Text)},
		schema.Options{DescriptionsOptional: src.Undocumented})
	if err != nil {
		return nil, err
	}
	return &registry.Derived{Signature: d.Signature, Function: d.Function, Pass: d.Pass, Output: d.Output}, nil
}

// review looks at a source before it is kept. It runs nothing of it.
func (a *App) review(ctx context.Context, kind haft.Kind, source string) ([]haft.Finding, error) {
	cfg := review.Config{Python: a.reviewer(false)}
	if kind == haft.KindPython && a.hasBandit(ctx) {
		run := a.reviewer(true)
		cfg.Bandit = func(ctx context.Context, source []byte) ([]byte, error) {
			return run(ctx, review.BanditScript(), source)
		}
	}
	report, err := review.New(cfg).Review(ctx, kind, source)
	if err != nil {
		return nil, err
	}
	for _, note := range report.Notes {
		a.cfg.Logger.Info("review", "note", note)
	}
	return report.Findings, nil
}

// reviewer runs scripts of the review, with the packages of the interpreter or
// without.
func (a *App) reviewer(packages bool) func(ctx context.Context, script string, input []byte) ([]byte, error) {
	limits := readerLimits()
	limits.Stdout, limits.Memory = review.MaxOutput, 1<<30
	return func(ctx context.Context, script string, input []byte) ([]byte, error) {
		out, err := a.confined(ctx, script, input, limits, packages)
		if errors.Is(err, errDied) {
			return nil, fmt.Errorf("%w: %w", review.ErrReaderDied, err)
		}
		return out, err
	}
}

// hasBandit reports whether the interpreter has bandit among its packages.
func (a *App) hasBandit(ctx context.Context) bool {
	rt, err := a.Runtime(ctx, haft.KindPython)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(rt.Paths, func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, "bandit"))
		return err == nil && info.IsDir()
	})
}

// judge asks the policy of an organisation what findings in a tool mean.
func (s *Service) judge(t haft.Tool, findings []haft.Finding) registry.Verdict {
	if s.Engine == nil {
		return registry.Refuse
	}
	return registry.Verdict(s.Engine.Review(t, findings).Action)
}
