package client

import (
	"context"
	"iter"
	"net/http"

	"haft"
)

// MCPServers manages MCP servers. It implements [haft.MCPServers].
type MCPServers struct{ api *transport }

var _ haft.MCPServers = (*MCPServers)(nil)

// mcp is a request about an MCP server.
func mcp(p haft.Principal, method, ref, rest string) query {
	return query{method: method, path: "/v1/mcp_servers", item: &item{"server", ref, rest}, as: p}
}

// MCPServer implements [haft.MCPServers].
func (m *MCPServers) MCPServer(ctx context.Context, p haft.Principal, ref string) (*haft.MCPServer, error) {
	return get[haft.MCPServer](ctx, m.api, mcp(p, http.MethodGet, ref, ""))
}

// MCPServerList implements [haft.MCPServers].
func (m *MCPServers) MCPServerList(ctx context.Context, p haft.Principal) iter.Seq2[haft.MCPServer, error] {
	return list[haft.MCPServer](ctx, m.api, query{path: "/v1/mcp_servers", as: p}, 0)
}

// PutMCPServer implements [haft.MCPServers].
func (m *MCPServers) PutMCPServer(ctx context.Context, p haft.Principal, s haft.MCPServer) (*haft.MCPChange, error) {
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
	return get[haft.MCPChange](ctx, m.api, q)
}

// RefreshMCPServer implements [haft.MCPServers].
func (m *MCPServers) RefreshMCPServer(ctx context.Context, p haft.Principal, ref string,
	accept bool) (*haft.MCPChange, error) {
	q := mcp(p, http.MethodPost, ref, "/refresh")
	q.body = struct {
		Accept bool `json:"accept,omitempty"`
	}{accept}
	return get[haft.MCPChange](ctx, m.api, q)
}

// RemoveMCPServer implements [haft.MCPServers].
func (m *MCPServers) RemoveMCPServer(ctx context.Context, p haft.Principal, ref, revision string) error {
	return m.api.remove(ctx, p, "/v1/mcp_servers", "server", ref, revision)
}

// LoginMCPServer implements [haft.MCPLogin].
func (m *MCPServers) LoginMCPServer(ctx context.Context, p haft.Principal, ref, redirect string) (string, error) {
	q := mcp(p, http.MethodPost, ref, "/login")
	q.body = map[string]string{"redirect_uri": redirect}
	var out struct {
		Link string `json:"link"`
	}
	err := m.api.read(ctx, q, &out)
	return out.Link, err
}

// FinishMCPLogin implements [haft.MCPLogin].
func (m *MCPServers) FinishMCPLogin(ctx context.Context, p haft.Principal, a haft.MCPAnswer) error {
	q := mcp(p, http.MethodPost, "login", "/login/finish") // the state says which server it is for
	q.body = a
	return m.api.read(ctx, q, nil)
}
