package telemetry

import "sync"

// other is how what is beyond the bound is called.
const other = "other"

// names bound how many pairs of organisation and tool are counted apart.
type names struct {
	most int

	mu    sync.Mutex
	known map[[2]string]bool
}

func newNames(most int) *names { return &names{most: most, known: make(map[[2]string]bool)} }

// pair returns the names to count under. Tools that nobody knows come from
// outside, and are bounded like all others.
func (n *names) pair(org, tool string) (string, string) {
	k := [2]string{org, tool}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known[k] {
		return org, tool
	}
	if len(n.known) >= n.most {
		return other, other
	}
	n.known[k] = true
	return org, tool
}
