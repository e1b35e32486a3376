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

func TestLocal(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return open(t, local.Config{}) })
}

// The reduced mode is what a container that forbids namespaces gives.
func TestLocal_reduced(t *testing.T) {
	without(t, haft.ControlUserNS, haft.ControlMountNS, haft.ControlPIDNS, haft.ControlNetNS,
		haft.ControlIPCNS, haft.ControlUTSNS, haft.ControlCgroupNS, haft.ControlTimeNS)
}

func TestLocal_without_user_namespaces(t *testing.T) {
	without(t, haft.ControlUserNS)
}

func TestLocal_without_cgroups(t *testing.T) {
	without(t, haft.ControlMemory, haft.ControlPIDs, haft.ControlCPU)
}

func TestLocal_without_seccomp(t *testing.T) {
	without(t, haft.ControlSeccomp)
}

// without holds a provider to the law that lacks controls.
func without(t *testing.T, lack ...haft.Control) {
	t.Helper()
	sandboxtest.Run(t, func(t *testing.T) sandbox.Provider { return open(t, local.Config{Forbid: lack}) })
}

// If the tests run as root, the law is also held by an ordinary user, who has
// neither cgroups nor ids to give away.
func TestLocal_as_an_ordinary_user(t *testing.T) {
	asUser(t, "TestLocal")
}

func TestLocal_reduced_as_an_ordinary_user(t *testing.T) {
	asUser(t, "TestLocal_reduced")
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
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=/usr/bin:/bin", "HAFT_REQUIRE=" + os.Getenv("HAFT_REQUIRE")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runErr := cmd.Run()
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
		} else if strings.Contains(line, "law: ") {
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
