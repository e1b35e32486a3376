package mcpserver

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"haft"
)

// A view is what one caller sees: an MCP server of its own.
type view struct {
	s   *Server
	who Caller
	key string // identifies the caller
	mcp *mcp.Server

	// uses and opening are guarded by the server's mu.
	uses    int // requests and connections on their way
	opening int // sessions that are being made

	mu    sync.Mutex
	users map[string]haft.Principal   // who used a session last, by its id
	ended map[string]error            // why sessions were ended, until their streams get it
	print string                      // of the list that clients know
	logs  map[*mcp.ServerSession]bool // those that want the output of tools
}

// keyOf identifies a caller: two that may do the same see the same, also with another
// credential, such as the next token of the same user.
func keyOf(who Caller) (string, error) {
	who.Expires = who.Expires.UTC().Truncate(0)
	// Without a user the credential says whose things they are.
	owners := []string{who.Principal.Owner(), who.Person.Owner()}
	who.Principal.Credential, who.Person.Credential = "", ""
	tags := slices.Clone(who.Tags)
	slices.Sort(tags)
	raw, err := json.Marshal([]any{who.Principal, who.Person, owners, slices.Compact(tags), who.Artifacts})
	if err != nil {
		return "", fmt.Errorf("identify the caller: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// dispatch is the name of the one tool that is registered with the SDK. It is never listed, and
// its handler runs every tool of the service. No tool can have this name.
const dispatch = "haft/call"

// newView makes the MCP server of a caller.
func (s *Server) newView(who Caller, key string) *view {
	v := &view{s: s, who: who, key: key, logs: map[*mcp.ServerSession]bool{}, users: map[string]haft.Principal{}}
	options := &mcp.ServerOptions{
		Instructions: instructions,
		PageSize:     s.cfg.Page,
		GetSessionID: func() string { return v.tag() + rand.Text() },
		Capabilities: &mcp.ServerCapabilities{
			Logging: &mcp.LoggingCapabilities{}, //nolint:staticcheck // clients of the older wire set a level
			Tools:   &mcp.ToolCapabilities{ListChanged: true},
		},
		// What one caller sees is for no cache that others use.
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" },
	}
	if who.Artifacts {
		options.Capabilities.Resources = &mcp.ResourceCapabilities{}
	}
	if s.cfg.Options != nil {
		s.cfg.Options(options)
	}
	v.mcp = mcp.NewServer(&mcp.Implementation{Name: "haft", Title: "Haft", Version: s.cfg.Version}, options)
	if s.cfg.Extend != nil {
		s.cfg.Extend(v.mcp)
	}
	v.announceTools()
	v.mcp.AddReceivingMiddleware(v.receive)
	return v
}

// instructions are sent to every client.
const instructions = "Tools of this server run in a sandbox, are checked against a policy and recorded. " +
	"If a result says that a person has to agree, do not call the tool again: tell the user what it waits for. " +
	"If there is a tool find_tools, most tools are not listed: search with it and call what it finds with call_tool."

// announceTools adds the tool that runs all others. Adding it again notifies clients that
// the list has changed.
func (v *view) announceTools() {
	v.mcp.AddTool(&mcp.Tool{Name: dispatch, InputSchema: json.RawMessage(`{"type":"object"}`)}, v.run)
}

// sessions counts the open sessions.
func (v *view) sessions() int {
	n := 0
	for range v.mcp.Sessions() {
		n++
	}
	return n
}

// tag begins the ids of sessions of this caller. Others cannot make it.
func (v *view) tag() string { return v.mac("session", v.key)[:16] + "." }

// mac authenticates text for this process only.
func (v *view) mac(what, text string) string {
	h := hmac.New(sha256.New, v.s.seal)
	h.Write([]byte(what + "\x00" + v.key + "\x00" + text)) // hash.Hash never fails
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// owns reports whether a session was made for this caller.
func (v *view) owns(id string) bool {
	tag := v.tag()
	return len(id) > len(tag) && hmac.Equal([]byte(id[:len(tag)]), []byte(tag))
}

// named is the context key of the name of the called tool.
type named struct{}

// receive handles all that a client asks for.
func (v *view) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		switch r := req.(type) {
		case *mcp.ListToolsRequest:
			return v.listTools(ctx, r, next)
		case *mcp.CallToolRequest:
			return v.callTool(ctx, method, r, next)
		case *mcp.ListResourcesRequest:
			return v.listResources(ctx, method, r, next)
		case *mcp.ListResourceTemplatesRequest:
			return v.listTemplates(ctx, method, r, next)
		case *mcp.ReadResourceRequest:
			if strings.HasPrefix(r.Params.URI, scheme) {
				return v.readResource(ctx, r)
			}
		case *mcp.ServerRequest[*mcp.SetLoggingLevelParams]: //nolint:staticcheck // clients of the older wire send it
			v.wantLogs(r.Session)
		}
		return next(ctx, method, req)
	}
}

// wantLogs stores that a session wants the output of tools, and forgets closed sessions.
func (v *view) wantLogs(session *mcp.ServerSession) {
	v.mu.Lock()
	defer v.mu.Unlock()
	open := map[*mcp.ServerSession]bool{session: true}
	for s := range v.mcp.Sessions() {
		if v.logs[s] {
			open[s] = true
		}
	}
	v.logs = open
}

// wantsLogs reports whether the sender of r wants the output of the tool.
func (v *view) wantsLogs(r *mcp.CallToolRequest) bool {
	if level, ok := r.Params.Meta[mcp.MetaKeyLogLevel].(string); ok && level != "" {
		return true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.logs[r.Session]
}

// notifyIfChanged notifies clients if the list of tools differs from the one they know.
func (v *view) notifyIfChanged(ctx context.Context) {
	if v.sessions() == 0 {
		return
	}
	print, err := v.fingerprint(ctx)
	if err != nil {
		if ctx.Err() == nil && haft.CodeOf(err) == haft.CodeInternal {
			v.s.cfg.Logger.Warn("the tools of a caller cannot be listed", "tenant", v.who.Principal.Org, "err", err)
		}
		return
	}
	v.mu.Lock()
	changed := v.print != "" && v.print != print
	v.print = print
	v.mu.Unlock()
	if changed {
		v.announceTools()
	}
}
