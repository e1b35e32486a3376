package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

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
	// hasProc says that a process file system can be mounted.
	hasProc bool
	// namespaces says that namespaces can be had; else the mode is reduced.
	namespaces bool
	isolation  haft.Isolation
	lastCap    int
	filters    map[filterKey][]byte
	// templateFilter is the filter of the process that sandboxes are forked from.
	templateFilter []byte
	spawner        *spawner
	runs           atomic.Uint64

	ids ids
}

// Open takes a number for this instance, sweeps up what the last holder of the
// number left when it died, and finds out by trying what this machine can do.
func Open(ctx context.Context, config Config) (*Provider, error) {
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
	p.spawner = startSpawner()
	if err := p.probe(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// compile compiles the filters, once for all runs.
func (p *Provider) compile() (err error) {
	for _, c := range []filterKey{{}, {internet: true}, {reduced: true}, {reduced: true, internet: true}} {
		p.filters[c], err = filter.Compile(filter.Config{Internet: c.internet, Reduced: c.reduced, Also: p.config.Syscalls})
		if err != nil {
			return err
		}
	}
	p.templateFilter, err = filter.Compile(filter.Config{Template: true})
	return err
}

// A filterKey says which filter a run needs.
type filterKey struct{ internet, reduced bool }

// settle finds a directory and a number, and sweeps.
func (p *Provider) settle() error {
	dir := p.config.Dir
	if dir == "" {
		dir = "/run/haft"
		if os.Geteuid() != 0 {
			dir = filepath.Join(os.TempDir(), "haft-"+strconv.Itoa(os.Geteuid()))
		}
	}
	if err := ownDir(dir); err != nil {
		return err
	}
	if p.mountOn = filepath.Join(dir, "root"); os.Geteuid() == 0 {
		// Another user id must reach it. What is mounted from below /tmp comes as
		// a descriptor, so it does not matter that /tmp is covered, inside.
		p.mountOn = "/tmp"
	} else if err := os.Mkdir(p.mountOn, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make directory to mount on: %w", err)
	}
	for n := range maxInstances {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("%d.lock", n)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return fmt.Errorf("open instance lock: %w", err)
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			p.lock, p.number = f, n
			p.scratch = filepath.Join(dir, fmt.Sprintf("%d.runs", n))
			return p.sweep()
		}
		_ = f.Close() // somebody else's
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("lock instance: %w", err)
		}
	}
	return fmt.Errorf("all %d instances of this directory are taken", maxInstances)
}

// maxInstances is how many processes may use the local sandbox at a time.
const maxInstances = 256

// ownDir makes a directory, or makes sure that it is ours: in a directory for
// temporary files somebody else may have been first.
func ownDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make sandbox directory: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("look at sandbox directory: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("sandbox directory: %w", &os.PathError{Op: "trust", Path: dir, Err: unix.EPERM})
	}
	return nil
}

// sweep removes the cgroups that the lock file lists, whose maker is dead since
// the lock could be had, and lists ours. Processes and mounts need no sweeping:
// they end with their namespaces, and those with Haft.
func (p *Provider) sweep() error {
	b := make([]byte, 64<<10)
	n, err := p.lock.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read instance lock: %w", err)
	}
	if err := cgroup.Sweep(strings.Fields(string(b[:n]))); err != nil {
		p.log.Warn("cgroups of a dead instance remain", "err", err)
	}
	// A random name: an instance with another directory may have this number too.
	if err := os.RemoveAll(p.scratch); err != nil {
		p.log.Warn("files of a dead instance remain", "err", err)
	}
	p.tree = cgroup.Open("haft-" + strings.ToLower(rand.Text()[:12]))
	if err := p.lock.Truncate(0); err != nil {
		return fmt.Errorf("write instance lock: %w", err)
	}
	if _, err := p.lock.WriteAt([]byte(strings.Join(p.tree.Dirs(), "\n")), 0); err != nil {
		return fmt.Errorf("write instance lock: %w", err)
	}
	return nil
}

// Close ends what still runs and gives everything back.
func (p *Provider) Close() error {
	p.spawner.stop()
	err := errors.Join(p.tree.Close(), os.RemoveAll(p.scratch))
	if e := p.lock.Truncate(0); err == nil {
		err = e
	}
	if e := p.lock.Close(); err == nil {
		err = e
	}
	return err
}

// Isolation implements [sandbox.Provider].
func (p *Provider) Isolation(context.Context) (haft.Isolation, error) { return p.isolation, nil }
