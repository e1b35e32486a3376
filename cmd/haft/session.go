package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/app"
	"haft/client"
	"haft/internal/backend"
	"haft/internal/checkpoint"
	"haft/internal/exit"
	"haft/internal/modelfile"
	"haft/internal/supply"
	"haft/internal/terminal"
	"haft/internal/toolfile"
)

// A profile says who works where: the flags that every command on kept state has.
// The environment does the same, so that a script can speak for several people.
type profile struct {
	streams
	data, database   string
	server, keyFile  string
	org, user, agent string
	roles            []string
	lockWait         time.Duration
	reduced, json    bool
	// asIf says that the command is about a principal and not done as that principal.
	asIf bool
	// evidence says that the command reads the audit log only. It works also where the system
	// cannot be opened because the log is not what was signed.
	evidence bool
	// talks says that the command runs agents, with the models of a file or of the environment.
	talks  bool
	models string
	// given reports whether a flag is on the command line.
	given func(flag string) bool
}

// defaultLockWait is how long a command waits for another one that has the directory.
const defaultLockWait = 3 * time.Second

// flags are those of every command on kept state.
func (p *profile) flags() []flag {
	p.org, p.lockWait = "local", defaultLockWait
	return []flag{
		{&p.data, "data", "the `DIR` of the embedded store and of keys ($HAFT_DATA)"},
		{&p.database, "database", "the `URL` of a Postgres"},
		{&p.server, "server", "the `URL` of a server to work on; its key then says who asks"},
		{&p.keyFile, "key-file", "the `FILE` with the key for the server; or the key itself in $HAFT_KEY"},
		{&p.org, "org", "the organisation"},
		{&p.user, "user", "on whose behalf; the user of the system if empty"},
		{&p.roles, "role", "a role, instead of admin and approver; may be given again ($HAFT_ROLES)"},
		{&p.agent, "agent", "the agent that acts, by name or id"},
		{&p.lockWait, "lock-wait", "how long to wait for another haft that uses the directory"},
		reducedFlag(&p.reduced), p.jsonFlag(),
	}
}

// jsonFlag is the flag by which a command prints JSON.
func (p *profile) jsonFlag() flag { return flag{&p.json, "json", "print one JSON document"} }

// principal is on whose behalf the command works.
func (p *profile) principal() haft.Principal {
	who := haft.Principal{Org: p.org, User: p.user, Agent: p.agent, Roles: p.roles}
	if who.User == "" {
		who.User = "operator"
		if u, err := user.Current(); err == nil && u.Username != "" {
			who.User = u.Username
		}
	}
	if len(who.Roles) == 0 {
		for role := range strings.SplitSeq(os.Getenv("HAFT_ROLES"), ",") {
			if role = strings.TrimSpace(role); role != "" {
				who.Roles = append(who.Roles, role)
			}
		}
	}
	if len(who.Roles) == 0 {
		// A user who can read the directory owns the system.
		who.Roles = []string{haft.RoleAdmin, haft.RoleApprover}
	}
	return who
}

// dir returns the data directory.
func (p *profile) dir() (string, error) {
	if p.data != "" {
		return p.data, nil
	}
	return app.DataDir()
}

// remote reports whether commands work on a server. A directory or a database on
// the command line wins over the environment.
func (p *profile) remote() bool {
	return p.server != "" && (p.given("server") || !p.given("data") && !p.given("database"))
}

// A system is in this process or a server.
type system = backend.System

// A session is an open system and who works with it.
type session struct {
	system
	*profile
	p haft.Principal
}

// do opens the system, does the work and closes the system again.
func (p *profile) do(ctx context.Context, work func(context.Context, *session) error) error {
	s, err := p.open(ctx)
	if err != nil {
		return err
	}
	err = work(ctx, s)
	if closed := s.End(ctx); closed != nil {
		closed = fmt.Errorf("close the system: %w", closed)
		if err == nil {
			return closed
		}
		report(p.err, closed) // err decides the exit code
	}
	return err
}

// open opens the system that the flags name.
func (p *profile) open(ctx context.Context) (*session, error) {
	if p.remote() {
		return p.dial(ctx)
	}
	dir, err := p.dir()
	if err != nil {
		return nil, err
	}
	cfg := app.ServiceConfig{
		Config: app.Config{Packages: supply.FromEnv(os.Getenv), AllowReduced: p.reduced},
		Data:   dir, Database: p.database, Wait: p.lockWait, Progress: terminal.NewProgress(p.err).Line,
	}
	if p.talks {
		if cfg.Agents.Models, err = modelfile.Load(p.models, os.Getenv); err != nil {
			return nil, err
		}
	}
	cfg.Engine.Brief = !p.talks
	svc, err := app.OpenService(ctx, cfg)
	if p.evidence && checkpoint.Mismatched(err) {
		report(p.err, err)
		svc, err = app.OpenEvidence(ctx, cfg)
	}
	if err != nil {
		return nil, exit.Advise(err, "look at the data directory ("+dir+"), or name another with --data DIR")
	}
	s := &session{system: &backend.Local{Service: svc}, profile: p, p: p.principal()}
	s.p.Agent = s.agentID(ctx, s.p.Agent)
	return s, nil
}

// dial opens the system of a server. It asks the server whose the key is, so that a key that
// is not valid, or that is of another principal than the flags name, does nothing.
func (p *profile) dial(ctx context.Context) (*session, error) {
	if p.given("server") && (p.given("data") || p.given("database")) {
		return nil, exit.Misuse(errors.New("--server is a system of its own: leave --data and --database out"))
	}
	if p.given("models") {
		return nil, exit.Misuse(errors.New("--models is decided where agents run: start the server with it, haft " +
			"serve " +
			"--models"))
	}
	if p.given("allow-reduced") {
		return nil, exit.Misuse(errors.New("--allow-reduced is decided where tools run: " +
			"start the server with it, haft serve --allow-reduced"))
	}
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{URL: p.server, Key: key, Name: "haft/" + version})
	if err != nil {
		return nil, exit.Misuse(fmt.Errorf("--server: %w", err))
	}
	self, err := c.Self(ctx)
	switch haft.CodeOf(err) {
	case haft.CodeUnauthenticated:
		err = exit.Advise(err, "give the key with --key-file FILE or in $HAFT_KEY; haft serve writes the first one "+
			"to admin.key in its data directory")
	case haft.CodeUnavailable, haft.CodeNotFound:
		err = exit.Advise(err, "look whether a Haft server is at "+p.server+"; start one with: haft serve")
	}
	s := &session{system: backend.NewRemote(c), profile: p}
	if err == nil {
		s.p, err = p.keyPrincipal(self.Principal)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

// key reads the key for the server. It never stands on the command line, which
// others on the machine can read.
func (p *profile) key() (string, error) {
	text := os.Getenv("HAFT_KEY")
	if p.keyFile != "" && (p.given("key-file") || text == "") {
		raw, err := toolfile.ReadBounded(p.keyFile, 64<<10)
		if err != nil {
			return "", exit.Misuse(fmt.Errorf("read the key: %w", err))
		}
		if info, err := os.Stat(p.keyFile); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			fmt.Fprintf(p.err, "note: %s can be read by others on this machine\n", p.keyFile)
		}
		text = string(raw)
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", exit.Misuse(errors.New("a server wants a key: give it with --key-file FILE or in $HAFT_KEY; haft " +
			"serve writes the first one to admin.key in its data directory"))
	}
	return text, nil
}

// keyPrincipal returns on whose behalf the command works on a server, given the principal of the
// key. Flags and environment may name that principal, and an agent that the key may act as. A
// command that is only about a principal (asIf) may name any other.
func (p *profile) keyPrincipal(own haft.Principal) (haft.Principal, error) {
	who, said := own, p.principal()
	if err := said.Check(); err != nil {
		return who, err
	}
	who.Agent = cmp.Or(p.agent, own.Agent)
	otherUser := p.user != "" && said.User != own.User
	otherRoles := (len(p.roles) > 0 || os.Getenv("HAFT_ROLES") != "") && !sameSet(said.Roles, own.Roles)
	flag := ""
	switch {
	case (p.given("org") || os.Getenv("HAFT_ORG") != "") && said.Org != own.Org:
		flag = "--org"
	case p.asIf && otherUser && otherRoles:
		who.User, who.Roles = said.User, said.Roles
	case p.asIf && otherUser:
		who.User = said.User
	case p.asIf && otherRoles:
		who.Roles = said.Roles
	case otherUser:
		flag = "--user"
	case otherRoles:
		flag = "--role"
	}
	if flag != "" {
		return who, exit.Misuse(fmt.Errorf("the key is of user %s of %s with the roles [%s], and %s says otherwise: "+
			"on a server the key says who asks", own.User, own.Org, strings.Join(own.Roles, " "), flag))
	}
	return who, nil
}

// sameSet reports whether two lists have the same texts.
func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// local returns the system if it is in this process. Else it returns an error that says what to do.
func (s *session) local(otherwise string) (*backend.Local, error) {
	if l, ok := s.system.(*backend.Local); ok {
		return l, nil
	}
	return nil, exit.Misuse(errors.New(otherwise))
}

// agentID returns the id of an agent that is named by its name or id: records, limits
// and rules have the id. A removed agent can only be named by its id.
func (s *session) agentID(ctx context.Context, ref string) string {
	if ref == "" || haft.IsAgentID(ref) {
		return ref
	}
	asker := s.p
	asker.Agent = ""
	if a, err := s.Agent(ctx, asker, ref); err == nil {
		return string(a.ID)
	}
	return ref
}
