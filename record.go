package haft

import (
	"encoding/json"
	"time"
)

// A Record is what is kept of a call, from the moment it is acknowledged on.
type Record struct {
	// Call has its arguments as they may be kept: what policy redacts is
	// replaced, and then Redacted is true and the call cannot be replayed.
	Call     Call   `json:"call"`
	Redacted bool   `json:"redacted,omitempty"`
	ToolID   ToolID `json:"tool_id,omitempty"`
	// Digest is of the version that ran.
	Digest string `json:"digest,omitempty"`
	Status Status `json:"status"`
	// Tries counts the runs that were begun.
	Tries int `json:"tries,omitempty"`
	// ArgsDigest and ResultDigest identify what was asked and what came of it.
	ArgsDigest   string `json:"args_digest,omitempty"`
	ResultDigest string `json:"result_digest,omitempty"`
	// Owner is the process that runs it.
	Owner   string    `json:"owner,omitempty"`
	Created time.Time `json:"created_at"`
	Started time.Time `json:"started_at,omitzero"`
	Ended   time.Time `json:"ended_at,omitzero"`
	// Result is there once the call has ended, redacted.
	Result *Result `json:"result,omitempty"`
	// Sealed are the whole arguments and environment of a call that has yet to
	// run. They are removed when it has, and are never shown.
	Sealed json.RawMessage `json:"-"`
}

// A CallFilter says which calls to list. Empty fields match all; Org must be set.
type CallFilter struct {
	Org    string   `json:"org"`
	User   string   `json:"user,omitempty"`
	Agent  string   `json:"agent,omitempty"`
	Tool   string   `json:"tool,omitempty"`
	Turn   string   `json:"turn,omitempty"`
	Parent CallID   `json:"parent,omitempty"`
	Chain  ChainID  `json:"chain,omitempty"`
	Status []Status `json:"status,omitempty"`
	// Since and Until bound the time of creation.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Oldest lists the oldest first.
	Oldest bool `json:"oldest,omitempty"`
	// Before is the id of a call: only those listed after it are given, which are
	// older unless the oldest come first.
	Before CallID `json:"before,omitempty"`
	// Limit is the most to give; 0 means 50.
	Limit int `json:"limit,omitempty"`
}
