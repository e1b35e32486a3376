package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"haft"
	"haft/executor/script"
	"haft/internal/place"
	"haft/internal/supply"
	"haft/internal/toolsource"
	"haft/sandbox"
	"haft/sandbox/cell"
	"haft/sandbox/e2b"
	"haft/sandbox/local"
	"haft/sandbox/modal"
	"haft/sandbox/process"
	"haft/schema/pyschema"
)

// Config configures an [App]. The zero value is useful.
type Config struct {
	// Sandbox is where tools run: local, process, gvisor, e2b or modal, or several of them with commas between, of
	// which the first counts that is available. "" and auto mean e2b, local, gvisor, modal: machines elsewhere where
	// an organisation allows it.
	Sandbox string
	// E2B says where machines of E2B come from; nil means what the environment says, see [e2b.FromEnv].
	E2B *e2b.Config
	// Modal says whose sandboxes of Modal are used; nil means what the environment says, see [modal.FromEnv].
	Modal *modal.Config
	// Interpreters names interpreters by kind: a name or an absolute path. The others
	// are looked for on $PATH and in the usual places.
	Interpreters map[haft.Kind]string
	// Soon is the kind of a tool that is about to be called: Open looks for its
	// interpreter while it opens the rest.
	Soon haft.Kind
	// Need refuses every run with less isolation than this.
	Need sandbox.Need
	// AllowReduced allows tools to run where this machine cannot give namespaces, with
	// [haft.LevelReduced]. Else they are refused.
	AllowReduced bool
	// Local adjusts the sandbox of this machine.
	Local local.Config
	// Cells adjusts the pool of prepared sandboxes.
	Cells cell.Config
	// Packages says where packages come from and are kept; an empty Dir means one
	// in the user's cache.
	Packages supply.Config
	// Keep keeps sandboxes ready between calls. Set it in processes that make more
	// than one call.
	Keep bool
	// Logger gets messages that an operator can act on. Nil discards them.
	Logger *slog.Logger

	owner string // tells this Haft from others that use the same key of E2B or Modal, see [datadir.Owner]
}

// An App is one system. Close it.
type App struct {
	*toolsource.Runner
	// Supply has the packages that tools need.
	Supply *supply.Supply
	// Sandboxes are all kinds of sandboxes.
	Sandboxes *place.Set

	cfg      Config
	name     string
	provider sandbox.Provider
	finder   *script.Finder
	executor *script.Executor // of the sandbox of this machine
	closers  []func() error
}

// Open opens an App.
func Open(ctx context.Context, cfg Config) (_ *App, err error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	a := &App{cfg: cfg}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	// Interpreters are programs of the host that the operator trusts. Asking for their
	// version needs no sandbox, and does not work in one.
	ask, err := process.Open(process.Config{})
	if err != nil {
		return nil, fmt.Errorf("open the process provider: %w", err)
	}
	a.finder = script.NewFinder(ask, script.FinderConfig{Path: os.Getenv("PATH"), Home: os.Getenv("HOME"),
		Cache: cacheDir(), Reader: pyschema.Script()})
	var finding sync.WaitGroup
	if cfg.Soon != "" {
		finding.Go(func() { _, _ = a.Runtime(ctx, cfg.Soon) }) // the next caller gets the error
	}
	err = a.openSandbox(ctx)
	finding.Wait()
	if err != nil {
		return nil, err
	}
	a.openSupply() // after the sandbox, in which it installs
	return a, a.openExecutor(ctx)
}

// CacheDir is the directory for data that can be made again: answers of interpreters,
// and the packages of haft run.
func CacheDir() (string, error) {
	if dir := cacheDir(); dir != "" {
		return dir, nil
	}
	return "", &haft.Error{Code: haft.CodeInvalid, Message: "there is no directory for caches"}
}

// cacheDir is [CacheDir], or "" if there is none. Answers of interpreters are cached
// because asking one takes longer than running a short tool.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "haft")
}

// openExecutor makes what runs scripts, and what reads their source.
func (a *App) openExecutor(ctx context.Context) (err error) {
	cfg := script.Config{Hints: a.cfg.Interpreters, Cold: !a.cfg.Keep, Cells: a.cfg.Cells}
	a.executor = script.New(context.WithoutCancel(ctx), a.provider, a.name, a.finder, cfg)
	if a.Sandboxes, err = place.Open(ctx, place.Config{Order: a.cfg.Sandbox, Home: haft.SandboxType(a.name),
		Provider: a.provider, Executor: a.executor, Finder: a.finder, Script: cfg, E2B: a.cfg.E2B, Modal: a.cfg.Modal,
		Owner: a.cfg.owner, Local: a.cfg.Local, Logger: a.cfg.Logger}); err != nil {
		return err
	}
	a.closers = append(a.closers, a.Sandboxes.Close)
	a.Runner = &toolsource.Runner{Executor: a.executor, Provider: a.provider, Need: a.cfg.Need, Runtime: a.Runtime,
		Logger: a.cfg.Logger, Elsewhere: a.Sandboxes.Elsewhere()}
	return nil
}

// openSandbox opens the sandbox of this machine.
func (a *App) openSandbox(ctx context.Context) error {
	a.name = place.HomeOf(a.cfg.Sandbox)
	switch a.name {
	case "local":
		cfg := a.cfg.Local
		cfg.AllowReduced = cfg.AllowReduced || a.cfg.AllowReduced
		if cfg.Logger == nil {
			cfg.Logger = a.cfg.Logger
		}
		p, err := local.Open(ctx, cfg)
		if err != nil && runtime.GOOS != "linux" {
			return &haft.Error{Code: haft.CodeUnavailable, Err: err,
				Message: "there is no sandbox on this system; --sandbox process runs tools without isolation"}
		}
		if err != nil {
			return fmt.Errorf("open the local sandbox: %w", err)
		}
		a.provider = p
		a.closers = append(a.closers, p.Close)
	case "gvisor":
		p, end, err := place.OpenGVisor(ctx, a.cfg.Local, a.cfg.Logger)
		if err != nil {
			return fmt.Errorf("open the gVisor sandbox: %w", err)
		}
		a.closers = append(a.closers, end)
		a.provider, a.cfg.Cells = p, place.GVisorCells(a.cfg.Cells)
	case "process":
		p, err := process.Open(process.Config{})
		if err != nil {
			return fmt.Errorf("open the process provider: %w", err)
		}
		a.provider = p
	}
	return nil
}

// Close closes what Open opened, last first. It can be called twice.
func (a *App) Close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	a.closers = nil
	return errors.Join(errs...)
}

// Provider returns the sandbox that tools run in where nobody names one, and its name.
func (a *App) Provider() (sandbox.Provider, string) { return a.Sandboxes.Default() }

// Runtime finds the interpreter for tools of a kind.
func (a *App) Runtime(ctx context.Context, kind haft.Kind) (*script.Runtime, error) {
	return a.finder.Find(ctx, kind, a.cfg.Interpreters[kind])
}

// Program returns the path of a program of the host, or "" if there is no such program.
func (a *App) Program(name string) string { return a.finder.Program(name) }

// Drop ends the idle sandboxes of an organisation, or of all if org is empty.
func (a *App) Drop(org string) { a.Sandboxes.Drop(org) }

// IdleCells returns how many cells are kept ready for an organisation.
func (a *App) IdleCells(org string) int { return a.executor.IdleCells(org) }
