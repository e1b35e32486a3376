package letta

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"strings"

	"haft"
)

// serverHandlers serve the routes of MCP servers.
type serverHandlers struct {
	servers haft.MCPServers
	tools   toolHandlers
	calls   haft.Caller
}

// A wireServer is an MCP server as clients from 1.0 on know it. Credentials are not
// shown again: of headers and variables there are the names.
type wireServer struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"server_name"`
	Type     string            `json:"mcp_server_type,omitempty"`
	OldType  string            `json:"type,omitempty"` // what clients before 1.0 call it
	Command  *string           `json:"command,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	URL      *string           `json:"server_url,omitempty"`
	Header   *string           `json:"auth_header,omitempty"`
	Token    *string           `json:"auth_token,omitempty"`
	Headers  map[string]string `json:"custom_headers,omitempty"`
	Metadata map[string]any    `json:"metadata_,omitempty"`
}

// Letta's words for transports.
const (
	transportStdio = "stdio"
	transportSSE   = "sse"
	transportHTTP  = "streamable_http"
)

// serverName converts a name of a server in Letta to one that Haft allows: tools are called
// server__tool, so that double _ and those at the ends are removed.
func serverName(s string) string {
	parts := strings.FieldsFunc(letters(s), func(r rune) bool { return r == '_' })
	return strings.Join(parts, "_")
}

// server makes a server of what a client says.
func (w wireServer) server() (haft.MCPServer, error) {
	s := haft.MCPServer{Name: serverName(w.Name)}
	guess := transportHTTP
	if w.Command != nil {
		guess = transportStdio
	}
	switch cmp.Or(w.Type, w.OldType, guess) {
	case transportStdio:
		if w.Command == nil || *w.Command == "" {
			return s, unprocessable("body config.command: it is missing")
		}
		s.Transport, s.Command, s.Env = haft.MCPStdio, append([]string{*w.Command}, w.Args...), w.Env
		return s, nil
	case transportSSE:
		s.Transport = haft.MCPSSE
	case transportHTTP:
		s.Transport = haft.MCPHTTP
	default:
		return s, unprocessable("body config.mcp_server_type: expected stdio, sse or streamable_http")
	}
	if w.URL == nil || *w.URL == "" {
		return s, unprocessable("body config.server_url: it is missing")
	}
	s.URL, s.Headers = *w.URL, ownHeaders(w.Headers)
	if len(w.Headers) == 0 && w.Token != nil && *w.Token != "" { // other headers win, as in Letta
		name := "Authorization"
		if w.Header != nil && *w.Header != "" {
			name = *w.Header
		}
		value := *w.Token
		if strings.EqualFold(name, "Authorization") && !strings.HasPrefix(value, "Bearer ") {
			value = "Bearer " + value
		}
		s.Headers = map[string]string{name: value}
	}
	return s, nil
}

// ownHeaders returns headers without those that the protocol of MCP sets itself, which Letta's
// client overwrites too.
func ownHeaders(headers map[string]string) map[string]string {
	own := maps.Clone(headers)
	maps.DeleteFunc(own, func(name, _ string) bool {
		return strings.EqualFold(name, "Accept") || strings.EqualFold(name, "Content-Type")
	})
	return own
}

// showServer writes a server. Old clients want no id.
func showServer(s haft.MCPServer, old bool) wireServer {
	w := wireServer{Name: s.Name}
	typ := transportHTTP
	switch s.Transport {
	case haft.MCPStdio:
		typ = transportStdio
		if len(s.Command) > 0 {
			w.Command, w.Args = &s.Command[0], s.Command[1:]
		}
		w.Env = namesOnly(s.Env)
	case haft.MCPSSE:
		typ = transportSSE
	}
	if s.Transport != haft.MCPStdio {
		w.URL = &s.URL
		w.Headers = namesOnly(s.Headers)
		if _, ok := s.Headers["Authorization"]; ok && len(s.Headers) == 1 {
			name := "Authorization"
			w.Header, w.Headers = &name, nil
		}
	}
	if old {
		w.OldType = typ
		return w
	}
	w.ID, w.Type = serverID(s), typ
	state := map[string]any{"id": s.ID, "tools": s.State.Tools}
	if s.State.Error != "" {
		state["error"] = s.State.Error
		if s.Transport == haft.MCPStdio {
			state["error"] = s.State.Error + " (a command sees no files of the host here, unless they are given " +
				"to it with haft mcp-server add --mount)"
		}
	}
	if s.State.Login {
		state["login_needed"] = true
	}
	if len(s.State.Invalid) > 0 {
		state["invalid"] = s.State.Invalid
	}
	w.Metadata = map[string]any{"haft": state}
	return w
}

// namesOnly returns a copy of m with empty values, because values are not shown.
func namesOnly(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	names := make(map[string]string, len(m))
	for k := range m {
		names[k] = ""
	}
	return names
}

// serverID is Letta's id of a server.
func serverID(s haft.MCPServer) string { return digestID(serverWord, s.Org, s.ID) }

// pathServer is the server that the path names, by id or, for old clients, by name.
func (h serverHandlers) pathServer(ctx context.Context, q *request) (*haft.MCPServer, error) {
	if name := q.PathValue("old"); name != "" {
		return h.servers.MCPServer(ctx, q.who.Principal, serverName(name))
	}
	id := q.PathValue("server")
	if _, _, err := readID(serverWord, "", id); err != nil {
		return nil, err
	}
	for s, err := range h.servers.MCPServerList(ctx, q.who.Principal) {
		if err != nil || serverID(s) == id {
			return &s, err
		}
	}
	return nil, notFound("there is no MCP server with that id")
}

// serverBody is what clients from 1.0 on say of a server.
type serverBody struct {
	Name   *string         `json:"server_name"`
	Config json.RawMessage `json:"config"`
}

// config reads it.
func (b serverBody) config() (wireServer, error) {
	var w wireServer
	if !isSet(b.Config) {
		return w, unprocessable("body config: it is missing")
	}
	if err := json.Unmarshal(b.Config, &w); err != nil {
		return w, unprocessable("body config: it does not fit")
	}
	w.Name = ""
	if b.Name != nil {
		w.Name = *b.Name
	}
	return w, nil
}

func (h serverHandlers) createServer(ctx context.Context, q *request, b serverBody) (any, error) {
	w, err := b.config()
	if err != nil {
		return nil, err
	}
	s, err := h.putServer(ctx, q, w, true)
	if err != nil {
		return nil, err
	}
	return showServer(*s, false), nil
}

// putServer adds a server; with fresh there must be none of that name.
func (h serverHandlers) putServer(ctx context.Context, q *request, w wireServer, fresh bool) (*haft.MCPServer, error) {
	s, err := w.server()
	if err != nil {
		return nil, err
	}
	old, err := h.servers.MCPServer(ctx, q.who.Principal, s.Name)
	switch {
	case err == nil && fresh:
		return nil, conflict("there is an MCP server of that name")
	case err == nil:
		s = inherit(s, *old)
	case !isNotFound(err):
		return nil, err
	case fresh:
		s.If = haft.IfNone
	}
	change, err := h.servers.PutMCPServer(ctx, q.who.Principal, s)
	if err != nil {
		return nil, err
	}
	return &change.Server, nil
}

// inherit takes over what a client leaves out or cannot say of an existing server: that it
// is disabled, its limits, hosts and mounts. Credentials belong to an origin and are kept
// only for the same one.
func inherit(s, old haft.MCPServer) haft.MCPServer {
	next := old
	next.Transport, next.Command, next.URL, next.If = s.Transport, s.Command, s.URL, old.Revision()
	same := next.Origin() == old.Origin()
	if s.Headers != nil || !same {
		next.Headers = s.Headers
	}
	if s.Env != nil || !same {
		next.Env = s.Env
	}
	if !same {
		next.OAuth = s.OAuth
	}
	return next
}

func (h serverHandlers) listServers(ctx context.Context, q *request) (any, error) {
	list := []wireServer{}
	for s, err := range h.servers.MCPServerList(ctx, q.who.Principal) {
		if err != nil {
			return nil, err
		}
		list = append(list, showServer(s, false))
	}
	return list, nil
}

// updateServer changes a server. What a client leaves out stays.
func (h serverHandlers) updateServer(ctx context.Context, q *request, b serverBody) (any, error) {
	w, err := b.config()
	if err != nil {
		return nil, err
	}
	return h.mergeServer(ctx, q, w, false)
}

// mergeServer puts what a client says of the server of the path over what there is.
func (h serverHandlers) mergeServer(ctx context.Context, q *request, w wireServer, isOld bool) (any, error) {
	old, err := h.pathServer(ctx, q)
	if err != nil {
		return nil, err
	}
	if w.Name != "" && serverName(w.Name) != old.Name {
		return nil, invalid("an MCP server keeps its name here, which its tools are called by: create one of the " +
			"other name")
	}
	next := *old
	next.If = old.Revision() // fields that the client leaves out are those that were read
	if old.Transport == haft.MCPStdio {
		if w.Command != nil {
			next.Command = append([]string{*w.Command}, next.Command[min(1, len(next.Command)):]...)
		}
		if w.Args != nil {
			next.Command = append(next.Command[:min(1, len(next.Command))], w.Args...)
		}
		if w.Env != nil {
			next.Env = w.Env
		}
	} else {
		if w.URL == nil {
			w.URL = &old.URL
		}
		w.Type, w.OldType = transportHTTP, ""
		sent, err := w.server()
		if err != nil {
			return nil, err
		}
		next.URL = sent.URL
		if sent.Headers != nil {
			next.Headers = sent.Headers
		}
	}
	change, err := h.servers.PutMCPServer(ctx, q.who.Principal, next)
	if err != nil {
		return nil, err
	}
	return showServer(change.Server, isOld), nil
}

func (h serverHandlers) deleteServer(ctx context.Context, q *request, s haft.MCPServer) (any, error) {
	return nothing{}, h.servers.RemoveMCPServer(ctx, q.who.Principal, s.ID, "")
}

// refreshServer lists the tools of a server again. New and changed tools wait for review: the
// server was accepted with the tools that it had then.
func (h serverHandlers) refreshServer(ctx context.Context, q *request, s haft.MCPServer) (any, error) {
	change, err := h.servers.RefreshMCPServer(ctx, q.who.Principal, s.ID, false)
	if err != nil {
		return nil, err
	}
	list := func(names []string) []string { return append([]string{}, names...) }
	return map[string]any{
		"deleted": list(change.Removed), "updated": list(change.Changed), "added": list(change.Added),
		"haft": map[string]any{"waiting": list(change.Waiting)},
	}, nil
}

// toolsOf lists the tools of a server.
func (h serverHandlers) toolsOf(ctx context.Context, p haft.Principal, s haft.MCPServer) ([]haft.Tool, error) {
	var list []haft.Tool
	for t, err := range h.tools.tools.Tools(ctx, p, haft.ToolFilter{Kind: haft.KindMCP}) {
		if err != nil {
			return nil, err
		}
		if t.Version.Server == s.Name {
			list = append(list, t)
		}
	}
	return list, nil
}

func (h serverHandlers) serverTools(ctx context.Context, q *request, s haft.MCPServer) (any, error) {
	list, err := h.toolsOf(ctx, q.who.Principal, s)
	if err != nil {
		return nil, err
	}
	tools := []wireTool{}
	for _, t := range list {
		tools = append(tools, h.tools.toWire(ctx, q.who.Principal, t))
	}
	return tools, nil
}

// serverTool is the tool of a server that the path names.
func (h serverHandlers) serverTool(ctx context.Context, q *request) (*haft.Tool, error) {
	s, err := h.pathServer(ctx, q)
	if err != nil {
		return nil, err
	}
	var t *haft.Tool
	if q.PathValue("old") != "" {
		t, err = h.tools.tools.Tool(ctx, q.who.Principal, haft.MCPToolName(s.Name, q.PathValue("name")))
	} else {
		t, err = h.tools.pathTool(ctx, q)
	}
	if err == nil && t.Version.Server != s.Name {
		return nil, errNoTool
	}
	return t, err
}

// runServerTool calls a tool of a server.
func (h serverHandlers) runServerTool(ctx context.Context, q *request) (any, error) {
	res, t, err := h.callServerTool(ctx, q)
	if err != nil {
		return nil, err
	}
	x := toExecution(t.Name, res)
	x.Return = contentOf(x.Return)
	return x, nil
}

// contentOf returns what a tool of an MCP server answered. Servers that are made with FastMCP put
// a value that is no object into one, under result.
func contentOf(v json.RawMessage) json.RawMessage {
	var o map[string]json.RawMessage
	if json.Unmarshal(v, &o) == nil && len(o) == 1 && len(o["result"]) > 0 {
		return o["result"]
	}
	return v
}

// callServerTool makes the call.
func (h serverHandlers) callServerTool(ctx context.Context, q *request) (*haft.Result, *haft.Tool, error) {
	var b struct {
		Args json.RawMessage `json:"args"`
	}
	if len(q.body) > 0 {
		if err := q.read(&b); err != nil {
			return nil, nil, err
		}
	}
	t, err := h.serverTool(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	res, err := h.calls.Call(ctx, haft.Call{
		Tool: string(t.ID), Args: b.Args, Principal: q.who.Principal, IdempotencyKey: q.Header.Get("Idempotency-Key"),
	})
	if err != nil {
		return nil, nil, err
	}
	return res, t, refusalOf(res)
}
