package local_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
)

// TestMount_descriptor swaps what a path leads to after it was opened: a command gets
// what was opened, or nothing.
func TestMount_descriptor(t *testing.T) {
	t.Run("namespaces", func(t *testing.T) { mountDescriptor(t, open(t, local.Config{})) })
	t.Run("reduced", func(t *testing.T) {
		mountDescriptor(t,
			open(t, local.Config{Forbid: []haft.Control{haft.ControlUserNS, haft.ControlMountNS, haft.ControlPIDNS,
				haft.ControlNetNS, haft.ControlIPCNS, haft.ControlUTSNS, haft.ControlCgroupNS, haft.ControlTimeNS}}))
	})
}

func TestMount_descriptor_as_an_ordinary_user(t *testing.T) { asUser(t, "TestMount_descriptor") }

// lentDir makes a directory with a file in it that everybody may use.
func lentDir(t *testing.T, parent, name, text string) string {
	t.Helper()
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "what"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// opened opens a directory as somebody does who checks it.
func opened(t *testing.T, dir string) *os.File {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), dir)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func mountDescriptor(t *testing.T, p *local.Provider) {
	// Below a directory of which nothing is a mount point of the sandbox itself, since
	// in the reduced mode paths inside are those of the host.
	top, err := os.MkdirTemp(os.TempDir(), "mountfd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) })
	if err := os.Chmod(top, 0o755); err != nil {
		t.Fatal(err)
	}
	l := lending{t: t, p: p, top: top, hosts: !must(p.Isolation(t.Context())).Has(haft.ControlMountNS)}
	l.opened(t)
	l.workspace(t)
	if !l.hosts { // else there are no mount points
		l.points(t)
	}
}

// lending runs commands with directories below top.
type lending struct {
	t     *testing.T
	p     *local.Provider
	top   string
	hosts bool // paths inside are those of the host
}

// inside is where a directory is mounted.
func (l lending) inside(dir, other string) string {
	if l.hosts {
		return dir
	}
	return other
}

// run runs a script and returns what it printed.
func (l lending) run(script string, mounts ...sandbox.Mount) (string, error) {
	var out bytes.Buffer
	_, err := l.p.Run(l.t.Context(), sandbox.Spec{
		Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"},
		Mounts: append(system(), mounts...), Stdout: &out, Stderr: &out,
	})
	return out.String(), err
}

// opened swaps directories after they were opened.
func (l lending) opened(t *testing.T) {
	top, inside, run := l.top, l.inside, l.run
	t.Run("what is open is mounted", func(t *testing.T) {
		dir := lentDir(t, top, "plain", "mine")
		at := inside(dir, "/data")
		out, err := run("cat "+at+"/what; echo new > "+at+"/made && cat "+at+"/made",
			sandbox.Mount{Host: dir, Inside: at, Writable: true, File: opened(t, dir)})
		if err != nil || out != "minenew\n" {
			t.Errorf("it printed %q, %v", out, err)
		}
	})
	t.Run("a link that took its place is not", func(t *testing.T) {
		dir, secret := lentDir(t, top, "swapped", "mine"), lentDir(t, top, "secret", "SECRET")
		f := opened(t, dir)
		if err := errors.Join(os.Rename(dir, dir+".moved"), os.Symlink(secret, dir)); err != nil {
			t.Fatal(err)
		}
		at := inside(dir, "/data")
		out, err := run("cat "+at+"/what", sandbox.Mount{Host: dir, Inside: at, File: f})
		if strings.Contains(out, "SECRET") {
			t.Errorf("it printed what the link leads to: %q, %v", out, err)
		}
	})
	t.Run("nor a directory that took its place", func(t *testing.T) {
		dir, secret := lentDir(t, top, "replaced", "mine"), lentDir(t, top, "other", "SECRET")
		f := opened(t, dir)
		if err := errors.Join(os.Rename(dir, dir+".moved"), os.Rename(secret, dir)); err != nil {
			t.Fatal(err)
		}
		at := inside(dir, "/data")
		out, err := run("cat "+at+"/what", sandbox.Mount{Host: dir, Inside: at, File: f})
		if strings.Contains(out, "SECRET") {
			t.Errorf("it printed what took the place: %q, %v", out, err)
		}
	})
	t.Run("it is read-only unless it says so", func(t *testing.T) {
		dir := lentDir(t, top, "readonly", "mine")
		at := inside(dir, "/data")
		out, err := run("echo x > "+at+"/made || echo refused",
			sandbox.Mount{Host: dir, Inside: at, File: opened(t, dir)})
		if err != nil || !strings.Contains(out, "refused") {
			t.Errorf("it printed %q, %v", out, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
			t.Error("a file was made on the host")
		}
	})
}

// workspace mounts a directory for its owner alone: two runs one after the other use the same files.
func (l lending) workspace(t *testing.T) {
	dir, owner := lentDir(t, l.top, "owned", "mine"), 0
	if os.Getuid() == 0 {
		owner = sandbox.FirstOwner + 7
	}
	for _, name := range []string{dir, filepath.Join(dir, "what")} {
		if err := errors.Join(os.Chmod(name, 0o700), os.Lchown(name, max(owner, os.Getuid()),
			max(owner, os.Getgid()))); err != nil {
			t.Fatal(err)
		}
	}
	run := func(owner int, script string, writable bool) (string, error) {
		var out bytes.Buffer
		_, err := l.p.Run(t.Context(), sandbox.Spec{
			Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "W=" + sandbox.WorkspaceDir},
			Mounts: append(system(), sandbox.Mount{Host: dir, Inside: sandbox.WorkspaceDir, Writable: writable,
				File: opened(t, dir)}),
			Stdout: &out, Stderr: &out, Owner: owner,
		})
		return out.String(), err
	}
	for _, want := range []string{"mine", "minemore"} {
		const script = `cat $W/what; printf more >> $W/what; umask 077; : > $W/own; mknod $W/dev c 1 3 2>/dev/null`
		if out, err := run(owner, script, true); err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("it printed %q, %v, want %q", out, err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "dev")); err == nil {
		t.Error("there is a device node")
	}
	out, err := run(owner, "echo x >> $W/what || echo refused", false)
	if err != nil || !strings.Contains(out, "refused") {
		t.Errorf("read-only it printed %q, %v", out, err)
	}
	for _, other := range []int{1, sandbox.FirstOwner - 1, sandbox.FirstOwner + sandbox.Owners} {
		if _, err := run(other, "true", true); haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("the user id %d: %v", other, err)
		}
	}
}

// points mounts where somebody else could decide what is there.
func (l lending) points(t *testing.T) {
	top, run := l.top, l.run
	t.Run("one within another follows no link", func(t *testing.T) {
		// Somebody who writes to /data made /data/in a link to a directory of the host.
		dir, other, host := lentDir(t, top, "outer", "outer"), lentDir(t, top, "inner", "inner"),
			lentDir(t, top, "hosts", "host")
		if err := os.Symlink(host, filepath.Join(dir, "in")); err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{"/data/in", "/data/in/deeper"} {
			out, err := run("cat /data/in/what", sandbox.Mount{Host: dir, Inside: "/data", Writable: true,
				File: opened(t, dir)},
				sandbox.Mount{Host: other, Inside: at, File: opened(t, other)})
			if err == nil {
				t.Errorf("%s was mounted, and printed %q", at, out)
			}
		}
		if left, err := filepath.Glob(host + "/*"); err != nil || len(left) != 1 {
			t.Errorf("on the host there is %q, %v", left, err)
		}
		if err := errors.Join(os.Remove(filepath.Join(dir, "in")),
			os.Mkdir(filepath.Join(dir, "in"), 0o755)); err != nil {
			t.Fatal(err)
		}
		out, err := run("cat /data/what /data/in/what; echo x > /data/in/made || echo refused",
			sandbox.Mount{Host: dir, Inside: "/data", Writable: true, File: opened(t, dir)},
			sandbox.Mount{Host: other, Inside: "/data/in", File: opened(t, other)})
		if err != nil || !strings.Contains(out, "outerinner") || !strings.Contains(out, "refused") {
			t.Errorf("without a link it printed %q, %v", out, err)
		}
	})
	t.Run("it covers nothing of the sandbox's own", func(t *testing.T) {
		dir := lentDir(t, top, "cover", "mine")
		for _, at := range []string{"/etc", "/var", "/run", "/work", "/proc", "/proc/self", "/dev", "/dev/shm", "/tmp",
			"/tmp/x", "/var/tmp"} {
			if out, err := run("cat "+at+"/what", sandbox.Mount{Host: dir, Inside: at,
				File: opened(t, dir)}); err == nil {
				t.Errorf("%s was covered: %q", at, out)
			}
		}
		f := sandbox.Mount{Host: dir, Inside: "/data", File: opened(t, dir)}
		if _, err := run("true", f, f); err == nil {
			t.Error("two mounts were at the same path")
		}
	})
}
