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
	// filters are compiled by the first run that needs them.
	filters map[filterKey]func() ([]byte, error)
	spawner *spawner
	runs    atomic.Uint64

	ids    ids
	spares spares

	// proven says that the isolation is not only assumed. Until then, proving is
	// held by the one who finds out, and guards everything above that he changes.
	proven  atomic.Bool
	proving sync.Mutex
	// mayNamespace is namespaces, for those who do not hold proving.
	mayNamespace atomic.Bool
	lingering    atomic.Int32 // commands that have a moment left, see linger
}

// Open takes a number for this instance and sweeps up what dead instances left.
// What this machine can do is found out by the first sandbox, or when it is asked
// for.
func Open(_ context.Context, config Config) (*Provider, error) {
	p := &Provider{config: config, log: config.Logger, lastCap: lastCap(),
		filters: map[filterKey]func() ([]byte, error){}}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	// The image is megabytes to be copied, which the rest need not wait for.
	var program *os.File
	var imageErr error
	var copying sync.WaitGroup
	copying.Go(func() { program, imageErr = image() })
	err := p.settle()
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
	p.spawner = startSpawner(program)
	p.assume()
	p.spares.refill(p)
	if err := p.compile(); err != nil { // while the spare starts
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// compile prepares the filters, and compiles the one that most runs need: a list of
// system calls that is wrong is found here.
func (p *Provider) compile() error {
	keys := []filterKey{{template: true}}
	for _, k := range []filterKey{{}, {internet: true}, {outlet: true}, {reduced: true},
		{reduced: true, internet: true}} {
		for _, scoped := range []bool{false, k.reduced} {
			for _, uncounted := range []bool{false, true} {
				k.scoped, k.uncounted = scoped, uncounted
				keys = append(keys, k)
			}
		}
	}
	for _, k := range keys {
		c := filter.Config{Internet: k.internet, Outlet: k.outlet, Template: k.template, Reduced: k.reduced,
			Scoped: k.scoped, Uncounted: k.uncounted}
		if !k.template {
			c.Also = p.config.Syscalls
		}
		p.filters[k] = sync.OnceValues(func() ([]byte, error) {
			f, err := filter.Compile(c)
			if err != nil {
				return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the list of system calls cannot be compiled",
					Err: err}
			}
			return f, nil
		})
	}
	_, err := p.filters[filterKey{}.on(p)]()
	return err
}

// A filterKey says which filter a process needs.
type filterKey struct {
	internet, reduced bool
	outlet            bool // its only way out is an outlet
	template          bool // sandboxes are forked from it
	scoped            bool // Landlock keeps its signals inside
	uncounted         bool // no cgroup counts its memory
}

// on returns the key with what the machine gives now.
func (k filterKey) on(p *Provider) filterKey {
	if k.template {
		return k
	}
	k.scoped = k.reduced && p.wall.scopes() && p.isolation.Has(haft.ControlLandlock)
	k.uncounted = !p.tree.Has(cgroup.Memory)
	return k
}

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

// Dirs are the directories of locks and of the files of runs, which no sandbox may be
// shown.
func (p *Provider) Dirs() []string {
	return []string{filepath.Dir(p.scratch), filepath.Dir(p.lock.Name())}
}

// Isolation implements [sandbox.Provider].
func (p *Provider) Isolation(ctx context.Context) (haft.Isolation, error) {
	if err := p.prove(ctx); err != nil {
		return haft.Isolation{}, err
	}
	return p.isolation, nil
}
