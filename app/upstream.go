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
	// Allow are ranges of addresses, and Names local names, that servers may have
	// though they are not public. HAFT_MCP_ALLOW and HAFT_MCP_NAMES add to them.
	Allow []netip.Prefix
	Names []string
	// Protect are files and directories besides Haft's own that commands of servers are
	// never shown, such as the key of a certificate.
	Protect []string
	// Pool has bounds and times; what it stands on is filled in.
	Pool upstream.Config
}

// fromEnv adds what the environment allows.
func (c UpstreamConfig) fromEnv() (UpstreamConfig, error) {
	names := strings.FieldsFunc(os.Getenv("HAFT_MCP_NAMES"), func(r rune) bool { return r == ',' || r == ' ' })
	c.Names = slices.Concat(c.Names, names)
	allow, err := parsePrefixes("HAFT_MCP_ALLOW")
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
		Timeout: 24 * time.Hour, MaxBytes: 1 << 40,
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
		u.Pool().Recheck() // whatever changed may have been what let a server run
		if others != nil {
			others(org)
		}
	}
	return u.Pool(), nil
}

// hostGuard is what no sandbox is ever shown: where Haft keeps data, keys, caches, locks,
// sockets and copies of checkpoints. Those that another process of the same user may have
// count too.
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
	if dir, err := DataDir(); err == nil { // else there is no such place
		g.Dirs = append(g.Dirs, dir)
	}
	if p, ok := s.App.provider.(interface{ Dirs() []string }); ok {
		g.Dirs = append(g.Dirs, p.Dirs()...)
	}
	return g
}
