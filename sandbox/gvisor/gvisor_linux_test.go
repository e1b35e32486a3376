package gvisor_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"haft"
	"haft/sandbox"
	"haft/sandbox/gvisor"
	"haft/sandbox/sandboxtest"
)

func TestFind_refuses_a_program_of_another_user(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("PATH", filepath.Join(dir, "path"))
	name := filepath.Join(dir, "path", "runsc")
	put(t, name, 0o755)
	if err := os.Chown(name, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	if _, err := gvisor.Find(); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Find = %v, want code %q", err, haft.CodeDenied)
	}
}

// A program of the name runsc that runs nothing gives no isolation: a run is refused with what to do, and not taken for
// one in gVisor.
func TestProvider_refuses_a_program_that_is_not_runsc(t *testing.T) {
	program, err := filepath.EvalSymlinks("/bin/true")
	if err != nil {
		t.Skip("there is no /bin/true here")
	}
	p, err := gvisor.Open(t.Context(), gvisor.Config{Program: program})
	if haft.CodeOf(err) == haft.CodeUnavailable {
		sandboxtest.Require(t, "sandbox", haft.MessageOf(err))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	_, unlevelled := p.Isolation(t.Context())
	_, unrun := p.Run(t.Context(), shell("exit 0", nil))
	for of, err := range map[string]error{"Isolation": unlevelled, "Run": unrun} {
		if haft.CodeOf(err) != haft.CodeUnavailable || !strings.Contains(haft.MessageOf(err), "haft doctor") {
			t.Errorf("%s = %v, want code %q with what to do", of, err, haft.CodeUnavailable)
		}
	}
}

// system are the mounts that a shell needs.
func system() []sandbox.Mount {
	var mounts []sandbox.Mount
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64"} {
		if _, err := os.Stat(dir); err == nil {
			mounts = append(mounts, sandbox.Mount{Host: dir, Inside: dir})
		}
	}
	return mounts
}

// shell returns the run of a script.
func shell(script string, out io.Writer) sandbox.Spec {
	return sandbox.Spec{Argv: []string{"/bin/sh", "-c", script}, Mounts: system(), Stdout: out,
		Env: []string{"PATH=/usr/bin:/bin"}}
}

func TestProvider_has_another_kernel(t *testing.T) {
	p := open(t)
	host, err := os.ReadFile("/proc/version")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	spec := shell("cat /proc/version; exit 137", &out)
	spec.Need = sandbox.Need{Level: haft.LevelKernel, Controls: []haft.Control{haft.ControlKernel}}
	exit, err := p.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	// An exit with 137 is not taken for a SIGKILL, as by runsc itself.
	if exit.Cause != sandbox.CauseExit || exit.Code != 137 || exit.Isolation.Level != haft.LevelKernel {
		t.Errorf("Run = %+v", exit)
	}
	if !strings.Contains(out.String(), "gvisor") || out.String() == string(host) {
		t.Errorf("the kernel is %q, that of the host %q", out.String(), host)
	}
}

func TestProvider_refuses_a_machine(t *testing.T) {
	spec := shell("exit 0", nil)
	spec.Need = sandbox.Need{Level: haft.LevelMachine}
	if _, err := open(t).Run(t.Context(), spec); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("Run = %v, want code %q", err, haft.CodeDenied)
	}
}

// A writer that sends what it gets.
type lines chan string

func (l lines) Write(b []byte) (int, error) { l <- string(b); return len(b), nil }

// The guest kernel itself has no rights on the host: a program that breaks out of it is as confined as one of a local
// sandbox.
func TestProvider_kernel_has_no_rights_on_the_host(t *testing.T) {
	p := open(t)
	in, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	said, ended := make(lines, 4), make(chan error, 1)
	spec := shell("echo ready; read -r x", said)
	spec.Stdin = in
	go func() {
		_, err := p.Run(t.Context(), spec)
		ended <- err
	}()
	<-said
	seen := 0
	for pid, status := range below(t, os.Getpid()) {
		uids := strings.Fields(status["Uid"])
		if name := status["Name"]; !strings.Contains("program exe runsc", name) || len(uids) == 0 {
			continue // an init
		}
		seen++
		if os.Getuid() == 0 && uids[0] == "0" {
			t.Errorf("process %s (%s) is root on the host", pid, status["Name"])
		}
		if status["NoNewPrivs"] != "1" {
			t.Errorf("process %s (%s) can gain privileges", pid, status["Name"])
		}
		own, err := os.Readlink("/proc/self/ns/user")
		theirs, lerr := os.Readlink("/proc/" + pid + "/ns/user")
		if err != nil || lerr == nil && own == theirs {
			t.Errorf("process %s (%s) is in the user namespace of the host: %v", pid, status["Name"], err)
		}
	}
	if seen < 3 { // runsc run, the gofer and the sentry
		t.Errorf("%d processes of runsc were found", seen)
	}
	if err := errors.Join(hold.Close(), <-ended); err != nil {
		t.Error(err)
	}
	for pid, status := range below(t, os.Getpid()) {
		if strings.Contains("program exe runsc", status["Name"]) {
			t.Errorf("process %s (%s) is left", pid, status["Name"])
		}
	}
}

// below returns the status of the processes that descend from pid.
func below(t *testing.T, pid int) map[string]map[string]string {
	t.Helper()
	found := map[string]map[string]string{}
	var walk func(pid string)
	walk = func(pid string) {
		tasks, _ := os.ReadDir("/proc/" + pid + "/task") // it may have ended
		for _, task := range tasks {
			children, _ := os.ReadFile("/proc/" + pid + "/task/" + task.Name() + "/children")
			for _, child := range strings.Fields(string(children)) {
				text, _ := os.ReadFile("/proc/" + child + "/status")
				found[child] = map[string]string{}
				for line := range strings.Lines(string(text)) {
					name, value, _ := strings.Cut(line, ":")
					found[child][name] = strings.TrimSpace(value)
				}
				walk(child)
			}
		}
	}
	walk(fmt.Sprint(pid))
	return found
}

// A kernel that does not start is an error, and not the end of a command.
func TestProvider_says_why_there_is_no_guest(t *testing.T) {
	open(t) // skips where nothing runs
	p, err := gvisor.Open(t.Context(), gvisor.Config{Program: "/bin/sh"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Run(t.Context(), shell("exit 0", nil)); err == nil {
		t.Error("Run = nil, want an error")
	} else if _, ok := errors.AsType[*sandbox.SetupError](err); !ok {
		t.Errorf("Run = %v, want a *sandbox.SetupError", err)
	}
	if _, err := p.Isolation(t.Context()); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("Isolation = %v, want code %q", err, haft.CodeUnavailable)
	}
}
