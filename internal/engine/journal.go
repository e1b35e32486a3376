package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"haft"
	"haft/internal/event"
	"haft/internal/membership"
	"haft/internal/store"
)

// publish publishes an event of an execution together with part.
func (w *recorder) publish(ctx context.Context, ex *execution, typ haft.EventType, data any, part *store.Batch) error {
	var raw json.RawMessage
	if data != nil {
		var err error
		if raw, err = json.Marshal(data); err != nil {
			return fmt.Errorf("encode the data of an event: %w", err)
		}
		if raw, _ = ex.env.Redactor.JSON(raw); len(raw) > event.MaxData {
			raw = json.RawMessage(`{"omitted":"too large"}`)
		}
	}
	call := ex.named()
	if call.Principal.User != "" { // else it says whose events they are
		call.Principal.Credential = "" // it is nothing that others watch
	}
	ev, err := haft.NewEvent(call, typ, time.Now(), raw)
	if err != nil {
		return err
	}
	if ex.rec.Owner != w.members.Owner() {
		w.journal.Forget(ex.call.ID)
		return membership.GivenUp() // others tell what becomes of it
	}
	if part != nil {
		part.Owner = ex.rec.Owner
	}
	known, err := w.journal.Publish(ctx, w.hub, ev, part)
	if err == nil || known {
		return err
	}
	w.journal.Forget(ex.call.ID)
	if errors.Is(err, store.ErrGivenUp) {
		w.members.Hurry()
	}
	return &haft.Error{Code: haft.CodeUnavailable, Message: "the call cannot be recorded", Err: err}
}

// errOvertaken says that the store has a later state of a call than its execution: somebody
// else has ended it or goes on with it. Nothing of the execution is written or told.
var errOvertaken = errors.New("somebody else has moved the call")

func overtaken() error {
	return &haft.Error{Code: haft.CodeConflict, Message: "the call has ended already, or is with another server",
		Err: errOvertaken}
}

// named returns the call with the name of its tool, whatever it was called by, and
// without its payload.
func (ex *execution) named() haft.Call {
	c := haft.Call{ID: ex.call.ID, Tool: ex.call.Tool, Principal: ex.call.Principal, Trace: ex.call.Trace}
	if ex.tool != nil {
		c.Tool = ex.tool.Tool.Name
	} else {
		c.Tool = ex.env.Redactor.Text(c.Tool) // it can be anything
	}
	if ex.agent == nil && c.Principal.Agent != "" {
		c.Principal.Agent = ex.env.Redactor.Text(c.Principal.Agent) // nor is there an agent of this name
	}
	return c
}

// WatchFor yields the events that fit f, as [event.Hub.Watch] does. Whoever calls
// it answers for who may see them.
func (e *Engine) WatchFor(ctx context.Context, f event.Filter, after int64) iter.Seq2[haft.Event, error] {
	return e.hub.Watch(ctx, f, after)
}

// Cursor returns that of the last event of all: a watch after it gets what happens
// from now on.
func (e *Engine) Cursor(ctx context.Context) (int64, error) { return e.hub.Cursor(ctx) }
