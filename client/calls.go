package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"haft"
)

var _ haft.Service = (*Client)(nil)

// A callBody is a call as it is sent: without its id, which the server gives, and
// without on whose behalf it is, which the key says.
type callBody struct {
	Tool           string            `json:"tool"`
	Digest         string            `json:"digest,omitempty"`
	Args           json.RawMessage   `json:"args,omitempty"`
	Agent          string            `json:"agent,omitempty"`
	Env            map[string]string `json:"env,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
	Turn           string            `json:"turn,omitempty"`
	Sandbox        string            `json:"sandbox,omitempty"`
	Limits         haft.Limits       `json:"limits,omitzero"`
	Deadline       time.Time         `json:"deadline,omitzero"`
	Wait           *bool             `json:"wait,omitempty"`
	User           string            `json:"user,omitempty"`  // of [Client.Explain]
	Roles          []string          `json:"roles,omitempty"` // of [Client.Explain]
}

// body makes what is sent of a call.
func body(c haft.Call) (callBody, error) {
	if c.Parent != "" || c.Chain != "" {
		return callBody{}, invalid("a call that is part of another is made by the server and not asked for")
	}
	if len(c.Args) > 0 && !json.Valid(c.Args) {
		return callBody{}, invalid("the arguments are not JSON")
	}
	return callBody{
		Tool: c.Tool, Digest: c.Digest, Args: c.Args, Env: c.Env, IdempotencyKey: c.IdempotencyKey, Turn: c.Turn,
		Sandbox: c.Sandbox, Limits: c.Limits, Deadline: c.Deadline,
	}, nil
}

// trace is the header that continues a trace.
func trace(parent string) http.Header {
	if parent == "" {
		return nil
	}
	return http.Header{"Traceparent": {parent}}
}

// Call implements [haft.Caller]. The id of c counts for nothing: the server gives
// one. When ctx ends the server cancels the call, and there is no result.
func (c *Client) Call(ctx context.Context, call haft.Call) (*haft.Result, error) {
	b, err := body(call)
	if err != nil {
		return nil, err
	}
	return c.called(ctx, query{method: http.MethodPost, path: "/v1/calls", as: call.Principal, body: b,
		header: trace(call.Trace), again: call.IdempotencyKey != ""})
}

// called reads the result of a call.
func (c *Client) called(ctx context.Context, q query) (*haft.Result, error) {
	q.result = true
	res := &haft.Result{}
	if err := c.read(ctx, q, res); err != nil {
		return nil, err
	}
	return res, nil
}

// Submit implements [haft.Caller].
func (c *Client) Submit(ctx context.Context, call haft.Call) (*haft.Record, error) {
	b, err := body(call)
	if err != nil {
		return nil, err
	}
	b.Wait = new(bool)
	res, err := c.called(ctx, query{method: http.MethodPost, path: "/v1/calls", as: call.Principal, body: b,
		header: trace(call.Trace), again: call.IdempotencyKey != ""})
	if err != nil {
		return nil, err
	}
	rec, err := c.Record(ctx, call.Principal, res.Call)
	if err == nil {
		if !res.Status.Final() {
			// As it was acknowledged, whatever has become of it since.
			rec.Status, rec.Result, rec.ResultDigest, rec.Tries = res.Status, nil, "", 0
			rec.Started, rec.Ended = time.Time{}, time.Time{}
		}
		return rec, nil
	}
	// It is acknowledged, whatever became of the second request: a key may be for
	// making calls and not for looking at them.
	call.ID = res.Call
	rec = &haft.Record{Call: call, Digest: res.Digest, Status: res.Status}
	if res.Status.Final() {
		rec.Result = res
	}
	return rec, nil
}

// Cancel implements [haft.Caller].
func (c *Client) Cancel(ctx context.Context, p haft.Principal, id haft.CallID) error {
	at, err := part("call", string(id))
	if err != nil {
		return err
	}
	// Cancelling a call twice changes nothing.
	return c.read(ctx, query{method: http.MethodPost, path: "/v1/calls" + at + "/cancel", as: p, again: true}, nil)
}

// Batch implements [haft.Planner]. All calls are on behalf of one principal, but
// for their agents.
func (c *Client) Batch(ctx context.Context, calls []haft.Call) ([]*haft.Result, error) {
	if len(calls) == 0 {
		return []*haft.Result{}, nil
	}
	list := make([]callBody, len(calls))
	again := true
	for i, call := range calls {
		b, err := body(call)
		if err != nil {
			return nil, err
		}
		if b.Agent, err = c.as(ctx, call.Principal); err != nil {
			return nil, err
		}
		list[i] = b
		again = again && call.IdempotencyKey != ""
	}
	var out struct {
		Results []*haft.Result `json:"results"`
	}
	q := query{method: http.MethodPost, path: "/v1/calls/batch", body: map[string]any{"calls": list},
		header: trace(calls[0].Trace), again: again}
	if err := c.read(ctx, q, &out); err != nil {
		return nil, err
	}
	if len(out.Results) != len(calls) {
		return nil, &haft.Error{Code: haft.CodeUnavailable,
			Message: "the server gave another number of results than there were calls"}
	}
	return out.Results, nil
}

// Run implements [haft.Planner].
func (c *Client) Run(ctx context.Context, p haft.Principal, plan haft.Plan) (*haft.Chain, error) {
	return fetched[haft.Chain](ctx, c, query{method: http.MethodPost, path: "/v1/chains", as: p, body: plan})
}

// Chain implements [haft.Planner].
func (c *Client) Chain(ctx context.Context, p haft.Principal, id haft.ChainID) (*haft.Chain, error) {
	at, err := part("chain", string(id))
	if err != nil {
		return nil, err
	}
	return fetched[haft.Chain](ctx, c, query{path: "/v1/chains" + at, as: p})
}

// Record implements [haft.CallHistory].
func (c *Client) Record(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Record, error) {
	return c.record(ctx, p, id, 0)
}

// record looks at a call, and waits so long for its end.
func (c *Client) record(ctx context.Context, p haft.Principal, id haft.CallID,
	wait time.Duration) (*haft.Record, error) {
	at, err := part("call", string(id))
	if err != nil {
		return nil, err
	}
	q := query{path: "/v1/calls" + at, as: p}
	if wait > 0 {
		q.values = url.Values{"wait": {strconv.FormatFloat(wait.Seconds(), 'f', 3, 64)}}
	}
	out := &haft.Record{}
	if err := c.read(ctx, q, out); err != nil {
		return nil, err
	}
	return out, nil
}

// oneWait is how long one request waits for the end of a call: less than what
// proxies cut connections after.
const oneWait = 50 * time.Second

// Wait returns the result of a call when it has ended or waits for a person.
func (c *Client) Wait(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error) {
	for {
		r, err := c.record(ctx, p, id, oneWait)
		if err != nil {
			return nil, err
		}
		if !r.Status.Final() && r.Status != haft.StatusPending {
			continue
		}
		if r.Result == nil {
			return nil, &haft.Error{Code: haft.CodeUnavailable,
				Message: "the server has no result of the call any more"}
		}
		return r.Result, nil
	}
}

// Records implements [haft.CallHistory].
func (c *Client) Records(ctx context.Context, p haft.Principal, f haft.CallFilter) iter.Seq2[haft.Record, error] {
	v := url.Values{}
	set(v, "user", f.User)
	set(v, "agent", f.Agent)
	set(v, "tool", f.Tool)
	set(v, "turn", f.Turn)
	set(v, "parent", string(f.Parent))
	set(v, "chain", string(f.Chain))
	if f.Oldest {
		v.Set("sort", "created")
	}
	set(v, "before", string(f.Before))
	setTime(v, "since", f.Since)
	setTime(v, "until", f.Until)
	statuses := make([]string, len(f.Status))
	for i, s := range f.Status {
		statuses[i] = string(s)
	}
	set(v, "status", strings.Join(statuses, ","))
	limit := f.Limit
	if limit <= 0 {
		limit = 50
	}
	return list[haft.Record](ctx, c, query{path: "/v1/calls", values: v, as: p}, limit)
}

// set adds a value that is not empty.
func set(v url.Values, name, text string) {
	if text != "" {
		v.Set(name, text)
	}
}

// setTime adds a time that is one.
func setTime(v url.Values, name string, t time.Time) {
	if !t.IsZero() {
		v.Set(name, t.UTC().Format(time.RFC3339Nano))
	}
}

// Replay implements [haft.CallHistory].
func (c *Client) Replay(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error) {
	at, err := part("call", string(id))
	if err != nil {
		return nil, err
	}
	return c.called(ctx, query{method: http.MethodPost, path: "/v1/calls" + at + "/replay", as: p})
}

// Explain says what the rules would decide about a call, and why: JSON as the
// server writes it. An administrator may ask on behalf of others, with their user
// and roles in the call's principal.
func (c *Client) Explain(ctx context.Context, call haft.Call) (json.RawMessage, error) {
	b, err := body(call)
	if err != nil {
		return nil, err
	}
	p := call.Principal
	self, err := c.Self(ctx)
	if err != nil {
		return nil, err
	}
	if p.Org != "" && p.Org != self.Principal.Org {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "the key of this client is of another organisation"}
	}
	if p.Agent != self.Principal.Agent {
		b.Agent = p.Agent
	}
	if p.User != "" && p.User != self.Principal.User || p.Roles != nil && !same(p.Roles, self.Principal.Roles) {
		b.User, b.Roles = p.User, append([]string{}, p.Roles...)
	}
	var out json.RawMessage
	q := query{method: http.MethodPost, path: "/v1/policies/explain", body: b, again: true}
	if err := c.read(ctx, q, &out); err != nil {
		return nil, err
	}
	return out, nil
}
