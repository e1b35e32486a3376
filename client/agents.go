package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"

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
func (c *Client) AgentList(ctx context.Context, p haft.Principal) iter.Seq2[haft.Agent, error] {
	return list[haft.Agent](ctx, c, query{path: "/v1/agents", as: p}, 0)
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
	}{a.Tools, a.Env, a.Rules, a.Disabled}}, a.Name)
}

// RemoveAgent implements [haft.Agents].
func (c *Client) RemoveAgent(ctx context.Context, p haft.Principal, ref string) error {
	at, err := part("agent", ref)
	if err != nil {
		return err
	}
	return c.read(ctx, query{method: http.MethodDelete, path: "/v1/agents" + at, as: p}, nil)
}

// Approvals implements [haft.Approver].
func (c *Client) Approvals(ctx context.Context, p haft.Principal) iter.Seq2[haft.Approval, error] {
	return list[haft.Approval](ctx, c, query{path: "/v1/approvals", as: p}, 0)
}

// Decide implements [haft.Approver].
func (c *Client) Decide(ctx context.Context, p haft.Principal, id haft.ApprovalID, a haft.Answer) (*haft.Approval, error) {
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
	out := &haft.Approval{}
	if err := c.read(ctx, query{method: http.MethodPost, path: "/v1/approvals" + at + word, as: p, body: said}, out); err != nil {
		return nil, err
	}
	return out, nil
}
