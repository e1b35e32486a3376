package access

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"haft"
	"haft/internal/auth"
	"haft/server"
	"haft/server/mcpserver"
)

// The paths of the MCP endpoint and of its metadata (RFC 9728).
const (
	MCPPath      = "/mcp"
	MetadataPath = "/.well-known/oauth-protected-resource"
)

// Bounds of the tags in the address of the MCP endpoint.
const (
	maxMCPTags = 16
	maxMCPTag  = 200
)

// mcpAgent returns the agent that a request names, in the query or in [server.AgentHeader].
// Unknown parameters of the query are refused: with a misspelt agent, the client would get
// all rights of the credential.
func mcpAgent(r *http.Request, q url.Values) (string, error) {
	bad := func(message string) error { return &haft.Error{Code: haft.CodeInvalid, Message: message} }
	for name, values := range q {
		switch {
		case !slices.Contains([]string{"agent", "as", "tag"}, name):
			return "", bad("the address may name agent and tag, and nothing else")
		case name != "tag" && (len(values) != 1 || values[0] == ""):
			return "", bad("the address names one agent")
		}
	}
	named := r.Header.Get(server.AgentHeader)
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if named != "" && strings.EqualFold(scheme, auth.SchemeSigned) {
		// Without the header, which an attacker on the way could remove, the request has more
		// rights.
		return "", bad("a signed request names its agent in the address, ?agent=NAME: headers are not signed")
	}
	agent := cmp.Or(q.Get("agent"), q.Get("as"))
	for _, other := range []string{q.Get("as"), named} {
		if agent != "" && other != "" && other != agent {
			return "", bad("the request names two agents")
		}
	}
	return cmp.Or(agent, named), nil
}

// MCPCaller returns the caller of the MCP endpoint. The query may name an agent that the
// credential may act as, and tags, of which a tool must have one:
// /mcp?agent=support&tag=read. The header Haft-Agent names the agent too.
func MCPCaller(s *server.Server, w http.ResponseWriter, r *http.Request) (mcpserver.Caller, error) {
	q := r.URL.Query()
	tags := q["tag"]
	if len(tags) > maxMCPTags {
		return mcpserver.Caller{}, &haft.Error{Code: haft.CodeInvalid, Message: "the address names too many tags"}
	}
	for _, t := range tags {
		if t == "" || len(t) > maxMCPTag {
			return mcpserver.Caller{}, &haft.Error{Code: haft.CodeInvalid,
				Message: "a tag in the address is empty or too long"}
		}
	}
	agent, err := mcpAgent(r, q)
	if err != nil {
		return mcpserver.Caller{}, err
	}
	holder, actor, err := s.Identify(w, r, agent)
	if err != nil {
		return mcpserver.Caller{}, err
	}
	if err := errors.Join(actor.Permit(haft.ToolsRead), actor.Permit(haft.CallsWrite)); err != nil {
		return mcpserver.Caller{}, err
	}
	if err := server.Needs(r.Context(), haft.ToolsRead, haft.CallsWrite); err != nil {
		return mcpserver.Caller{}, err
	}
	who := mcpserver.Caller{Principal: actor.Principal, Tags: tags, Expires: actor.Expires,
		Artifacts: actor.Permit(haft.CallsRead) == nil}
	if p := holder.Principal; p.Agent == "" && p.User != "" && holder.Permit(haft.ApprovalsRead) == nil &&
		holder.Permit(haft.ApprovalsWrite) == nil {
		who.Person = p
	}
	return who, nil
}

// MetadataURL is the address of the metadata of the MCP endpoint.
func MetadataURL(r *http.Request) string { return base(r) + MetadataPath + MCPPath }

// base is the address that the client used. The HTTP server has checked the host.
func base(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// Metadata serves the metadata of the MCP endpoint: the issuers whose tokens it accepts (RFC
// 9728).
func Metadata(issuers []auth.Issuer) http.Handler {
	servers := make([]string, len(issuers))
	for i, is := range issuers {
		servers[i] = is.URL
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// The error means that the client has disconnected.
		_ = json.NewEncoder(w).Encode(map[string]any{
			"resource": base(r) + MCPPath, "authorization_servers": servers,
			"bearer_methods_supported": []string{"header"}, "resource_name": "Haft",
		})
	})
}
