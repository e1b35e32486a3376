package local_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
)

// limitInit has the init of a run open no more files. The environment of its command has a token. Only the user of
// the init may do that, and root with a capability that a container may lack.
func limitInit(t *testing.T, token string) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	ours, parents := map[string]bool{}, map[string]bool{}
	for _, dir := range dirs {
		environ, _ := os.ReadFile(dir + "/environ")
		if status, err := os.ReadFile(dir + "/status"); err == nil && bytes.Contains(environ, []byte(token)) {
			ours[filepath.Base(dir)], parents[statusField(status, "PPid")] = true, true
		}
	}
	maps.DeleteFunc(parents, func(pid string, _ bool) bool { return ours[pid] })
	if len(parents) != 1 {
		t.Fatalf("the command of the run has the parents %v", parents)
	}
	for pid := range parents {
		cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-I", "-S", "-c", "import resource, sys\n"+
			"resource.prlimit(int(sys.argv[1]), resource.RLIMIT_NOFILE, (0, 0))", pid)
		if os.Getuid() == 0 {
			status, err := os.ReadFile("/proc/" + pid + "/status")
			if err != nil {
				t.Fatal(err)
			}
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{
				Uid: number(t, statusField(status, "Uid")), Gid: number(t, statusField(status, "Gid"))}}
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
}

// statusField returns the first word of a field of /proc/PID/status.
func statusField(status []byte, name string) string {
	_, rest, _ := strings.Cut(string(status), "\n"+name+":\t")
	return strings.Fields(rest)[0]
}

// number reads a user or group id.
func number(t *testing.T, text string) uint32 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

// Where no cgroup limits a run, an init that cannot read its processes any more ends them: once, a limit of no open
// files for the init switched the meter off, and a tool used 1,200 MB of 512.
func TestRun_ends_what_it_cannot_meter(t *testing.T) {
	p := open(t, local.Config{Forbid: []haft.Control{haft.ControlMemory, haft.ControlPIDs, haft.ControlCPU}})
	r, w := io.Pipe()
	token := "HAFT_TEST_TOKEN=" + strconv.FormatInt(time.Now().UnixNano(), 36)
	type end struct {
		exit sandbox.Exit
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		exit, err := p.Run(t.Context(), sandbox.Spec{
			Argv: []string{"/bin/sh", "-c", "echo ready; sleep 60"}, Mounts: system(), Stdout: w,
			Env: []string{"PATH=/usr/bin:/bin", token}, Limits: haft.Limits{Memory: 512 << 20},
		})
		_ = w.Close() // never fails
		ended <- end{exit, err}
	}()
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the run said %q, %v", line, err)
	}
	limitInit(t, token)
	if e := <-ended; e.err != nil || e.exit.Cause != sandbox.CauseUnmetered {
		t.Errorf("the run ended with %+v, %v", e.exit, e.err)
	}
}

// So does the init of a template, whose next sandboxes are made of another one: its forks went on without limits.
func TestTemplate_ends_what_it_cannot_meter(t *testing.T) {
	p := open(t, local.Config{Forbid: []haft.Control{haft.ControlMemory, haft.ControlPIDs, haft.ControlCPU}})
	if i, err := p.Isolation(t.Context()); err != nil || !i.Has(haft.ControlUserNS) {
		lacking(t, haft.ControlUserNS)
	}
	token, spec := "HAFT_TEST_TOKEN="+strconv.FormatInt(time.Now().UnixNano(), 36), python()
	spec.Env = append(spec.Env, token)
	tpl, err := p.Template(t.Context(), spec, "import time\ndef main(fd):\n    print('ready', flush=True)\n"+
		"    while True: time.sleep(0.1)\n")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tpl.Close(); err != nil {
			t.Error(err)
		}
	}()
	for range 2 { // the second template is as good as the first
		r, w := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			exit, err := tpl.Run(t.Context(), sandbox.Spec{Stdout: w,
				Limits: haft.Limits{Memory: 512 << 20, Wall: ms(8000)}})
			_ = w.Close() // never fails
			if err == nil && exit.Cause != sandbox.CauseUnmetered {
				err = fmt.Errorf("the fork ended with %+v", exit)
			}
			ended <- err
		}()
		if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("the fork said %q, %v", line, err)
		}
		limitInit(t, token)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}

// Page tables are memory too. A program that reads a byte of each 2 MiB of an empty mapping needs 4 KiB for each, and
// no other memory: it had a gigabyte of them, of 128 MiB. So does one with a page in each gigabyte.
func TestRun_counts_page_tables(t *testing.T) {
	programs := map[string]string{
		"one mapping": `import mmap; empty = mmap.mmap(-1, 1 << 42, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, ` +
			`mmap.PROT_READ); [empty[i] for i in range(0, 1 << 42, 1 << 21)]`,
		"many pages": `import ctypes; m = ctypes.CDLL(None).mmap; m.restype = ctypes.c_void_p; ` +
			`m.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]; ` +
			`[ctypes.string_at(m(i << 30, 4096, 1, 0x100022, -1, 0), 1) for i in range(1000, 50000)]; ` +
			`import time; time.sleep(5)`,
	}
	for name, program := range programs {
		for _, forbid := range [][]haft.Control{nil, {haft.ControlMemory, haft.ControlPIDs, haft.ControlCPU}} {
			p := open(t, inMode(local.Config{Forbid: forbid}))
			e, out := sh(t, p, py(program), func(s *sandbox.Spec) { s.Limits.Memory = 128 << 20 })
			if e.Cause != sandbox.CauseLimit || e.Limit != haft.FailMemory {
				t.Errorf("%s without %v ends with %+v, %q", name, forbid, e, out)
			}
		}
	}
}
