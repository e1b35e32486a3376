package local

import (
	"context"
	"errors"
	"log/slog"
	"os"
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
	config  Config
	log     *slog.Logger
	mountOn string   // an empty directory
	scratch string   // for the files of runs in the reduced mode
	lock    *os.File // holds the number of this instance
	number  int
	tree    *cgroup.Tree
	wall    landlock
	// privileged says that this process may map any user id and detach mounts.
	privileged bool
	// overlay says that overlays can be mounted.
	overlay bool
	// hasProc says that a process file system can be mounted.
	hasProc bool
	// namespaces says that namespaces can be had; else the mode is reduced.
	namespaces bool
	isolation  haft.Isolation
	lastCap    int
	filters    map[filterKey][]byte
	// outletFilter is that of runs with an outlet, compiled by the first of them.
	outletFilter func() ([]byte, error)
	// templateFilter is the filter of the process that sandboxes are forked from.
	templateFilter []byte
	spawner        *spawner
	runs           atomic.Uint64

	ids    ids
	spares spares

	// proven says that the isolation is not only assumed. Until then, proving is
	// held by the one who finds out, and guards everything above that he changes.
	proven  atomic.Bool
	proving sync.Mutex
	// mayNamespace is namespaces, for those who do not hold proving.
	mayNamespace atomic.Bool
}

// Open takes a number for this instance and sweeps up what dead instances left.
// What this machine can do is found out by the first sandbox, or when it is asked
// for.
func Open(_ context.Context, config Config) (*Provider, error) {
	p := &Provider{config: config, log: config.Logger, lastCap: lastCap(), filters: map[filterKey][]byte{}}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	if err := p.compile(); err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the list of system calls cannot be compiled", Err: err}
	}
	if err := p.settle(); err != nil {
		return nil, err
	}
	program, err := image()
	if err != nil {
		p.log.Warn("Haft is its own init, which starts more slowly", "err", err)
	}
	p.spawner = startSpawner(program)
	p.assume()
	p.spares.refill(p)
	return p, nil
}

// compile compiles the filters that most runs need, once for all.
func (p *Provider) compile() (err error) {
	for _, c := range []filterKey{{}, {internet: true}, {reduced: true}, {reduced: true, internet: true}} {
		p.filters[c], err = filter.Compile(filter.Config{Internet: c.internet, Reduced: c.reduced, Also: p.config.Syscalls})
		if err != nil {
			return err
		}
	}
	p.outletFilter = sync.OnceValues(func() ([]byte, error) {
		return filter.Compile(filter.Config{Outlet: true, Also: p.config.Syscalls})
	})
	p.templateFilter, err = filter.Compile(filter.Config{Template: true})
	return err
}

// A filterKey says which filter a run needs.
type filterKey struct{ internet, reduced bool }

// Close ends what still runs and gives everything back.
func (p *Provider) Close() error {
	p.spares.close(p)
	p.spawner.stop()
	err := errors.Join(p.tree.Close(), removeTree(p.scratch))
	if e := p.lock.Truncate(0); err == nil {
		err = e
	}
	if e := p.lock.Close(); err == nil {
		err = e
	}
	return err
}

// Isolation implements [sandbox.Provider].
func (p *Provider) Isolation(ctx context.Context) (haft.Isolation, error) {
	if err := p.prove(ctx); err != nil {
		return haft.Isolation{}, err
	}
	return p.isolation, nil
}
