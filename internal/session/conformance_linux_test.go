package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/internal/session"
	"haft/sandbox"
	"haft/sandbox/cell"
	"haft/sandbox/gvisor"
	"haft/sandbox/local"
	"haft/sandbox/sandboxtest"
)

// asProvider runs each command in a session of its own.
type asProvider struct {
	t   *testing.T
	iso func(context.Context) (haft.Isolation, error)
	// Sessions with the limits of most cases come from warm, which are those of the first. All others come from cold,
	// which keeps nothing ready: the suite counts descriptors before its cases and after.
	warm, cold *session.Manager
	once       sync.Once
	most       haft.Limits
}

// Isolation implements [sandbox.Provider].
func (a *asProvider) Isolation(ctx context.Context) (haft.Isolation, error) { return a.iso(ctx) }

// Run implements [sandbox.Provider], as far as the cases need it.
func (a *asProvider) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	defer spec.Channel.Close() //nolint:errcheck // its other end is closed too
	m, limits := a.cold, spec.Limits
	if a.once.Do(func() { a.most = limits }); limits == a.most {
		m = a.warm
	}
	// The agent and its kernels need some of what a command may have.
	limits.Processes += 16
	limits.OpenFiles += 64
	s, err := m.Open(ctx, session.Options{Request: executor.Request{Org: "acme", Principal: alice, Limits: limits,
		Need: spec.Need}})
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer s.Close("the case has ended")
	exit, err := runIn(ctx, s, spec)
	if err != nil {
		return exit, err
	}
	s.Close("the case has ended")
	// All of it is killed then, and dies some milliseconds later.
	eventually(a.t, "all processes of a session that was closed are dead", func() bool {
		return processesWith(a.t, spec.Argv[len(spec.Argv)-1]) == 0
	})
	if spec.Ended != nil {
		spec.Ended(exit)
	}
	return exit, nil
}

// runIn runs a command in a session, with the limits of time that a call of run_command puts on it.
func runIn(ctx context.Context, s *session.Session, spec sandbox.Spec) (sandbox.Exit, error) {
	env := map[string]string{}
	for _, kv := range spec.Env {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	write := func(w io.Writer) func([]byte) {
		return func(b []byte) {
			if _, err := w.Write(b); err != nil {
				panic(err) // a buffer of the suite
			}
		}
	}
	timed, cancel := context.WithTimeout(ctx, spec.Limits.Wall.D())
	defer cancel()
	timed, used := s.LimitCPU(timed, spec.Limits.CPU.D())
	begun := time.Now()
	p, err := s.Start(ctx, session.Command{Argv: withChannel(spec.Argv), Env: env, Stdout: write(spec.Stdout),
		Stderr: write(spec.Stderr)})
	if err != nil {
		return sandbox.Exit{}, err
	}
	if talks(spec.Argv) {
		defer connect(ctx, s, spec.Channel)()
	}
	code, err := p.Wait(timed)
	if haft.CodeOf(err) == haft.CodeNotFound {
		<-s.Ended() // the channel with it has ended a moment before
	}
	exit := sandbox.Exit{Cause: sandbox.CauseExit, Code: code, Isolation: s.Info().Isolation}
	exit.Usage.Wall, exit.Usage.CPU = haft.Millis(time.Since(begun)), haft.Millis(used())
	switch {
	case errors.Is(err, session.ErrCPU):
		exit.Cause, exit.Limit = sandbox.CauseLimit, haft.FailCPU
	case errors.Is(err, context.DeadlineExceeded):
		exit.Cause = sandbox.CauseTimeout
	case s.Why() != nil: // the command has ended its session
		exit.Cause = sandbox.CauseSignal
		_, _ = fmt.Fprintln(spec.Stderr, s.Why())
		if _, limit, found := strings.Cut(s.Why().Error(), "its limit "); found {
			limit, _, _ = strings.Cut(limit, ";")
			exit.Cause, exit.Limit = sandbox.CauseLimit, haft.FailureKind(limit)
		}
	case err != nil:
		return exit, fmt.Errorf("wait for a command: %w", err)
	case code == -int(syscall.SIGKILL) && spec.Limits.Memory < 128<<20:
		// Cases about memory do not kill their program: it was the kernel, and the session goes on.
		exit.Cause, exit.Limit = sandbox.CauseLimit, haft.FailMemory
	case code < 0:
		exit.Cause, exit.Code, exit.Signal = sandbox.CauseSignal, 0, -code
	}
	return exit, nil
}

// talks reports whether a program talks to its case, beyond the function for it which all have.
func talks(argv []string) bool { return strings.Count(strings.Join(argv, "\n"), "tell(") > 1 }

// channelPort is the port of a session whose connection is descriptor 3 of a program that talks.
const channelPort = 9

// withChannel is the command of a program. One that talks waits for its channel first.
func withChannel(argv []string) []string {
	if !talks(argv) {
		return argv
	}
	return append([]string{argv[0], "-I", "-S", "-c", fmt.Sprintf(`import os, socket, sys
os.makedirs('/work/.ports', exist_ok=True)
server = socket.socket(socket.AF_UNIX)
server.bind('/work/.ports/%[1]d')
server.listen()
channel = server.accept()[0]
os.unlink('/work/.ports/%[1]d')
os.dup2(channel.detach(), 3)
os.closerange(4, 64)
os.execv(sys.argv[1], sys.argv[1:])`, channelPort)}, argv...)
}

// connect connects the channel of a case to its program, until stop is called and what the program has said was read.
func connect(ctx context.Context, s *session.Session, channel *os.File) (stop func()) {
	var work sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	drained := make(chan struct{})
	work.Go(func() {
		defer close(drained)
		conn, err := s.DialPort(ctx, channelPort)
		for ; err != nil && ctx.Err() == nil && s.Why() == nil; conn, err = s.DialPort(ctx, channelPort) {
			<-time.After(5 * time.Millisecond) // the program does not listen yet
		}
		if err != nil {
			return // the case hears nothing
		}
		work.Go(func() { _, _ = io.Copy(conn, channel) })
		_, _ = io.Copy(channel, conn)
		_ = conn.Close()
	})
	return func() {
		select {
		case <-drained:
		case <-time.After(5 * time.Second): // it has left a process that goes on
		}
		cancel()
		_ = syscall.Shutdown(int(channel.Fd()), syscall.SHUT_RDWR) // wakes up who reads it
		work.Wait()
	}
}

// A command in a session is as confined as a run.
func TestSession_conformance(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite takes a minute")
	}
	conform(t, func(t *testing.T) sandbox.Provider {
		p, err := local.Open(context.WithoutCancel(t.Context()), local.Config{Dir: t.TempDir(), AllowReduced: true})
		if err != nil {
			sandboxtest.Require(t, "sandbox", err.Error())
		}
		return sessionsOn(t, p, "local")
	}, sandboxtest.Processes, sandboxtest.Tenants)
}

// So it is in gVisor. Cases of processes and tenants are left to the suite of calls there: to make and remove that many
// sandboxes with limits of their own takes minutes.
func TestSession_conformance_gvisor(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite takes some minutes")
	}
	conform(t, func(t *testing.T) sandbox.Provider {
		p, err := gvisor.Open(context.WithoutCancel(t.Context()), gvisor.Config{Dir: t.TempDir()})
		if err != nil {
			sandboxtest.Require(t, "gvisor", err.Error())
		}
		return sessionsOn(t, p, "gvisor")
	})
}

// sessionsOn returns sessions on a provider, which is closed in the end.
func sessionsOn(t *testing.T, p interface {
	sandbox.Provider
	io.Closer
}, name string) *asProvider {
	t.Helper()
	cfg := session.Config{PerOrg: 200}
	few := script.Config{Cells: cell.Config{Least: 1, Most: 1}} // as many ready after the cases as before
	return &asProvider{t: t, iso: p.Isolation, warm: setupWith(t, p, name, few, cfg),
		cold: setupWith(t, lent{p}, name, script.Config{Cold: true}, cfg)}
}

// lent is a provider that somebody else closes.
type lent struct{ sandbox.Provider }

// Close implements [io.Closer].
func (lent) Close() error { return nil }

// conform runs the cases that have a meaning for commands in sessions. Of more, it runs also those with limits of their
// own, and of several runs.
func conform(t *testing.T, open func(t *testing.T) sandbox.Provider, more ...sandboxtest.Group) {
	t.Helper()
	const (
		channel  = "a command has no descriptor 3 of its own"
		output   = "run_command bounds the output, and not the session"
		prepared = "a command is never prepared before it is called"
		counted  = "the kernel counts processor time of a session, or nobody does: TestRunCommand_processor_time"
		refused  = "who is refused a process gets an error, and the session goes on: TestSession_fork_bomb"
	)
	excluded := map[string]string{
		"only_four_descriptors_are_open": channel, "descriptors_lead_nowhere": channel,
		"closed_output_is_no_end": channel, "flooded_channel_is_the_callers_to_bound": channel,
		"flood_of_stdout_is_cut": output, "flood_of_stderr_is_cut": output, "endless_line_is_cut": output,
		"flood_does_not_grow_the_engine": output, "limits_hold_before_begin": prepared,
		"idle_program_is_one_process": prepared, "idle_program_does_nothing": prepared,
		"fork_bomb_hits_pids_limit": refused, "python_fork_bomb_hits_pids_limit": refused,
		"thread_bomb_hits_pids_limit": refused, "busy_program_meets_the_cpu_limit": counted,
		"cpu_limit_counts_children_that_nobody_waits_for": counted,

		"processes_and_cgroups_are_gone_after_the_call": "the processes are, and the cgroups a moment later",

		"memory_of_children_counts_together":    "the kernel kills one of them, and their parent goes on or ends",
		"host_directories_are_not_there":        "a session has its interpreters where they are on the host",
		"open_files_are_bounded":                "the limit has to be higher here, for the agent",
		"attack_on_the_supervisor_slows_nobody": "it ends its own session by signals, before it attacks others",
	}
	sandboxtest.RunSome(t, open, func(c sandboxtest.Case) bool {
		switch {
		case c.Settled || excluded[c.Name] != "":
			return false
		case strings.HasPrefix(c.Name, "observed_"): // commands in sessions are not
			return false
		case slices.Contains(more, c.Group):
			return true
		}
		// Others of several runs are about artifacts, egress and what a sandbox tells its caller.
		return c.Do == nil && c.Spec == nil && slices.Contains([]sandboxtest.Group{sandboxtest.Filesystem,
			sandboxtest.Descriptors, sandboxtest.Networking}, c.Group)
	})
}
