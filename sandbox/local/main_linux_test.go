package local_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
	"haft/sandbox/sandboxtest"
)

// modeVar selects, in a test binary that is run again, how it is confined.
const modeVar = "HAFT_TEST_MODE"

func TestMain(m *testing.M) {
	local.Init()
	if os.Getenv(victimVar) != "" {
		victim()
	}
	before := traces()
	code := m.Run()
	if left := leaks(before); code == 0 && len(left) > 0 {
		fmt.Fprintln(os.Stderr, "left behind:", strings.Join(left, "\n\t"))
		code = 1
	}
	os.Exit(code)
}

// traces lists what a run could leave on this machine: processes that are our
// children, our mounts, our descriptors. A provider that cannot remove its cgroups
// says so when it is closed.
func traces() []string {
	var all []string
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	for _, name := range children {
		b, _ := os.ReadFile(name)
		for _, pid := range strings.Fields(string(b)) {
			all = append(all, "process "+pid)
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	all = append(all, fmt.Sprintf("%d mounts", bytes.Count(mounts, []byte("\n"))))
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && !strings.Contains(to, "eventpoll") &&
			!strings.Contains(to, "eventfd") {
			all = append(all, "descriptor "+fd.Name()+" "+to)
		}
	}
	return all
}

// leaks waits a moment for what ends by itself, and lists what does not.
func leaks(before []string) []string {
	var left []string
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		left = slices.DeleteFunc(traces(), func(s string) bool {
			return slices.Contains(before, s) || strings.Contains(s, "/proc/") || strings.Contains(s, "socket")
		})
		if len(left) == 0 {
			return nil
		}
	}
	return left
}

// stateDir makes a directory for a provider.
func stateDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "haft-test-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // another user id must get through
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// open gives a provider, in the mode of this process, that is closed with the
// test.
func open(t testing.TB, config local.Config) *local.Provider {
	t.Helper()
	if config.Dir == "" {
		config.Dir = stateDir(t)
	}
	p, err := local.Open(context.Background(), inMode(config))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// inMode returns the configuration for the mode that the tests run in.
func inMode(config local.Config) local.Config {
	if strings.HasPrefix(os.Getenv(modeVar), "reduced") {
		config.Forbid = append(config.Forbid, haft.ControlUserNS)
	}
	config.AllowReduced = true // what a machine gives is what is tried
	return config
}

// lacking skips a test because a control is missing: loudly, and not at all in the full
// mode of a machine that is required to have it.
func lacking(t testing.TB, c haft.Control) {
	t.Helper()
	if os.Getenv(modeVar) != "" {
		t.Skipf("%s is missing in this mode", c)
	}
	sandboxtest.Require(t, "sandbox", string(c)+" is missing here")
}

// system are the mounts that most programs need.
func system() []sandbox.Mount {
	var ms []sandbox.Mount
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		if _, err := os.Lstat(dir); err == nil {
			ms = append(ms, sandbox.Mount{Host: dir, Inside: dir})
		}
	}
	return ms
}

// sh runs a shell script and returns what it wrote.
func sh(t testing.TB, p sandbox.Provider, script string, change ...func(*sandbox.Spec)) (sandbox.Exit, string) {
	t.Helper()
	var out bytes.Buffer
	spec := sandbox.Spec{
		Argv: []string{"/bin/bash", "-c", script}, Mounts: system(), Stdout: &out, Stderr: &out,
		Env: []string{"PATH=/usr/bin:/bin", "HOME=/work"},
	}
	for _, c := range change {
		c(&spec)
	}
	exit, err := p.Run(t.Context(), spec)
	if err != nil {
		t.Fatalf("run %q: %v", script, err)
	}
	return exit, out.String()
}

// TestModes runs the tests of this package again: as an ordinary user, in the
// reduced mode as both, where every mount is shared, as systemd makes them, and as
// the root of a container, who may not mount.
func TestModes(t *testing.T) {
	if os.Getenv(modeVar) != "" {
		t.Skip("it is one of the modes already")
	}
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	dir, err := os.MkdirTemp("", "haft-modes-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "local.test")
	b, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(binary, b, 0o755)
	}
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []string{"user", "reduced-root", "reduced-user", "shared-mounts", "masked-proc",
		"container-root"} {
		t.Run(mode, func(t *testing.T) {
			args := []string{binary, "-test.run", "^TestRun|^TestTemplate|^TestProvider"}
			switch mode {
			case "container-root":
				args = append([]string{"setpriv", "--bounding-set", "-sys_admin"}, binary, "-test.run",
					"^TestRun_carries|^TestTemplate_ends")
			case "masked-proc":
				// Every one of them: the kernel looks for one that is whole.
				mask := `for p in $(awk '$3 == "proc" {print $2}' /proc/mounts); do mount --bind /dev/null $p/version || exit; done; exec "$0" "$@"`
				args = append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", mask},
					binary, "-test.run", "^TestTemplate_needs")
			case "shared-mounts":
				// Private first, or what is mounted would go on to the machine.
				args = append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c",
					`mount --make-rshared / && exec "$0" "$@"`},
					binary, "-test.run", "^TestRun_carries|^TestTemplate_ends")
			}
			if testing.Verbose() {
				args = append(args, "-test.v")
			}
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Env = []string{modeVar + "=" + mode, "PATH=/usr/bin:/bin", "TMPDIR=/tmp"}
			cmd.Dir = dir
			if strings.HasSuffix(mode, "user") {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			} else if testing.Verbose() {
				t.Logf("%s", out)
			}
		})
	}
}
