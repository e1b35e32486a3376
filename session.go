package haft

import (
	"context"
	"time"
)

// A Session is a sandbox that lives for many commands. It belongs to the principal who
// made it, and ends with the server at the latest.
type Session struct {
	ID  string `json:"id"`
	Org string `json:"org"`
	// Owner is who made it. Nobody else of the organisation can use it.
	Owner string `json:"owner"`
	// Name is what its owner calls it; unique among the owner's sessions that live.
	Name    string    `json:"name,omitempty"`
	Created time.Time `json:"created_at"`
	// Expires is when it ends at the latest, IdleTimeout after how long without use.
	Expires     time.Time `json:"expires_at"`
	IdleTimeout Millis    `json:"idle_timeout_ms"`
	// Used is when it was last used, Busy that something is done in it now.
	Used      time.Time `json:"used_at"`
	Busy      bool      `json:"busy"`
	Isolation Isolation `json:"isolation"`
}

// Sessions are the sessions of a server.
type Sessions interface {
	// Sessions lists those of the principal, the oldest first; for somebody who sees all
	// calls of the organisation, all.
	Sessions(ctx context.Context, p Principal) ([]Session, error)
	// EndSession ends one, by its id or by the name that its owner gave it, and waits until
	// nothing of it runs.
	EndSession(ctx context.Context, p Principal, id string) error
}
