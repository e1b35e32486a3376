package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
	"haft/sandbox/local"
)

// victimVar makes the test binary a Haft that is going to be killed. It holds the
// directory, the word that its sandboxes can be known by, and "reduced" if it is to
// have no namespaces, with spaces between them.
const victimVar = "HAFT_TEST_VICTIM"

// victim runs sandboxes until it is killed.
func victim() {
	words := append(strings.Fields(os.Getenv(victimVar)), "")
	dir, word := words[0], words[1]
	config := local.Config{Dir: dir, AllowReduced: true}
	if words[2] == "reduced" {
		config.Forbid = []haft.Control{haft.ControlUserNS}
	}
	p, err := local.Open(context.Background(), config)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for range 10 {
		go func() {
			_, _ = p.Run(context.Background(), sandbox.Spec{
				Argv: []string{"/bin/bash", "-c", "trap '' TERM; (setsid sleep " + word + " &); echo up; sleep " +
					word}, Mounts: system(), Stdout: os.Stdout})
		}()
	}
	select {}
}

func TestProvider_survivors_of_a_killed_Haft(t *testing.T) {
	if os.Getenv(modeVar) != "" {
		t.Skip("the victim runs in the full mode only")
	}
	t.Run("namespaces", func(t *testing.T) { killHaft(t, "") })
	t.Run("reduced", func(t *testing.T) { killHaft(t, "reduced") })
}

// killHaft kills a Haft of that mode and looks for what it leaves behind.
func killHaft(t *testing.T, mode string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "haft-victim-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	word := fmt.Sprint(200000 + os.Getpid())
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = []string{victimVar + "=" + dir + " " + word + " " + mode}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range 10 {
		if !lines.Scan() || lines.Text() != "up" {
			t.Fatalf("the victim says %q", lines.Text())
		}
	}
	if n := len(running(word)); n < 10 {
		t.Fatalf("%d processes run", n)
	}
	groups, err := os.ReadFile("/proc/" + running(word)[0] + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as it should be
	deadline := time.Now().Add(time.Minute)
	for len(running(word)) > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if left := running(word); len(left) > 0 {
		t.Errorf("processes %v survive", left)
	}
	p := open(t, local.Config{Dir: dir})
	seen := 0
	for line := range strings.Lines(string(groups)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if !strings.Contains(part[2], "/haft-") {
			continue
		}
		seen++
		if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", part[1], filepath.Dir(part[2]))); err == nil {
			t.Errorf("cgroup %s survives", part[2])
		}
	}
	if i, _ := p.Isolation(t.Context()); i.Has(haft.ControlMemory) && seen == 0 {
		t.Errorf("no cgroup of ours in %s", groups)
	}
	if e, _ := sh(t, p, "exit 7"); e.Code != 7 {
		t.Errorf("after the sweep Run = %+v", e)
	}
}

func TestProvider_sweeps_only_the_dead(t *testing.T) {
	dir, err := os.MkdirTemp("", "haft-two-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	first := open(t, local.Config{Dir: dir})
	second := open(t, local.Config{Dir: dir})
	for _, p := range []*local.Provider{first, second} {
		if e, _ := sh(t, p, "exit 5"); e.Code != 5 {
			t.Errorf("Run = %+v", e)
		}
	}
}

func TestProvider_states_what_is_missing(t *testing.T) {
	p := open(t, local.Config{Forbid: []haft.Control{haft.ControlMemory, haft.ControlTimeNS}})
	i, err := p.Isolation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []haft.Control{haft.ControlMemory, haft.ControlTimeNS} {
		if i.Has(c) {
			t.Errorf("%s is promised", c)
		}
	}
	if len(i.Controls)+len(i.Missing) != len(haft.Controls()) {
		t.Errorf("%d controls and %d gaps, of %d", len(i.Controls), len(i.Missing), len(haft.Controls()))
	}
	if e, out := sh(t, p, py("b = bytearray(1 << 30); print(len(b))"),
		func(s *sandbox.Spec) { s.Limits.Memory = 64 << 20 }); e.Cause == sandbox.CauseExit && e.Code == 0 {
		t.Errorf("a gigabyte was had without a memory cgroup: %+v %s", e, out)
	}
}

// Before ABI 3, Landlock lets a file be emptied that may only be read. Without namespaces
// nothing else would keep a program from that, so it is not run.
func TestProvider_reduced_needs_landlock(t *testing.T) {
	for _, tt := range []struct {
		abi int
		ok  bool
	}{{0, false}, {1, false}, {2, false}, {3, true}} {
		t.Run(fmt.Sprint(tt.abi), func(t *testing.T) {
			p := open(t, local.Config{Forbid: []haft.Control{haft.ControlUserNS}})
			local.PretendLandlock(p, tt.abi)
			_, err := p.Run(t.Context(), sandbox.Spec{Argv: []string{"/bin/true"}, Mounts: system()})
			if (err == nil) != tt.ok || !tt.ok && haft.CodeOf(err) != haft.CodeUnavailable {
				t.Fatalf("Run = %v, want success %t", err, tt.ok)
			}
			iso, err := p.Isolation(t.Context())
			if (err == nil) != tt.ok || tt.ok != iso.Has(haft.ControlLandlock) {
				t.Errorf("Isolation = %+v, %v", iso, err)
			}
		})
	}
}

// What a program can learn of the machine, because it shares the kernel, is in the result.
func TestProvider_states_what_its_kernel_shows(t *testing.T) {
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		t.Fatal(err)
	}
	// struct sysinfo begins with the uptime, three loads and the memory.
	e, out := sh(t, open(t, local.Config{}), py(`import ctypes; b = (ctypes.c_ulong * 64)(); `+
		`print(ctypes.CDLL(None).sysinfo(b), b[4])`))
	if want := fmt.Sprintf("0 %d\n", host.Totalram); out != want {
		t.Errorf("a program is told %q about the memory, want %q", out, want)
	}
	i := slices.IndexFunc(e.Isolation.Missing, func(g haft.Gap) bool { return g.Control == haft.ControlKernel })
	if i < 0 {
		t.Fatalf("a kernel of its own is not missing: %+v", e.Isolation)
	}
	parts := []string{"load, memory and uptime", "host paths of mounts", "user ids", "locks on devices"}
	if os.Geteuid() != 0 {
		parts = append(parts, "pipes, epoll watches")
	}
	for _, part := range parts {
		if reason := e.Isolation.Missing[i].Reason; !strings.Contains(reason, part) {
			t.Errorf("the result does not state %q: %s", part, reason)
		}
	}
}

// What nobody counts without a cgroup is in the result, too.
func TestProvider_states_memory_that_is_not_counted(t *testing.T) {
	i := must(open(t, local.Config{Forbid: []haft.Control{haft.ControlMemory}}).Isolation(t.Context()))
	if !slices.ContainsFunc(i.Missing, func(g haft.Gap) bool {
		return g.Control == haft.ControlMemory && strings.Contains(g.Reason, "lists of mappings) is not")
	}) {
		t.Errorf("the result does not state it: %+v", i.Missing)
	}
}

// What a program without a root of its own can ask about the host is in the result.
func TestProvider_reduced_states_what_it_shows(t *testing.T) {
	p := open(t, local.Config{Forbid: []haft.Control{haft.ControlUserNS}})
	e, out := sh(t, p, "stat -c %s /etc/passwd; ls -l /usr/bin/env; cat /etc/passwd")
	stated := slices.ContainsFunc(e.Isolation.Missing, func(g haft.Gap) bool {
		return g.Control == haft.ControlRoot && strings.Contains(g.Reason, "can be asked for")
	})
	if !stated || strings.Contains(out, "root:") || strings.Contains(out, "not permitted") {
		t.Errorf("isolation %+v\n%s", e.Isolation.Missing, out)
	}
}

// Another user of the machine who is first to make the directory of ours keeps nobody
// from running anything, and nothing of ours is put there.
func TestProvider_directory_taken_by_another(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root has a directory that others cannot make")
	}
	for _, squat := range []func(name string) error{
		func(name string) error { return os.Symlink(t.TempDir(), name) },
		func(name string) error { return errors.Join(os.Mkdir(name, 0o700), os.Chmod(name, 0o777)) },
		func(name string) error { return os.WriteFile(name, nil, 0o600) },
	} {
		tmp := t.TempDir()
		t.Setenv("TMPDIR", tmp)
		if err := squat(filepath.Join(tmp, fmt.Sprintf("haft-%d", os.Geteuid()))); err != nil {
			t.Fatal(err)
		}
		var dirs []string
		for range 2 {
			p, err := local.Open(t.Context(), inMode(local.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			if _, out := sh(t, p, "echo up"); out != "up\n" {
				t.Errorf("it printed %q", out)
			}
			dirs = append(dirs, p.Dirs()[0])
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		if dirs[0] != dirs[1] || filepath.Dir(dirs[0]) != tmp {
			t.Errorf("the directories were %q, want one, which is found again", dirs)
		}
	}
}
