package sandboxtest

import (
	"fmt"
	"slices"
	"strings"

	"haft"
	"haft/sandbox"
)

// exits wants the program to end by itself with status code.
func exits(code int) func(Outcome) error {
	return func(o Outcome) error {
		switch {
		case o.Err != nil:
			return fmt.Errorf("the program did not run: %w", o.Err)
		case o.Exit.Cause != sandbox.CauseExit || o.Exit.Code != code:
			return fmt.Errorf("it ended with %q and code %d, want %q and %d", o.Exit.Cause, o.Exit.Code,
				sandbox.CauseExit, code)
		case o.Ended != 1:
			return fmt.Errorf("the function Ended was called %d times, want once", o.Ended)
		}
		return nil
	}
}

// prints wants status 0 and exactly this on stdout.
func prints(want string) func(Outcome) error {
	return func(o Outcome) error {
		if err := exits(0)(o); err != nil {
			return err
		}
		if o.Stdout != want {
			return fmt.Errorf("stdout is %q, want %q", o.Stdout, want)
		}
		return nil
	}
}

// caused wants one of the causes.
func caused(causes ...sandbox.Cause) func(Outcome) error {
	return func(o Outcome) error {
		if o.Err != nil {
			return fmt.Errorf("the program did not run: %w", o.Err)
		}
		if !slices.Contains(causes, o.Exit.Cause) {
			return fmt.Errorf("it ended with %q, want one of %q", o.Exit.Cause, causes)
		}
		if o.Ended != 1 {
			return fmt.Errorf("it was said to have ended %d times, want once", o.Ended)
		}
		return nil
	}
}

// hits wants a limit to be named.
func hits(kinds ...haft.FailureKind) func(Outcome) error {
	return func(o Outcome) error {
		if o.Err != nil {
			return fmt.Errorf("the program did not run: %w", o.Err)
		}
		if o.Exit.Cause != sandbox.CauseLimit || !slices.Contains(kinds, o.Exit.Limit) {
			return fmt.Errorf("it ended with %q and limit %q, want %q and one of %q", o.Exit.Cause, o.Exit.Limit,
				sandbox.CauseLimit, kinds)
		}
		return nil
	}
}

// hitsOrPrints wants a limit to be named, or the program to have got an error and printed
// it: a program may go on after ENOSPC.
func hitsOrPrints(kind haft.FailureKind, said string) func(Outcome) error {
	return func(o Outcome) error {
		if o.Err == nil && o.Exit.Cause == sandbox.CauseExit && strings.Contains(o.Stdout, said) {
			return nil
		}
		return hits(kind)(o)
	}
}

// all wants every check to pass.
func all(checks ...func(Outcome) error) func(Outcome) error {
	return func(o Outcome) error {
		for _, c := range checks {
			if err := c(o); err != nil {
				return err
			}
		}
		return nil
	}
}

// The errnos with which an attempt may be refused. Those for bad arguments are not among
// them: they mean that the call reached the kernel.
var (
	deniedCall   = []string{"EPERM", "EACCES", "ENOSYS", "SIG31"}
	deniedFile   = []string{"ENOENT", "EACCES", "EPERM", "EROFS", "ENOTDIR", "ENXIO", "SIG31"}
	deniedSocket = []string{"EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "ENETUNREACH",
		"ENOSYS", "SIG31"}
	deniedRoute = append([]string{"EHOSTUNREACH", "ECONNREFUSED", "EADDRNOTAVAIL", "ENOENT", "ENETDOWN"},
		deniedSocket...)
)

// refused wants every attempt of the program, by name, to have ended in one of
// the given ways. A run that ends as blocked has refused the last.
func refused(ways []string, names ...string) func(Outcome) error {
	return func(o Outcome) error {
		if o.Err != nil {
			return fmt.Errorf("the program did not run: %w", o.Err)
		}
		if o.Exit.Cause == sandbox.CauseBlocked {
			return nil
		}
		if err := exits(0)(o); err != nil {
			return err
		}
		said := map[string]string{}
		for line := range strings.Lines(o.Stdout) {
			name, what, _ := strings.Cut(strings.TrimSpace(line), " ")
			said[name] = what
			if !slices.Contains(ways, what) {
				return fmt.Errorf("%s came out as %q, want one of %v", name, what, ways)
			}
		}
		for _, n := range names {
			if said[n] == "" {
				return fmt.Errorf("nothing was said about %s", n)
			}
		}
		return nil
	}
}

// limits changes the limits of a run.
func limits(change func(*haft.Limits)) func(*sandbox.Spec) {
	return func(s *sandbox.Spec) { change(&s.Limits) }
}
