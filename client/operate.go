package client

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"

	"haft"
)

var _ haft.Meter = (*Client)(nil)

// CancelAll implements [haft.Operator].
func (c *Client) CancelAll(ctx context.Context, p haft.Principal, of haft.Principal) (int, error) {
	if of.Org != "" {
		self, err := c.Self(ctx)
		if err != nil {
			return 0, err
		}
		if of.Org != self.Principal.Org {
			return 0, &haft.Error{Code: haft.CodeDenied, Message: "the key of this client is of another organisation"}
		}
	}
	var out struct {
		Cancelled int `json:"cancelled"`
	}
	err := c.api.read(ctx, query{method: http.MethodPost, path: "/v1/calls/cancel", as: p, body: struct {
		User  string `json:"user,omitempty"`
		Agent string `json:"agent,omitempty"`
		All   bool   `json:"all,omitempty"`
	}{of.User, of.Agent, of.User == "" && of.Agent == ""}}, &out)
	return out.Cancelled, err
}

// Stop implements [haft.Operator].
func (c *Client) Stop(ctx context.Context, p haft.Principal, reason string, kill bool) error {
	return c.api.read(ctx, query{method: http.MethodPost, path: "/v1/stop", as: p, again: true, body: struct {
		Reason string `json:"reason,omitempty"`
		Kill   bool   `json:"kill,omitempty"`
	}{reason, kill}}, nil)
}

// Resume implements [haft.Operator].
func (c *Client) Resume(ctx context.Context, p haft.Principal) error {
	return c.api.read(ctx, query{method: http.MethodPost, path: "/v1/resume", as: p, again: true}, nil)
}

// Approval implements [haft.Approver].
func (c *Client) Approval(ctx context.Context, p haft.Principal, id haft.ApprovalID) (*haft.Approval, error) {
	return get[haft.Approval](ctx, c.api, query{path: "/v1/approvals", item: &item{"request", string(id), ""}, as: p})
}

// Approvals implements [haft.Approver].
func (c *Client) Approvals(ctx context.Context, p haft.Principal, f haft.ApprovalFilter) iter.Seq2[haft.Approval,
	error] {
	return list[haft.Approval](ctx, c.api, query{path: "/v1/approvals", as: p, values: params(
		"state", cmp.Or(string(f.State), yes(f.Any, "any")), "tool", f.Tool, "user", f.User, "agent", f.Agent,
		"after", instant(f.After), "after_id", yes(!f.After.IsZero(), string(f.AfterID)))}, f.Limit)
}

// Decide implements [haft.Approver].
func (c *Client) Decide(ctx context.Context, p haft.Principal, id haft.ApprovalID,
	a haft.Answer) (*haft.Approval, error) {
	verb := "/deny"
	answer := struct {
		Reason string          `json:"reason,omitempty"`
		Args   json.RawMessage `json:"args,omitempty"`
	}{Reason: a.Reason}
	if a.Approve {
		verb, answer.Args = "/approve", a.Args
	}
	return get[haft.Approval](ctx, c.api, query{method: http.MethodPost, path: "/v1/approvals",
		item: &item{"request", string(id), verb}, as: p, body: answer})
}

// Usage implements [haft.Meter].
func (c *Client) Usage(ctx context.Context, p haft.Principal, q haft.UsageQuery) ([]haft.UsageSum, error) {
	limit := ""
	if q.Limit > 0 {
		limit = strconv.Itoa(q.Limit)
	}
	out, err := get[struct {
		Data []haft.UsageSum `json:"data"`
	}](ctx, c.api, query{path: "/v1/usage", as: p, values: params("tool", q.Tool, "user", q.User, "agent", q.Agent,
		"from", instant(q.From), "until", instant(q.Until), "by", commas(q.By), "limit", limit)})
	if err != nil {
		return nil, err
	}
	return out.Data, nil
}
