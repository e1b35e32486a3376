package server

import (
	"context"
	"iter"

	"haft"
)

// MCPServerBody describes an MCP server.
type MCPServerBody struct {
	Transport haft.MCPTransport `json:"transport,omitempty" doc:"Empty means stdio for a command, and else http."`
	Command   []string          `json:"command,omitempty" maxItems:"256" maxLength:"32768" doc:"Program and arguments of a server that runs in a sandbox here. Policy says who may have which."`
	URL       string            `json:"url,omitempty" maxLength:"2048"`
	// Headers and Env are write-only.
	Headers      map[string]string `json:"headers,omitempty" doc:"{{ NAME }} stands for a variable of the call. Values are not shown again; an empty one keeps what is there."`
	Env          map[string]string `json:"env,omitempty" doc:"As headers, for a command."`
	OAuth        *haft.MCPOAuth    `json:"oauth,omitempty"`
	Network      []string          `json:"network,omitempty" maxItems:"64" maxLength:"2048" doc:"The hosts that a command may reach."`
	Mounts       []haft.MCPMount   `json:"mounts,omitempty" maxItems:"32"`
	Requirements haft.Requirements `json:"requirements,omitempty"`
	Limits       haft.Limits       `json:"limits,omitempty"`
	Connect      haft.Millis       `json:"connect_ms,omitempty"`
	List         haft.Millis       `json:"list_ms,omitempty"`
	Disabled     bool              `json:"disabled,omitempty"`
}

// MCPRef names an MCP server in a path.
type MCPRef struct {
	Server string `path:"server" maxLength:"200" doc:"The name or id of the server."`
}

// mcpServers registers the operations on upstream MCP servers.
func (a *api) mcpServers() {
	m := a.s.cfg.MCPServers
	ok := m != nil
	g := a.group("mcp servers", haft.ServersRead, haft.ServersWrite).needs(ok, "MCP servers")
	login := a.group("mcp servers", haft.ServersRead, haft.CallsWrite).needs(ok, "MCP servers")
	const path = " /v1/mcp_servers/{server}"
	register(g.op("GET /v1/mcp_servers", "list-mcp-servers", "List MCP servers by name"),
		func(ctx context.Context, who Identity, in *Paging) (*Listed[haft.MCPServer], error) {
			return pageOf(*in, "mcp_servers", func(v haft.MCPServer) string { return v.Name },
				func(string) iter.Seq2[haft.MCPServer, error] { return m.MCPServerList(ctx, who.Principal) })
		})
	register(g.op("GET"+path, "show-mcp-server", "Show an MCP server, and why some of its tools cannot be called"),
		func(ctx context.Context, who Identity, in *MCPRef) (*tagged[haft.MCPServer], error) {
			return tag(m.MCPServer(ctx, who.Principal, in.Server))
		})
	register(g.op("PUT"+path, "put-mcp-server",
		"Replace an MCP server, or add it under that name, and list its tools").conditional(),
		func(ctx context.Context, who Identity, in *putMCPServer) (*tagged[haft.MCPChange], error) {
			return putServer(ctx, m, who, in)
		})
	register(g.op("DELETE"+path, "remove-mcp-server", "Remove an MCP server with its tools and credentials").
		conditional(), func(ctx context.Context, who Identity, in *removeMCPServer) (*struct{}, error) {
		return remove(in.RemoveIf,
			func() (*haft.MCPServer, error) { return m.MCPServer(ctx, who.Principal, in.Server) },
			func(revision string) error { return m.RemoveMCPServer(ctx, who.Principal, in.Server, revision) })
	})
	register(g.op("POST"+path+"/refresh", "refresh-mcp-server",
		"List the tools of an MCP server again; what is new or changed waits for review"),
		func(ctx context.Context, who Identity, in *refreshMCPServer) (*tagged[haft.MCPChange], error) {
			return changed(m.RefreshMCPServer(ctx, who.Principal, in.Server, in.Body.Accept))
		})
	register(login.op("POST"+path+"/login", "login-mcp-server", "Begin a login: the link that a person has to open"),
		func(ctx context.Context, who Identity, in *loginMCPServer) (*shown[MCPLink], error) {
			link, err := m.LoginMCPServer(ctx, who.Principal, in.Server, in.Body.Redirect)
			return &shown[MCPLink]{MCPLink{link}}, err
		})
	register(login.op("POST"+path+"/login/finish", "finish-mcp-login", "End a login with what came to the redirect"),
		func(ctx context.Context, who Identity, in *finishMCPLogin) (*struct{}, error) {
			return nil, m.FinishMCPLogin(ctx, who.Principal, in.Body)
		})
}

// changed answers with a server that was written, and its revision.
func changed(c *haft.MCPChange, err error) (*tagged[haft.MCPChange], error) {
	if err != nil {
		return nil, err
	}
	return &tagged[haft.MCPChange]{quote(c.Server.Revision()), *c}, nil
}

type putMCPServer struct {
	MCPRef
	Condition
	Body MCPServerBody
}

// putServer adds or replaces an MCP server.
func putServer(ctx context.Context, m haft.MCPServers, who Identity,
	in *putMCPServer) (*tagged[haft.MCPChange], error) {
	return replace(in.Condition, func() (*haft.MCPServer, error) { return m.MCPServer(ctx, who.Principal, in.Server) },
		func(old *haft.MCPServer, condition string) (*tagged[haft.MCPChange], error) {
			b, name := in.Body, in.Server
			if old != nil {
				name = old.Name // the path may have its id
			}
			return changed(m.PutMCPServer(ctx, who.Principal, haft.MCPServer{
				Name: name, Transport: b.Transport, Command: b.Command, URL: b.URL, Headers: b.Headers, Env: b.Env,
				OAuth: b.OAuth, Network: b.Network, Mounts: b.Mounts, Requirements: b.Requirements, Limits: b.Limits,
				Connect: b.Connect, List: b.List, Disabled: b.Disabled, If: condition,
			}))
		})
}

type removeMCPServer struct {
	MCPRef
	RemoveIf
}

type refreshMCPServer struct {
	MCPRef
	Body struct {
		Accept bool `json:"accept,omitempty" doc:"Accept what is new or changed without review."`
	}
}

type loginMCPServer struct {
	MCPRef
	Body struct {
		Redirect string `json:"redirect_uri" maxLength:"2048" doc:"Where the authorisation server sends the person: an address of the caller's, on this machine or with https."`
	}
}

// MCPLink is where a person agrees.
type MCPLink struct {
	Link string `json:"link" doc:"To be opened by a person. Empty means that the server wants no login."`
}

type finishMCPLogin struct {
	MCPRef
	Body haft.MCPAnswer
}
