package event

import (
	"context"

	"haft"
)

// A Log keeps events, so that watchers can resume.
//
// The hub calls Append and Last from one goroutine at a time, and After from
// many.
type Log interface {
	// Append keeps events in their order, all or none of them, and returns when
	// they are as safe as the log makes them. Cursors rise from call to call; a
	// log that others append to as well may raise them, in place, and the Seq of a
	// call that others appended to. An event that it does not take for a reason of that
	// event alone gets the Cursor 0, and the others are kept. An error leaves open
	// whether they were kept: the hub asks Last before it appends again.
	Append(ctx context.Context, events []haft.Event) error
	// After returns at most limit events with a Cursor greater than after that
	// fit f, ordered by Cursor. Fewer than limit means that there are no more.
	// If after is not 0 and events behind it that may have fitted f are no
	// longer kept, After returns an error that wraps [ErrLost]. A filter without
	// an organisation asks for all: only the hub does so, to catch up.
	After(ctx context.Context, f Filter, after int64, limit int) ([]haft.Event, error)
	// Last returns the highest Cursor, and for each of the calls that it has
	// events of the highest Seq. A log that is empty may begin where it likes:
	// the first event gets the Cursor after the one returned.
	Last(ctx context.Context, calls []haft.CallID) (cursor int64, seqs map[haft.CallID]int64, err error)
}

// A PartLog is a [Log] that stores events together with the change that they report.
type PartLog interface {
	Log
	// AppendParts is Append. Each event is kept together with its part, which is what was
	// given to [Hub.PublishWith], or nil.
	AppendParts(ctx context.Context, events []haft.Event, parts []any) error
}
