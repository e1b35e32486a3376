package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"haft"
)

// Policies manages the policies of the organisation and of the server.
type Policies struct{ api *transport }

// policyPath is where a policy is: that of the organisation or of the server.
func policyPath(server bool) string {
	if server {
		return "/v1/policies/server"
	}
	return "/v1/policies/organisation"
}

// Get returns the document of the organisation or of the server, or
// [haft.CodeNotFound] if none was written.
func (m *Policies) Get(ctx context.Context, p haft.Principal, server bool) (*haft.PolicyText, error) {
	return m.send(ctx, query{path: policyPath(server), as: p})
}

// Put replaces the document of the organisation or of the server if its revision is next.If,
// and otherwise returns [haft.CodeConflict]. An invalid document changes nothing.
func (m *Policies) Put(ctx context.Context, p haft.Principal, server bool,
	next haft.PolicyText) (*haft.PolicyText, error) {
	kept, err := m.send(ctx, query{method: http.MethodPut, path: policyPath(server), as: p, header: match(next.If),
		yaml: append([]byte{}, next.Text...), again: next.If == ""})
	if err != nil {
		return nil, err
	}
	kept.Text = next.Text
	return kept, nil
}

// send sends a request whose answer is a policy, or says when one was written.
func (m *Policies) send(ctx context.Context, q query) (*haft.PolicyText, error) {
	res, err := m.api.send(ctx, q)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, m.api.cfg.MaxAnswer))
	if err != nil {
		return nil, m.api.noAnswer(ctx, q, err)
	}
	p := haft.PolicyText{Text: text}
	// Its ETag is the time of its writing: see [haft.PolicyText.Revision].
	if at, err := strconv.ParseInt(strings.Trim(res.Header.Get("ETag"), `"`), 36, 64); err == nil {
		p.Updated = time.UnixMicro(at).UTC()
	}
	return &p, nil
}

// Explain says what the rules would decide about a call, and why: JSON as the
// server writes it. An administrator may ask on behalf of others, with their user
// and roles in the call's principal.
func (m *Policies) Explain(ctx context.Context, call haft.Call) (json.RawMessage, error) {
	b, err := body(call)
	if err != nil {
		return nil, err
	}
	p := call.Principal
	self, err := m.api.whoami(ctx)
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
	if err := m.api.read(ctx, q, &out); err != nil {
		return nil, err
	}
	return out, nil
}
