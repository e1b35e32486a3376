// Package process runs a command as an ordinary process, without isolation.
//
// It is for systems without any sandbox, and for debugging. It is used only when the
// operator names it, and it reports that it isolates nothing, so that every policy that
// requires isolation refuses it.
//
// It keeps the rest of the contract: the environment, the limits of time and output,
// descriptor 3, the order of Begin, Finish and Ended, and the artifacts. There is no mount
// namespace: the work directory is a temporary directory of the host. The command starts
// there, and every argument and every value of a variable that is /work or begins with
// /work/ is replaced by the path in that directory. Put HAFT_WORK=/work into Spec.Env so
// that a program can find it.
package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"haft"
	"haft/sandbox"
)

// drain is the time after the end of the command in which its output is still read.
const drain = 100 * time.Millisecond

// Config says where and how the provider works. The zero value is useful.
type Config struct {
	// Dir is where work directories are made; "" is the system's directory for
	// temporary files.
	Dir string
}

// Provider implements [sandbox.Provider] with plain processes.
type Provider struct {
	dir string
}

// Open checks cfg and returns a provider. It holds nothing open.
func Open(cfg Config) (*Provider, error) {
	dir := cfg.Dir
	if dir == "" {
		dir = os.TempDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find work directory: %w", err)
	}
	if st, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("open work directory: %w", err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("open work directory: %s is not a directory", dir)
	}
	return &Provider{dir: dir}, nil
}

// Isolation implements [sandbox.Provider]. It names every control as missing.
func (*Provider) Isolation(context.Context) (haft.Isolation, error) { return isolation(), nil }

// isolation is the same everywhere.
func isolation() haft.Isolation {
	iso := haft.Isolation{Level: haft.LevelNone, Controls: []haft.Control{}}
	for _, c := range haft.Controls() {
		iso.Missing = append(iso.Missing, haft.Gap{Control: c, Reason: "the process provider isolates nothing"})
	}
	return iso
}

// Run implements [sandbox.Provider]. A process that leaves its group, as a
// daemon does, is not found again: pid_ns is among the missing controls.
func (p *Provider) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	if spec.Channel != nil {
		defer spec.Channel.Close()
	}
	if err := check(spec); err != nil {
		return sandbox.Exit{}, err
	}
	if err := ctx.Err(); err != nil {
		return sandbox.Exit{}, fmt.Errorf("run a process: %w", err)
	}
	w, err := makeWork(p.dir, spec.Files)
	if err != nil {
		return sandbox.Exit{}, err
	}
	exit, err := p.run(ctx, spec, w)
	if rmErr := w.remove(); rmErr != nil && err == nil {
		err = fmt.Errorf("remove work directory: %w", rmErr)
	}
	return exit, err
}

// check refuses what cannot be done here.
func check(spec sandbox.Spec) error {
	if err := spec.Check(); err != nil {
		return err
	}
	if err := spec.Need.Check(isolation()); err != nil {
		return err
	}
	if spec.Network == sandbox.NetworkEgress {
		return &haft.Error{Code: haft.CodeDenied,
			Message: "a plain process can reach any address: named hosts need a sandbox with a network of its own"}
	}
	if spec.Observe {
		return &haft.Error{Code: haft.CodeDenied,
			Message: "a plain process is not observed: that needs the sandbox local"}
	}
	for _, m := range spec.Mounts {
		if m.Host != m.Inside {
			return &haft.Error{Code: haft.CodeDenied,
				Message: "a plain process sees the host's paths: nothing can be mounted elsewhere"}
		}
	}
	return nil
}
