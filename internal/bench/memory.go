package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// descendantsPSS returns the proportional set size of this process and all that
// descend from it, in bytes. Pages that several share count once in all.
func descendantsPSS() (int64, error) {
	parents, err := processes()
	if err != nil {
		return 0, err
	}
	var total int64
	self := os.Getpid()
	for pid := range parents {
		if descends(parents, pid, self) {
			total += pss(pid)
		}
	}
	return total, nil
}

// descends reports whether pid is self or has self among its ancestors.
func descends(parents map[int]int, pid, self int) bool {
	for range 64 {
		if pid == self {
			return true
		}
		if pid <= 1 {
			return false
		}
		pid = parents[pid]
	}
	return false
}

// processes returns the parent of every process of the machine.
func processes() (map[int]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	parents := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it is gone
		}
		// The name in parentheses may hold anything.
		if i := bytes.LastIndexByte(stat, ')'); i > 0 {
			if fields := strings.Fields(string(stat[i+1:])); len(fields) > 1 {
				parents[pid], _ = strconv.Atoi(fields[1]) // 0, which is nobody, if it is no number
			}
		}
	}
	return parents, nil
}

// pss returns the proportional set size of a process, or 0 if it is gone.
func pss(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0
			}
			return kb << 10
		}
	}
	return 0
}
