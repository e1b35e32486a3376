package local

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"haft"
	"haft/sandbox/local/internal/cgroup"
	"haft/sandbox/local/internal/filter"
)

// A Provider makes sandboxes on this machine. It is safe for concurrent use.
//
// Lifecycle: Open → Isolation, Run, Template → Close.
type Provider struct {
	config   Config
	log      *slog.Logger
	instance instance
	machine  machine
	// best is the isolation that is assumed. Trying can only show that there is less.
	best haft.Isolation
	// filters are compiled by the first run that needs them.
	filterMu sync.Mutex
	filters  map[filter.Config][]byte
	spawner  *spawner
	runs     atomic.Uint64

	// runIDs are the user ids of the host for runs, templateIDs the first ids of the
	// blocks for templates.
	runIDs, templateIDs *idPool
	spares              spares

	// proven says that the isolation is not only assumed. Until then, proving is held by
	// the run that finds out, and guards machine, which that run changes.
	proven  atomic.Bool
	proving sync.Mutex
	exiting atomic.Int32 // commands whose exit is delayed, see exitDelay
}

// Open takes a number for this instance and removes what dead instances left. The first
// sandbox, or the first call of Isolation, finds out what this machine can do.
func Open(_ context.Context, config Config) (*Provider, error) {
	log := config.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Provider{config: config, log: log, instance: instance{log: log}, filters: map[filter.Config][]byte{}}
	// Copy the image, which has megabytes, in the background.
	var program *os.File
	var imageErr error
	var copying sync.WaitGroup
	copying.Go(func() { program, imageErr = image() })
	err := p.instance.open(config.Dir)
	copying.Wait()
	if err != nil {
		if program != nil {
			_ = program.Close() // only read
		}
		return nil, err
	}
	if imageErr != nil {
		p.log.Warn("Haft is its own init, which starts more slowly", "err", imageErr)
	}
	p.openIDs()
	p.machine.log, p.machine.tree = log, p.instance.tree
	p.spawner = startSpawner(program)
	p.machine.assume(config)
	p.best = p.machine.isolation
	p.spares.refill(p)
	// Most runs need this one, and it compiles while the spare starts. A wrong list of
	// system calls is found here.
	if _, err := p.filter(filter.Config{}); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// filter returns the compiled filter of system calls for what the machine gives now.
func (p *Provider) filter(c filter.Config) ([]byte, error) {
	also := p.config.Syscalls
	if c.Template {
		also = nil
	} else {
		c.Scoped = c.Reduced && p.machine.landlock.scopes() && p.machine.isolation.Has(haft.ControlLandlock)
		c.Uncounted = !p.machine.tree.Has(cgroup.Memory)
	}
	p.filterMu.Lock()
	defer p.filterMu.Unlock()
	if f := p.filters[c]; f != nil {
		return f, nil
	}
	f, err := filter.Compile(c, also...)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the list of system calls cannot be compiled",
			Err: err}
	}
	p.filters[c] = f
	return f, nil
}

// Close ends all runs and releases all resources.
func (p *Provider) Close() error {
	p.spares.close(p)
	p.spawner.stop()
	return p.instance.close()
}

// Dirs are the directories of locks and of the files of runs, which no sandbox may be
// shown.
func (p *Provider) Dirs() []string {
	return []string{filepath.Dir(p.instance.scratch), filepath.Dir(p.instance.lock.Name())}
}

// Isolation implements [sandbox.Provider].
func (p *Provider) Isolation(ctx context.Context) (haft.Isolation, error) {
	if err := p.prove(ctx); err != nil {
		return haft.Isolation{}, err
	}
	return p.machine.isolation, nil
}
