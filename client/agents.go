package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"haft"
)

// Agent implements [haft.Agents].
func (c *Client) Agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error) {
	return c.agent(ctx, query{as: p}, ref)
}

// agent sends a request about an agent whose answer is the agent.
func (c *Client) agent(ctx context.Context, q query, ref string) (*haft.Agent, error) {
	at, err := part("agent", ref)
	if err != nil {
		return nil, err
	}
	q.path = "/v1/agents" + at
	out := &haft.Agent{}
	if err := c.read(ctx, q, out); err != nil {
		return nil, err
	}
	return out, nil
}

// AgentList implements [haft.Agents].
func (c *Client) AgentList(ctx context.Context, p haft.Principal, f haft.AgentFilter) iter.Seq2[haft.Agent, error] {
	v := url.Values{}
	set(v, "tool", f.Tool)
	set(v, "prefix", f.Prefix)
	set(v, "after", f.After)
	setBool(v, "enabled", f.Enabled)
	return list[haft.Agent](ctx, c, query{path: "/v1/agents", values: v, as: p}, f.Limit)
}

// setBool sets a parameter that may be left open.
func setBool(v url.Values, name string, b *bool) {
	if b != nil {
		v.Set(name, strconv.FormatBool(*b))
	}
}

// PutAgent implements [haft.Agents].
func (c *Client) PutAgent(ctx context.Context, p haft.Principal, a haft.Agent) (*haft.Agent, error) {
	if a.Name == "" || a.Name == "." || a.Name == ".." {
		return nil, invalid("an agent needs a name")
	}
	return c.agent(ctx, query{method: http.MethodPut, as: p, body: struct {
		Tools    []string          `json:"tools,omitempty"`
		Env      map[string]string `json:"env,omitempty"`
		Rules    []haft.ToolRule   `json:"tool_rules,omitempty"`
		Disabled bool              `json:"disabled,omitempty"`
		If       string            `json:"if_revision,omitempty"`
	}{a.Tools, a.Env, a.Rules, a.Disabled, a.If}}, a.Name)
}

// RemoveAgent implements [haft.Agents].
func (c *Client) RemoveAgent(ctx context.Context, p haft.Principal, ref, revision string) error {
	at, err := part("agent", ref)
	if err != nil {
		return err
	}
	return c.read(ctx, query{method: http.MethodDelete, path: "/v1/agents" + at, as: p, header: match(revision)}, nil)
}

// Approval implements [haft.Approver].
func (c *Client) Approval(ctx context.Context, p haft.Principal, id haft.ApprovalID) (*haft.Approval, error) {
	at, err := part("request", string(id))
	if err != nil {
		return nil, err
	}
	return fetched[haft.Approval](ctx, c, query{path: "/v1/approvals" + at, as: p})
}

// Approvals implements [haft.Approver].
func (c *Client) Approvals(ctx context.Context, p haft.Principal, f haft.ApprovalFilter) iter.Seq2[haft.Approval,
	error] {
	v := url.Values{}
	set(v, "state", string(f.State))
	set(v, "tool", f.Tool)
	set(v, "user", f.User)
	set(v, "agent", f.Agent)
	if f.State == "" && f.Any {
		v.Set("state", "any")
	}
	if !f.After.IsZero() {
		v.Set("after", f.After.Format(time.RFC3339Nano))
		v.Set("after_id", string(f.AfterID))
	}
	return list[haft.Approval](ctx, c, query{path: "/v1/approvals", values: v, as: p}, f.Limit)
}

// Decide implements [haft.Approver].
func (c *Client) Decide(ctx context.Context, p haft.Principal, id haft.ApprovalID,
	a haft.Answer) (*haft.Approval, error) {
	at, err := part("request", string(id))
	if err != nil {
		return nil, err
	}
	word := "/deny"
	said := struct {
		Reason string          `json:"reason,omitempty"`
		Args   json.RawMessage `json:"args,omitempty"`
	}{Reason: a.Reason}
	if a.Approve {
		word, said.Args = "/approve", a.Args
	}
	return fetched[haft.Approval](ctx, c, query{method: http.MethodPost, path: "/v1/approvals" + at + word, as: p,
		body: said})
}
