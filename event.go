package haft

import (
	"encoding/json"
	"time"
)

// EventType names what happened.
type EventType string

// The types of events.
const (
	EventQueued    EventType = "tool_queued"
	EventExecuting EventType = "tool_executing"
	EventRetry     EventType = "tool_retry"
	EventProgress  EventType = "tool_progress"
	EventOutput    EventType = "tool_output"
	EventCompleted EventType = "tool_completed"
	EventApproval  EventType = "approval_requested"
	EventDecided   EventType = "approval_decided"
)

// EventTypes lists every type.
func EventTypes() []EventType {
	return []EventType{EventQueued, EventExecuting, EventRetry, EventProgress, EventOutput, EventCompleted,
		EventApproval, EventDecided}
}

// An Event is one thing that happened to a call. Events of one call are ordered
// by Seq, which starts at 1 and has no gaps.
type Event struct {
	Seq int64 `json:"seq"`
	// Cursor orders the events of all calls. It rises, with gaps, and is what
	// [Watcher] resumes after.
	Cursor    int64           `json:"cursor"`
	Type      EventType       `json:"type"`
	Time      time.Time       `json:"time"`
	Call      CallID          `json:"call_id"`
	Tool      string          `json:"tool"`
	Principal Principal       `json:"principal"`
	Data      json.RawMessage `json:"data,omitempty"`
}

// NewEvent makes an event of call c. An event without its principal cannot be
// made, so none can reach a stranger.
func NewEvent(c Call, typ EventType, at time.Time, data json.RawMessage) (Event, error) {
	if err := c.Principal.Check(); err != nil {
		return Event{}, err
	}
	return Event{Type: typ, Time: at, Call: c.ID, Tool: c.Tool, Principal: c.Principal, Data: data}, nil
}
