package soak

import "time"

// A History is what was seen of a system from outside, in the clock of the observer.
type History struct {
	// Limit is how long after the last fault an accepted call may take to end.
	Limit     time.Duration
	Faults    []Fault
	Requests  []Request
	Sightings []Sighting
	Effects   []Effect
	Streams   []Stream
	Audits    []Audit
}

// A Fault is something that was broken for a while.
type Fault struct {
	What     string
	From, To time.Time
}

// The kinds of requests.
const (
	KindSubmit = "submit" // a call in the background
	KindCall   = "call"   // a call whose caller waits for the result
	KindChain  = "chain"  // a chain in the background
)

// A Request is one attempt to have something run.
type Request struct {
	Kind string
	// Key is an argument of the call that no other request has. It is how records and
	// effects are found of requests whose answer was lost.
	Key    string
	Tenant string
	Server string
	// Idempotent says that the tool may run more than once.
	Idempotent bool
	// Steps are the keys of the steps of a chain, in order.
	Steps []string
	// Sent and Answered bound the request.
	Sent, Answered time.Time
	// Code is the HTTP status; 0 means that there was no answer, so that nobody knows
	// whether it was accepted.
	Code       int
	RetryAfter string
	// ID and Status are of the call or chain that the answer names.
	ID, Status string
}

// A Sighting is a record as one server showed it at some time between From and To.
// The observer notes those that differ from the one before of the same server.
type Sighting struct {
	From, To       time.Time
	Tenant, Server string
	// Chain is the chain that was seen, if it was one, or the one whose step the call is.
	Chain string
	// ID and Key are of the call; both are empty if a chain was seen.
	ID, Key string
	Status  string
	// Digest is of the whole result, in a canonical form. Empty means that only the
	// status was seen, such as in the answer to a request.
	Digest string
	// Undone counts the steps of a chain that have not ended.
	Undone int
}

// An Effect is one run of a tool, as the tool itself noted it.
type Effect struct {
	At  time.Time
	Key string
}

// A Stream is what two readers got of the events that end calls of one tenant.
type Stream struct {
	Tenant string
	// Live was there the whole time and came back with its cursor after each break.
	// Replay read everything at the end, from the beginning.
	Live, Replay []Event
}

// An Event says that a call has ended.
type Event struct {
	Cursor int64
	ID     string
	Status string
}

// An Audit is what haft audit verify said of a tenant at the end.
type Audit struct {
	Tenant string
	Sound  bool
	Output string
}
