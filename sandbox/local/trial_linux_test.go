package local_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"haft"
	"haft/sandbox/local"
)

// deniedVar is set in a copy of the test binary in which user namespaces are denied.
const deniedVar = "HAFT_TEST_DENIED"

// TestProvider_opens_keep_no_descriptor opens many providers where user namespaces can be
// had and where they cannot: Go's own clone keeps two descriptors for each that fails.
func TestProvider_opens_keep_no_descriptor(t *testing.T) {
	if os.Getenv(deniedVar) != "" {
		// The setting belongs to the user namespace that this process was started in.
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
	}
	dir := stateDir(t)
	openOnce := func() {
		p, err := local.Open(t.Context(), inMode(local.Config{Dir: dir}))
		if err != nil {
			t.Fatal(err)
		}
		have, err := p.Isolation(t.Context())
		if os.Getenv(deniedVar) != "" && (err != nil || have.Has(haft.ControlUserNS)) {
			t.Fatalf("user namespaces are not denied here: %v, %v", have.Controls, err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	openOnce() // the runtime keeps a few descriptors of its own
	before := descriptors(t)
	for range 8 {
		openOnce()
	}
	if after := descriptors(t); after > before+2 {
		t.Errorf("8 providers were opened and closed: %d descriptors before, %d after", before, after)
	}
	if os.Getenv(deniedVar) == "" && os.Getenv(modeVar) == "" {
		deniedAgain(t)
	}
}

// deniedAgain runs the test again in a user namespace that may have none below it. Where
// not even that one can be had, the test was run with user namespaces denied already.
func deniedAgain(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), deniedVar+"=1", modeVar+"=denied")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: os.Getgid(), Size: 1}},
		Credential:  &syscall.Credential{Uid: 1000, Gid: 1000, NoSetGroups: true},
		AmbientCaps: []uintptr{24}, // CAP_SYS_RESOURCE, to change the setting
	}
	out, err := cmd.CombinedOutput()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended && !errors.Is(err, fs.ErrNotExist) {
		t.Logf("user namespaces are denied here already: %v", err)
		return
	}
	if err != nil {
		t.Errorf("with user namespaces denied: %v\n%s", err, out)
	}
}

// descriptors counts those of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestRun_bounds_processes_of_a_shared_user runs where the kernel counts the processes of a
// run with others: the limit is some hundred more than those, whatever the user may have.
func TestRun_bounds_processes_of_a_shared_user(t *testing.T) {
	p := open(t, local.Config{Forbid: []haft.Control{haft.ControlUserNS, haft.ControlPIDs}})
	_, out := sh(t, p, "ulimit -Su; ulimit -Hu")
	var soft, hard int
	if n, err := fmt.Sscan(out, &soft, &hard); err != nil || n != 2 || soft != hard {
		t.Fatalf("the limits of processes are %q, %v; want two numbers that are the same", out, err)
	}
	var own syscall.Rlimit
	if err := syscall.Getrlimit(6, &own); err != nil { // RLIMIT_NPROC
		t.Fatal(err)
	}
	if uint64(hard) >= own.Max {
		t.Errorf("a run may have %d processes, and its user %d", hard, own.Max)
	}
}
