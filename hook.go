package haft

import (
	"slices"
	"time"
)

// WebhookID identifies a webhook.
type WebhookID string

// A Webhook has events of an organisation sent to an address, each at least once
// and those of one call in order.
type Webhook struct {
	ID  WebhookID `json:"id"`
	Org string    `json:"org"`
	// URL is where to, with https.
	URL         string `json:"url"`
	Description string `json:"description,omitempty"`
	// Types, Tools, Agents and Users say which events; empty means all. Agents are
	// ids.
	Types  []EventType `json:"types,omitempty"`
	Tools  []string    `json:"tools,omitempty"`
	Agents []string    `json:"agents,omitempty"`
	Users  []string    `json:"users,omitempty"`
	// Disabled webhooks keep their place and are sent nothing. Reason says why, if
	// nobody disabled it but too many deliveries failed.
	Disabled bool   `json:"disabled,omitempty"`
	Reason   string `json:"disabled_reason,omitempty"`
	// Position is the cursor of the last event that was dealt with.
	Position int64 `json:"position"`
	// FailingSince is when deliveries began to fail; zero means that the last one
	// did not. Failure says how the last one failed, in words.
	FailingSince time.Time `json:"failing_since,omitzero"`
	Failure      string    `json:"failure,omitempty"`
	// Delivered is when something was last received.
	Delivered time.Time `json:"delivered_at,omitzero"`
	Created   time.Time `json:"created_at"`
	Updated   time.Time `json:"updated_at"`
	// If is the revision that the one to be replaced must have. It is for writing,
	// and never kept.
	If string `json:"if_revision,omitempty"`
}

// Revision changes with every write of somebody.
func (w Webhook) Revision() string { return revision(w.Updated) }

// Wants reports whether e is among the events that the webhook is for.
func (w Webhook) Wants(e Event) bool {
	among := func(list []string, one string) bool { return len(list) == 0 || slices.Contains(list, one) }
	return e.Principal.Org == w.Org && (len(w.Types) == 0 || slices.Contains(w.Types, e.Type)) &&
		among(w.Tools, e.Tool) && among(w.Agents, e.Principal.Agent) && among(w.Users, e.Principal.User)
}

// A DeadLetter is an event that could not be delivered.
type DeadLetter struct {
	// ID is that of the message, the same with every try.
	ID      string    `json:"id"`
	Webhook WebhookID `json:"webhook_id"`
	Event   Event     `json:"event"`
	Tries   int       `json:"tries"`
	// Failure says how the last try failed, in words.
	Failure string    `json:"failure"`
	Died    time.Time `json:"died_at"`
}
