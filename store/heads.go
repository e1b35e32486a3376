package store

import "haft/audit"

// heads are the ends of the audit chains and of the events, as far as a store
// that nobody else writes to remembers them.
type heads struct {
	chains map[string]audit.Head
	cursor int64
	known  bool // cursor is
}

// forget makes the store look again.
func (h *heads) forget() { *h = heads{} }
