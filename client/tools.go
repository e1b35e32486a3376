package client

import (
	"context"
	"iter"
	"net/http"

	"haft"
)

var (
	_ haft.MCPServers = (*Client)(nil)
	_ haft.Sandboxes  = (*Client)(nil)
)

// defaultSearch is how many tools a search gives that does not say.
const defaultSearch = 100

// Tool implements [haft.ToolReader].
func (c *Client) Tool(ctx context.Context, p haft.Principal, ref string) (*haft.Tool, error) {
	return get[haft.Tool](ctx, c, query{path: "/v1/tools", item: &item{"tool", ref, ""}, as: p})
}

// Tools implements [haft.ToolReader].
func (c *Client) Tools(ctx context.Context, p haft.Principal, f haft.ToolFilter) iter.Seq2[haft.Tool, error] {
	limit := f.Limit
	if f.Search != "" && limit <= 0 {
		limit = defaultSearch
	}
	return list[haft.Tool](ctx, c, query{path: "/v1/tools", as: p, values: params(
		"category", f.Category, "tag", f.Tag, "kind", string(f.Kind), "search", f.Search, "after", f.After,
		"disabled", yes(f.Disabled, "true"), "enabled", either(f.Enabled), "sort", yes(f.Recent, "-updated"),
		"after_time", instant(f.AfterTime))}, limit)
}

// Versions implements [haft.ToolReader].
func (c *Client) Versions(ctx context.Context, p haft.Principal, ref string) iter.Seq2[haft.Version, error] {
	return list[haft.Version](ctx, c, query{path: "/v1/tools", item: &item{"tool", ref, "/versions"}, as: p}, 0)
}

// PutTool implements [haft.Toolbox].
func (c *Client) PutTool(ctx context.Context, p haft.Principal, d haft.Draft) (*haft.Change, error) {
	out, err := get[struct {
		haft.Tool
		Created  bool     `json:"created"`
		Same     bool     `json:"unchanged"`
		Waiting  int      `json:"waiting"`
		Schema   []string `json:"schema_changes"`
		Warnings []string `json:"warnings"`
	}](ctx, c, query{method: http.MethodPost, path: "/v1/tools", as: p, body: d})
	if err != nil {
		return nil, err
	}
	return &haft.Change{Tool: out.Tool, Created: out.Created, Same: out.Same, Waiting: out.Waiting, Schema: out.Schema,
		Warnings: out.Warnings}, nil
}

// SetTool implements [haft.Toolbox].
func (c *Client) SetTool(ctx context.Context, p haft.Principal, ref string, s haft.ToolState) (*haft.Tool, error) {
	return get[haft.Tool](ctx, c, query{method: http.MethodPatch, path: "/v1/tools", item: &item{"tool", ref, ""},
		as: p, body: s})
}

// RemoveTool implements [haft.Toolbox].
func (c *Client) RemoveTool(ctx context.Context, p haft.Principal, ref, revision string) error {
	return c.remove(ctx, p, "/v1/tools", "tool", ref, revision)
}

// remove removes an object, if it has a revision; "" means any.
func (c *Client) remove(ctx context.Context, p haft.Principal, path, kind, ref, revision string) error {
	return c.read(ctx, query{method: http.MethodDelete, path: path, item: &item{kind, ref, ""}, as: p,
		header: match(revision)}, nil)
}

// Agent implements [haft.Agents].
func (c *Client) Agent(ctx context.Context, p haft.Principal, ref string) (*haft.Agent, error) {
	return get[haft.Agent](ctx, c, query{path: "/v1/agents", item: &item{"agent", ref, ""}, as: p})
}

// AgentList implements [haft.Agents].
func (c *Client) AgentList(ctx context.Context, p haft.Principal, f haft.AgentFilter) iter.Seq2[haft.Agent, error] {
	return list[haft.Agent](ctx, c, query{path: "/v1/agents", as: p, values: params("tool", f.Tool, "prefix", f.Prefix,
		"after", f.After, "enabled", either(f.Enabled))}, f.Limit)
}

// PutAgent implements [haft.Agents].
func (c *Client) PutAgent(ctx context.Context, p haft.Principal, a haft.Agent) (*haft.Agent, error) {
	if a.Name == "" || a.Name == "." || a.Name == ".." {
		return nil, invalid("an agent needs a name")
	}
	return get[haft.Agent](ctx, c, query{method: http.MethodPut, path: "/v1/agents", item: &item{"agent", a.Name, ""},
		as: p, body: struct {
			Tools    []string          `json:"tools,omitempty"`
			Env      map[string]string `json:"env,omitempty"`
			Rules    []haft.ToolRule   `json:"tool_rules,omitempty"`
			Disabled bool              `json:"disabled,omitempty"`
			If       string            `json:"if_revision,omitempty"`
		}{a.Tools, a.Env, a.Rules, a.Disabled, a.If}})
}

// RemoveAgent implements [haft.Agents].
func (c *Client) RemoveAgent(ctx context.Context, p haft.Principal, ref, revision string) error {
	return c.remove(ctx, p, "/v1/agents", "agent", ref, revision)
}

// mcp is a request about an MCP server.
func mcp(p haft.Principal, method, ref, rest string) query {
	return query{method: method, path: "/v1/mcp_servers", item: &item{"server", ref, rest}, as: p}
}

// MCPServer implements [haft.MCPServers].
func (c *Client) MCPServer(ctx context.Context, p haft.Principal, ref string) (*haft.MCPServer, error) {
	return get[haft.MCPServer](ctx, c, mcp(p, http.MethodGet, ref, ""))
}

// MCPServerList implements [haft.MCPServers].
func (c *Client) MCPServerList(ctx context.Context, p haft.Principal) iter.Seq2[haft.MCPServer, error] {
	return list[haft.MCPServer](ctx, c, query{path: "/v1/mcp_servers", as: p}, 0)
}

// PutMCPServer implements [haft.MCPServers].
func (c *Client) PutMCPServer(ctx context.Context, p haft.Principal, s haft.MCPServer) (*haft.MCPChange, error) {
	q := mcp(p, http.MethodPut, s.Name, "")
	q.header, q.body = match(s.If), struct {
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
	return get[haft.MCPChange](ctx, c, q)
}

// RefreshMCPServer implements [haft.MCPServers].
func (c *Client) RefreshMCPServer(ctx context.Context, p haft.Principal, ref string,
	accept bool) (*haft.MCPChange, error) {
	q := mcp(p, http.MethodPost, ref, "/refresh")
	q.body = struct {
		Accept bool `json:"accept,omitempty"`
	}{accept}
	return get[haft.MCPChange](ctx, c, q)
}

// RemoveMCPServer implements [haft.MCPServers].
func (c *Client) RemoveMCPServer(ctx context.Context, p haft.Principal, ref, revision string) error {
	return c.remove(ctx, p, "/v1/mcp_servers", "server", ref, revision)
}

// LoginMCPServer implements [haft.MCPLogin].
func (c *Client) LoginMCPServer(ctx context.Context, p haft.Principal, ref, redirect string) (string, error) {
	q := mcp(p, http.MethodPost, ref, "/login")
	q.body = map[string]string{"redirect_uri": redirect}
	var out struct {
		Link string `json:"link"`
	}
	err := c.read(ctx, q, &out)
	return out.Link, err
}

// FinishMCPLogin implements [haft.MCPLogin].
func (c *Client) FinishMCPLogin(ctx context.Context, p haft.Principal, a haft.MCPAnswer) error {
	q := mcp(p, http.MethodPost, "login", "/login/finish") // the state says which server it is for
	q.body = a
	return c.read(ctx, q, nil)
}

// SandboxConfig implements [haft.Sandboxes].
func (c *Client) SandboxConfig(ctx context.Context, p haft.Principal, ref string) (*haft.SandboxConfig, error) {
	return get[haft.SandboxConfig](ctx, c, query{path: "/v1/sandbox_configs",
		item: &item{"sandbox configuration", ref, ""}, as: p})
}

// SandboxConfigs implements [haft.Sandboxes].
func (c *Client) SandboxConfigs(ctx context.Context, p haft.Principal) iter.Seq2[haft.SandboxConfig, error] {
	return list[haft.SandboxConfig](ctx, c, query{path: "/v1/sandbox_configs", as: p}, 0)
}

// PutSandboxConfig implements [haft.Sandboxes].
func (c *Client) PutSandboxConfig(ctx context.Context, p haft.Principal,
	s haft.SandboxConfig) (*haft.SandboxConfig, error) {
	if err := s.Type.Check(); err != nil {
		return nil, err
	}
	return get[haft.SandboxConfig](ctx, c, query{method: http.MethodPut,
		path: "/v1/sandbox_configs/" + string(s.Type), as: p, header: match(s.If), body: struct {
			Description string            `json:"description,omitempty"`
			Limits      haft.Limits       `json:"limits,omitzero"`
			Network     []string          `json:"network,omitempty"`
			Needs       haft.Requirements `json:"requirements,omitzero"`
		}{s.Description, s.Limits, s.Network, s.Needs}})
}

// RemoveSandboxConfig implements [haft.Sandboxes].
func (c *Client) RemoveSandboxConfig(ctx context.Context, p haft.Principal, ref, revision string) error {
	return c.remove(ctx, p, "/v1/sandbox_configs", "sandbox configuration", ref, revision)
}
