package app

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/executor/upstream"
	"haft/internal/egress"
	"haft/internal/engine"
	"haft/internal/secret"
	"haft/internal/secret/keeper"
	"haft/internal/secret/vault"
	"haft/internal/store"
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

// The scopes of what is stored of MCP servers.
const (
	kindServer keeper.Kind = "mcp"      // headers, variables, the client's secret
	kindGrant  keeper.Kind = "mcp-user" // what one person granted
)

// freshFor is how long a server is believed to be as it was read, and recheckEvery how
// often it is asked whether it may still run without being told of a change: of those that
// other processes make nobody tells.
const (
	freshFor     = time.Second
	recheckEvery = 500 * time.Millisecond
)

// upstreams reaches MCP servers. It is what the pool knows of the store and the
// vault, and what the engine knows of the pool.
type upstreams struct {
	service *Service
	gate    engine.EgressGuard
	pool    *upstream.Pool
	// ctx is for asking what policy says of a connection; it does not end.
	ctx      context.Context
	contacts *serverConnections
	guard    hostpath.Guard

	mu    sync.Mutex
	known map[[2]string]knownServer // by organisation and name or id
}

// knownServer is one that was read a moment ago.
type knownServer struct {
	server haft.MCPServer
	until  time.Time
}

var _ engine.Upstream = (*upstreams)(nil)
var _ upstream.Directory = (*upstreams)(nil)
var _ upstream.Vault = (*upstreams)(nil)

// fromEnv adds what the environment allows.
func (c UpstreamConfig) fromEnv() (UpstreamConfig, error) {
	names := strings.FieldsFunc(os.Getenv("HAFT_MCP_NAMES"), func(r rune) bool { return r == ',' || r == ' ' })
	c.Names = slices.Concat(c.Names, names)
	allow, err := parsePrefixes("HAFT_MCP_ALLOW")
	c.Allow = slices.Concat(c.Allow, allow)
	return c, err
}

// openUpstream makes what reaches MCP servers. It reaches none yet.
func (s *Service) openUpstream(ctx context.Context, cfg ServiceConfig, ec *engine.Config) (*upstream.Pool, error) {
	var err error
	if cfg.Upstream, err = cfg.Upstream.fromEnv(); err != nil {
		return nil, err
	}
	u := &upstreams{service: s, gate: ec.Egress, guard: s.guard(cfg), known: map[[2]string]knownServer{},
		ctx: context.WithoutCancel(ctx)}
	u.contacts = s.newServerContacts()
	guard := egress.New(egress.Config{
		Allow: append(append([]netip.Prefix(nil), cfg.Allow...), cfg.Upstream.Allow...), Names: cfg.Upstream.Names,
		// Streams last; the pool bounds each message and each wait.
		Timeout: 24 * time.Hour, MaxBytes: 1 << 40,
	})
	pc := cfg.Upstream.Pool
	pc.Directory, pc.Vault, pc.Place, pc.Client, pc.Egress = u, u, u.place, guard.Client(), u.egress
	pc.Fits, pc.Permit, pc.RecheckEvery = egress.FitsBinding, u.permit, recheckEvery
	pc.Changed = func(org, server string) {
		if e := s.Engine; e != nil {
			e.MCPChanged(org, server)
		}
	}
	if pc.Logger == nil {
		pc.Logger = cfg.Logger
	}
	u.pool = upstream.New(ctx, pc)
	s.closers = append(s.closers, func() error { u.pool.Close(); u.contacts.flushAll(); guard.CloseIdle(); return nil })
	if ec.Upstream == nil {
		ec.Upstream = u
	}
	others := ec.Changed
	ec.Changed = func(org string) {
		u.pool.Recheck() // whatever changed may have been what let a server run
		if others != nil {
			others(org)
		}
	}
	return u.pool, nil
}

// serverSecrets are what is secret of a server.
type serverSecrets struct {
	Headers map[string]string `json:"headers,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Client  string            `json:"client_secret,omitempty"`
	// Audience is whom they are for, see [haft.MCPServer.Audience]; "" means the server
	// that they were kept with, by an earlier version.
	Audience string `json:"audience,omitempty"`
}

// hiddenValue stands for a value that is stored and not shown.
const hiddenValue = "[not kept]"

// stored reads the credentials of a server.
func (u *upstreams) stored(ctx context.Context, org, id string) (serverSecrets, error) {
	var c serverSecrets
	raw, err := u.service.vault.Value(ctx, keeper.Scope{Org: org, Kind: kindServer, ID: id})
	if haft.CodeOf(err) == haft.CodeNotFound {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read the credentials of a server: %w", err)
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("read the credentials of a server: %w", err)
	}
	return c, nil
}

// Server implements [upstream.Directory].
func (u *upstreams) Server(ctx context.Context, org, ref string) (haft.MCPServer, error) {
	at := [2]string{org, ref}
	u.mu.Lock()
	k, ok := u.known[at]
	u.mu.Unlock()
	if ok && time.Now().Before(k.until) {
		return k.server, nil
	}
	got, err := u.service.Store.MCPServer(ctx, org, ref)
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

// filled returns shown values with the stored ones in their place.
func filled(shown, stored map[string]string) map[string]string {
	out := make(map[string]string, len(shown))
	for name, text := range shown {
		if text == hiddenValue {
			value, ok := stored[name]
			if !ok {
				continue
			}
			text = value
		}
		out[name] = text
	}
	return out
}

// Keep implements [engine.Upstream].
func (u *upstreams) Keep(ctx context.Context, s haft.MCPServer,
	write func(haft.MCPServer, store.OwnSecrets) error) error {
	if err := upstream.CheckHeaders(s.Headers); err != nil {
		return err
	}
	if err := u.permitMounts(ctx, s); err != nil {
		return err
	}
	return vault.Retry(func() error {
		shown, own, err := u.sealed(ctx, s)
		if err != nil {
			return err
		}
		return write(shown, own)
	})
}

// sealed parts a server into what is shown of it and what is stored encrypted.
func (u *upstreams) sealed(ctx context.Context, s haft.MCPServer) (
	shown haft.MCPServer, own store.OwnSecrets, err error) {
	at := keeper.Scope{Org: s.Org, Kind: kindServer, ID: s.ID}
	have, err := u.service.Store.Secrets(ctx, at.Org, string(at.Kind), at.ID, "", 0)
	if err != nil {
		return s, own, err
	}
	old, err := u.stored(ctx, s.Org, s.ID)
	if err != nil {
		return s, own, err
	}
	was, err := u.service.Store.MCPServer(ctx, s.Org, s.ID)
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return s, own, err
	}
	// Values that were stored for another audience, and what people granted to it, are
	// not for this one.
	moved := was != nil && was.Audience() != s.Audience() || old.Audience != "" && old.Audience != s.Audience()
	if !moved && was != nil {
		if err := sameVariables(s.Env, old.Env, was.Env); err != nil {
			return s, own, err
		}
	}
	if moved {
		old = serverSecrets{}
		s.Headers, s.Env = given(s.Headers), given(s.Env)
		if s.OAuth != nil && s.OAuth.ClientSecret == hiddenValue {
			o := *s.OAuth
			o.ClientSecret = ""
			s.OAuth = &o
		}
	}
	c := serverSecrets{Audience: s.Audience()}
	if s.Headers, c.Headers, err = hidden("the header", s.Headers, old.Headers); err != nil {
		return s, own, err
	}
	if s.Env, c.Env, err = hidden("the variable", s.Env, old.Env); err != nil {
		return s, own, err
	}
	if s.OAuth != nil {
		o := *s.OAuth
		switch o.ClientSecret {
		case "":
		case hiddenValue:
			c.Client = old.Client
		default:
			c.Client, o.ClientSecret = o.ClientSecret, hiddenValue
		}
		s.OAuth = &o
	}
	values := map[string]secret.Value{}
	if len(c.Headers)+len(c.Env)+len(c.Client) > 0 {
		raw, err := json.Marshal(c)
		if err != nil {
			return s, own, fmt.Errorf("write the credentials of a server: %w", err)
		}
		values[vault.ValueName] = secret.New(string(raw))
	}
	if own, err = u.service.vault.Prepare(ctx, at, have, values); moved {
		own.Drop = []string{string(kindGrant)} // of everybody
	}
	return s, own, err
}

// sameVariables refuses to keep stored values of a command beside variables that change:
// a command reads from its other variables where it sends or writes a value. So all of them
// are given anew, or all of them stay. Shown is how they are shown now: a value that is given
// is not compared with a stored one, or whoever may update a server could guess it.
func sameVariables(asked, stored, shown map[string]string) error {
	next, kept := maps.Clone(asked), ""
	for name, text := range asked {
		if _, ok := stored[name]; ok && (text == "" || text == hiddenValue) {
			next[name], kept = hiddenValue, max(kept, name)
		}
	}
	if kept == "" || maps.Equal(next, shown) {
		return nil
	}
	return &haft.Error{Code: haft.CodeInvalid, Message: "the variables of a command change together: " +
		"give the variable " + kept + " and every other one its value again, since the command may send it " +
		"elsewhere now"}
}

// given are the values that came with a request, without those that only say that there
// is one.
func given(values map[string]string) map[string]string {
	out := maps.Clone(values)
	maps.DeleteFunc(out, func(_, text string) bool { return text == "" || text == hiddenValue })
	return out
}

// Kinds implements [engine.Upstream].
func (u *upstreams) Kinds() []string { return []string{string(kindServer), string(kindGrant)} }

// hidden parts values into what may be shown, which are those that only name
// variables, and what is stored.
func hidden(what string, values, old map[string]string) (shown, stored map[string]string, err error) {
	shown, stored = maps.Clone(values), map[string]string{}
	for name, text := range values {
		if text == "" || text == hiddenValue {
			was, ok := old[name]
			if !ok {
				return nil, nil, &haft.Error{Code: haft.CodeInvalid, Message: what + " " + name + " has no value"}
			}
			text = was
		}
		if bare := strings.TrimPrefix(strings.TrimPrefix(text, "Bearer "), "Basic "); upstream.Templated(bare) {
			shown[name] = text
			continue
		}
		shown[name], stored[name] = hiddenValue, text
	}
	return shown, stored, nil
}

// List implements [engine.Upstream].
func (u *upstreams) List(ctx context.Context, p haft.Principal, s haft.MCPServer,
	vars []secret.Named) (*haft.MCPListing, error) {
	u.forget(s)
	return u.pool.List(ctx, p, s.ID, vars)
}

// NeedsLogin reports whether an error of List says so.
func (u *upstreams) NeedsLogin(err error) bool { return upstream.NeedsLogin(err) }

// forget has a server read again.
func (u *upstreams) forget(s haft.MCPServer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.known, [2]string{s.Org, s.ID})
	delete(u.known, [2]string{s.Org, s.Name})
}

// Drop implements [engine.Upstream].
func (u *upstreams) Drop(s haft.MCPServer) {
	u.forget(s)
	u.pool.Drop(s.Org, s.ID)
	// Its credentials went or changed with it, and not through the vault.
	u.service.vault.Changed(s.Org)
}

// Login implements [engine.Upstream].
func (u *upstreams) Login(ctx context.Context, p haft.Principal, s haft.MCPServer, redirect string,
	vars []secret.Named) (string, error) {
	return u.pool.Login(ctx, p, s.ID, redirect, vars)
}

// Finish implements [engine.Upstream].
func (u *upstreams) Finish(ctx context.Context, p haft.Principal, a haft.MCPAnswer) error {
	return u.pool.Finish(ctx, p, a)
}

// grantScope is where the login of somebody is stored.
func grantScope(org, server, user string) keeper.Scope {
	return keeper.Scope{Org: org, Kind: kindGrant, ID: server + "/" + user}
}

// Grant implements [upstream.Vault].
func (u *upstreams) Grant(ctx context.Context, org, server, user string) ([]byte, error) {
	return u.service.vault.Value(ctx, grantScope(org, server, user))
}

// PutGrant implements [upstream.Vault].
func (u *upstreams) PutGrant(ctx context.Context, org, server, user string, grant []byte) error {
	return u.service.vault.PutValue(ctx, grantScope(org, server, user), grant)
}
