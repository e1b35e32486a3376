// Package sandboxtest is the conformance suite for sandboxes: honest and hostile programs,
// each with the end that it must have.
//
// Every provider runs every [Case]. A case names the controls that it needs. If a
// provider has them, the verdict is [Held] or [Broken]. If it lacks one, the program is
// not run, because it would attack the host. Instead the provider must report the control
// as missing, and refuse a run that requires it: the verdict is [Stated]. So a provider
// may be weak, but it has to say so.
//
// [Run] runs the suite as a test, [RunForked] for sandboxes from a template, and
// [RunEgress] for those that have one way out. [Grade] is the same on a user's own machine, with
// a mark. [Require] makes skips loud, and [Fake] stands in for a provider in the
// tests of others.
//
// The programs are in sh and Python, so that nothing has to be compiled. Each does as
// little harm as possible: a program that finds that it is not confined reports that and
// does no damage.
package sandboxtest

import (
	"context"
	"slices"
	"time"

	"haft"
	"haft/sandbox"
)

// A Group sorts cases by what they attack.
type Group string

// The groups.
const (
	Honest      Group = "honest"      // the contract, for programs that mean no harm
	Processes   Group = "processes"   // processes and resources
	Filesystem  Group = "filesystem"  // files, artifacts, /proc
	Descriptors Group = "descriptors" // descriptors, IPC, privileges, system calls
	Networking  Group = "network"     // the network that is off, or has one address
	Tenants     Group = "tenants"     // traces of another run
)

// Groups lists the groups in the order of reports.
func Groups() []Group {
	return []Group{Honest, Processes, Filesystem, Descriptors, Networking, Tenants}
}

// A Case is one case of the suite.
type Case struct {
	// Name says the behaviour, in words joined by underscores.
	Name  string
	Group Group
	// Story says in one sentence what the weakness would be and what must happen.
	Story string
	// Program is what is run.
	Program Program
	// Needs are the controls that the promise rests on: all of them, and at least
	// one of Any.
	Needs, Any []haft.Control
	// Spec changes the run, if not nil.
	Spec func(*sandbox.Spec)
	// Check judges the outcome. The host is looked at in any case.
	Check func(Outcome) error
	// Do takes the place of Program, Spec and Check for a case of several runs.
	Do func(ctx context.Context, b *Bench) error
	// Alone is for cases that look at the whole host.
	Alone bool
	// Timed is for cases that measure time. They run alone, and again if they
	// fail, nine times at most: on a loaded machine any provider may be late, but
	// one that is late by design is late every time.
	Timed bool
	// Lasts is the time that the case takes by design, if that is long.
	Lasts time.Duration
	// Guest says why the case has no meaning for a provider with [haft.ControlKernel], or is empty.
	Guest string
	// Settled is for cases about the command, the mounts or the network. They are
	// left out for runs from a template, which determines these.
	Settled bool
}

// A Program is source code in the language of an interpreter.
type Program struct {
	Language string // "sh" or "python"
	Source   string
}

// An Outcome is what a caller of Run sees.
type Outcome struct {
	Exit           sandbox.Exit
	Err            error
	Stdout, Stderr string
	// Channel is what the program wrote to descriptor 3.
	Channel string
	// Took is the time from the call of Run to its return.
	Took time.Duration
	// Ended counts the calls of Spec.Ended.
	Ended int
}

// A Verdict is the result of a case.
type Verdict string

// The verdicts.
const (
	Held    Verdict = "held"    // the promise was kept
	Stated  Verdict = "stated"  // there is no such promise here, and the provider says so
	Broken  Verdict = "broken"  // a promise was not kept
	Skipped Verdict = "skipped" // the program could not be run here
)

// Lacking returns the controls of c that iso does not have.
func (c Case) Lacking(iso haft.Isolation) []haft.Control {
	var lack []haft.Control
	for _, n := range c.Needs {
		if !iso.Has(n) {
			lack = append(lack, n)
		}
	}
	if len(c.Any) > 0 && !slices.ContainsFunc(c.Any, iso.Has) {
		lack = append(lack, c.Any...)
	}
	return lack
}

// Cases returns every case, in the order of [Groups].
func Cases() []Case {
	var all []Case
	for _, list := range [][]Case{
		honestCases(), contractCases(), idleCases(), processCases(), supervisorCases(), attackCases(),
		memoryCases(), outputCases(),
		fileCases(), artifactCases(), procCases(), privilegeCases(), callCases(),
		socketCases(), networkCases(), egressCases(), tenantCases(), quotaCases(), observeCases(),
	} {
		all = append(all, list...)
	}
	return all
}

// sh is a program for the shell.
func sh(source string) Program { return Program{Language: "sh", Source: source} }

// py is a program for Python, after the prelude.
func py(source string) Program { return Program{Language: "python", Source: source} }

// counted are the controls of which each counts the processes of a run.
func counted() []haft.Control { return controls(haft.ControlPIDs, haft.ControlKernel) }

// controls makes rows easier to read.
func controls(c ...haft.Control) []haft.Control { return c }
