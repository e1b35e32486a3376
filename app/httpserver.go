package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/compat/letta"
	"haft/internal/access"
	"haft/internal/auth"
	"haft/internal/authority"
	"haft/internal/engine"
	"haft/internal/secret"
	"haft/internal/service"
	"haft/internal/telemetry"
	"haft/internal/toolsource"
	"haft/schema"
	"haft/server"
	"haft/server/agentapi"
	"haft/server/mcpserver"
)

// ServerConfig configures a [Server]. The zero value keeps everything in memory.
type ServerConfig struct {
	ServiceConfig
	// Operators is the organisation whose administrators run the whole server, and that
	// the first key belongs to; "" means "local".
	Operators string
	// Auth says whose tokens are accepted besides API keys.
	Auth auth.Config
	// HTTP has the names, bounds and other APIs of the server.
	HTTP server.Config
	// ActFor are roles that may call on behalf of every agent of their
	// organisation; administrators may.
	ActFor []string
	// MCP adjusts the endpoint at /mcp.
	MCP mcpserver.Config
	// Letta is what tools get that are added through Letta's API.
	Letta letta.Settings
	// E2BDomain is the domain below which sandboxes of E2B's API are reached by the names of
	// hosts; "" means that they are reached by headers only.
	E2BDomain string
}

// A Server is a Service with the HTTP APIs. Close it.
type Server struct {
	*Service
	HTTP *server.Server
	// MCP is the endpoint at /mcp.
	MCP *mcpserver.Server
	// Auth authenticates callers. It has the first key if this start made it.
	Auth *access.Auth

	telemetry *telemetry.Telemetry
	changed   atomic.Pointer[mcpserver.Server] // is notified of changes
	requests  atomic.Pointer[server.Server]    // is notified of changes too
	known     chan struct{}                    // closed when Auth is set
}

// OpenServer opens a Server. It does not listen yet.
func OpenServer(ctx context.Context, cfg ServerConfig) (_ *Server, err error) {
	s := &Server{known: make(chan struct{})}
	cfg.Busy = true
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	everything := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != ""
	s.telemetry, err = telemetry.Open(ctx, telemetry.Config{
		Traces:  everything || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "",
		Metrics: everything || os.Getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") != "",
		Stats: func() engine.Stats {
			if s.Service == nil {
				return engine.Stats{}
			}
			return s.withAudit(s.Stats())
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open telemetry: %w", err)
	}
	if cfg.Engine.Observer == nil {
		cfg.Engine.Observer = s.telemetry
	}
	cfg.Engine.Changed = s.notifyChanged(cfg.Engine.Changed)
	cfg.Operators = cmp.Or(cfg.Operators, access.DefaultOrg)
	// One set of rules decides at every entry point.
	cfg.Engine.Operators = cfg.Operators
	cfg.Auth.Rules = authority.Rules{Managers: cfg.Engine.Managers, Operators: cfg.Operators}
	if cfg.Engine.Recheck == nil {
		cfg.Engine.Recheck = s.recheck(cfg)
	}
	cfg.Deliver = true
	cfg.Agents.Observe = s.telemetry.ObserveTurn
	cfg.Agents.As = func(ctx context.Context, p haft.Principal, agent haft.AgentID) (haft.Principal, error) {
		if err := s.awaitAuth(ctx); err != nil {
			return p, err
		}
		return s.authenticator(cfg).As(ctx, p, agent)
	}
	if s.Service, err = OpenService(ctx, cfg.ServiceConfig); err != nil {
		return nil, err
	}
	if s.Auth, err = s.OpenAuth(ctx, cfg.Operators, cfg.Auth); err != nil {
		return nil, err
	}
	close(s.known)
	if err := s.openMCP(&cfg); err != nil {
		return nil, err
	}
	s.openE2B(&cfg)
	if s.HTTP, err = server.New(s.API, s.authenticator(cfg), s.offers(cfg)); err != nil {
		return nil, err
	}
	s.requests.Store(s.HTTP)
	return s, nil
}

// Close closes everything. Shut the HTTP server down first.
func (s *Server) Close() error {
	var errs []error
	if s.MCP != nil {
		errs = append(errs, s.MCP.Close())
	}
	if s.Service != nil {
		errs = append(errs, s.Service.Close())
	}
	if s.telemetry != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) //nolint:forbidigo // what is left is sent after the end of everything else
		defer cancel()
		errs = append(errs, s.telemetry.Close(ctx))
	}
	return errors.Join(errs...)
}

// offers completes the configuration of the HTTP server.
func (s *Server) offers(cfg ServerConfig) server.Config {
	c := cfg.HTTP
	if c.Logger == nil {
		c.Logger = cfg.Logger
	}
	c.Engine, c.Policies, c.Audit, c.Events = s.Engine, s.Policies, s.Service, s.API
	c.Keys = access.KeyAPI{Keyring: s.Auth.Keyring, Manage: s.Manage}
	c.Files, c.Sessions, c.Workspaces = s.API.Files, s.API.Sessions, s.API.Workspaces
	c.Sandboxes, c.Secrets, c.Meter, c.Webhooks = s.Sandboxes, s.SecretManager, s.API, s.Sender
	c.MCPServers, c.Retainer, c.Eraser = s.ServerManager, s.RetentionManager, s.Data
	c.Metrics = s.telemetry.Handler()
	agents := agentapi.Config{Agents: s.API, Memory: s.API.Memory, Blocks: s.API.Memory, Archive: s.API.Memory}
	if agents.Conversations = s.AgentLoop.Conversations(); agents.Conversations != nil {
		agents.Models = s.AgentLoop
	}
	c.Resources = append(slices.Clip(c.Resources), agentapi.New(agents))
	if c.Refusals == nil {
		c.Refusals = &access.Refusals{Count: s.telemetry.Refused, Operators: cfg.Operators, Keys: s.Store.Keys,
			Manage: s.Manage, Logger: s.App.cfg.Logger}
	}
	if c.Agents == nil {
		c.Agents = new(sync.Mutex)
	}
	c.APIs = maps.Clone(c.APIs)
	if c.APIs == nil {
		c.APIs = map[string]server.API{}
	}
	c.APIs[letta.Prefix+"/"] = letta.New(s.API, letta.Config{
		Derive: s.App.signature, SourceTool: toolsource.ToolName, Variables: variables{s.SecretManager},
		Sandboxes: s.SandboxManager, Servers: s.ServerManager, Agents: c.Agents, Version: c.Version, Logger: c.Logger,
		Settings: cfg.Letta, Memory: s.API.Memory, Sharer: s.API.Memory, Archive: s.API.Memory,
		Conversations: agents.Conversations, Models: agents.Models,
	})
	if c.Health == nil {
		c.Health = s.Service
	}
	return c
}

// signature derives the signature of a source, which need not be documented.
func (a *App) signature(ctx context.Context, kind haft.Kind, source string, untyped bool) (*letta.Signature, error) {
	d, err := a.Derive(ctx, Source{Kind: kind, Text: []byte(source)},
		schema.Options{DescriptionsOptional: true, TypesOptional: untyped})
	if err != nil {
		if e, ok := errors.AsType[*schema.SourceError](err); ok {
			return nil, &haft.Error{Code: haft.CodeInvalid, Message: e.Error(), Err: err}
		}
		return nil, err
	}
	text, err := schema.Encode(d.Parameters)
	if err != nil {
		return nil, fmt.Errorf("write the schema of the arguments: %w", err)
	}
	return &letta.Signature{Name: d.Name, Description: d.Description, Parameters: text}, nil
}

// variables are the secrets of an organisation, as the Letta API knows them.
type variables struct{ *service.SecretManager }

// Variables implements [letta.Variables].
func (v variables) Variables(ctx context.Context, p haft.Principal) ([]letta.Variable, error) {
	list, err := v.Secrets(ctx, p, "")
	if err != nil {
		return nil, err
	}
	all := make([]letta.Variable, 0, len(list))
	for _, i := range list {
		all = append(all, letta.Variable{Name: i.Name, Created: i.Created, Updated: i.Updated})
	}
	return all, nil
}

// PutVariable implements [letta.Variables].
func (v variables) PutVariable(ctx context.Context, p haft.Principal, name, value string) error {
	return v.PutSecret(ctx, p, "", name, secret.New(value))
}

// RemoveVariable implements [letta.Variables].
func (v variables) RemoveVariable(ctx context.Context, p haft.Principal, name string) error {
	return v.RemoveSecret(ctx, p, "", name)
}
