package server

import (
	"context"
	"net/http"

	"haft"
)

// MCPServerBody is what somebody says of an MCP server.
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

type oneMCPServer struct {
	ETag string `header:"ETag"`
	Body haft.MCPServer
}

type changedMCPServer struct {
	ETag string `header:"ETag"`
	Body haft.MCPChange
}

// mcpServers are the operations on upstream MCP servers.
func (a *api) mcpServers() {
	const tag, path = "mcp servers", "/v1/mcp_servers/{server}"
	condition := []int{http.StatusConflict, http.StatusPreconditionFailed}
	register(a, operation{method: http.MethodGet, path: "/v1/mcp_servers", id: "list-mcp-servers",
		action: haft.ServersRead, tag: tag, summary: "List MCP servers by name"}, a.s.listMCPServers)
	register(a, operation{method: http.MethodGet, path: path, id: "show-mcp-server", action: haft.ServersRead, tag: tag,
		summary: "Show an MCP server, and why some of its tools cannot be called"}, a.s.showMCPServer)
	register(a, operation{method: http.MethodPut, path: path, id: "put-mcp-server", action: haft.ServersWrite, tag: tag,
		summary: "Replace an MCP server, or add it under that name, and list its tools", errors: condition},
		a.s.putMCPServer)
	register(a, operation{method: http.MethodDelete, path: path, id: "remove-mcp-server", action: haft.ServersWrite,
		tag: tag, summary: "Remove an MCP server with its tools and credentials", errors: condition},
		a.s.removeMCPServer)
	register(a, operation{method: http.MethodPost, path: path + "/refresh", id: "refresh-mcp-server",
		action: haft.ServersWrite, tag: tag, summary: "List the tools of an MCP server again; what is new or " +
			"changed waits for review"}, a.s.refreshMCPServer)
	register(a, operation{method: http.MethodPost, path: path + "/login", id: "login-mcp-server",
		action: haft.CallsWrite, tag: tag, summary: "Begin a login: the link that a person has to open"},
		a.s.loginMCPServer)
	register(a, operation{method: http.MethodPost, path: path + "/login/finish", id: "finish-mcp-login",
		action: haft.CallsWrite, tag: tag, summary: "End a login with what came to the redirect"}, a.s.finishMCPLogin)
}

// upstream is what keeps MCP servers.
func (s *Server) upstream() (haft.MCPServers, error) {
	if m, ok := s.service.(haft.MCPServers); ok {
		return m, nil
	}
	return nil, absent("MCP servers")
}

func (s *Server) listMCPServers(ctx context.Context, who Identity, in *Paging) (*listed[haft.MCPServer], error) {
	m, err := s.upstream()
	if err != nil {
		return nil, err
	}
	after, err := in.at("mcp_servers")
	if err != nil {
		return nil, err
	}
	return collect(m.MCPServerList(ctx, who.Principal), *in, "mcp_servers",
		func(v haft.MCPServer) bool { return v.Name <= after }, func(v haft.MCPServer) string { return v.Name })
}

func (s *Server) showMCPServer(ctx context.Context, who Identity, in *MCPRef) (*oneMCPServer, error) {
	m, err := s.upstream()
	if err != nil {
		return nil, err
	}
	v, err := m.MCPServer(ctx, who.Principal, in.Server)
	if err != nil {
		return nil, err
	}
	return &oneMCPServer{quote(v.Revision()), *v}, nil
}

type putMCPServer struct {
	MCPRef
	Condition
	Body MCPServerBody
}

func (s *Server) putMCPServer(ctx context.Context, who Identity, in *putMCPServer) (*changedMCPServer, error) {
	m, err := s.upstream()
	if err != nil {
		return nil, err
	}
	b, name, revision := in.Body, in.Server, ""
	switch old, err := m.MCPServer(ctx, who.Principal, in.Server); {
	case err == nil:
		name, revision = old.Name, old.Revision() // it may have been named by its id
	case haft.CodeOf(err) != haft.CodeNotFound:
		return nil, err
	}
	condition, err := in.revision(revision)
	if err != nil {
		return nil, err
	}
	change, err := m.PutMCPServer(ctx, who.Principal, haft.MCPServer{
		Name: name, Transport: b.Transport, Command: b.Command, URL: b.URL, Headers: b.Headers, Env: b.Env,
		OAuth: b.OAuth, Network: b.Network,
		Mounts: b.Mounts, Requirements: b.Requirements, Limits: b.Limits, Connect: b.Connect, List: b.List,
		Disabled: b.Disabled,
		If:       condition,
	})
	if err != nil {
		return nil, in.failed(err)
	}
	return &changedMCPServer{quote(change.Server.Revision()), *change}, nil
}

type removeMCPServer struct {
	MCPRef
	RemoveIf
}

func (s *Server) removeMCPServer(ctx context.Context, who Identity, in *removeMCPServer) (*struct{}, error) {
	m, err := s.upstream()
	if err != nil {
		return nil, err
	}
	return nil, in.remove(func() (string, error) {
		v, err := m.MCPServer(ctx, who.Principal, in.Server)
		if err != nil {
			return "", err
		}
		return v.Revision(), nil
	}, func(revision string) error { return m.RemoveMCPServer(ctx, who.Principal, in.Server, revision) })
}

type refreshMCPServer struct {
	MCPRef
	Body struct {
		Accept bool `json:"accept,omitempty" doc:"Accept what is new or changed without review."`
	}
}

func (s *Server) refreshMCPServer(ctx context.Context, who Identity, in *refreshMCPServer) (*changedMCPServer, error) {
	m, err := s.upstream()
	if err != nil {
		return nil, err
	}
	change, err := m.RefreshMCPServer(ctx, who.Principal, in.Server, in.Body.Accept)
	if err != nil {
		return nil, err
	}
	return &changedMCPServer{quote(change.Server.Revision()), *change}, nil
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

type linkMCPServer struct{ Body MCPLink }

func (s *Server) loginMCPServer(ctx context.Context, who Identity, in *loginMCPServer) (*linkMCPServer, error) {
	m, err := s.upstream()
	if err != nil {
		return nil, err
	}
	link, err := m.LoginMCPServer(ctx, who.Principal, in.Server, in.Body.Redirect)
	if err != nil {
		return nil, err
	}
	return &linkMCPServer{MCPLink{link}}, nil
}

type finishMCPLogin struct {
	MCPRef
	Body haft.MCPAnswer
}

func (s *Server) finishMCPLogin(ctx context.Context, who Identity, in *finishMCPLogin) (*struct{}, error) {
	m, err := s.upstream()
	if err != nil {
		return nil, err
	}
	return nil, m.FinishMCPLogin(ctx, who.Principal, in.Body)
}
