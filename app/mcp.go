package app

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"

	"haft"
	"haft/auth"
	"haft/server"
	"haft/server/mcpserver"
)

// MCPConfig completes the configuration of an MCP door to the service.
func (s *Service) MCPConfig(cfg mcpserver.Config) mcpserver.Config {
	cfg.Wait, cfg.Stream = s.Wait, s.Stream
	if cfg.Logger == nil {
		cfg.Logger = s.App.cfg.Logger
	}
	return cfg
}

// The addresses of the MCP door.
const (
	mcpPath  = "/mcp"
	metaPath = "/.well-known/oauth-protected-resource"
)

// openMCP makes the MCP door and adds it to the doors of the server.
func (s *Server) openMCP(cfg *ServerConfig) (err error) {
	c := s.MCPConfig(cfg.MCP)
	if c.Version == "" {
		c.Version = cfg.HTTP.Version
	}
	if c.MaxMessage == 0 {
		c.MaxMessage = cfg.HTTP.MaxBody
	}
	mounts := maps.Clone(cfg.HTTP.Mounts)
	if mounts == nil {
		mounts = map[string]http.Handler{}
	}
	if len(cfg.Auth.Issuers) > 0 {
		c.Metadata = func(r *http.Request) string { return base(r) + metaPath + mcpPath }
		h := metadata(cfg.Auth.Issuers)
		mounts["GET "+metaPath], mounts["GET "+metaPath+mcpPath] = h, h
	}
	if s.MCP, err = mcpserver.New(s.Engine, c); err != nil {
		return err
	}
	s.changed.Store(s.MCP)
	mounts[mcpPath] = s.MCP.Handler(s.mcpCaller)
	cfg.HTTP.Mounts = mounts
	leaving := cfg.HTTP.Leaving
	cfg.HTTP.Leaving = func() {
		s.MCP.Leave()
		if leaving != nil {
			leaving()
		}
	}
	return nil
}

// tellChanged has the MCP door told of changes, besides whom the configuration names.
func (s *Server) tellChanged(others func(string)) func(string) {
	return func(org string) {
		if door := s.changed.Load(); door != nil {
			door.Changed(org)
		}
		if others != nil {
			others(org)
		}
	}
}

// Bounds on what a request asks of the MCP door.
const (
	maxMCPTags = 16
	maxMCPTag  = 200
)

// mcpCaller knows who speaks MCP over HTTP. The address may name an agent that the
// credential may act as, and tags of which a tool must have one:
// /mcp?agent=support&tag=read.
func (s *Server) mcpCaller(w http.ResponseWriter, r *http.Request) (mcpserver.Caller, error) {
	q := r.URL.Query()
	tags := q["tag"]
	if len(tags) > maxMCPTags {
		return mcpserver.Caller{}, &haft.Error{Code: haft.CodeInvalid, Message: "the address names too many tags"}
	}
	for _, t := range tags {
		if t == "" || len(t) > maxMCPTag {
			return mcpserver.Caller{}, &haft.Error{Code: haft.CodeInvalid, Message: "a tag in the address is empty or too long"}
		}
	}
	holder, actor, err := s.HTTP.Identify(w, r, q.Get("agent"))
	if err != nil {
		return mcpserver.Caller{}, err
	}
	if err := errors.Join(actor.Permit(server.ToolsRead), actor.Permit(server.CallsWrite)); err != nil {
		return mcpserver.Caller{}, err
	}
	who := mcpserver.Caller{Principal: actor.Principal, Tags: tags, Expires: actor.Expires, Artifacts: actor.Permit(server.CallsRead) == nil}
	if p := holder.Principal; p.Agent == "" && p.User != "" && holder.Permit(server.ApprovalsRead) == nil && holder.Permit(server.ApprovalsWrite) == nil {
		who.Person = p
	}
	return who, nil
}

// base is the address by which r reached us, whose host the guard knows.
func base(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// metadata says which issuers' tokens the MCP door takes (RFC 9728).
func metadata(issuers []auth.Issuer) http.Handler {
	servers := make([]string, len(issuers))
	for i, is := range issuers {
		servers[i] = is.URL
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// A client that is gone cannot be told.
		_ = json.NewEncoder(w).Encode(map[string]any{
			"resource": base(r) + mcpPath, "authorization_servers": servers,
			"bearer_methods_supported": []string{"header"}, "resource_name": "Haft",
		})
	})
}
