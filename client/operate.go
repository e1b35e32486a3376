package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"haft"
)

var (
	_ haft.Meter    = (*Client)(nil)
	_ haft.Retainer = (*Client)(nil)
)

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
	err := c.read(ctx, query{method: http.MethodPost, path: "/v1/calls/cancel", as: p, body: struct {
		User  string `json:"user,omitempty"`
		Agent string `json:"agent,omitempty"`
		All   bool   `json:"all,omitempty"`
	}{of.User, of.Agent, of.User == "" && of.Agent == ""}}, &out)
	return out.Cancelled, err
}

// Stop implements [haft.Operator].
func (c *Client) Stop(ctx context.Context, p haft.Principal, reason string, kill bool) error {
	return c.read(ctx, query{method: http.MethodPost, path: "/v1/stop", as: p, again: true, body: struct {
		Reason string `json:"reason,omitempty"`
		Kill   bool   `json:"kill,omitempty"`
	}{reason, kill}}, nil)
}

// Resume implements [haft.Operator].
func (c *Client) Resume(ctx context.Context, p haft.Principal) error {
	return c.read(ctx, query{method: http.MethodPost, path: "/v1/resume", as: p, again: true}, nil)
}

// policyPath is where a policy is: that of the organisation or of the server.
func policyPath(server bool) string {
	if server {
		return "/v1/policies/server"
	}
	return "/v1/policies/organisation"
}

// Policy returns the document of the organisation or of the server, or
// [haft.CodeNotFound] if none was written.
func (c *Client) Policy(ctx context.Context, p haft.Principal, server bool) (*haft.PolicyText, error) {
	return c.policy(ctx, query{path: policyPath(server), as: p})
}

// PutPolicy replaces the document of the organisation or of the server, if that is
// what next.If says, and else returns [haft.CodeConflict]. One that is wrong changes
// nothing.
func (c *Client) PutPolicy(ctx context.Context, p haft.Principal, server bool,
	next haft.PolicyText) (*haft.PolicyText, error) {
	kept, err := c.policy(ctx, query{method: http.MethodPut, path: policyPath(server), as: p, header: match(next.If),
		yaml: append([]byte{}, next.Text...), again: next.If == ""})
	if err != nil {
		return nil, err
	}
	kept.Text = next.Text
	return kept, nil
}

// policy sends a request whose answer is a policy, or says when one was written.
func (c *Client) policy(ctx context.Context, q query) (*haft.PolicyText, error) {
	res, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, c.cfg.MaxAnswer))
	if err != nil {
		return nil, c.noAnswer(ctx, q, err)
	}
	p := haft.PolicyText{Text: text}
	// Its ETag is the time of its writing: see [haft.PolicyText.Revision].
	if at, err := strconv.ParseInt(strings.Trim(res.Header.Get("ETag"), `"`), 36, 64); err == nil {
		p.Updated = time.UnixMicro(at).UTC()
	}
	return &p, nil
}

// auditParams are the parameters of a filter.
func auditParams(f haft.AuditFilter) url.Values {
	return params("kind", f.Kind, "user", f.User, "agent", f.Agent, "tool", f.Tool, "call", string(f.Call),
		"since", instant(f.Since), "until", instant(f.Until), "sort", yes(f.Oldest, "time"))
}

// ExportAudit writes the audit of the organisation, or what of it fits a filter, as
// JSON lines. It is whole if there is no error.
func (c *Client) ExportAudit(ctx context.Context, p haft.Principal, f haft.AuditFilter, w io.Writer) error {
	return c.copy(ctx, query{path: "/v1/audit", as: p, values: auditParams(f)}, w)
}

// Export implements [haft.Eraser].
func (c *Client) Export(ctx context.Context, p haft.Principal, of haft.Subject, w io.Writer) error {
	return c.copy(ctx, query{path: "/v1/export", as: p, values: params("org", of.Org, "user", of.User)}, w)
}

// Erase implements [haft.Eraser].
func (c *Client) Erase(ctx context.Context, p haft.Principal, of haft.Subject) (*haft.Erasure, error) {
	of.Org = cmp.Or(of.Org, p.Org)
	return get[haft.Erasure](ctx, c, query{method: http.MethodPost, path: "/v1/erase", as: p, body: of})
}

// copy writes the whole of an answer.
func (c *Client) copy(ctx context.Context, q query, w io.Writer) error {
	res, err := c.send(ctx, q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("export: %w", context.Cause(ctx))
		}
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the export is not whole", Err: err}
	}
	return nil
}

// AuditKeys returns the public keys with which exports are verified, as PEM.
func (c *Client) AuditKeys(ctx context.Context, p haft.Principal) ([]byte, error) {
	var text []byte
	err := c.read(ctx, query{path: "/v1/audit/keys", as: p}, &text)
	return text, err
}

// AuditEntries yields the entries of the audit that fit f, each JSON as the server
// writes it.
func (c *Client) AuditEntries(ctx context.Context, p haft.Principal, f haft.AuditFilter) iter.Seq2[json.RawMessage,
	error] {
	return list[json.RawMessage](ctx, c, query{path: "/v1/audit/entries", as: p, values: auditParams(f)}, f.Limit)
}

// Approval implements [haft.Approver].
func (c *Client) Approval(ctx context.Context, p haft.Principal, id haft.ApprovalID) (*haft.Approval, error) {
	return get[haft.Approval](ctx, c, query{path: "/v1/approvals", item: &item{"request", string(id), ""}, as: p})
}

// Approvals implements [haft.Approver].
func (c *Client) Approvals(ctx context.Context, p haft.Principal, f haft.ApprovalFilter) iter.Seq2[haft.Approval,
	error] {
	return list[haft.Approval](ctx, c, query{path: "/v1/approvals", as: p, values: params(
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
	return get[haft.Approval](ctx, c, query{method: http.MethodPost, path: "/v1/approvals",
		item: &item{"request", string(id), verb}, as: p, body: answer})
}

// Retention implements [haft.Retainer].
func (c *Client) Retention(ctx context.Context, p haft.Principal, org string) (*haft.Kept, error) {
	return get[haft.Kept](ctx, c, query{path: "/v1/retention", values: params("org", org), as: p})
}

// SetRetention implements [haft.Retainer].
func (c *Client) SetRetention(ctx context.Context, p haft.Principal, org string, r haft.Retention) (*haft.Kept, error) {
	return get[haft.Kept](ctx, c, query{method: http.MethodPut, path: "/v1/retention", values: params("org", org),
		as: p, body: r})
}

// Usage implements [haft.Meter].
func (c *Client) Usage(ctx context.Context, p haft.Principal, q haft.UsageQuery) ([]haft.UsageSum, error) {
	limit := ""
	if q.Limit > 0 {
		limit = strconv.Itoa(q.Limit)
	}
	out, err := get[struct {
		Data []haft.UsageSum `json:"data"`
	}](ctx, c, query{path: "/v1/usage", as: p, values: params("tool", q.Tool, "user", q.User, "agent", q.Agent,
		"from", instant(q.From), "until", instant(q.Until), "by", commas(q.By), "limit", limit)})
	if err != nil {
		return nil, err
	}
	return out.Data, nil
}
