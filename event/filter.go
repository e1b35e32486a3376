package event

import (
	"slices"

	"haft"
)

// A Filter says which events a watcher wants. Empty fields match all, but for
// Org, which a watch must have.
type Filter struct {
	Org   string
	User  string
	Agent string
	Call  haft.CallID
	Tool  string
	Types []haft.EventType
	// Marks also yields events without a type, now and then: their Cursor says how
	// far was looked, also where nothing fitted.
	Marks bool
}

// For returns the filter for what concerns p: its organisation, and its user and
// agent if it has them.
func For(p haft.Principal) Filter {
	return Filter{Org: p.Org, User: p.User, Agent: p.Agent}
}

// Fits reports whether e is among the events that f wants. Logs use it, or ask
// their database the same.
func (f Filter) Fits(e haft.Event) bool {
	return (f.Org == "" || f.Org == e.Principal.Org) &&
		(f.User == "" || f.User == e.Principal.User) &&
		(f.Agent == "" || f.Agent == e.Principal.Agent) &&
		(f.Call == "" || f.Call == e.Call) &&
		(f.Tool == "" || f.Tool == e.Tool) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, e.Type))
}

// check reports why nobody may watch with f.
func (f Filter) check() error {
	if f.Org == "" {
		return &haft.Error{Code: haft.CodeUnauthenticated, Message: "events are watched on behalf of an organisation"}
	}
	return nil
}
