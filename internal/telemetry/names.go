package telemetry

import (
	"slices"
	"sync"
)

// The names under which calls are counted together.
const (
	// other is how what is beyond a bound is called.
	other = "other"
	// unknown is how every tool is called that was not found: what callers name is
	// theirs to choose, and never becomes a label.
	unknown = "unknown"
)

// ownTools is how many tools every organisation has counted apart, whatever others have.
const ownTools = 4

// names bound which pairs of organisation and tool are counted apart. Tools are those
// that were found in the registry of the organisation. One organisation has at most an
// eighth of all pairs, so that no other loses its own to it.
type names struct {
	most int // pairs, besides those that every organisation has

	mu    sync.Mutex
	pairs int
	orgs  map[string]map[string]bool // the tools of an organisation
}

func newNames(most int) *names { return &names{most: most, orgs: make(map[string]map[string]bool)} }

// pair returns the names to count under. An empty tool means one that was not found.
func (n *names) pair(org, tool string) (string, string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	tools, known := n.orgs[org]
	if !known {
		if len(n.orgs) >= max(1, n.most/2) {
			return other, other
		}
		tools = make(map[string]bool)
		n.orgs[org] = tools
	}
	switch {
	case tool == "":
		return org, unknown
	case tools[tool]:
		return org, tool
	case len(tools) < ownTools:
	case n.pairs >= n.most || len(tools) >= max(ownTools, n.most/8):
		return org, other
	default:
		n.pairs++
	}
	tools[tool] = true
	return org, tool
}

// one returns a value of a closed list, "" for none, and other for what is not in it.
func one[T ~string](list []T, value T) string {
	if value == "" || slices.Contains(list, value) {
		return string(value)
	}
	return other
}

// A set bounds how many values a label has that comes from a list of ours: if the list
// is not as closed as it should be, the rest is one.
type set struct {
	most int

	mu    sync.Mutex
	known map[string]bool
}

func newSet(most int) *set { return &set{most: most, known: make(map[string]bool)} }

// of returns the value to count under.
func (s *set) of(value string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[value] {
		return value
	}
	if len(s.known) >= s.most {
		return other
	}
	s.known[value] = true
	return value
}
