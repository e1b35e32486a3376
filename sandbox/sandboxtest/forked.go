package sandboxtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"haft/sandbox"
)

// RunForked runs the suite against sandboxes that are made from a template. The provider
// that open returns must be a [sandbox.Forker]. Each program is started by a fork of a
// Python that has checked that it inherited nothing that it should not have.
func RunForked(t *testing.T, open func(t *testing.T) sandbox.Provider) {
	t.Helper()
	runForked(t, open, func(p sandbox.Provider) sandbox.Provider { return p })
}

// runForked is RunForked with a provider changed at last.
func runForked(t *testing.T, open func(t *testing.T) sandbox.Provider, change func(sandbox.Provider) sandbox.Provider) {
	t.Helper()
	in, err := findPython()
	if err != nil {
		Require(t, "python", err.Error())
	}
	cases := slices.DeleteFunc(Cases(), func(c Case) bool { return c.Settled })
	run(t, func(t *testing.T) sandbox.Provider {
		p := open(t)
		forker, ok := p.(sandbox.Forker)
		if !ok {
			t.Fatalf("%T makes no templates", p)
		}
		most := caseLimits() // of a fork
		most.FileSize, most.Disk = 1<<30, 64<<20
		f := forked{p, map[sandbox.Network]sandbox.Template{}}
		for _, network := range []sandbox.Network{sandbox.NetworkNone, sandbox.NetworkEgress} {
			template, err := forker.Template(t.Context(), sandbox.Spec{
				Argv: in.argv[:len(in.argv)-1], Mounts: in.mounts, Limits: most, Network: network,
				Env: []string{"PATH=/usr/bin:/bin"},
			}, boot)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := template.Close(); err != nil {
					t.Error(err)
				}
			})
			f.templates[network] = template
		}
		return change(f)
	}, cases)
}

// orders is the file that names the command of a fork.
const orders = ".haft-case"

// boot is the template's program. Python ignores some signals, and children inherit that:
// it resets them.
const boot = `
import json, os, signal
def main(channel):
    for fd in os.listdir('/proc/self/fd'):
        try: os.fstat(int(fd))
        except OSError: continue
        if int(fd) > 2 and int(fd) != channel:
            os.write(2, ('descriptor %s leads to %s\n' % (fd, os.readlink('/proc/self/fd/' + fd))).encode())
            os._exit(99)
    with open('/work/` + orders + `') as f: argv, env = json.load(f)
    os.unlink('/work/` + orders + `')
    for s in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT): signal.signal(s, signal.SIG_DFL)
    os.set_inheritable(channel, True)
    os.execve(argv[0], argv, env)
`

// forked is a provider that runs every command in a fork of a template.
type forked struct {
	sandbox.Provider
	templates map[sandbox.Network]sandbox.Template
}

// Run passes the command to the fork in a file.
func (f forked) Run(ctx context.Context, spec sandbox.Spec) (sandbox.Exit, error) {
	if err := spec.Check(); err != nil {
		if spec.Channel != nil {
			_ = spec.Channel.Close() // as every provider does
		}
		return sandbox.Exit{}, err
	}
	env := map[string]string{}
	for _, kv := range spec.Env {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	data, err := json.Marshal([]any{spec.Argv, env})
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("encode a command: %w", err)
	}
	spec.Files = append(slices.Clone(spec.Files), sandbox.File{Name: orders, Data: data})
	exit, err := f.templates[spec.Network].Run(ctx, spec)
	if err != nil {
		return exit, fmt.Errorf("run in a fork: %w", err)
	}
	return exit, nil
}
