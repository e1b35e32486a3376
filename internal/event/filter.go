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

// For returns the filter for what p owns. Without a user and a credential that is
// nothing.
func For(p haft.Principal) Filter {
	f := Filter{Org: p.Org, User: p.Owner(), Agent: p.Agent}
	if f.User == "" {
		f.User = haft.OwnerMark // which is no user
	}
	return f
}

// Fits reports whether e is among the events that f wants. Logs use it, or ask
// their database the same.
func (f Filter) Fits(e haft.Event) bool {
	return (f.Org == "" || f.Org == e.Principal.Org) &&
		(f.User == "" || f.User == e.Principal.Owner()) &&
		(f.Agent == "" || f.Agent == e.Principal.Agent) &&
		(f.Call == "" || f.Call == e.Call) &&
		(f.Tool == "" || f.Tool == e.Tool) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, e.Type))
}

// check reports why a watch with f is refused.
func (f Filter) check() error {
	if f.Org == "" {
		return &haft.Error{Code: haft.CodeUnauthenticated, Message: "events are watched on behalf of an organisation"}
	}
	return nil
}
