package app_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/sandbox/local"
	"haft/sandbox/sandboxtest"
	"haft/schema"
)

func TestMain(m *testing.M) {
	local.Init()
	if os.Getenv(victimVar) != "" {
		victim()
	}
	if dir := os.Getenv(e2bServerVar); dir != "" {
		os.Exit(serveE2B(dir))
	}
	os.Exit(m.Run())
}

// source holds the tools of these tests.
const source = `
import os, random, time

def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: One.
        b: The other.
    """
    return a + b

def sleep(seconds: float) -> float:
    """Sleep.

    Args:
        seconds: How long.
    """
    time.sleep(seconds)
    return seconds

def mark(text: str) -> dict[str, object]:
    """Leave traces, and look for those of others.

    Args:
        text: What to leave.
    """
    found = {"files": sorted(os.listdir("/tmp") + os.listdir("/dev/shm")), "env": os.environ.get("MARK"), "pid": os.getpid(),
             "mine": globals().get("trace"), "seed": random.random(), "processes": [p for p in os.listdir("/proc") if p.isdigit()]}
    globals()["trace"] = text
    os.environ["MARK"] = text
    for d in ("/tmp/", "/dev/shm/"):
        with open(d + "mark", "w") as f:
            f.write(text)
    return found
`

// open opens an app in the sandbox of this machine, or skips loudly.
func open(t *testing.T, cfg app.Config) *app.App {
	t.Helper()
	cfg.AllowReduced = true // what a machine gives is what is tried
	a, err := app.Open(t.Context(), cfg)
	if err != nil {
		sandboxtest.Require(t, "sandbox", err.Error())
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if _, err := a.Runtime(t.Context(), haft.KindPython); err != nil {
		sandboxtest.Require(t, "python", err.Error())
	}
	return a
}

// prepare prepares one function of the source.
func prepare(t *testing.T, a *app.App, function string) *app.Tool {
	t.Helper()
	tool, err := a.Prepare(t.Context(), app.Source{Name: function, Kind: haft.KindPython, Text: []byte(source),
		Function: function}, schema.Options{}, haft.Output{})
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

// call makes one call and returns its value.
func call(ctx context.Context, a *app.App, tool *app.Tool, org, args string) (string, error) {
	res, err := a.Call(ctx, tool, app.Run{Org: org, Args: []byte(args)})
	if err != nil {
		return "", err
	}
	if res.Status != haft.StatusSuccess {
		return "", fmt.Errorf("the call ended with %s: %+v", res.Status, res.Error)
	}
	return string(res.Value), nil
}

// number reads a number from the environment: the full count of a soak is for
// machines that have the time.
func number(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return def
}

// A place is where an instance keeps its files, apart from those of others.
type place struct{ dir string }

// newPlace makes one, with a directory for temporary files in it.
func newPlace(t *testing.T) place {
	t.Helper()
	dir, err := os.MkdirTemp("", "haft-app-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, d := range []string{"", "tmp", "state"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	return place{dir}
}

// config is the configuration of an instance there.
func (p place) config() local.Config {
	return local.Config{Dir: filepath.Join(p.dir, "state"), AllowReduced: true}
}

// instance is the name of our directories in /proc/PID/cgroup.
var instance = regexp.MustCompile(`/(haft-[a-z0-9]+)/`)

// cgroups lists the directories of the instance that the processes are in, or
// nothing where there are no cgroups.
func cgroups(processes []string) []string {
	for _, id := range processes {
		pid, _, _ := strings.Cut(id, " ")
		b, _ := os.ReadFile("/proc/" + pid + "/cgroup")
		if m := instance.FindSubmatch(b); m != nil {
			var all []string
			for _, depth := range []string{"", "*/", "*/*/", "*/*/*/", "*/*/*/*/"} {
				found, _ := filepath.Glob("/sys/fs/cgroup/" + depth + string(m[1]))
				all = append(all, found...)
			}
			return all
		}
	}
	return nil
}

// descriptors counts those of this process.
func descriptors() int {
	fds, _ := os.ReadDir("/proc/self/fd")
	return len(fds)
}

// traces lists what calls could leave behind: processes, mounts, temporary files.
func (p place) traces() []string {
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
	temp, _ := os.ReadDir(filepath.Join(p.dir, "tmp"))
	for _, e := range temp {
		all = append(all, "file "+e.Name())
	}
	return all
}

// leftovers waits a moment for what ends by itself, and lists what is there and
// was not before.
func (p place) leftovers(before []string) []string {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var left []string
	for range 3000 { // a minute: what was killed may wait long for a processor
		left = slices.DeleteFunc(p.traces(), func(s string) bool { return slices.Contains(before, s) })
		if len(left) == 0 {
			return nil
		}
		<-tick.C
	}
	return left
}

// existing returns those paths that still exist.
func existing(paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { _, err := os.Stat(p); return err != nil })
}
