// Package sandbox is the contract for an isolated place in which one command
// runs, once.
//
// A [Provider] runs the command of a [Spec] and returns an [Exit] that says how
// it ended, which limit or signal ended it, what it used, and what it was really
// confined by. Package sandboxtest is the conformance suite: honest and hostile
// programs with their expected ends, which every provider must pass.
//
// A Provider confines or refuses. It never runs a command with less isolation
// than Spec.Need asks for, and it reports what it could not apply.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"haft"
)

// A Provider runs commands in isolation. Providers are safe for concurrent use.
type Provider interface {
	// Run places the command of spec in a fresh sandbox and waits for its end,
	// and for the end of everything that it started.
	//
	// A command that fails, is killed or exceeds a limit has an Exit that says
	// so, and a nil error. An error means that the command did not run: a
	// [*SetupError] if a step of confinement failed, an [*haft.Error] if the
	// spec is wrong or asks for isolation that cannot be had here.
	//
	// When ctx ends, or Limits.Wall has passed, Run stops the command, first with
	// SIGTERM and, Limits.Grace later, with SIGKILL for everything in the sandbox.
	// The Cause is CauseCancelled or CauseTimeout, whatever the command does with
	// the signal. All other limits still hold. Finish ends the grace time, and so does
	// the end of ctx with the cause [ErrNoGrace]. When Run returns, nothing of the run is left: no process,
	// mount, cgroup, file, IPC object or socket.
	Run(ctx context.Context, spec Spec) (Exit, error)

	// Isolation says what this provider can promise on this machine, found by
	// trying and not by reading versions.
	Isolation(ctx context.Context) (haft.Isolation, error)
}

// ErrNoGrace is the cause of a context whose end leaves a command no time to clean up, such as
// when it may not do any more what it was allowed to do.
var ErrNoGrace = errors.New("the command has no time to clean up")

// killKey is the context key of the context that [Killed] returns.
type killKey struct{}

// WithKill returns a copy of ctx, and a function that kills what runs with it. A context has only
// one cause of its end, so that this, and not the end of ctx, ends the grace time of a command
// that was stopped before. The caller of WithKill calls kill in the end.
func WithKill(ctx context.Context) (killable context.Context, kill context.CancelFunc) {
	killed, kill := context.WithCancel(Killed(ctx))
	return context.WithValue(ctx, killKey{}, killed), kill
}

// Killed returns the context that ends when what runs with ctx is to be killed, see [WithKill].
func Killed(ctx context.Context) context.Context {
	if killed, ok := ctx.Value(killKey{}).(context.Context); ok {
		return killed
	}
	return context.Background() //nolint:forbidigo // it never ends
}

// ErrLost is wrapped by the error of a run whose sandbox was lost after the command had begun, such as a machine
// elsewhere that cannot be reached any more: it is not known what the command has done.
var ErrLost = errors.New("the sandbox was lost while the command ran")

// A Spec describes one run. It is not changed by the provider.
type Spec struct {
	// Tenant names whose run it is. A provider that keeps sandboxes for several runs never gives one to two tenants,
	// and keeps none of a run without a tenant.
	Tenant string
	// Argv is the command. Argv[0] is an absolute path inside the sandbox.
	Argv []string
	// Env is the whole environment, as "K=V". Nothing else is inherited.
	Env []string
	// Mounts are the parts of the host that the command may see. There are no
	// others but the private /tmp, /work, /proc and /dev.
	Mounts []Mount
	// Files are put below /work before the command starts there.
	Files []File
	// Terminals gives the command a /dev/pts of its own, where there are namespaces. Without it
	// no terminal can be made.
	Terminals bool
	// Collect gives back the files that the command leaves in /work, see [Exit.Artifacts].
	Collect bool
	// Given, if not nil, names files below /work that the caller has put there another way than
	// by Files. They are not given back either. It is called at the end of the run.
	Given func() []string

	Limits  haft.Limits
	Network Network
	// ServeEgress serves the connections of [NetworkEgress], and is set with that only. It
	// is called, each time in a goroutine of its own, with every connection that
	// a process of this run makes to [EgressAddr], of which there are never more
	// than [EgressConns] at once.
	//
	// ServeEgress returns when it is done with the connection, and soon after ctx ends,
	// which it does at the end of the run. When the command has ended, connections that
	// were not accepted yet are closed. From the others, data that was sent can still be
	// read, and an answer can be sent for a short time; then they are closed. Ended is
	// called, and Run returns, after the last ServeEgress has returned, so that what it
	// recorded is complete.
	ServeEgress func(ctx context.Context, conn net.Conn)
	// Loopback lets the command listen on TCP ports of a loopback of its own, and connect to them. It does not go
	// with [NetworkFull]. A provider that cannot bound the memory of those connections does not allow them.
	Loopback bool
	// Need refuses to run with less isolation than this.
	Need Need
	// Observe records what the command touches, from Begin on if that is set: see [Exit.Touched]. A provider that
	// cannot do it refuses to run the command. What is observed is slower, and confined as always.
	Observe bool
	// Owner, if not 0, is the user id of the host that owns a writable mount: a provider that
	// gives each run a user id of its own uses this one, so that runs one after the other can
	// use the same files.
	Owner int

	// Stdin is read until its end; nil is an empty input.
	Stdin io.Reader
	// Stdout and Stderr get what the command writes, as it comes, up to the
	// limits. Nil discards.
	Stdout, Stderr io.Writer
	// Channel becomes descriptor 3 of the command. It is the sandbox's end of a
	// socket pair whose other end the caller keeps. Run closes it as soon as the
	// command has its own, so that the caller sees when the command closes that.
	Channel *os.File

	// Begin, if not nil, is closed by the caller when the call proper begins.
	// Until then the command prepares itself and waits, and the clock of
	// Limits.Wall stands still.
	Begin <-chan struct{}
	// Prepared, if not nil, is closed by the caller when the command has prepared
	// itself and only waits for Begin. From then on it has to be one process that does
	// next to nothing; else it ends with CauseLimit. Before, the limits of the call hold.
	Prepared <-chan struct{}
	// Idle, if not nil, is called once after Prepared, when the provider has seen that the
	// command is one process. A command that is more than one process is ended instead. A
	// provider that cannot see it calls Idle, too.
	Idle func()
	// Metered, if not nil, is called once, before the command runs, with a function that
	// returns how much processor time the run has used so far. It can be called at any time,
	// also after the run. It returns 0 where the provider does not know.
	Metered func(cpu func() time.Duration)
	// Finish, if not nil, is closed by the caller when it has its result. The run then
	// ends at once with CauseFinished, however busy it is. A command whose actions nobody
	// can notice may stay alive for some milliseconds after Ended.
	Finish <-chan struct{}
	// Ended, if not nil, is called once, as soon as the end of the run is known
	// and its output, usage and artifacts are collected, but before the sandbox
	// is torn down: tearing down takes longer than most calls, and the caller
	// need not wait for it. Run still returns after it.
	Ended func(Exit)
}

// Lasting returns limits for a command that has no end of its own, such as a
// server on its standard streams: neither the clock nor processor time nor the
// amount of its output ends it. The reader of that output bounds its rate: a writer that
// blocks makes the command block.
func Lasting(l haft.Limits) haft.Limits {
	const century, exbibyte = haft.Millis(100 * 365 * 24 * time.Hour), 1 << 58
	l.Wall, l.CPU, l.Stdout, l.Stderr = century, century, exbibyte, exbibyte
	return l
}

// A Forker is a Provider that can make sandboxes from a prepared process, which
// is much quicker than starting one. It is found by type assertion.
type Forker interface {
	// Template starts the interpreter of spec, runs boot in it once, and keeps
	// it. The template holds no tenant's code and no tenant's data.
	//
	// Spec.Argv is the interpreter with its flags; Spec.Env, Mounts, Network,
	// Limits and Need hold for every sandbox made from it. ServeEgress is each
	// run's own, and not set here. Boot is source code in
	// the interpreter's language that defines main(channel): it is called in each
	// fresh sandbox, after confinement, with the number of the descriptor that
	// Spec.Channel became. If it defines prime(), that is called once in the
	// template, after the first fork.
	Template(ctx context.Context, spec Spec, boot string) (Template, error)
	// CanFork reports whether this machine allows it, which is found by trying.
	// Where it does not, Template refuses, and Run still serves.
	CanFork(ctx context.Context) bool
}

// A Template makes sandboxes by forking. It is safe for concurrent use.
type Template interface {
	// Run is like [Provider.Run], in a fork of the template. It ignores Argv,
	// Env and Mounts, which the template has settled.
	Run(ctx context.Context, spec Spec) (Exit, error)
	// Close ends the template. Sandboxes made from it go on.
	Close() error
}

// A Mount makes a path of the host visible inside.
type Mount struct {
	Host, Inside string
	// Writable is for directories that outlive the run. The rest is read-only.
	Writable bool
	// File, if not nil, is what is mounted: the open file or directory at Host, which the
	// caller has checked. The provider binds this descriptor and never anything else that
	// Host may lead to later. The caller closes it after the run.
	File *os.File `json:"-"`
}

// A File is written below /work before the command starts.
type File struct {
	// Name is a relative, clean path below /work.
	Name string
	Data []byte
	Mode os.FileMode // of the permission bits; 0 means 0644
}

// Network says what a command can reach.
type Network string

// The kinds of network.
const (
	NetworkNone   Network = ""       // not even a loopback to the host
	NetworkEgress Network = "outlet" // one address, behind which is Spec.ServeEgress
	NetworkFull   Network = "full"   // the host's own network, which is no isolation; users call it host
)

// EgressAddr is the only address that a command with [NetworkEgress] can reach. There is
// no route, no name server, no other interface than a loopback of the sandbox's own,
// and no IPv6 and no UDP.
const (
	EgressAddr = "127.0.0.1:7718"
	EgressPort = 7718
	// EgressConns is how many connections are served at once. As many again wait
	// in the kernel; others are refused.
	EgressConns = 64
)

// Need is the least isolation that a run accepts.
type Need struct {
	Level    haft.Level
	Controls []haft.Control
}

// Check reports, as an error with [haft.CodeDenied], what have lacks of n.
func (n Need) Check(have haft.Isolation) error {
	if !have.Level.AtLeast(n.Level) {
		return &haft.Error{Code: haft.CodeDenied, Message: fmt.Sprintf(
			"isolation %q is demanded, this sandbox gives %q: %s", n.Level, have.Level, n.advice())}
	}
	for _, c := range n.Controls {
		if !have.Has(c) {
			return &haft.Error{Code: haft.CodeDenied, Message: fmt.Sprintf(
				"control %q is demanded, this sandbox does not have it", c)}
		}
	}
	return nil
}

// advice says how the demanded level can be had.
func (n Need) advice() string {
	switch n.Level {
	case haft.LevelKernel:
		return "the sandbox gvisor gives it (--sandbox gvisor); haft doctor --fix, or make gvisor, installs it"
	case haft.LevelMachine:
		return "the sandboxes e2b and modal rent machines, see docs/e2b.md and docs/modal.md; or demand kernel, and " +
			"run Haft in a virtual machine of its own"
	case haft.LevelNamespaces:
		return "haft doctor says how this machine gets namespaces; in a container, see docs/deploy.md"
	}
	return "use the sandbox local, and haft doctor to see what it lacks here"
}

// Exit says how a run ended.
type Exit struct {
	Cause Cause
	// Code is the exit status, if Cause is CauseExit.
	Code int
	// Signal is the number of the signal that ended the command, if one did.
	Signal int
	// Limit names the limit, if Cause is CauseLimit.
	Limit haft.FailureKind
	Usage haft.Usage
	// Dropped counts the bytes of output beyond the limits.
	DroppedStdout, DroppedStderr int64
	Isolation                    haft.Isolation
	// Artifacts are the files that the command left in /work, with [Spec.Collect]: all in
	// /work/out, under their names there, and of the others those that are neither hidden nor
	// given by the caller.
	Artifacts []haft.Artifact
	// ArtifactsCut says that there were more or larger artifacts than allowed,
	// or some that are not regular files.
	ArtifactsCut []string
	// Touched is what the command touched, with [Spec.Observe]; nil means that it was not observed.
	Touched *haft.Touched
	// Started is when the command itself began to run.
	Started time.Time
}

// Cause says what ended a run.
type Cause string

// The causes.
const (
	CauseExit      Cause = "exit"      // it ended by itself
	CauseSignal    Cause = "signal"    // a signal that the provider did not send
	CauseTimeout   Cause = "timeout"   // the wall-clock limit
	CauseLimit     Cause = "limit"     // another limit, named by Exit.Limit
	CauseBlocked   Cause = "blocked"   // a forbidden system call
	CauseCancelled Cause = "cancelled" // the caller's context ended
	CauseFinished  Cause = "finished"  // the caller closed Spec.Finish
	CauseUnmetered Cause = "unmetered" // what it used could not be read, and so not limited
)

// A SetupError is a step of confinement that failed. The command did not run.
type SetupError struct {
	Step string // such as "mount"
	Path string // what the step was about, or ""
	Err  error  // the errno
}

// Error returns "sandbox set-up: step path: errno".
func (e *SetupError) Error() string {
	s := "sandbox set-up: " + e.Step
	if e.Path != "" {
		s += " " + e.Path
	}
	return s + ": " + e.Err.Error()
}

// Unwrap returns the errno.
func (e *SetupError) Unwrap() error { return e.Err }
