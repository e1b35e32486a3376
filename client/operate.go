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
		raw: append([]byte{}, next.Text...), kind: "application/yaml", again: next.If == ""})
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
		return nil, c.cut(ctx, q, err)
	}
	p := haft.PolicyText{Text: text}
	// Its ETag is the time of its writing: see [haft.PolicyText.Revision].
	if at, err := strconv.ParseInt(strings.Trim(res.Header.Get("ETag"), `"`), 36, 64); err == nil {
		p.Updated = time.UnixMicro(at).UTC()
	}
	return &p, nil
}

// auditValues are the parameters of a filter.
func auditValues(f haft.AuditFilter) url.Values {
	v := url.Values{}
	set(v, "kind", f.Kind)
	set(v, "user", f.User)
	set(v, "agent", f.Agent)
	set(v, "tool", f.Tool)
	set(v, "call", string(f.Call))
	for name, t := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !t.IsZero() {
			v.Set(name, t.Format(time.RFC3339Nano))
		}
	}
	if f.Oldest {
		v.Set("sort", "time")
	}
	return v
}

// ExportAudit writes the audit of the organisation, or what of it fits a filter, as
// JSON lines. It is whole if there is no error.
func (c *Client) ExportAudit(ctx context.Context, p haft.Principal, f haft.AuditFilter, w io.Writer) error {
	return c.copy(ctx, query{path: "/v1/audit", as: p, values: auditValues(f)}, w)
}

// Export implements [haft.Eraser].
func (c *Client) Export(ctx context.Context, p haft.Principal, of haft.Subject, w io.Writer) error {
	v := url.Values{}
	set(v, "org", of.Org)
	set(v, "user", of.User)
	return c.copy(ctx, query{path: "/v1/export", as: p, values: v}, w)
}

// Erase implements [haft.Eraser].
func (c *Client) Erase(ctx context.Context, p haft.Principal, of haft.Subject) (*haft.Erasure, error) {
	of.Org = cmp.Or(of.Org, p.Org)
	return fetched[haft.Erasure](ctx, c, query{method: http.MethodPost, path: "/v1/erase", as: p, body: of})
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
	return func(yield func(json.RawMessage, error) bool) {
		v := auditValues(f)
		for left := f.Limit; ; {
			v.Set("limit", strconv.Itoa(most))
			if f.Limit > 0 {
				v.Set("limit", strconv.Itoa(min(left, most)))
			}
			var got page[json.RawMessage]
			if err := c.read(ctx, query{path: "/v1/audit/entries", as: p, values: v}, &got); err != nil {
				yield(nil, err)
				return
			}
			for _, e := range got.Data {
				if left--; !yield(e, nil) || left == 0 {
					return
				}
			}
			// A page may be empty and not be the last; one that leads nowhere is.
			if got.Next == "" || got.Next == v.Get("cursor") {
				return
			}
			v.Set("cursor", got.Next)
		}
	}
}
