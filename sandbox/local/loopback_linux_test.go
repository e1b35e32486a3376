package local_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
	"haft/sandbox/sandboxtest"
)

// withLoopback is a provider whose runs may all listen on a loopback of their own.
type withLoopback struct{ *local.Provider }

// Run implements [sandbox.Provider].
func (p withLoopback) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	spec.Loopback = spec.Network != sandbox.NetworkFull
	return p.Provider.Run(ctx, spec)
}

// networking runs the cases about the network with a loopback.
func networking(t *testing.T, cfg local.Config) {
	t.Helper()
	sandboxtest.RunSome(t, func(t *testing.T) sandbox.Provider { return withLoopback{open(t, cfg)} },
		func(c sandboxtest.Case) bool { return c.Group == sandboxtest.Networking })
}

func TestConformance_with_loopback(t *testing.T) { networking(t, local.Config{}) }

// Without the filter and without Landlock it is the network namespace that holds.
func TestConformance_loopback_by_its_namespace_alone(t *testing.T) {
	networking(t, local.Config{Forbid: []haft.Control{haft.ControlSeccomp, haft.ControlLandlock}})
}

func TestConformance_with_loopback_and_egress(t *testing.T) {
	sandboxtest.RunEgress(t,
		func(t *testing.T) sandbox.Provider { return withLoopback{open(t, local.Config{})} }, false)
}

// What connections of a run to itself hold is bounded, and a run for which nobody bounds it makes none.
func TestRun_loopback_memory_is_bounded(t *testing.T) {
	for _, c := range []struct {
		name   string
		forbid []haft.Control
	}{{"bounded", nil}, {"no cgroup of memory", []haft.Control{haft.ControlMemory}}} {
		t.Run(c.name, func(t *testing.T) {
			p := withLoopback{open(t, local.Config{Forbid: c.forbid})}
			var out bytes.Buffer
			exit, err := p.Run(t.Context(), sandbox.Spec{Argv: []string{"/usr/bin/python3", "-c", `
import socket, time
try: server = socket.socket()
except OSError as e: print('none', e.errno); raise SystemExit
server.bind(('127.0.0.1', 8000)); server.listen(100)
held, keep, piece = 0, [], b'x' * 65536
for _ in range(60):
    c = socket.create_connection(('127.0.0.1', 8000)); s, _ = server.accept()
    c.setblocking(False); keep += [c, s]
    idle = 0
    while idle < 20:
        try: held += c.send(piece); idle = 0
        except BlockingIOError: idle += 1; time.sleep(0.001)
print('held', held >> 20)
`}, Mounts: system(), Stdout: &out, Limits: haft.Limits{Memory: 64 << 20}})
			if err != nil {
				t.Fatal(err)
			}
			var held int
			if n, _ := fmt.Sscanf(out.String(), "held %d", &held); c.forbid == nil && n == 1 && held > 64 ||
				c.forbid != nil && n == 1 || n == 0 && out.String() != "none 101\n" {
				t.Errorf("%+v, %s", exit, out.String())
			}
			t.Logf("%s %s", exit.Cause, out.String())
		})
	}
}
