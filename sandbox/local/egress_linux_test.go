package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
	"haft/sandbox/sandboxtest"
)

func TestConformance_with_egress(t *testing.T) {
	sandboxtest.RunEgress(t, func(t *testing.T) sandbox.Provider { return open(t, local.Config{}) }, false)
}

func TestConformance_forked_with_egress(t *testing.T) {
	sandboxtest.RunEgress(t, func(t *testing.T) sandbox.Provider { return open(t, local.Config{}) }, true)
}

func TestConformance_with_egress_as_an_ordinary_user(t *testing.T) {
	asUser(t, "TestConformance_with_egress")
}

// Without the filter and without Landlock it is the network namespace that holds.
func TestConformance_egress_by_its_namespace_alone(t *testing.T) {
	sandboxtest.RunEgress(t, func(t *testing.T) sandbox.Provider {
		return open(t, local.Config{Forbid: []haft.Control{haft.ControlSeccomp, haft.ControlLandlock}})
	}, false)
}

// served is egress that answers each line in capitals.
func served(_ context.Context, conn net.Conn) {
	for r := bufio.NewReader(conn); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, strings.ToUpper(line)); err != nil {
			return
		}
	}
}

// withEgress makes a run lead to egress.
func withEgress(serve func(context.Context, net.Conn)) func(*sandbox.Spec) {
	return func(s *sandbox.Spec) { s.Network, s.ServeEgress = sandbox.NetworkEgress, serve }
}

// ask is a script that uses the egress once.
const ask = `exec 5<>/dev/tcp/127.0.0.1/7718 && echo hello >&5 && read -r x <&5 && echo "$x"`

// confined opens a provider, or ends the test where it has no network namespace,
// after making sure that it refuses.
func confined(t *testing.T) *local.Provider {
	t.Helper()
	p := open(t, local.Config{})
	iso, err := p.Isolation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if iso.Has(haft.ControlNetNS) {
		return p
	}
	spec := sandbox.Spec{Argv: []string{"/bin/true"}, Mounts: system()}
	withEgress(served)(&spec)
	if _, err := p.Run(t.Context(), spec); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Run = %v, want code %q", err, haft.CodeDenied)
	}
	lacking(t, haft.ControlNetNS)
	return nil
}

func TestRun_egress(t *testing.T) {
	p := confined(t)
	if exit, out := sh(t, p, ask, withEgress(served)); out != "HELLO\n" || exit.Cause != sandbox.CauseExit {
		t.Errorf("printed %q, %+v", out, exit)
	}
	if exit, _ := sh(t, p, ask, withEgress(served)); !exit.Isolation.Has(haft.ControlNetNS) {
		t.Error("a run with egress says that it has no network namespace")
	}
	if _, out := sh(t, p, ask); strings.Contains(out, "HELLO") {
		t.Errorf("without egress: %q", out)
	}
}

// The first run of a provider is its proof: with egress, too.
func TestRun_egress_of_the_first_run(t *testing.T) {
	confined(t)
	if _, out := sh(t, open(t, local.Config{}), ask, withEgress(served)); out != "HELLO\n" {
		t.Errorf("printed %q", out)
	}
}

func TestTemplate_egress(t *testing.T) {
	p := confined(t)
	python := "/usr/bin/python3"
	if _, err := os.Stat(python); err != nil {
		sandboxtest.Require(t, "python", err.Error())
	}
	boot := "import os, socket\ndef main(channel):\n    s = socket.create_connection(('127.0.0.1', 7718)); " +
		"s.sendall(b'hello\\n'); os.write(1, s.recv(99)); os._exit(0)"
	spec := sandbox.Spec{Argv: []string{python, "-I", "-S"}, Mounts: system(), Network: sandbox.NetworkEgress}
	tmpl, err := p.Template(t.Context(), spec, boot)
	if err != nil {
		t.Fatal(err)
	}
	defer tmpl.Close()
	if _, err := tmpl.Run(t.Context(), sandbox.Spec{}); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a fork that nobody serves: %v, want code %q", err, haft.CodeInvalid)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			var out strings.Builder
			exit, err := tmpl.Run(t.Context(), sandbox.Spec{Stdout: &out, Stderr: &out,
				ServeEgress: func(_ context.Context, conn net.Conn) {
					fmt.Fprintf(conn, "fork %d", i)
				}})
			if err != nil || exit.Code != 0 || out.String() != fmt.Sprintf("fork %d", i) {
				t.Errorf("fork %d: %+v, %v, printed %q", i, exit, err, out.String())
			}
		})
	}
	all.Wait()
	spec.Network = sandbox.NetworkNone
	none, err := p.Template(t.Context(), spec, boot)
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if _, err := none.Run(t.Context(), sandbox.Spec{ServeEgress: served}); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("egress of a template without one: %v, want code %q", err, haft.CodeInvalid)
	}
}

// foreign counts the network namespaces other than its own that this process holds
// sockets of. A socket that is left would keep one.
func foreign(t *testing.T) int {
	t.Helper()
	var own unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &own); err != nil {
		t.Fatal(err)
	}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	all := map[uint64]bool{}
	for _, name := range fds {
		var fd int
		if _, err := fmt.Sscanf(filepath.Base(name), "%d", &fd); err != nil {
			continue
		}
		// SIOCGSKNS gives the namespace of a socket, Linux 4.10, to root.
		ns, err := unix.IoctlRetInt(fd, unix.SIOCGSKNS)
		if err != nil {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(ns, &st); err == nil && st.Ino != own.Ino {
			all[st.Ino] = true
		}
		_ = unix.Close(ns) // only looked at
	}
	return len(all)
}

func TestRun_egress_leaves_no_namespace(t *testing.T) {
	p := confined(t)
	during := 0
	for range 20 {
		sh(t, p, ask, withEgress(func(ctx context.Context, conn net.Conn) {
			during = max(during, foreign(t))
			served(ctx, conn)
		}))
	}
	if os.Getuid() == 0 && during != 1 {
		t.Errorf("%d networks were held during a run, want one", during)
	}
	if after := foreign(t); after != 0 {
		t.Errorf("%d networks are held after all runs", after)
	}
}

// A run that is given up in the middle ends its connections, whichever way they
// are busy, and waits for those who serve them.
func TestRun_egress_is_given_up(t *testing.T) {
	p := confined(t)
	for range 5 {
		var open atomic.Int64
		came := make(chan struct{}, 8)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for range 4 {
				<-came
			}
			cancel(errors.New("the caller has left"))
		}()
		spec := sandbox.Spec{
			Argv: []string{"/bin/bash", "-c",
				"for i in 1 2 3 4; do exec {fd}<>/dev/tcp/127.0.0.1/7718; done; sleep 60"},
			Mounts: system(), Env: []string{"PATH=/usr/bin:/bin"},
		}
		withEgress(func(ctx context.Context, conn net.Conn) {
			open.Add(1)
			defer open.Add(-1)
			came <- struct{}{}
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Minute):
				t.Error("nobody told the egress of the end")
			}
		})(&spec)
		exit, err := p.Run(ctx, spec)
		if err != nil || exit.Cause != sandbox.CauseCancelled || open.Load() != 0 {
			t.Errorf("Run = %+v, %v; %d are still served", exit, err, open.Load())
		}
		cancel(nil)
	}
}

// What was sent before the end arrives, and an answer that is under way is let
// finish.
func TestRun_egress_receives_the_last_words(t *testing.T) {
	p := confined(t)
	received := make(chan string, 1)
	sh(t, p, `exec 5<>/dev/tcp/127.0.0.1/7718 && read -r x <&5 && echo the last words >&5`,
		withEgress(func(ctx context.Context, conn net.Conn) {
			_, _ = io.WriteString(conn, "I am listening\n") // or nothing is received
			b, err := io.ReadAll(conn)
			received <- fmt.Sprint(string(b), err, ctx.Err())
		}))
	if got := <-received; got != "the last words\n<nil> <nil>" {
		t.Errorf("received %q", got)
	}
}

// Many runs with egress at once, of which some are given up.
func TestRun_egress_hammer(t *testing.T) {
	p := confined(t)
	var open atomic.Int64
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 5 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+(i*7+j*13)%60)*time.Millisecond)
				spec := sandbox.Spec{Argv: []string{"/bin/bash", "-c", "while " + ask + "; do :; done"},
					Mounts: system(), Env: []string{"PATH=/usr/bin:/bin"}}
				withEgress(func(ctx context.Context, conn net.Conn) {
					open.Add(1)
					defer open.Add(-1)
					served(ctx, conn)
				})(&spec)
				if exit, err := p.Run(ctx, spec); err != nil || exit.Cause != sandbox.CauseCancelled {
					t.Errorf("Run = %+v, %v", exit, err)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if n := open.Load(); n != 0 {
		t.Errorf("%d connections are served after all runs", n)
	}
}
