package client

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"time"

	"haft"
)

var _ haft.Service = (*Client)(nil)

// A callBody is a call as it is sent: without its id, which the server gives, and
// without on whose behalf it is, which the key says.
type callBody struct {
	Tool           string              `json:"tool"`
	Digest         string              `json:"digest,omitempty"`
	Args           json.RawMessage     `json:"args,omitempty"`
	Agent          string              `json:"agent,omitempty"`
	Env            map[string]string   `json:"env,omitempty"`
	Files          []haft.CallFile     `json:"files,omitempty"`
	Workspace      *haft.CallWorkspace `json:"workspace,omitempty"`
	IdempotencyKey string              `json:"idempotency_key,omitempty"`
	Turn           string              `json:"turn,omitempty"`
	Sandbox        string              `json:"sandbox,omitempty"`
	Template       string              `json:"template,omitempty"`
	Limits         haft.Limits         `json:"limits,omitzero"`
	Deadline       time.Time           `json:"deadline,omitzero"`
	Wait           *bool               `json:"wait,omitempty"`
	User           string              `json:"user,omitempty"`  // of [Policies.Explain]
	Roles          []string            `json:"roles,omitempty"` // of [Policies.Explain]
}

// body converts a call to the body of a request.
func body(c haft.Call) (callBody, error) {
	if c.Parent != "" || c.Chain != "" {
		return callBody{}, invalid("a call that is part of another is made by the server and not asked for")
	}
	if len(c.Args) > 0 && !json.Valid(c.Args) {
		return callBody{}, invalid("the arguments are not JSON")
	}
	return callBody{
		Tool: c.Tool, Digest: c.Digest, Args: c.Args, Env: c.Env, Files: c.Files, Workspace: c.Workspace,
		IdempotencyKey: c.IdempotencyKey, Turn: c.Turn,
		Sandbox: c.Sandbox, Template: c.Template, Limits: c.Limits, Deadline: c.Deadline,
	}, nil
}

// post is the request that makes a call.
func post(call haft.Call, body callBody) query {
	q := query{method: http.MethodPost, path: "/v1/calls", as: call.Principal, body: body,
		again: call.IdempotencyKey != "", result: true}
	if call.Trace != "" {
		q.header = http.Header{"Traceparent": {call.Trace}}
	}
	return q
}

// Call implements [haft.Caller]. The id of c counts for nothing: the server gives
// one. When ctx ends the server cancels the call, and there is no result.
func (c *Client) Call(ctx context.Context, call haft.Call) (*haft.Result, error) {
	b, err := body(call)
	if err != nil {
		return nil, err
	}
	return get[haft.Result](ctx, c.api, post(call, b))
}

// Submit implements [haft.Caller].
func (c *Client) Submit(ctx context.Context, call haft.Call) (*haft.Record, error) {
	b, err := body(call)
	if err != nil {
		return nil, err
	}
	b.Wait = new(bool)
	res, err := get[haft.Result](ctx, c.api, post(call, b))
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
	// Cancelling a call twice changes nothing.
	return c.api.read(ctx, query{method: http.MethodPost, path: "/v1/calls", item: &item{"call", string(id), "/cancel"},
		as: p, again: true}, nil)
}

// Batch implements [haft.Planner]. All calls are on behalf of one principal, but
// for their agents.
func (c *Client) Batch(ctx context.Context, calls []haft.Call) ([]*haft.Result, error) {
	if len(calls) == 0 {
		return []*haft.Result{}, nil
	}
	list := make([]callBody, len(calls))
	q := post(calls[0], callBody{})
	q.path, q.as, q.result = "/v1/calls/batch", haft.Principal{}, false
	for i, call := range calls {
		b, err := body(call)
		if err != nil {
			return nil, err
		}
		if b.Agent, err = c.api.as(ctx, call.Principal); err != nil {
			return nil, err
		}
		list[i] = b
		q.again = q.again && call.IdempotencyKey != ""
	}
	q.body = map[string]any{"calls": list}
	out, err := get[struct {
		Results []*haft.Result `json:"results"`
	}](ctx, c.api, q)
	if err != nil {
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
	return get[haft.Chain](ctx, c.api, query{method: http.MethodPost, path: "/v1/chains", as: p, body: plan})
}

// Chain implements [haft.Planner].
func (c *Client) Chain(ctx context.Context, p haft.Principal, id haft.ChainID) (*haft.Chain, error) {
	return get[haft.Chain](ctx, c.api, query{path: "/v1/chains", item: &item{"chain", string(id), ""}, as: p})
}

// record is the request for a call.
func record(p haft.Principal, id haft.CallID) query {
	return query{path: "/v1/calls", item: &item{"call", string(id), ""}, as: p}
}

// Record implements [haft.CallHistory].
func (c *Client) Record(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Record, error) {
	return get[haft.Record](ctx, c.api, record(p, id))
}

// oneWait is how long one request waits for the end of a call: less than what
// proxies cut connections after.
const oneWait = 50 * time.Second

// Wait returns the result of a call when it has ended or waits for a person.
func (c *Client) Wait(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error) {
	q := record(p, id)
	q.values = params("wait", strconv.FormatFloat(oneWait.Seconds(), 'f', 3, 64))
	for {
		r, err := get[haft.Record](ctx, c.api, q)
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
	return list[haft.Record](ctx, c.api, query{path: "/v1/calls", as: p, values: params("user", f.User,
		"agent", f.Agent, "tool", f.Tool, "turn", f.Turn, "parent", string(f.Parent), "chain", string(f.Chain),
		"sort", yes(f.Oldest, "created"), "before", string(f.Before), "since", instant(f.Since),
		"until", instant(f.Until), "status", commas(f.Status))}, cmp.Or(max(f.Limit, 0), 50))
}

// Replay implements [haft.CallHistory].
func (c *Client) Replay(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error) {
	return get[haft.Result](ctx, c.api, query{method: http.MethodPost, path: "/v1/calls",
		item: &item{"call", string(id), "/replay"}, as: p, result: true})
}
