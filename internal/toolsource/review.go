package toolsource

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"haft"
	"haft/internal/review"
)

// Review reviews a source, which may be one of several files of a tool, before it is stored. It
// runs nothing of it.
func (r *Runner) Review(ctx context.Context, kind haft.Kind, source string, several bool) ([]haft.Finding, error) {
	cfg := review.Config{Python: r.reviewer(false), Several: several}
	if kind == haft.KindPython && r.hasBandit(ctx) {
		run := r.reviewer(true)
		cfg.Bandit = func(ctx context.Context, source []byte) ([]byte, error) {
			return run(ctx, review.BanditScript(), source)
		}
	}
	report, err := review.New(cfg).Review(ctx, kind, source)
	if err != nil {
		return nil, err
	}
	for _, note := range report.Notes {
		r.Logger.Info("review", "note", note)
	}
	return report.Findings, nil
}

// reviewer returns a function that runs scripts of the review, with or without the packages
// of the interpreter.
func (r *Runner) reviewer(packages bool) func(ctx context.Context, script string, input []byte) ([]byte, error) {
	limits := readerLimits()
	limits.Stdout, limits.Memory = review.MaxOutput, 1<<30
	return func(ctx context.Context, script string, input []byte) ([]byte, error) {
		out, err := r.confined(ctx, script, input, limits, packages)
		if errors.Is(err, errDied) {
			return nil, fmt.Errorf("%w: %w", review.ErrReaderDied, err)
		}
		return out, err
	}
}

// hasBandit reports whether the interpreter has bandit among its packages.
func (r *Runner) hasBandit(ctx context.Context) bool {
	rt, err := r.Runtime(ctx, haft.KindPython)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(rt.Paths, func(dir string) bool {
		info, err := os.Stat(filepath.Join(dir, "bandit"))
		return err == nil && info.IsDir()
	})
}
