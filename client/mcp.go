package client

import (
	"context"
	"iter"
	"net/http"

	"haft"
)

var _ haft.MCPServers = (*Client)(nil)

// mcp sends a request about an MCP server.
func (c *Client) mcp(ctx context.Context, q query, ref, more string, out any) error {
	at, err := part("server", ref)
	if err != nil {
		return err
	}
	q.path = "/v1/mcp_servers" + at + more
	return c.read(ctx, q, out)
}

// MCPServer implements [haft.MCPServers].
func (c *Client) MCPServer(ctx context.Context, p haft.Principal, ref string) (*haft.MCPServer, error) {
	out := &haft.MCPServer{}
	if err := c.mcp(ctx, query{as: p}, ref, "", out); err != nil {
		return nil, err
	}
	return out, nil
}

// MCPServerList implements [haft.MCPServers].
func (c *Client) MCPServerList(ctx context.Context, p haft.Principal) iter.Seq2[haft.MCPServer, error] {
	return list[haft.MCPServer](ctx, c, query{path: "/v1/mcp_servers", as: p}, 0)
}

// PutMCPServer implements [haft.MCPServers].
func (c *Client) PutMCPServer(ctx context.Context, p haft.Principal, s haft.MCPServer) (*haft.MCPChange, error) {
	body := struct {
		Transport    haft.MCPTransport `json:"transport,omitempty"`
		Command      []string          `json:"command,omitempty"`
		URL          string            `json:"url,omitempty"`
		Headers      map[string]string `json:"headers,omitempty"`
		Env          map[string]string `json:"env,omitempty"`
		OAuth        *haft.MCPOAuth    `json:"oauth,omitempty"`
		Network      []string          `json:"network,omitempty"`
		Mounts       []haft.MCPMount   `json:"mounts,omitempty"`
		Requirements haft.Requirements `json:"requirements,omitzero"`
		Limits       haft.Limits       `json:"limits,omitzero"`
		Connect      haft.Millis       `json:"connect_ms,omitempty"`
		List         haft.Millis       `json:"list_ms,omitempty"`
		Disabled     bool              `json:"disabled,omitempty"`
	}{s.Transport, s.Command, s.URL, s.Headers, s.Env, s.OAuth, s.Network, s.Mounts, s.Requirements, s.Limits,
		s.Connect, s.List, s.Disabled}
	out := &haft.MCPChange{}
	if err := c.mcp(ctx, query{method: http.MethodPut, as: p, body: body, header: match(s.If)}, s.Name, "",
		out); err != nil {
		return nil, err
	}
	return out, nil
}

// RefreshMCPServer implements [haft.MCPServers].
func (c *Client) RefreshMCPServer(ctx context.Context, p haft.Principal, ref string,
	accept bool) (*haft.MCPChange, error) {
	out := &haft.MCPChange{}
	body := struct {
		Accept bool `json:"accept,omitempty"`
	}{accept}
	if err := c.mcp(ctx, query{method: http.MethodPost, as: p, body: body}, ref, "/refresh", out); err != nil {
		return nil, err
	}
	return out, nil
}

// RemoveMCPServer implements [haft.MCPServers].
func (c *Client) RemoveMCPServer(ctx context.Context, p haft.Principal, ref, revision string) error {
	return c.mcp(ctx, query{method: http.MethodDelete, as: p, header: match(revision)}, ref, "", nil)
}

// LoginMCPServer implements [haft.MCPLogin].
func (c *Client) LoginMCPServer(ctx context.Context, p haft.Principal, ref, redirect string) (string, error) {
	var out struct {
		Link string `json:"link"`
	}
	body := struct {
		Redirect string `json:"redirect_uri"`
	}{redirect}
	err := c.mcp(ctx, query{method: http.MethodPost, as: p, body: body}, ref, "/login", &out)
	return out.Link, err
}

// FinishMCPLogin implements [haft.MCPLogin].
func (c *Client) FinishMCPLogin(ctx context.Context, p haft.Principal, a haft.MCPAnswer) error {
	// Which server it is for, the state says.
	return c.mcp(ctx, query{method: http.MethodPost, as: p, body: a}, "login", "/login/finish", nil)
}
