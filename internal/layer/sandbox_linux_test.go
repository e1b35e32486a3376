package layer_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"haft"
	"haft/executor/script"
	"haft/internal/layer"
	"haft/sandbox"
	"haft/sandbox/local"
	"haft/sandbox/process"
	"haft/sandbox/sandboxtest"
)

// confined returns an installer whose commands run in a sandbox, and what runs them.
func confined(t *testing.T, s *layer.Store, wheels string) (*layer.Installer, layer.Run) {
	t.Helper()
	exe := python(t)
	rt, run := confine(t, haft.KindPython, exe)
	return &layer.Installer{Run: run, Scratch: s.Scratch, Inside: "/build", Python: rt.Argv[0],
		Index: layer.Index{Wheels: []string{wheels}, Offline: true}}, run
}

// confine returns an interpreter and what runs commands in a sandbox that has it.
func confine(t *testing.T, kind haft.Kind, exe string) (*script.Runtime, layer.Run) {
	t.Helper()
	p, err := local.Open(t.Context(), local.Config{Dir: t.TempDir(), AllowReduced: true})
	if err != nil {
		sandboxtest.Require(t, "sandbox", err.Error())
	}
	t.Cleanup(func() { p.Close() })
	if iso, err := p.Isolation(t.Context()); err != nil || !iso.Has(haft.ControlMountNS) {
		sandboxtest.Require(t, "sandbox", "there are no mount namespaces")
	}
	ask, err := process.Open(process.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rt, err := script.NewFinder(ask, script.FinderConfig{}).Find(t.Context(), kind, exe)
	if err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, c layer.Command) (sandbox.Exit, error) {
		spec := c.Spec()
		spec.Mounts = append(slices.Clone(rt.Mounts), spec.Mounts...)
		if c.Network {
			spec.Network = sandbox.NetworkFull // the egress proxy is the app's; this test is about the rest
		}
		return p.Run(ctx, spec)
	}
	return rt, run
}

func TestSandbox_npm(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err == nil {
		npm, err = filepath.EvalSymlinks(npm)
	}
	node, err2 := exec.LookPath("node")
	if errors.Join(err, err2) != nil || !strings.HasSuffix(npm, ".js") {
		sandboxtest.Require(t, "node", "there is no npm")
	}
	srv := registry(t, map[string]map[string]map[string]any{"haft-tiny": {"1.0.0": {"bin": "index.js"}}})
	s := open(t, tempDir(t), layer.Config{})
	rt, run := confine(t, haft.KindJavaScript, node)
	in := &layer.Installer{Run: func(ctx context.Context, c layer.Command) (sandbox.Exit, error) {
		lib := filepath.Dir(filepath.Dir(npm))
		c.Mounts = append(slices.Clone(c.Mounts), sandbox.Mount{Host: lib, Inside: lib})
		return run(ctx, c)
	}, Scratch: s.Scratch, Inside: "/build", NPM: []string{rt.Argv[0], npm}, Node: rt.Argv[0],
		Index: layer.Index{Registry: srv.URL}}
	l, _ := install(t, s, in, "npm", needs(t, nil, []string{"haft-tiny"}))
	var out, errs bytes.Buffer
	exit, err := run(t.Context(), layer.Command{
		Argv:   []string{rt.Argv[0], "--input-type=module", "-e", "import v from 'haft-tiny'; console.log(v)"},
		Mounts: []sandbox.Mount{{Host: filepath.Join(l.Dir, "node_modules"), Inside: layer.NodeDir}},
		Limits: haft.DefaultLimits(), Stdout: &out, Stderr: &errs,
	})
	if err != nil || exit.Code != 0 || out.String() != "1.0.0\n" {
		t.Errorf("exit %+v, %v: %s%s", exit, err, &out, &errs)
	}
}

func TestSandbox_install_and_import(t *testing.T) {
	wheels := t.TempDir()
	if err := os.Chmod(wheels, 0o755); err != nil {
		t.Fatal(err)
	}
	wheel(t, wheels, "hafttiny", "1.0", "# package\nvalue = 1\n")
	s := open(t, tempDir(t), layer.Config{})
	in, run := confined(t, s, wheels)
	l, _ := install(t, s, in, "pip", needs(t, []string{"hafttiny"}, nil))
	var out, errs bytes.Buffer
	exit, err := run(t.Context(), layer.Command{
		Argv: []string{in.Python, "-I", "-S", "-B", "-c", `
import sys, os
sys.path.append("` + layer.PythonDir + `")
import hafttiny
print(hafttiny.value, hafttiny.__file__, os.path.exists(hafttiny.__cached__))
for do in (lambda: open(hafttiny.__file__, "w"), lambda: os.chmod(hafttiny.__file__, 0o777), lambda: os.mkdir(os.path.dirname(hafttiny.__file__) + "/x")):
    try:
        do()
        print("written")
    except OSError:
        pass
`},
		Mounts: []sandbox.Mount{{Host: l.Dir, Inside: layer.PythonDir}}, Limits: haft.DefaultLimits(), Stdout: &out,
		Stderr: &errs,
	})
	if err != nil || exit.Code != 0 || out.String() != "1 "+layer.PythonDir+"/hafttiny/__init__.py True\n" {
		t.Errorf("exit %+v, %v: %s%s", exit, err, &out, &errs)
	}
	if err := s.Verify(t.Context(), l.Info.Digest); err != nil {
		t.Error(err)
	}
}

// A package whose build code reads the host, reaches the network and writes elsewhere
// sees none of it, and nothing of it is left.
func TestSandbox_hostile_build(t *testing.T) {
	wheels := t.TempDir()
	if err := os.Chmod(wheels, 0o755); err != nil {
		t.Fatal(err)
	}
	wheel(t, wheels, "hafttiny", "1.0", "")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hunter2"), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	backend := `
import os, socket
def build_wheel(d, config_settings=None, metadata_directory=None):
    got = []
    for name, do in {
        "read": lambda: open("` + secret + `").read(),
        "net": lambda: socket.create_connection(("127.0.0.1", ` + strconv.Itoa(l.Addr().(*net.TCPAddr).Port) + `), 2),
        "write": lambda: open("/usr/lib/haft-evil", "w"),
    }.items():
        try:
            do()
            got.append(name)
        except OSError:
            pass
    raise SystemExit("the build got at: " + (",".join(got) or "nothing"))
`
	var buf bytes.Buffer
	gz := gzip.NewWriter(&buf)
	tw := tar.NewWriter(gz)
	for name, text := range map[string]string{
		"pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = " +
			"[\".\"]\n[project]\nname = \"haftevil\"\nversion = \"1.0\"\n",
		"backend.py": backend, "PKG-INFO": "Metadata-Version: 2.1\nName: haftevil\nVersion: 1.0\n",
	} {
		err := tw.WriteHeader(&tar.Header{Name: "haftevil-1.0/" + name, Mode: 0o644, Size: int64(len(text))})
		if _, err2 := tw.Write([]byte(text)); errors.Join(err, err2) != nil {
			t.Fatal(errors.Join(err, err2))
		}
	}
	if err := errors.Join(tw.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(wheels, "haftevil-1.0.tar.gz"), buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := tempDir(t)
	s := open(t, dir, layer.Config{})
	in, _ := confined(t, s, wheels)
	_, err = in.Resolve(t.Context(), "pip", needs(t, []string{"haftevil"}, nil), nil)
	if p, ok := errors.AsType[*layer.Problem](err); !ok ||
		p.Kind != layer.ProblemNotFound && p.Kind != layer.ProblemVersion {
		t.Errorf("built packages only: %v", err)
	}
	in.Source = true
	_, err = in.Resolve(t.Context(), "pip", needs(t, []string{"haftevil", "hafttiny"}, nil), nil)
	p, ok := errors.AsType[*layer.Problem](err)
	if !ok || p.Kind != layer.ProblemBuild || !strings.Contains(p.Requirement, "haftevil") {
		t.Fatalf("got %+v of %v", p, err)
	}
	if !strings.Contains(haft.MessageOf(err), "the build got at: nothing") {
		t.Errorf("the message is %s", haft.MessageOf(err))
	}
	for _, name := range []string{"tmp", "layers", "locks"} {
		empty(t, dir, name)
	}
}
