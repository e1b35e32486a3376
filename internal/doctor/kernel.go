package doctor

import (
	"context"
	"fmt"
	"io"

	"haft/sandbox/gvisor"
)

// A GuestKernel says whether tools can have a kernel of their own.
type GuestKernel struct {
	// Program is the path of gVisor's runsc.
	Program string `json:"program,omitempty"`
	// Missing says why there is none, or why it does not work.
	Missing string `json:"missing,omitempty"`
}

// findKernel looks for gVisor, and runs a program in it if it is there.
func findKernel(ctx context.Context) GuestKernel {
	program, err := gvisor.Find()
	if err != nil {
		return GuestKernel{Missing: err.Error()}
	}
	k := GuestKernel{Program: program}
	p, err := gvisor.Open(ctx, gvisor.Config{Program: program})
	if err != nil {
		k.Missing = err.Error()
		return k
	}
	defer p.Close() // nothing runs any more
	if _, err := p.Isolation(ctx); err != nil {
		k.Missing = err.Error()
	}
	return k
}

// Print writes what was found for a person.
func (k GuestKernel) Print(w io.Writer) {
	if k.Missing != "" {
		fmt.Fprintf(w, "\ngVisor: no: %s\n", k.Missing)
		return
	}
	fmt.Fprintf(w, "\ngVisor: yes: --sandbox gvisor gives tools a kernel of their own (%s)\n", k.Program)
}

// Fix installs what can be installed without asking: gVisor, if it is not there. What that takes is said on out.
func Fix(ctx context.Context, out io.Writer) error {
	if program, err := gvisor.Find(); err == nil {
		fmt.Fprintf(out, "gVisor is installed: %s\n", program)
		return nil
	}
	fmt.Fprintf(out, "building gVisor %s, which takes some minutes\n", gvisor.Version())
	program, err := gvisor.Install(ctx, out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "gVisor is installed: %s\n", program)
	return nil
}
