package app

import (
	"context"
	"maps"
	"net/http"

	"haft"
	"haft/internal/access"
	"haft/server"
	"haft/server/mcpserver"
)

// MCPConfig completes the configuration of an MCP endpoint of the service.
func (s *Service) MCPConfig(cfg mcpserver.Config) mcpserver.Config {
	cfg.Wait, cfg.Stream = s.Wait, s.Stream
	if cfg.Logger == nil {
		cfg.Logger = s.App.cfg.Logger
	}
	return cfg
}

// openMCP makes the MCP endpoint and adds it to the APIs of the server.
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
		c.Metadata = access.MetadataURL
		h := access.Metadata(cfg.Auth.Issuers)
		mounts["GET "+access.MetadataPath], mounts["GET "+access.MetadataPath+access.MCPPath] = h, h
	}
	recheck := s.recheck(*cfg)
	c.Recheck = func(ctx context.Context, p haft.Principal) error {
		_, _, err := recheck(ctx, p)
		return err
	}
	if s.MCP, err = mcpserver.New(s.API, c); err != nil {
		return err
	}
	s.changed.Store(s.MCP)
	mounts[access.MCPPath] = s.MCP.Handler(func(w http.ResponseWriter, r *http.Request) (mcpserver.Caller, error) {
		return access.MCPCaller(s.HTTP, w, r)
	})
	cfg.HTTP.Mounts = mounts
	headers := maps.Clone(cfg.HTTP.Headers)
	if headers == nil {
		headers = map[string][]string{}
	}
	headers[access.MCPPath] = []string{server.AgentHeader}
	cfg.HTTP.Headers = headers
	leaving := cfg.HTTP.Leaving
	cfg.HTTP.Leaving = func() {
		s.MCP.Leave()
		if leaving != nil {
			leaving()
		}
	}
	return nil
}

// notifyChanged returns a function that notifies the APIs of changes, then calls others.
func (s *Server) notifyChanged(others func(string)) func(string) {
	return func(org string) {
		if requests := s.requests.Load(); requests != nil {
			requests.Changed(org)
		}
		if mcp := s.changed.Load(); mcp != nil {
			mcp.Changed(org)
		}
		if others != nil {
			others(org)
		}
	}
}
