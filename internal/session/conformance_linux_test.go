package session_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/internal/session"
	"haft/sandbox"
	"haft/sandbox/gvisor"
	"haft/sandbox/local"
	"haft/sandbox/sandboxtest"
)

// asProvider runs each command in a session of its own.
type asProvider struct {
	m   *session.Manager
	iso func(context.Context) (haft.Isolation, error)
}

// Isolation implements [sandbox.Provider].
func (a asProvider) Isolation(ctx context.Context) (haft.Isolation, error) { return a.iso(ctx) }

// Run implements [sandbox.Provider], as far as the cases need it.
func (a asProvider) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	defer spec.Channel.Close() //nolint:errcheck // a command in a session has none
	// The agent and its kernels need some of what a command may have.
	limits := spec.Limits
	limits.Processes += 16
	limits.OpenFiles += 64
	s, err := a.m.Open(ctx, session.Options{Request: executor.Request{Org: "acme", Principal: alice, Limits: limits,
		Need: spec.Need}})
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer s.Close("the case has ended")
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
	p, err := s.Start(ctx, session.Command{Argv: spec.Argv, Env: env, Stdout: write(spec.Stdout),
		Stderr: write(spec.Stderr)})
	if err != nil {
		return sandbox.Exit{}, err
	}
	timed, cancel := context.WithTimeout(ctx, spec.Limits.Wall.D())
	defer cancel()
	code, err := p.Wait(timed)
	if haft.CodeOf(err) == haft.CodeNotFound {
		<-s.Ended() // the channel with it has ended a moment before
	}
	exit := sandbox.Exit{Cause: sandbox.CauseExit, Code: code, Isolation: s.Info().Isolation}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		exit.Cause = sandbox.CauseTimeout
	case s.Why() != nil:
		exit.Cause = sandbox.CauseSignal // the command has ended its session
	case err != nil:
		return exit, fmt.Errorf("wait for a command: %w", err)
	case code < 0:
		exit.Cause, exit.Code, exit.Signal = sandbox.CauseSignal, 0, -code
	}
	if spec.Ended != nil {
		spec.Ended(exit)
	}
	return exit, nil
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
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
		return asProvider{setup(t, session.Config{PerOrg: 200}), p.Isolation}
	})
}

// So it is in gVisor.
func TestSession_conformance_gvisor(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite takes some minutes")
	}
	conform(t, func(t *testing.T) sandbox.Provider {
		p, err := gvisor.Open(context.WithoutCancel(t.Context()), gvisor.Config{Dir: t.TempDir()})
		if err != nil {
			sandboxtest.Require(t, "gvisor", err.Error())
		}
		return asProvider{setupOn(t, p, "gvisor", session.Config{PerOrg: 200}), p.Isolation}
	})
}

// conform runs the cases that have a meaning for commands in sessions.
func conform(t *testing.T, open func(t *testing.T) sandbox.Provider) {
	t.Helper()
	sandboxtest.RunSome(t, open, func(c sandboxtest.Case) bool {
		// A command has no channel, and the session has its interpreters where they are on the host.
		if slices.Contains([]string{"only_four_descriptors_are_open", "descriptors_lead_nowhere",
			"host_directories_are_not_there"}, c.Name) {
			return false
		}
		return c.Do == nil && c.Spec == nil && !c.Settled && slices.Contains([]sandboxtest.Group{sandboxtest.Filesystem,
			sandboxtest.Descriptors, sandboxtest.Networking}, c.Group)
	})
}
