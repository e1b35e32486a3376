package service

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"haft"
	"haft/internal/authority"
	"haft/internal/egress/route"
	"haft/internal/engine"
	"haft/internal/secret"
	"haft/internal/store"
)

// An Upstream reaches MCP servers, and keeps the secrets of them.
type Upstream interface {
	// Keep has write keep s, without what is secret of it and with that encrypted, in
	// one transaction. An empty value keeps the one that is there.
	Keep(ctx context.Context, s haft.MCPServer, write func(haft.MCPServer, store.OwnSecrets) error) error
	// Kinds are those of the scopes where secrets and logins of servers are stored: see
	// [store.ServerParts].
	Kinds() []string
	// List connects and lists the tools, with vars for what the credentials of the
	// server leave open.
	List(ctx context.Context, p haft.Principal, s haft.MCPServer, vars []secret.Named) (*haft.MCPListing, error)
	// Drop ends the sessions with a server, which was changed or removed.
	Drop(s haft.MCPServer)
	// Login and Finish are those of [haft.MCPLogin].
	Login(ctx context.Context, p haft.Principal, s haft.MCPServer, redirect string, vars []secret.Named) (string, error)
	Finish(ctx context.Context, p haft.Principal, a haft.MCPAnswer) error
}

// The bounds on a server.
const (
	maxServers  = 500 // of an organisation
	maxCommand  = 256
	maxMounts   = 32
	maxNetworks = 64
	// relistAfter is how soon a server that says that its tools have changed is
	// believed again.
	relistAfter = 10 * time.Second
)

// A ServerManager keeps MCP servers and the tools that they list.
type ServerManager struct {
	*base
	relists relists
}

// relists remembers when servers were last listed because they asked for it.
type relists struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// note has a server left alone for a while, and reports whether it was not already;
// if it was, that lasts no longer for it unless always.
func (r *relists) note(id string, always bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !always && now.Sub(r.last[id]) < relistAfter {
		return false
	}
	if r.last == nil || len(r.last) > 10_000 {
		r.last = map[string]time.Time{}
	}
	r.last[id] = now
	return true
}

// upstream returns what reaches servers.
func (u *ServerManager) upstream() (Upstream, error) {
	if u.cfg.Upstream == nil {
		return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "MCP servers are not reached from here"}
	}
	return u.cfg.Upstream, nil
}

// MCPServer implements [haft.MCPServers].
func (u *ServerManager) MCPServer(ctx context.Context, p haft.Principal, ref string) (*haft.MCPServer, error) {
	if err := u.authority.MayFind(p, haft.ServersRead); err != nil {
		return nil, err
	}
	return u.store.MCPServers.MCPServer(ctx, p.Org, ref)
}

// MCPServerList implements [haft.MCPServers].
func (u *ServerManager) MCPServerList(ctx context.Context, p haft.Principal) iter.Seq2[haft.MCPServer, error] {
	return func(yield func(haft.MCPServer, error) bool) {
		if err := u.authority.MayFind(p, haft.ServersRead); err != nil {
			yield(haft.MCPServer{}, err)
			return
		}
		for after := ""; ; {
			list, err := u.store.MCPServers.MCPServers(ctx, p.Org, after, page)
			if err != nil {
				yield(haft.MCPServer{}, err)
				return
			}
			for _, s := range list {
				if after = s.Name; !yield(s, nil) {
					return
				}
			}
			if len(list) < page {
				return
			}
		}
	}
}

// PutMCPServer implements [haft.MCPServers].
func (u *ServerManager) PutMCPServer(ctx context.Context, p haft.Principal, s haft.MCPServer) (*haft.MCPChange, error) {
	if err := u.authority.May(p, haft.ServersWrite); err != nil {
		return nil, err
	}
	up, err := u.upstream()
	if err != nil {
		return nil, err
	}
	s.Org, s.State = p.Org, haft.MCPState{}
	if err := u.checkServer(ctx, &s); err != nil {
		return nil, err
	}
	if err := u.CheckServerNetwork(ctx, s); err != nil {
		return nil, err
	}
	before := ""
	switch old, err := u.store.MCPServers.MCPServer(ctx, p.Org, s.Name); {
	case err == nil:
		s.ID, s.Created, before = old.ID, old.Created, old.Audience()
	case haft.CodeOf(err) != haft.CodeNotFound:
		return nil, err
	default:
		if list, err := u.store.MCPServers.MCPServers(ctx, p.Org, "", maxServers); err != nil {
			return nil, err
		} else if len(list) >= maxServers {
			return nil, &haft.Error{Code: haft.CodeInvalid,
				Message: fmt.Sprintf("an organisation has at most %d servers", maxServers)}
		}
		s.ID, s.Created = "mcp_"+rand.Text(), time.Now()
	}
	var kept *haft.MCPServer
	err = up.Keep(ctx, s, func(s haft.MCPServer, own store.OwnSecrets) (err error) {
		kept, err = u.store.MCPServers.PutMCPServer(ctx, s, own)
		return err
	})
	if err != nil {
		return nil, err
	}
	up.Drop(*kept)
	dropped := lost(s, *kept, before)
	err = u.log(ctx, p, "mcp_server.put", map[string]any{
		"server": kept.Name, "id": kept.ID, "transport": kept.Transport, "command": program(*kept),
		"origin":  kept.Origin(),
		"network": kept.Network, "mounts": kept.Mounts, "credentials_dropped": len(dropped) > 0,
	})
	if err != nil {
		return nil, err
	}
	if kept.Disabled {
		return &haft.MCPChange{Server: *kept, Warnings: dropped}, nil
	}
	change, err := u.relist(ctx, p, *kept, true)
	if err != nil {
		return nil, err
	}
	change.Warnings = append(dropped, change.Warnings...)
	return change, nil
}

// lost says which credentials a server has no more because they were for another
// origin, or another command.
func lost(asked, kept haft.MCPServer, before string) []string {
	if before == "" || before == kept.Audience() {
		return nil
	}
	var list []string
	for _, part := range []struct {
		what      string
		asked, is map[string]string
	}{{"the header", asked.Headers, kept.Headers}, {"the variable", asked.Env, kept.Env}} {
		for _, name := range slices.Sorted(maps.Keys(part.asked)) {
			if _, ok := part.is[name]; !ok {
				list = append(list, part.what+" "+name+
					" was for another origin and is dropped: set it again with a value")
			}
		}
	}
	if o := asked.OAuth; o != nil && o.ClientSecret != "" && (kept.OAuth == nil || kept.OAuth.ClientSecret == "") {
		list = append(list, "the secret of the OAuth client was for another origin and is dropped: set it again")
	}
	if kept.URL != "" {
		list = append(list, "logins at the server were for another origin and are dropped: "+
			"whoever used it logs in again, with: haft mcp-server login "+kept.Name)
	}
	return list
}

// program names what a command runs.
func program(s haft.MCPServer) string {
	if len(s.Command) == 0 {
		return ""
	}
	return s.Command[0]
}

// RefreshMCPServer implements [haft.MCPServers].
func (u *ServerManager) RefreshMCPServer(ctx context.Context, p haft.Principal, ref string,
	accept bool) (*haft.MCPChange, error) {
	if err := u.authority.May(p, haft.ServersWrite); err != nil {
		return nil, err
	}
	s, err := u.store.MCPServers.MCPServer(ctx, p.Org, ref)
	if err != nil {
		return nil, err
	}
	if s.Disabled {
		return nil, &haft.Error{Code: haft.CodeDenied, Message: "the server is disabled"}
	}
	return u.relist(ctx, p, *s, accept)
}

// relist lists the tools of a server, and keeps what came of it.
func (u *ServerManager) relist(ctx context.Context, p haft.Principal, s haft.MCPServer,
	accept bool) (*haft.MCPChange, error) {
	up, err := u.upstream()
	if err != nil {
		return nil, err
	}
	vars, err := u.serverVars(ctx, p.Org)
	if err != nil {
		return nil, err
	}
	// Connecting finds out that the tools are others, too: what is to be told is
	// told by this.
	u.relists.note(s.ID, true)
	change := &haft.MCPChange{Server: s}
	listing, err := up.List(ctx, p, s, vars)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		u.cfg.Logger.Warn("the tools of an MCP server cannot be listed", "org", s.Org, "server", s.Name, "error", err)
		change.Server.State.Error = haft.MessageOf(err)
		change.Server.State.Login = u.needsLogin(err)
		change.Warnings = append(change.Warnings, "the tools cannot be listed: "+haft.MessageOf(err))
	default:
		// What a manager added is accepted as it is when it is first seen.
		accept = accept || s.State.Listed.IsZero()
		if change, err = u.registry.Sync(ctx, p, s, *listing, accept); err != nil {
			return nil, err
		}
	}
	kept, err := u.store.MCPServers.SetMCPServer(ctx, s.Org, s.ID, func(m *haft.MCPServer) error {
		m.State = change.Server.State
		return nil
	})
	if err != nil {
		return nil, err
	}
	change.Server = *kept
	return change, u.log(ctx, p, "mcp_server.listed", map[string]any{
		"server": s.Name, "id": s.ID, "listing": kept.State.Listing, "accepted": accept, "added": change.Added,
		"changed": change.Changed,
		"removed": change.Removed, "waiting": change.Waiting, "invalid": len(kept.State.Invalid),
		"failed": kept.State.Error != "",
	})
}

// needsLogin reports whether listing failed because the server needs a login.
func (u *ServerManager) needsLogin(err error) bool {
	f, ok := u.cfg.Upstream.(interface{ NeedsLogin(error) bool })
	return ok && f.NeedsLogin(err)
}

// serverVars are the variables of an organisation, for credentials of servers that
// are asked for nobody in particular.
func (u *ServerManager) serverVars(ctx context.Context, org string) ([]secret.Named, error) {
	if u.cfg.Vault == nil {
		return nil, nil
	}
	stored, err := u.cfg.Vault.Stored(ctx, org, "")
	if err != nil {
		return nil, fmt.Errorf("read the stored environment: %w", err)
	}
	return stored.Org, nil
}

// MCPChanged is told that a server lists other tools than it is known by. They are
// listed in the background; what is new waits for a person.
func (u *ServerManager) MCPChanged(org, id string) {
	if !u.relists.note(id, false) {
		return
	}
	u.work.Go(func(ctx context.Context) {
		s, err := u.store.MCPServers.MCPServer(ctx, org, id)
		if err == nil && !s.Disabled {
			_, err = u.relist(ctx, haft.Principal{Org: org, User: "mcp:" + s.Name}, *s, false)
		}
		if err != nil && ctx.Err() == nil {
			u.cfg.Logger.Warn("the changed tools of an MCP server cannot be listed", "org", org, "server", id, "error",
				err)
		}
	})
}

// RemoveMCPServer implements [haft.MCPServers].
func (u *ServerManager) RemoveMCPServer(ctx context.Context, p haft.Principal, ref, revision string) error {
	if err := u.authority.May(p, haft.ServersWrite); err != nil {
		return err
	}
	s, err := u.store.MCPServers.MCPServer(ctx, p.Org, ref)
	if err != nil {
		return err
	}
	parts := store.ServerParts{}
	if u.cfg.Upstream != nil {
		parts.Kinds = u.cfg.Upstream.Kinds()
	}
	removed, err := u.registry.Unsync(ctx, p, *s, func(tools []haft.ToolID) error {
		parts.Tools = tools
		return u.store.MCPServers.RemoveMCPServer(ctx, p.Org, s.ID, revision, parts)
	})
	if err != nil {
		return err
	}
	if u.cfg.Upstream != nil {
		u.cfg.Upstream.Drop(*s)
	}
	return u.log(ctx, p, "mcp_server.remove", map[string]any{"server": s.Name, "id": s.ID, "tools": removed})
}

// LoginMCPServer implements [haft.MCPLogin].
func (u *ServerManager) LoginMCPServer(ctx context.Context, p haft.Principal, ref, redirect string) (string, error) {
	if err := u.authority.Authorize(p, haft.CallsWrite, authority.Resource{Person: true}); err != nil {
		return "", err
	}
	up, err := u.upstream()
	if err != nil {
		return "", err
	}
	s, err := u.store.MCPServers.MCPServer(ctx, p.Org, ref)
	if err != nil {
		return "", err
	}
	vars, err := u.serverVars(ctx, p.Org)
	if err != nil {
		return "", err
	}
	link, err := up.Login(ctx, p, *s, redirect, vars)
	if err != nil {
		return "", err
	}
	return link, u.log(ctx, p, "mcp_server.login", map[string]any{"server": s.Name, "id": s.ID, "wanted": link != ""})
}

// FinishMCPLogin implements [haft.MCPLogin].
func (u *ServerManager) FinishMCPLogin(ctx context.Context, p haft.Principal, a haft.MCPAnswer) error {
	if err := u.authority.Authorize(p, haft.CallsWrite, authority.Resource{Person: true}); err != nil {
		return err
	}
	up, err := u.upstream()
	if err != nil {
		return err
	}
	err = up.Finish(ctx, p, a)
	if logged := u.log(ctx, p, "mcp_server.login_ended", map[string]any{"agreed": err == nil}); err == nil {
		err = logged
	}
	return err
}

// checkServer reports what is wrong with a server, and completes it.
func (u *ServerManager) checkServer(ctx context.Context, s *haft.MCPServer) error {
	bad := func(message string) error { return &haft.Error{Code: haft.CodeInvalid, Message: message} }
	if err := haft.CheckServerName(s.Name); err != nil {
		return err
	}
	if s.Transport == "" {
		if s.Transport = haft.MCPHTTP; len(s.Command) > 0 {
			s.Transport = haft.MCPStdio
		}
	}
	if !slices.Contains(haft.MCPTransports(), s.Transport) {
		return bad("the transport is stdio, http or sse")
	}
	if s.Connect < 0 || s.List < 0 || s.Connect.D() > 10*time.Minute || s.List.D() > 10*time.Minute {
		return bad("the time to connect and to list is at most 10 minutes")
	}
	if s.Limits != s.Limits.Within(u.cfg.Ceilings) {
		return bad("a limit of the server is more than the most there is")
	}
	if s.Transport == haft.MCPStdio {
		return u.checkCommand(ctx, s)
	}
	if len(s.Command)+len(s.Mounts)+len(s.Network)+len(s.Env) > 0 {
		return bad("a server with an address has no command, mounts, network or environment")
	}
	address, err := url.Parse(s.URL)
	if err != nil || address.Scheme != "https" && address.Scheme != "http" || address.Hostname() == "" ||
		address.User != nil ||
		address.Fragment != "" || len(s.URL) > 2048 {
		return bad("the address of a server is https://… or http://…, without a user or fragment")
	}
	return nil
}

// ownDirs are the paths of a sandbox that no mount may take the place of.
var ownDirs = []string{
	"/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr",
	"/usr/bin",
	"/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/sbin", "/var", "/var/tmp", "/work",
}

// checkCommand checks a server that is a command, and whether policy lets the
// organisation have it.
func (u *ServerManager) checkCommand(ctx context.Context, s *haft.MCPServer) error {
	bad := func(message string) error { return &haft.Error{Code: haft.CodeInvalid, Message: message} }
	switch {
	case len(s.Command) == 0 || s.Command[0] == "":
		return bad("a server on its standard streams needs a command")
	case s.URL != "" || len(s.Headers) > 0 || s.OAuth != nil:
		return bad("a server that is a command has no address, headers or login")
	case len(s.Command) > maxCommand || len(s.Mounts) > maxMounts || len(s.Network) > maxNetworks ||
		len(s.Env) > engine.MaxEnv:
		return bad("the server has too many arguments, mounts, hosts or variables")
	}
	for _, a := range s.Command {
		if len(a) > 32<<10 || strings.ContainsRune(a, 0) {
			return bad("an argument of the command is too long or holds NUL")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if slices.Contains(u.cfg.CommandVariables, name) {
			continue
		}
		if err := secret.CheckEnvName(name); err != nil {
			return &haft.Error{Code: haft.CodeInvalid, Message: haft.MessageOf(err) +
				": the operator can allow it for MCP servers with haft serve --mcp-variable", Err: err}
		}
	}
	rules, err := u.decisions.Rules(ctx, s.Org)
	if err != nil {
		return err
	}
	if err := rules.MayRun(s.Org, s.Command[0]); err != nil {
		return err
	}
	for i := range s.Mounts {
		m := &s.Mounts[i]
		if m.Inside == "" {
			m.Inside = m.Dir
		}
		for _, dir := range []string{m.Dir, m.Inside} {
			if !path.IsAbs(dir) || path.Clean(dir) != dir || dir == "/" || len(dir) > 1024 {
				return bad("a mount is between clean absolute paths below the root")
			}
		}
		if slices.Contains(ownDirs, m.Inside) {
			return bad("the mount at " + m.Inside +
				" would cover a directory of the sandbox itself: choose another path inside")
		}
		if slices.ContainsFunc(s.Mounts[:i], func(o haft.MCPMount) bool { return o.Inside == m.Inside }) {
			return bad("two mounts are at " + m.Inside + " inside the sandbox")
		}
		// What the path leads to is decided when it is opened, see [Upstream.Keep].
		if err := rules.MayMount(s.Org, m.Dir); err != nil {
			return err
		}
	}
	for _, entry := range s.Network {
		if entry == route.NetworkFull {
			continue
		}
		if u.cfg.Egress == nil {
			return bad("a network of named hosts cannot be given here")
		}
		if _, err := u.cfg.Egress.Host(entry); err != nil {
			return err
		}
	}
	return nil
}
