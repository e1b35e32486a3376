package plan_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"haft/sandbox/local/internal/plan"
)

func TestPlan_Do_stops_at_the_first_failure(t *testing.T) {
	dir := t.TempDir()
	var p plan.Plan
	p.Mkdir(filepath.Join(dir, "a"), 0o755)
	p.Mkdir(filepath.Join(dir, "a"), 0o755) // there already, which is allowed
	p.File(filepath.Join(dir, "a", "f"), 0o600, []byte("data"))
	p.Keep(filepath.Join(dir, "a"))
	p.Chdir(filepath.Join(dir, "no"))
	p.Mkdir(filepath.Join(dir, "never"), 0o755)
	// It crosses a socket before it is done.
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var q plan.Plan
	if err := json.Unmarshal(b, &q); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, q); diff != "" {
		t.Errorf("-sent +received:\n%s", diff)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	keep, failed := q.Do(nil)
	for _, fd := range keep {
		defer unix.Close(fd)
	}
	want := &plan.Failure{Step: "chdir", Path: filepath.Join(dir, "no"), Errno: unix.ENOENT}
	if diff := cmp.Diff(want, failed); diff != "" || len(keep) != 1 {
		t.Errorf("Do keeps %v, -want +got:\n%s", keep, diff)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a", "f")); err != nil || string(b) != "data" {
		t.Errorf("the file has %q, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "never")); err == nil {
		t.Error("a step was done after the failure")
	}
}

func TestPlan_Do_wants_its_descriptors(t *testing.T) {
	var p plan.Plan
	p.Join("memory")
	if _, failed := p.Do(nil); failed == nil || failed.Step != "slots" {
		t.Errorf("Do = %v", failed)
	}
}

// The trial of vfork asks the kernel for a child that cannot be born.
func TestPlan_Vfork_bears_no_child(t *testing.T) {
	var p plan.Plan
	p.Vfork("time")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, failed := p.Do(nil); failed != nil {
		t.Errorf("in the namespace of its parent: %v", failed)
	}
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != unix.ECHILD {
		t.Errorf("Wait4 = %d, %v; want no child", pid, err)
	}
}
