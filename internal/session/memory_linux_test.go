package session_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"haft"
	"haft/executor"
	"haft/internal/session"
)

// A footprint is the memory that sessions have, in bytes.
type footprint struct {
	agents int64 // the processes that serve requests: what sessions need themselves
	others int64 // all other processes of sandboxes
	server int64 // this process: its heap and the stacks of its goroutines
	kernel int64 // of the whole machine: slab, stacks of threads, page tables and per-CPU memory
}

// measure measures this process and its descendants. Pages that processes share count in parts.
func measure(t *testing.T) (f footprint) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	parents, agents := map[int]int{}, map[int]bool{}
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		stat, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
		program, _ := os.Readlink(dir + "/exe")
		agents[pid] = strings.HasPrefix(filepath.Base(program), "python")
	}
	for pid := range parents {
		up := pid
		for up > 1 && up != os.Getpid() {
			up = parents[up]
		}
		switch pss := kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:"); {
		case up != os.Getpid() || pid == up:
		case agents[pid]:
			f.agents += pss
		default:
			f.others += pss
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	f.server = int64(m.HeapAlloc + m.StackInuse)
	f.kernel = kilobytes("/proc/meminfo", "Slab:", "KernelStack:", "PageTables:", "Percpu:")
	return f
}

// kilobytes adds up lines of a file of the kernel, in bytes.
func kilobytes(name string, keys ...string) (sum int64) {
	raw, _ := os.ReadFile(name) // of a process that has ended: nothing
	for s := bufio.NewScanner(bytes.NewReader(raw)); s.Scan(); {
		for _, key := range keys {
			if rest, ok := strings.CutPrefix(s.Text(), key); ok {
				n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				sum += n << 10
			}
		}
	}
	return sum
}

// An idle session costs little beyond the process that serves its requests.
func TestSession_memory_of_idle_ones(t *testing.T) {
	sessions := 200
	if testing.Short() {
		sessions = 16
	}
	m := setup(t, session.Config{PerOrg: 400})
	openMany := func(from, to int) {
		var work sync.WaitGroup
		slots := make(chan struct{}, 4)
		for i := from; i < to; i++ {
			work.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				who := haft.Principal{Org: "acme", User: fmt.Sprint("u", i/100)}
				if _, err := m.Open(t.Context(), session.Options{Name: fmt.Sprint("s", i),
					Request: executor.Request{Org: "acme", Principal: who}}); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
	}
	const warm = 8
	openMany(0, warm)
	before := measure(t)
	openMany(warm, warm+sessions)
	after := measure(t)
	each := func(a, b int64) float64 { return float64(b-a) / float64(sessions) / (1 << 20) }
	other, server := each(before.others, after.others), each(before.server, after.server)
	kernel := each(before.kernel, after.kernel)
	t.Logf("MB of each of %d: agent %.2f, other processes %.2f, server %.2f, kernel of the machine %.2f", sessions,
		each(before.agents, after.agents), other, server, kernel)
	if other+server > 4 {
		t.Errorf("an idle session has %.2f MB beyond its own process, want at most 4", other+server)
	}
}
