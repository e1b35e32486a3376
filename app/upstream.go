package app

import (
	"context"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"haft/executor/upstream"
	"haft/internal/checkpoint"
	"haft/internal/egress"
	"haft/internal/engine"
	"haft/internal/mcp/command"
	"haft/internal/mcp/servers"
	"haft/policy"
	"haft/sandbox/hostpath"
)

// UpstreamConfig adjusts how MCP servers are reached. The zero value is useful.
type UpstreamConfig struct {
	// Allow are ranges of private addresses, and Names local names, that servers may
	// have. HAFT_MCP_ALLOW and HAFT_MCP_NAMES add to them.
	Allow []netip.Prefix
	Names []string
	// Protect are more files and directories that commands of servers never see, such as
	// the key of a certificate. Haft's own are always protected.
	Protect []string
	// Pool has bounds and times; the rest is filled in.
	Pool upstream.Config
}

// fromEnv adds the settings of the environment.
func (c UpstreamConfig) fromEnv() (UpstreamConfig, error) {
	names := strings.FieldsFunc(os.Getenv("HAFT_MCP_NAMES"), func(r rune) bool { return r == ',' || r == ' ' })
	c.Names = slices.Concat(c.Names, names)
	allow, err := egress.Ranges("HAFT_MCP_ALLOW")
	c.Allow = slices.Concat(c.Allow, allow)
	return c, err
}

// openUpstream makes what reaches MCP servers. It reaches none yet.
func (s *Service) openUpstream(ctx context.Context, cfg *ServiceConfig, ec *engine.Config) (*upstream.Pool, error) {
	var err error
	if cfg.Upstream, err = cfg.Upstream.fromEnv(); err != nil {
		return nil, err
	}
	guard := egress.New(egress.Config{
		Allow: slices.Concat(cfg.Allow, cfg.Upstream.Allow), Names: cfg.Upstream.Names,
		// Streams last; the pool bounds each message and each wait.
		Timeout: 24 * time.Hour, MaxBytes: 1 << 40, Mock: cfg.Egress.Mock,
	})
	u := servers.Open(ctx, servers.Config{
		Store: s.Store, Vault: s.vault, Egress: ec.Egress, Client: guard.Client(), Pool: cfg.Upstream.Pool,
		Logger: s.App.cfg.Logger,
		Commands: &command.Resolver{
			Provider: s.App.provider, Name: s.App.name, Need: s.App.cfg.Need, Interpreters: s.App,
			Packages: s.App.Supply.Provide, Guard: s.hostGuard(*cfg),
			Rules: func(ctx context.Context, org string) (*policy.Policy, error) { return s.Engine.Rules(ctx, org) },
		},
		Rules: func() servers.Rules {
			if s.ServerManager == nil {
				return nil
			}
			return s.ServerManager
		},
		Changed: func(org, server string) {
			if m := s.ServerManager; m != nil {
				m.MCPChanged(org, server)
			}
		},
	})
	s.closers = append(s.closers, func() error { u.Close(); guard.CloseIdle(); return nil })
	if cfg.Manage.Upstream == nil {
		cfg.Manage.Upstream = u
	}
	others := ec.Changed
	ec.Changed = func(org string) {
		u.Pool().Recheck() // the change may forbid a server that runs
		if others != nil {
			others(org)
		}
	}
	return u.Pool(), nil
}

// hostGuard returns the paths that no sandbox ever sees: Haft's data, keys, caches, locks,
// sockets and copies of checkpoints, also those of another process of the same user.
func (s *Service) hostGuard(cfg ServiceConfig) hostpath.Guard {
	g := hostpath.Guard{
		Dirs:  []string{cfg.Data, cacheDir(), cfg.Packages.Dir, cfg.Local.Dir, "/run/haft"},
		Files: append([]string{cfg.MasterKeyFile, os.Getenv("HAFT_MASTER_KEY_FILE")}, cfg.Upstream.Protect...),
	}
	for _, sink := range []string{cfg.AuditSink, os.Getenv("HAFT_AUDIT_SINK")} {
		if checkpoint.IsFile(sink) {
			g.Files = append(g.Files, sink)
		}
	}
	if dir, err := DataDir(); err == nil { // else there is no such directory
		g.Dirs = append(g.Dirs, dir)
	}
	if p, ok := s.App.provider.(interface{ Dirs() []string }); ok {
		g.Dirs = append(g.Dirs, p.Dirs()...)
	}
	return g
}
