package cgroup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/cgroup"
)

func TestTree_makes_limits_and_removes(t *testing.T) {
	tree := cgroup.Open(fmt.Sprintf("haft-test-%d", os.Getpid()))
	if !tree.Has(cgroup.Memory) || !tree.Has(cgroup.PIDs) || !tree.Has(cgroup.CPU) {
		t.Skipf("cgroups are missing here: %s", tree.Missing(cgroup.Memory))
	}
	g, err := tree.New("1", cgroup.Limits{Memory: 64 << 20, PIDs: 5})
	if err != nil {
		t.Fatal(err)
	}
	files, err := g.TasksFiles()
	if err != nil {
		t.Fatal(err)
	}
	if !tree.V2 && len(files) != 3 {
		t.Errorf("%d files", len(files))
	}
	cgroup.CloseTasksFiles(files)
	if r := g.Read(); g.OOM() != 0 || g.Refused() != 0 || r.CPU != 0 {
		t.Errorf("an empty group has used %+v", r)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
	for _, dir := range tree.Dirs() {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}
}

// TestTree_limits_while_signals_come: the kernel does not set a bound of memory while a signal waits for the thread.
func TestTree_limits_while_signals_come(t *testing.T) {
	tree := cgroup.Open(fmt.Sprintf("haft-test-signals-%d", os.Getpid()))
	if !tree.Has(cgroup.Memory) {
		t.Skipf("cgroups are missing here: %s", tree.Missing(cgroup.Memory))
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, done := unix.Gettid(), make(chan struct{})
	var sender sync.WaitGroup
	defer sender.Wait()
	defer close(done)
	sender.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Tgkill(os.Getpid(), thread, unix.SIGURG) // which the runtime sends too
			}
		}
	})
	for i := range 5000 {
		g, err := tree.New(fmt.Sprint(i), cgroup.Limits{Memory: 64 << 20})
		if err != nil {
			t.Fatalf("group %d: %v", i, err)
		}
		if err := g.Remove(); err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.Close(); err != nil {
		t.Error(err)
	}
}

func TestSweep_touches_nothing_that_is_not_ours(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "haft-0")
	if err := os.MkdirAll(filepath.Join(dir, "1"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := cgroup.Sweep([]string{dir, "/sys/fs/cgroup", "/", ""}); err != nil {
		t.Error(err)
	}
	if err := unix.Access(filepath.Join(dir, "1"), unix.F_OK); err != nil {
		t.Error("a directory that is no cgroup was removed")
	}
}
