// Package servers stores the MCP servers of organisations: their credentials, encrypted, and
// their rules for the network. It connects the pool of package upstream with the store, and
// the engine with the pool.
package servers

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"haft"
	"haft/executor/upstream"
	"haft/internal/egress"
	"haft/internal/egress/route"
	"haft/internal/mcp/command"
	"haft/internal/secret"
	"haft/internal/secret/keeper"
	"haft/internal/secret/vault"
	"haft/internal/service"
	"haft/internal/store"
)

// The scopes of stored values of MCP servers.
const (
	kindServer keeper.Kind = "mcp"      // headers, variables, the client's secret
	kindGrant  keeper.Kind = "mcp-user" // what one person granted
)

// freshFor is how long a server is cached. recheckEvery is how often the pool checks whether
// sessions are still allowed: other processes do not notify this one of their changes.
const (
	freshFor     = time.Second
	recheckEvery = 500 * time.Millisecond
)

// Rules decide which hosts MCP servers may reach, and log their connections.
type Rules interface {
	// CheckServerNetwork reports why a server may not reach the hosts that it names.
	CheckServerNetwork(ctx context.Context, s haft.MCPServer) error
	// ServerForbids returns the rule by which a server may not reach a host, or "".
	ServerForbids(ctx context.Context, s haft.MCPServer, host string, port uint16) string
	// LogServerConnections writes connections of a server to the audit.
	LogServerConnections(ctx context.Context, s haft.MCPServer, list []service.ServerConnections, more int) error
}

// Config has the parts that servers need. All fields but those of Pool are required.
type Config struct {
	Store    *store.Store
	Vault    *vault.Vault
	Commands *command.Resolver
	// Egress opens the egress sessions of commands. Client sends requests to servers that
	// have an address.
	Egress route.Guard
	Client *http.Client
	// Rules returns nil while there is no engine yet.
	Rules func() Rules
	// Changed is called when a server lists other tools than before.
	Changed func(org, server string)
	// Pool has bounds and times; the rest is filled in.
	Pool   upstream.Config
	Logger *slog.Logger
}

// Servers connects to MCP servers. Close it.
type Servers struct {
	cfg  Config
	pool *upstream.Pool
	// ctx is used for policy checks of connections; it does not end.
	ctx  context.Context
	logs *serverLogs

	mu    sync.Mutex
	known map[[2]string]knownServer // by organisation and name or id
}

// knownServer is a cached server.
type knownServer struct {
	server haft.MCPServer
	until  time.Time
}

var _ service.Upstream = (*Servers)(nil)
var _ upstream.Directory = (*Servers)(nil)
var _ upstream.Vault = (*Servers)(nil)

// Open opens the servers. It connects to none yet.
func Open(ctx context.Context, cfg Config) *Servers {
	u := &Servers{cfg: cfg, ctx: context.WithoutCancel(ctx), known: map[[2]string]knownServer{}}
	u.logs = u.newLogs()
	pc := cfg.Pool
	pc.Directory, pc.Vault, pc.Place, pc.Client, pc.Egress = u, u, u.place, cfg.Client, u.egress
	pc.Fits, pc.Permit, pc.RecheckEvery, pc.Changed = egress.FitsBinding, u.permit, recheckEvery, cfg.Changed
	if pc.Logger == nil {
		pc.Logger = cfg.Logger
	}
	u.pool = upstream.New(ctx, pc)
	return u
}

// Pool returns the sessions with servers.
func (u *Servers) Pool() *upstream.Pool { return u.pool }

// Close ends all sessions, and writes their connections to the audit.
func (u *Servers) Close() {
	u.pool.Close()
	u.logs.flushAll()
}

// Server implements [upstream.Directory].
func (u *Servers) Server(ctx context.Context, org, ref string) (haft.MCPServer, error) {
	at := [2]string{org, ref}
	u.mu.Lock()
	k, ok := u.known[at]
	u.mu.Unlock()
	if ok && time.Now().Before(k.until) {
		return k.server, nil
	}
	got, err := u.cfg.Store.MCPServers.MCPServer(ctx, org, ref)
	if err != nil {
		return haft.MCPServer{}, err
	}
	s := *got
	c, err := u.stored(ctx, org, s.ID)
	if err != nil {
		return haft.MCPServer{}, err
	}
	if c.Audience != "" && c.Audience != s.Audience() {
		c = serverSecrets{} // they are somebody else's
	}
	s.Headers, s.Env = filled(s.Headers, c.Headers), filled(s.Env, c.Env)
	if s.OAuth != nil {
		o := *s.OAuth
		o.ClientSecret = c.Client
		s.OAuth = &o
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.known) > 10_000 {
		clear(u.known)
	}
	u.known[at] = knownServer{s, time.Now().Add(freshFor)}
	return s, nil
}

// Kinds implements [service.Upstream].
func (u *Servers) Kinds() []string { return []string{string(kindServer), string(kindGrant)} }

// List implements [service.Upstream].
func (u *Servers) List(ctx context.Context, p haft.Principal, s haft.MCPServer,
	vars []secret.Named) (*haft.MCPListing, error) {
	u.forget(s)
	return u.pool.List(ctx, p, s.ID, vars)
}

// NeedsLogin reports whether an error of List says that somebody has to log in.
func (u *Servers) NeedsLogin(err error) bool { return upstream.NeedsLogin(err) }

// forget removes a server from the cache.
func (u *Servers) forget(s haft.MCPServer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.known, [2]string{s.Org, s.ID})
	delete(u.known, [2]string{s.Org, s.Name})
}

// Drop implements [service.Upstream].
func (u *Servers) Drop(s haft.MCPServer) {
	u.forget(s)
	u.pool.Drop(s.Org, s.ID)
	// Its credentials were changed or removed with it, and not through the vault.
	u.cfg.Vault.Changed(s.Org)
}

// Login implements [service.Upstream].
func (u *Servers) Login(ctx context.Context, p haft.Principal, s haft.MCPServer, redirect string,
	vars []secret.Named) (string, error) {
	return u.pool.Login(ctx, p, s.ID, redirect, vars)
}

// Finish implements [service.Upstream].
func (u *Servers) Finish(ctx context.Context, p haft.Principal, a haft.MCPAnswer) error {
	return u.pool.Finish(ctx, p, a)
}

// grantScope is the scope of the login of a user.
func grantScope(org, server, user string) keeper.Scope {
	return keeper.Scope{Org: org, Kind: kindGrant, ID: server + "/" + user}
}

// Grant implements [upstream.Vault].
func (u *Servers) Grant(ctx context.Context, org, server, user string) ([]byte, error) {
	return u.cfg.Vault.Value(ctx, grantScope(org, server, user))
}

// PutGrant implements [upstream.Vault].
func (u *Servers) PutGrant(ctx context.Context, org, server, user string, grant []byte) error {
	return u.cfg.Vault.PutValue(ctx, grantScope(org, server, user), grant)
}
