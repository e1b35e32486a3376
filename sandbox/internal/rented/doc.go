// Package rented runs commands in machines that somebody rents out, such as E2B or Modal.
//
//	Run ─ acquire ─ a machine of the same tenant and configuration, or a new one     pool.go, Renter
//	    │
//	    ├ start ──► relay.py in the machine: it starts the command, carries its streams and the channel,
//	    │           sets rlimits, kills what the command leaves, and sends the files that it left  run.go, link.go
//	    └ release ─ the machine is kept for the next run, or ended
//
// A machine serves one run at a time, and never two tenants. It ends by itself soon after Haft is gone. Machines that
// no process of the same owner knows are ended at the start and on a timer.
//
// Environment, arguments and files of a run go to its relay only: the server that rents the machine out gets them in
// no name, tag or setting.
package rented

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrGone is wrapped by the error of a machine that is not there any more.
var ErrGone = errors.New("the machine has ended")

// A Renter is a server that rents machines out. Its errors are [haft.Error], and hold no text of the server.
type Renter interface {
	// Create makes a machine.
	Create(ctx context.Context, want Want) (Machine, error)
	// Reuse returns a machine that an earlier process has left, if it is sure that nothing runs in it.
	Reuse(ctx context.Context, i Info) (Machine, error)
	// List returns the running machines of Haft, those with this owner and state if they are not "".
	List(ctx context.Context, owner, state string) ([]Info, error)
	// End ends a machine. It is no error if it has ended.
	End(ctx context.Context, id string) error
}

// A Machine is used by one run at a time.
type Machine interface {
	ID() string
	// Start starts a command, as long as ctx lives.
	Start(ctx context.Context, argv []string) (Process, error)
	// Upload writes a file, and makes its directory.
	Upload(ctx context.Context, path string, data io.Reader) error
	// Last lets the machine live for d from now on, and as much longer as it is meant to live without a run. The error
	// wraps [ErrGone] if it has ended, or ends before.
	Last(ctx context.Context, d time.Duration) error
}

// A Process is a command in a machine.
type Process interface {
	// Next returns what it wrote next, and [io.EOF] after that.
	Next() (stdout, stderr []byte, err error)
	// Send writes to its standard input.
	Send(ctx context.Context, data []byte) error
	// Close ends Next. The process may run on.
	Close()
}

// Want says what a machine is for.
type Want struct {
	// State is the digest of tenant and configuration.
	State string
	// Internet says that it has all of the network, and not nothing.
	Internet bool
	// Last is how long the run takes at most.
	Last time.Duration
}

// An Info describes a machine that Haft has made.
type Info struct {
	ID string `json:"id"`
	// Template is what it was made from.
	Template string `json:"template"`
	// Owner names the Haft that made it, and State is the digest of tenant and configuration.
	Owner   string    `json:"owner"`
	State   string    `json:"state"`
	Started time.Time `json:"started_at"`
	Ends    time.Time `json:"ends_at"`
}
