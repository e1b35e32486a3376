package haft

import (
	"context"
	"iter"
)

// A Service is everything that a door can do. The engine implements it, and so
// does the client of a remote engine.
type Service interface {
	Caller
	Toolbox
	Approver
	Watcher
}

// A Caller runs calls.
type Caller interface {
	// Call runs c to its end, or until it waits for a person, and returns its
	// result. An error means that there is no result: [CodeNotFound] for an
	// unknown tool, [CodeConflict] for a reused idempotency key.
	Call(ctx context.Context, c Call) (*Result, error)
	// Result returns what became of a call, or [CodeNotFound].
	Result(ctx context.Context, p Principal, id CallID) (*Result, error)
	// Cancel stops a call. Cancelling a finished call changes nothing.
	Cancel(ctx context.Context, p Principal, id CallID) error
}

// A Toolbox knows which tools there are.
type Toolbox interface {
	// Tool returns the tool of that name or id, or [CodeNotFound].
	Tool(ctx context.Context, p Principal, ref string) (*Tool, error)
	// Tools lists the tools that p may see, ordered by name.
	Tools(ctx context.Context, p Principal) iter.Seq2[Tool, error]
	// PutTool adds a tool, or a version to the tool of that name.
	PutTool(ctx context.Context, p Principal, t Tool) (*Tool, error)
	// RemoveTool removes a tool with its versions, or returns [CodeNotFound].
	RemoveTool(ctx context.Context, p Principal, ref string) error
}

// An Approver answers the requests that wait for a person.
type Approver interface {
	// Approvals lists the requests that wait for p.
	Approvals(ctx context.Context, p Principal) iter.Seq2[Approval, error]
	// Decide answers one, or returns [CodeConflict] if it is answered already.
	Decide(ctx context.Context, p Principal, id ApprovalID, approve bool, reason string) (*Approval, error)
}

// A Watcher tells what happens.
type Watcher interface {
	// Watch yields the events that p may see, from the one after that
	// [Event.Cursor] on, until ctx ends. 0 means all that are still kept, and
	// less than 0 only those to come.
	Watch(ctx context.Context, p Principal, after int64) iter.Seq2[Event, error]
}
