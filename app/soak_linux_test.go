package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/sandbox/cell"
	"haft/sandbox/local"
	"haft/schema"
)

// TestCalls_leave_nothing_behind makes many calls in a row and many at once, and
// looks for processes, mounts, cgroups, files and descriptors that stayed, and
// for memory that grew. HAFT_SOAK_ROW and HAFT_SOAK_ONCE set the counts; the
// promise is for 10000 and 1000.
func TestCalls_leave_nothing_behind(t *testing.T) {
	row, once := number("HAFT_SOAK_ROW", 300), number("HAFT_SOAK_ONCE", 60)
	// Or skip. Its sandbox starts a spare process at its leisure, which must not be among those that are left.
	if err := open(t, app.Config{}).Close(); err != nil {
		t.Fatal(err)
	}
	here := newPlace(t)
	before, open := here.traces(), descriptors()
	a, err := app.Open(t.Context(), app.Config{Keep: true, Local: here.config()})
	if err != nil {
		t.Fatal(err)
	}
	add := prepare(t, a, "add")
	heap := map[int]uint64{}
	for i := range row {
		if v, err := call(t.Context(), a, add, "acme", fmt.Sprintf(`{"a": %d, "b": 1}`, i)); err != nil ||
			v != fmt.Sprint(i+1) {
			t.Fatalf("call %d gave %s, %v", i, v, err)
		}
		if i == row/3 || i == row-1 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			heap[i] = m.HeapAlloc
		}
	}
	if first, last := heap[row/3], heap[row-1]; last > first+first/2+8<<20 {
		t.Errorf("the heap grew from %d to %d bytes", first, last)
	}
	sleep := prepare(t, a, "sleep")
	var wg sync.WaitGroup
	for range once {
		wg.Go(func() {
			if v, err := call(t.Context(), a, sleep, "acme", `{"seconds": 0.2}`); err != nil || v != "0.2" {
				t.Errorf("a call of many gave %s, %v", v, err)
			}
		})
	}
	var groups []string
	if iso, err := isolation(t, a); err == nil && iso.Has(haft.ControlMemory) {
		waitFor(t, time.Minute, func() bool { groups = cgroups(descendants(os.Getpid())); return len(groups) > 0 })
	}
	wg.Wait()
	if err := a.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	t.Logf("cgroups of this instance: %v", groups)
	// The runtime and the test itself may have opened some, once.
	if now := descriptors(); now > open+8 {
		t.Errorf("%d descriptors are open, %d were before", now, open)
	}
	if left := append(here.leftovers(before), existing(groups)...); len(left) > 0 {
		t.Errorf("left behind after %d calls in a row and %d at once:\n\t%s", row, once, strings.Join(left, "\n\t"))
	}
}

// isolation returns what the sandbox of a promises.
func isolation(t *testing.T, a *app.App) (haft.Isolation, error) {
	t.Helper()
	p, _ := a.Provider()
	return p.Isolation(t.Context())
}

// TestCalls_find_no_trace_of_each_other runs a tool that leaves traces wherever
// it can and looks for those of others: for the same tenant and for another.
func TestCalls_find_no_trace_of_each_other(t *testing.T) {
	a := open(t, app.Config{Keep: true, Cells: cell.Config{Least: 3}})
	mark := prepare(t, a, "mark")
	seeds := map[float64]bool{}
	for i := range 12 {
		org := []string{"acme", "evil"}[i%2]
		v, err := call(t.Context(), a, mark, org, fmt.Sprintf(`{"text": "call %d"}`, i))
		if err != nil {
			t.Fatal(err)
		}
		var found struct {
			Files     []string
			Env, Mine *string
			Seed      float64
			Processes []string
		}
		if err := json.Unmarshal([]byte(v), &found); err != nil {
			t.Fatal(err)
		}
		if len(found.Files) > 0 || found.Env != nil || found.Mine != nil || len(found.Processes) != 1 {
			t.Errorf("call %d of %s found traces: %s", i, org, v)
		}
		if seeds[found.Seed] {
			t.Errorf("call %d drew the random number of another", i)
		}
		seeds[found.Seed] = true
	}
}

// victimVar makes the test binary a program that is killed in the middle of calls.
const victimVar = "HAFT_TEST_VICTIM"

// victim makes calls that sleep, says when all of them run, and waits for death.
func victim() {
	ctx := context.Background()
	a, err := app.Open(ctx, app.Config{Keep: true, Local: local.Config{Dir: os.Getenv(victimVar), AllowReduced: true}})
	if err != nil {
		fmt.Fprintln(os.Stdout, "open:", err)
		os.Exit(1)
	}
	tool, err := a.Prepare(ctx, app.Source{Name: "sleep", Kind: haft.KindPython, Text: []byte(source),
		Function: "sleep"}, schema.Options{}, haft.Output{})
	if err != nil {
		fmt.Fprintln(os.Stdout, "prepare:", err)
		os.Exit(1)
	}
	n := number("HAFT_TEST_VICTIMS", 30)
	for range n {
		go func() {
			args := fmt.Appendf(nil, `{"seconds": 600}`)
			_, err := a.Call(ctx, tool, app.Run{Args: args, Limits: haft.Limits{Wall: haft.Millis(20 * time.Minute)}})
			fmt.Fprintln(os.Stdout, "ended early:", err)
		}()
	}
	fmt.Fprintln(os.Stdout, "calling")
	select {}
}

// TestKill_leaves_nothing kills a Haft in the middle of calls: within a second
// nothing of them is there, and the next start is clean.
func TestKill_leaves_nothing(t *testing.T) {
	open(t, app.Config{}) // or skip
	n := number("HAFT_TEST_VICTIMS", 30)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	here := newPlace(t)
	cmd.Env = append(os.Environ(), victimVar+"="+here.config().Dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "calling" {
		t.Fatalf("the victim says %q", lines.Text())
	}
	waitFor(t, time.Minute, func() bool { return len(descendants(cmd.Process.Pid)) >= n })
	doomed := descendants(cmd.Process.Pid)
	groups := cgroups(doomed)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	killed := time.Now()
	waitFor(t, 30*time.Second, func() bool { return len(living(doomed)) == 0 })
	if took := time.Since(killed); took > 20*time.Second {
		t.Errorf("%d processes took %s to be gone", len(doomed), took)
	}
	a := open(t, app.Config{Keep: true, Local: here.config()})
	if v, err := call(t.Context(), a, prepare(t, a, "add"), "acme", `{"a": 1, "b": 2}`); err != nil || v != "3" {
		t.Errorf("the first call after the kill gave %s, %v", v, err)
	}
	if left := existing(groups); len(left) > 0 {
		t.Errorf("cgroups of the dead remain: %v", left)
	}
}

// waitFor waits until ok is true.
func waitFor(t *testing.T, most time.Duration, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(most); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("it did not happen within %s", most)
		}
	}
}

// descendants lists the processes below pid, with their start times, so that a
// number that is used again is not taken for the old one.
func descendants(pid int) []string {
	var all []string
	seen := map[string]bool{}
	var walk func(string)
	walk = func(p string) {
		tasks, _ := os.ReadDir("/proc/" + p + "/task")
		for _, task := range tasks {
			b, _ := os.ReadFile("/proc/" + p + "/task/" + task.Name() + "/children")
			for _, c := range strings.Fields(string(b)) {
				if !seen[c] {
					seen[c] = true
					all = append(all, identity(c))
					walk(c)
				}
			}
		}
	}
	walk(fmt.Sprint(pid))
	return all
}

// identity is a process id with its start time.
func identity(pid string) string {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return pid + " gone"
	}
	_, after, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(after)
	if len(f) < 20 || f[0] == "Z" {
		return pid + " gone"
	}
	return pid + " " + f[19]
}

// living returns those that are still there.
func living(ids []string) []string {
	var alive []string
	for _, id := range ids {
		pid, _, _ := strings.Cut(id, " ")
		if !strings.HasSuffix(id, "gone") && identity(pid) == id {
			alive = append(alive, id)
		}
	}
	return alive
}
