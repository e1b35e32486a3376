package script

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"haft"
	"haft/executor"
	"haft/sandbox/cell"
)

// A call that may call other tools asks for each on its channel, and waits:
//
//	harness                                          host
//	   │ ◄── {"type":"call", "invoke":true, …} ─────── │
//	   │ ── {"type":"invoke", "tool":…, "args":…} ───► │  a call of its own, through
//	   │ ◄── {"type":"return", "value":…} ──────────── │  the whole pipeline
//	   │ ◄── {"type":"return", "error":{…}} ────────── │  or why there is no value
//	   │ ── {"type":"result", …}, end ───────────────► │
//
// The code of the tool can write frames itself. It gains calls that it may make
// anyway, and no others: the host decides on whose behalf.

// maxInvokes bounds the calls that one call may make.
const maxInvokes = 256

// exchange sends frames, passes on reports, makes the calls that the tool asks for, and reads
// the answer.
func (r *run) exchange(ctx context.Context, c *cell.Cell, frames []byte, reuse bool) (*reply, error) {
	limit := r.limits.Result + frameSlack
	if r.req.Changed != nil {
		limit += r.limits.Result
	}
	if _, err := c.Conn.Write(frames); err != nil {
		// The harness is gone, or the tool of an earlier frame; either way there
		// may be an answer to read.
		if m, readErr := answer(c.Conn, limit, reuse); readErr == nil {
			return m, nil
		}
		return nil, io.EOF
	}
	for n := 0; ; {
		m, err := readReply(c.Conn, limit)
		switch {
		case err != nil:
			return nil, err
		case m.Type == typeProgress:
			r.reports.add(report{*m.Progress, m.Total, m.Message, m.Value})
			r.reports.throttle(c)
		case m.Type != typeInvoke || r.req.Others == nil:
			return last(c.Conn, m, reuse)
		default:
			if err := writeFrame(c.Conn, r.invoke(ctx, c, m, n)); err != nil {
				return nil, io.EOF // it does not wait any more
			}
			n++
		}
	}
}

// A returned is what became of a call that the tool made.
type returned struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value,omitempty"`
	Error *refused        `json:"error,omitempty"`
}

// refused says why there is no value.
type refused struct {
	Kind    haft.FailureKind `json:"kind"`
	Message string           `json:"message"`
	Retry   haft.Retry       `json:"retry,omitempty"`
	Status  haft.Status      `json:"status,omitempty"`
	Call    haft.CallID      `json:"call_id,omitempty"`
}

// invoke makes a call that the tool asks for, and returns the frame that says what
// became of it. It ends when the run does.
func (r *run) invoke(ctx context.Context, c *cell.Cell, m *reply, n int) []byte {
	out := returned{Type: typeReturn}
	switch {
	case n >= maxInvokes:
		out.Error = &refused{Kind: haft.FailRate, Message: fmt.Sprintf("one call may make at most %d others",
			maxInvokes), Retry: haft.RetryNever}
	case executor.JSONDepth(m.Args) > maxNesting:
		out.Error = &refused{Kind: haft.FailValidation,
			Message: fmt.Sprintf("the arguments nest more than %d deep", maxNesting), Retry: haft.RetryChanged}
	default:
		inner, cancel := context.WithCancel(ctx)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			select {
			case <-c.Ended():
				cancel() // nobody waits for the value
			case <-inner.Done():
			}
		}()
		res, err := r.req.Others.Call(inner, m.Tool, m.Args)
		cancel()
		<-gone
		out.Value, out.Error = outcome(res, err)
	}
	raw, err := json.Marshal(out)
	if err != nil || len(raw) > maxCall {
		return []byte(
			`{"type":"return","error":{"kind":"limit_result","message":"the value is too large to be handed over","retry":"changed"}}`)
	}
	return raw
}

// outcome returns the value of a call, or why there is none.
func outcome(res *haft.Result, err error) (json.RawMessage, *refused) {
	if err != nil {
		kind := haft.FailInternal
		switch haft.CodeOf(err) {
		case haft.CodeNotFound:
			kind = haft.FailNotFound
		case haft.CodeDenied:
			kind = haft.FailDenied
		case haft.CodeInvalid, haft.CodeConflict:
			kind = haft.FailValidation
		case haft.CodeRateLimited:
			kind = haft.FailRate
		}
		return nil, &refused{Kind: kind, Message: haft.MessageOf(err)}
	}
	switch {
	case res.Status == haft.StatusSuccess:
		if len(res.Value) == 0 {
			return json.RawMessage("null"), nil
		}
		return res.Value, nil
	case res.Error != nil:
		return nil, &refused{Kind: res.Error.Kind, Message: res.Error.Message, Retry: res.Error.Retry,
			Status: res.Status, Call: res.Call}
	case res.Status == haft.StatusPending:
		return nil, &refused{Kind: "pending_approval",
			Message: "a person has to agree to this call before it runs; it has not run", Retry: haft.RetryNever,
			Status: res.Status, Call: res.Call}
	}
	return nil, &refused{Kind: haft.FailUnknown, Message: "the call ended with " + string(res.Status),
		Status: res.Status, Call: res.Call}
}
