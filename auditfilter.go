package haft

import "time"

// An AuditFilter says which entries of an audit to list. Empty fields match all.
type AuditFilter struct {
	// Kind says what happened, such as "call.refused".
	Kind string `json:"kind,omitempty"`
	// User and Agent are who did it; an agent is named by its id.
	User  string `json:"user,omitempty"`
	Agent string `json:"agent,omitempty"`
	Tool  string `json:"tool,omitempty"`
	Call  CallID `json:"call,omitempty"`
	// Since and Until bound when it was: not before Since, and before Until.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Oldest lists the oldest first.
	Oldest bool `json:"oldest,omitempty"`
	// Limit is the most to give; 0 means all, and of a page as many as it has.
	Limit int `json:"limit,omitempty"`
}

// Narrow reports whether anything is asked of an entry. Where nothing is, they are
// listed by their numbers, and else by their times.
func (f AuditFilter) Narrow() bool {
	return f.Kind != "" || f.User != "" || f.Agent != "" || f.Tool != "" || f.Call != "" || !f.Since.IsZero() ||
		!f.Until.IsZero()
}

// An AuditPlace is where an entry stands in a list of them. The zero value is before
// the first.
type AuditPlace struct {
	Time time.Time `json:"time,omitzero"`
	Seq  int64     `json:"seq"`
}
