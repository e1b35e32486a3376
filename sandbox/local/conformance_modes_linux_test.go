package local_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
	"haft/sandbox/sandboxtest"
)

// The reduced mode is what a container that forbids namespaces gives.
func TestConformance_reduced(t *testing.T) {
	without(t, haft.ControlUserNS, haft.ControlMountNS, haft.ControlPIDNS, haft.ControlNetNS,
		haft.ControlIPCNS, haft.ControlUTSNS, haft.ControlCgroupNS, haft.ControlTimeNS)
}

func TestConformance_without_cgroups(t *testing.T) {
	without(t, haft.ControlMemory, haft.ControlPIDs, haft.ControlCPU)
}

func TestConformance_without_seccomp(t *testing.T) {
	without(t, haft.ControlSeccomp)
}

// without runs the suite against a provider that lacks controls.
func without(t *testing.T, lack ...haft.Control) {
	t.Helper()
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return open(t, local.Config{Forbid: lack}) })
}

func TestConformance_forked_as_an_ordinary_user(t *testing.T) {
	asUser(t, "TestConformanceForked")
}

// If the tests run as root, the suite also runs as an ordinary user, who has
// neither cgroups nor ids to give away.
func TestConformance_as_an_ordinary_user(t *testing.T) {
	asUser(t, "TestConformance")
}

func TestConformance_reduced_as_an_ordinary_user(t *testing.T) {
	asUser(t, "TestConformance_reduced")
}

// Two servers with directories of their own are two strangers on one machine:
// when one comes or goes, the calls of the other go on.
func TestConformance_instances_do_not_disturb_each_other(t *testing.T) {
	first := open(t, local.Config{})
	begin := make(chan struct{})
	type end struct {
		exit sandbox.Exit
		err  error
	}
	ended := make(chan end, 1)
	started := make(chan struct{})
	go func() {
		exit, err := first.Run(t.Context(), sandbox.Spec{
			Argv: []string{"/bin/sh", "-c", "echo ready; read -r x"}, Mounts: system(),
			Env: []string{"PATH=/usr/bin:/bin"}, Stdin: waiting{begin}, Stdout: notify{started},
		})
		ended <- end{exit, err}
	}()
	<-started
	second, err := local.Open(t.Context(), local.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, out := sh(t, second, "echo two"); out != "two\n" {
		t.Errorf("the second instance printed %q", out)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	close(begin)
	if e := <-ended; e.err != nil || e.exit.Cause != sandbox.CauseExit {
		t.Errorf("the first instance's call ended with %+v, %v", e.exit, e.err)
	}
	if _, out := sh(t, first, "echo one"); out != "one\n" {
		t.Errorf("the first instance printed %q", out)
	}
}

// waiting is an input that ends when ch is closed.
type waiting struct{ ch <-chan struct{} }

func (w waiting) Read([]byte) (int, error) {
	<-w.ch
	return 0, io.EOF
}

// notify closes ch at the first write.
type notify struct{ ch chan struct{} }

func (n notify) Write(p []byte) (int, error) {
	close(n.ch)
	return len(p), nil
}

// ordinary is a user id that has no entry and no files.
const ordinary = 12345

// verdictLine is how the test binary reports a subtest.
var verdictLine = regexp.MustCompile(`^ +--- (PASS|FAIL|SKIP): ([^ /]+)/(\S+) `)

// asUser runs a test of this binary again as another user, from a copy that the
// user can read, and reports its subtests.
func asUser(t *testing.T, name string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("the tests run as an ordinary user already")
	}
	dir, err := os.MkdirTemp("", "haft-local-test-") // t.TempDir is for its owner alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	program := filepath.Join(dir, "local.test")
	if err := copyProgram(program); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, ordinary, ordinary); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run=^"+name+"$")
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=/usr/bin:/bin",
		"HAFT_REQUIRE=" + os.Getenv("HAFT_REQUIRE"),
		sandboxtest.AttackTimeVar + "=" + os.Getenv(sandboxtest.AttackTimeVar)}
	to := os.Getenv(sandboxtest.VerdictsVar)
	if to != "" {
		cmd.Env = append(cmd.Env, sandboxtest.VerdictsVar+"="+dir)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runErr := cmd.Run()
	if verdicts, err := os.ReadFile(filepath.Join(dir, name+"-user.json")); err == nil && to != "" {
		if err := os.WriteFile(filepath.Join(to, name+"-user.json"), verdicts, 0o600); err != nil {
			t.Error(err)
		}
	}
	seen := 0
	for line := range strings.Lines(out.String()) {
		if m := verdictLine.FindStringSubmatch(line); m != nil {
			seen++
			t.Run(m[3], func(t *testing.T) {
				switch m[1] {
				case "FAIL":
					t.Error("broken as an ordinary user, see above")
				case "SKIP":
					t.Skip("skipped as an ordinary user, see above")
				}
			})
		} else if strings.Contains(line, "conformance: ") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if runErr != nil || seen == 0 {
		t.Errorf("%s as user %d: %v\n%s", name, ordinary, runErr, broken(out.String()))
	}
}

// broken returns the parts of a log that tell what is wrong.
func broken(log string) string {
	var b strings.Builder
	keep := 0
	for line := range strings.Lines(log) {
		if strings.Contains(line, "BROKEN") || strings.Contains(line, "_test.go:") || strings.Contains(line, "panic") {
			keep = 5
		}
		if keep--; keep >= 0 {
			b.WriteString(line)
		}
	}
	return b.String()
}

// copyProgram copies this test binary to where anybody can run it.
func copyProgram(to string) error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, from); err != nil {
		return err
	}
	return f.Close()
}
