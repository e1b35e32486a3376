package layer_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/internal/layer"
	"haft/internal/requirement"
	"haft/sandbox"
	"haft/sandbox/sandboxtest"
)

// runHost runs the commands of an installer as processes of the host: what they are
// confined by is tested where sandboxes are.
func runHost(ctx context.Context, c layer.Command) (sandbox.Exit, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Limits.Wall.D())
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = c.Env, c.Stdout, c.Stderr
	cmd.Dir = os.TempDir()
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return sandbox.Exit{Cause: sandbox.CauseTimeout}, nil
	case errors.As(err, &exit):
		return sandbox.Exit{Cause: sandbox.CauseExit, Code: exit.ExitCode()}, nil
	case err != nil:
		return sandbox.Exit{}, err
	}
	return sandbox.Exit{Cause: sandbox.CauseExit}, nil
}

// python returns an interpreter that has pip.
func python(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import pip, sys; print(sys.executable)").Output()
	if err != nil {
		sandboxtest.Require(t, "python", "there is no python3 with pip")
	}
	return strings.TrimSpace(string(out))
}

// installer returns one for the store, which takes packages from wheels only.
func installer(t *testing.T, s *layer.Store, wheels string) *layer.Installer {
	t.Helper()
	return &layer.Installer{Run: runHost, Scratch: s.Scratch, Python: python(t),
		Index: layer.Index{Wheels: []string{wheels}, Offline: true}}
}

// wheel writes a package that holds one module, in a directory of its own if the source
// begins with "# package".
func wheel(t *testing.T, dir, name, version, source string, requires ...string) string {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	info := fmt.Sprintf("%s-%s.dist-info/", name, version)
	meta := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version)
	for _, r := range requires {
		meta += "Requires-Dist: " + r + "\n"
	}
	module := name + ".py"
	if strings.HasPrefix(source, "# package") {
		module = name + "/__init__.py"
	}
	var record strings.Builder
	for _, f := range [][2]string{
		{module, source}, {info + "METADATA", meta},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
	} {
		w, err := z.Create(f[0])
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, f[1])
		sum := sha256.Sum256([]byte(f[1]))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", f[0], base64.RawURLEncoding.EncodeToString(sum[:]), len(f[1]))
	}
	w, err := z.Create(info + "RECORD")
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, record.String()+info+"RECORD,,\n")
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, fmt.Sprintf("%s-%s-py3-none-any.whl", name, version))
	if err := os.WriteFile(file, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func needs(t *testing.T, pip, npm []string) requirement.Set {
	t.Helper()
	s, err := requirement.Parse("the tool", pip, npm)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// install resolves and installs, and returns the layer.
func install(t *testing.T, s *layer.Store, in *layer.Installer, kind string,
	set requirement.Set) (*layer.Layer, []byte) {
	t.Helper()
	runtime, err := in.Runtime(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := in.Resolve(t.Context(), kind, set, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := layer.Want{Kind: kind, Runtime: runtime, Lock: lock, Progress: func(line string) { t.Log(line) }}
	l, err := s.Layer(t.Context(), w, in.Install(kind, lock))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, lock
}

// importing runs Python with a layer, as a harness does.
func importing(t *testing.T, l *layer.Layer, code string) string {
	t.Helper()
	cmd := exec.Command(python(t), "-I", "-S", "-B", "-c", "import sys; sys.path.append(sys.argv[1])\n"+code, l.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestInstaller_offline_from_wheels(t *testing.T) {
	wheels := t.TempDir()
	wheel(t, wheels, "hafttiny", "1.0", "value = 1\n")
	wheel(t, wheels, "hafttiny", "2.0", "value = 2\n")
	wheel(t, wheels, "haftuser", "1.0", "import hafttiny\nvalue = hafttiny.value * 10\n", "hafttiny<2")
	s := open(t, tempDir(t), layer.Config{})
	in := installer(t, s, wheels)
	l, lock := install(t, s, in, "pip", needs(t, []string{"HaftUser"}, nil))
	if got := importing(t, l,
		"import haftuser, hafttiny; print(haftuser.value, hafttiny.__cached__.endswith('.pyc'))"); got != "10 True" {
		t.Errorf("the tool prints %q", got)
	}
	list, err := requirement.ReadLock("lock", string(lock))
	if err != nil || len(list) != 2 || list[0].String() != "hafttiny==1.0" || list[1].String() != "haftuser==1.0" {
		t.Errorf("the lock is %s (%v)", lock, err)
	}
	// Compiled files name the place that a sandbox has them at.
	if got := importing(t, l, "import hafttiny, marshal; print(marshal.loads(open(hafttiny.__cached__, "+
		"'rb').read()[16:]).co_filename)"); got != layer.PythonDir+"/hafttiny.py" {
		t.Errorf("compiled files name %q", got)
	}
	if err := s.Verify(t.Context(), l.Info.Digest); err != nil {
		t.Error(err)
	}
	newer, _, err := requirement.ReadScript("the script", "# /// script\n# requires-python = \">=4\"\n# ///\n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Resolve(t.Context(), "pip", newer, nil); !strings.HasPrefix(haft.MessageOf(err),
		"the script asks for Python >=4, and here it is 3.") {
		t.Errorf("a Python that is not there: %v", err)
	}
	again, err := in.Resolve(t.Context(), "pip", needs(t, []string{"haftuser>=1"}, nil), nil)
	if err != nil || !bytes.Equal(again, lock) {
		t.Errorf("resolved again: %s, %v", again, err)
	}
	one, _, err := s.Show(t.Context(), l.Info.Digest[:8])
	if err != nil || one.Digest != l.Info.Digest || !one.InUse || one.Kind != "pip" {
		t.Errorf("Show: %+v, %v", one, err)
	}
}

func TestInstaller_says_which_requirement_failed(t *testing.T) {
	wheels := t.TempDir()
	wheel(t, wheels, "hafttiny", "1.0", "")
	wheel(t, wheels, "hafttiny", "2.0", "")
	wheel(t, wheels, "hafta", "1.0", "", "hafttiny<2")
	wheel(t, wheels, "haftb", "1.0", "", "hafttiny>=2")
	s := open(t, tempDir(t), layer.Config{})
	in := installer(t, s, wheels)
	for _, tt := range []struct {
		name        string
		pip         []string
		kind        layer.ProblemKind
		code        haft.Code
		requirement string
	}{
		{"typo", []string{"hafttinny"}, layer.ProblemNotFound, haft.CodeInvalid, "hafttinny"},
		{"version", []string{"hafttiny>=3"}, layer.ProblemVersion, haft.CodeInvalid, "hafttiny>=3"},
		{"conflict", []string{"hafta", "haftb"}, layer.ProblemConflict, haft.CodeConflict, "hafta"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := in.Resolve(t.Context(), "pip", needs(t, tt.pip, nil), nil)
			p, ok := errors.AsType[*layer.Problem](err)
			if !ok || p.Kind != tt.kind || !strings.Contains(p.Requirement, tt.requirement) ||
				haft.CodeOf(err) != tt.code {
				t.Fatalf("got %+v of %v", p, err)
			}
			if tt.kind == layer.ProblemConflict && !strings.Contains(p.Other, "haftb") {
				t.Errorf("the other side is %q", p.Other)
			}
			if msg := haft.MessageOf(err); !strings.Contains(msg, tt.requirement) || strings.Contains(msg, "scratch") {
				t.Errorf("the message is %q", msg)
			}
		})
	}
	t.Run("hash", func(t *testing.T) {
		lock, err := in.Resolve(t.Context(), "pip", needs(t, []string{"hafttiny==1.0"}, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		wheel(t, wheels, "hafttiny", "1.0", "import os; os.system('id')\n")
		_, err = s.Layer(t.Context(), layer.Want{Kind: "pip", Lock: lock}, in.Install("pip", lock))
		if p, ok := errors.AsType[*layer.Problem](err); !ok || p.Kind != layer.ProblemHash ||
			!strings.Contains(p.Requirement, "hafttiny") {
			t.Errorf("got %+v of %v", p, err)
		}
		if list, _ := s.List(t.Context()); len(list) != 0 {
			t.Errorf("something was kept: %v", list)
		}
	})
	t.Run("lock without hashes", func(t *testing.T) {
		lock := []byte("hafttiny==1.0\n")
		if _, err := s.Layer(t.Context(), layer.Want{Kind: "pip", Lock: lock},
			in.Install("pip", lock)); haft.CodeOf(err) != haft.CodeInvalid {
			t.Errorf("got %v", err)
		}
	})
}

// contradicting returns what a tool and its organisation need together.
func contradicting(t *testing.T, tool, org requirement.Set, err error) requirement.Set {
	t.Helper()
	if err == nil {
		tool, err = requirement.Merge(tool, org)
	}
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// Requirements that contradict each other are read: the installer refuses them, and
// the error says who asked for what.
func TestInstaller_says_who_contradicts_whom(t *testing.T) {
	wheels := t.TempDir()
	for _, version := range []string{"1.0", "1.4.2", "1.5", "2.0"} {
		wheel(t, wheels, "hafttiny", version, "")
	}
	in := installer(t, open(t, tempDir(t), layer.Config{}), wheels)
	for _, tt := range []struct{ name, tool, org string }{
		{"pins differ", "==1.0", "==2.0"},
		{"pin is in an excluded series", "==1.4.2", "!=1.4.*"},
		{"before and after", ">1.5", "<1.5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tool, err := requirement.Parse("the tool", []string{"hafttiny" + tt.tool}, nil)
			org, err2 := requirement.Parse("the organisation", []string{"hafttiny" + tt.org}, nil)
			_, err = in.Resolve(t.Context(), "pip", contradicting(t, tool, org, errors.Join(err, err2)), nil)
			if p, ok := errors.AsType[*layer.Problem](err); !ok || p.Kind != layer.ProblemConflict ||
				haft.CodeOf(err) != haft.CodeConflict {
				t.Fatalf("got %+v of %v", p, err)
			}
			for _, part := range []string{"hafttiny", "cannot be installed together", "the tool asks for " + tt.tool,
				"the organisation asks for " + tt.org} {
				if !strings.Contains(haft.MessageOf(err), part) {
					t.Errorf("the message lacks %q: %s", part, haft.MessageOf(err))
				}
			}
		})
	}
}

func TestInstaller_index_that_fails(t *testing.T) {
	s := open(t, tempDir(t), layer.Config{})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	hang := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer silent.Close()
	defer close(hang)
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer private.Close()
	for _, tt := range []struct {
		name, url string
		kind      layer.ProblemKind
	}{
		{"nobody there", "http://" + closed.Addr().String() + "/simple", layer.ProblemNetwork},
		{"hangs", silent.URL, layer.ProblemTimeout},
		{"wants credentials", strings.Replace(private.URL, "//", "//ann:hunter2@", 1), layer.ProblemAccess},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := &layer.Installer{Run: runHost, Scratch: s.Scratch, Python: python(t),
				Index: layer.Index{URL: tt.url}, Limits: haft.Limits{Wall: haft.Millis(30 * time.Second)}}
			if tt.kind == layer.ProblemTimeout {
				in.Limits.Wall = haft.Millis(3 * time.Second)
			}
			var said strings.Builder
			_, err := in.Resolve(t.Context(), "pip", needs(t, []string{"hafttiny"}, nil),
				func(l string) { said.WriteString(l + "\n") })
			p, ok := errors.AsType[*layer.Problem](err)
			if !ok || p.Kind != tt.kind || haft.CodeOf(err) != haft.CodeUnavailable {
				t.Errorf("got %+v of %v", p, err)
			}
			if all := err.Error() + said.String(); strings.Contains(all, "hunter2") {
				t.Errorf("the password is shown: %s", all)
			}
		})
	}
}

func TestInstaller_keeps_credentials_from_build_code(t *testing.T) {
	s := open(t, tempDir(t), layer.Config{})
	in := installer(t, s, t.TempDir())
	in.Index.Env, in.Source = []string{"PIP_INDEX_URL=https://ann:hunter2@example.com"}, true
	in.Run = func(context.Context, layer.Command) (sandbox.Exit, error) {
		t.Error("it was run")
		return sandbox.Exit{}, nil
	}
	if _, err := in.Resolve(t.Context(), "pip", needs(t, []string{"a"}, nil),
		nil); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("got %v", err)
	}
	in.Index = layer.Index{URL: "https://ann:hunter2@example.com/simple"}
	if _, err := in.Resolve(t.Context(), "pip", needs(t, []string{"a"}, nil),
		nil); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("credentials in the URL: %v", err)
	}
}

// A file that is no Python of this version is passed over; bytecode of nothing at all is a failure.
func TestInstaller_compiles(t *testing.T) {
	wheels := t.TempDir()
	wheel(t, wheels, "haftgood", "1.0", "value = 1\n")
	wheel(t, wheels, "haftbad", "1.0", "value = (\n")
	s := open(t, tempDir(t), layer.Config{})
	in := installer(t, s, wheels)
	l, _ := install(t, s, in, "pip", needs(t, []string{"haftgood", "haftbad"}, nil))
	if got := importing(t, l, "import haftgood; print(haftgood.value)"); got != "1" {
		t.Errorf("the tool prints %q", got)
	}
	run := in.Run
	in.Run = func(ctx context.Context, c layer.Command) (sandbox.Exit, error) {
		if c.Step == "compile" {
			return sandbox.Exit{Cause: sandbox.CauseExit, Code: 1}, nil
		}
		return run(ctx, c)
	}
	set := needs(t, []string{"haftgood"}, nil)
	lock, err := in.Resolve(t.Context(), "pip", set, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Layer(t.Context(), layer.Want{Kind: "pip", Lock: lock}, in.Install("pip", lock)); err == nil {
		t.Error("a layer without bytecode was made")
	}
}

func TestInstaller_commands(t *testing.T) {
	s := open(t, tempDir(t), layer.Config{})
	var got []layer.Command
	in := &layer.Installer{Scratch: s.Scratch, Inside: "/build", Python: "/usr/bin/python3",
		NPM:   []string{"/usr/bin/node", "/npm-cli.js"},
		Index: layer.Index{URL: "https://index.example/simple", CA: "/etc/ca.pem", Env: []string{"TOKEN=x"}},
		Run: func(_ context.Context, c layer.Command) (sandbox.Exit, error) {
			got = append(got, c)
			return sandbox.Exit{Cause: sandbox.CauseExit}, c.Spec().Check()
		}}
	lock := []byte("a==1 --hash=sha256:" + strings.Repeat("00", 32))
	l, err := s.Layer(t.Context(), layer.Want{Kind: "pip", Lock: lock}, in.Install("pip", lock))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if len(got) != 2 || got[0].Step != "install" || !got[0].Network || got[1].Step != "compile" || got[1].Network {
		t.Fatalf("steps: %+v", got)
	}
	argv := strings.Join(got[0].Argv, " ")
	for _, part := range []string{"--require-hashes", "--no-deps", "--only-binary :all:", "--target /build/files",
		"-r /build/scratch/lock.txt", "-I -m pip"} {
		if !strings.Contains(argv, part) {
			t.Errorf("%q lacks %q", argv, part)
		}
	}
	if strings.Contains(argv, "index.example") {
		t.Errorf("%q shows the index to who lists processes", argv)
	}
	env := strings.Join(got[0].Env, "\n") + "\n"
	for _, part := range []string{"PIP_CONFIG_FILE=/dev/null\n", "PIP_NO_INPUT=1\n",
		"PIP_INDEX_URL=https://index.example/simple\n", "TOKEN=x\n", "HOME=/build/scratch/home\n",
		"PIP_CERT=/build/ca.pem\n"} {
		if !strings.Contains(env, part) {
			t.Errorf("the environment lacks %q:\n%s", part, env)
		}
	}
	if strings.Contains(strings.Join(got[1].Env, "\n"), "TOKEN") {
		t.Error("a step without network has the credentials")
	}
}
