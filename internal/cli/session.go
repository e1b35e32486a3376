package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"haft"
	"haft/app"
	"haft/client"
	"haft/internal/backend"
	"haft/internal/doctor"
	"haft/internal/exit"
	"haft/internal/modelfile"
	"haft/internal/supply"
	"haft/internal/terminal"
	"haft/internal/toolfile"
)

// A Profile says who works where: the flags that every command on kept state has.
// The environment does the same, so that a script can speak for several people.
type Profile struct {
	Streams
	// Version is that of the program.
	Version         string
	Data, Database  string
	server, keyFile string
	Org, User       string
	Acting          string // the agent
	Roles           []string
	LockWait        time.Duration
	Reduced, JSON   bool
	// as is the form in which results are printed, and named the profile of the configuration.
	as, named string
	// ownKey says that the key file is that of the profile, with its server.
	ownKey bool
	// AsIf says that the command is about a principal and not done as that principal.
	AsIf bool
	// Evidence says that the command reads the audit log only. It works also where the system
	// cannot be opened because the log is not what was signed.
	Evidence bool
	// Talks says that the command runs agents, with the models of a file or of the environment.
	Talks  bool
	Models string
	// Lasting says that the command runs until somebody ends it.
	Lasting bool
	command string // the first word of the command
	// Given reports whether a flag is on the command line.
	Given func(flag string) bool
}

// DefaultLockWait is how long a command waits for another one that has the directory and does not serve it.
const DefaultLockWait = 10 * time.Second

// Flags are those of every command on kept state.
func (p *Profile) Flags() []Flag {
	p.Org, p.LockWait = "local", DefaultLockWait
	return []Flag{
		{&p.Data, "data", "the `DIR` of the embedded store and of keys ($HAFT_DATA)"},
		{&p.Database, "database", "the `URL` of a Postgres"},
		{&p.server, "server", "the `URL` of a server to work on; its key then says who asks"},
		{&p.keyFile, "key-file", "the `FILE` with the key for the server; or the key itself in $HAFT_KEY"},
		{&p.Org, "org", "the organisation"},
		{&p.User, "user", "on whose behalf; the user of the system if empty"},
		{&p.Roles, "role", "a role, instead of admin and approver; may be given again ($HAFT_ROLES)"},
		{&p.Acting, "agent", "the agent that acts, by name or id"},
		{&p.LockWait, "lock-wait", "how long to wait for another haft that uses the directory"},
		{&p.named, "profile", "a profile of haft config: the server, the key and the defaults in it"},
		ReducedFlag(&p.Reduced), p.jsonFlag(),
	}
}

// jsonFlag is the flag by which a command prints JSON.
func (p *Profile) jsonFlag() Flag { return Flag{&p.JSON, "json", "print one JSON document"} }

// Principal is on whose behalf the command works.
func (p *Profile) Principal() haft.Principal {
	who := haft.Principal{Org: p.Org, User: p.User, Agent: p.Acting, Roles: p.Roles}
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

// Dir returns the data directory.
func (p *Profile) Dir() (string, error) {
	if p.Data != "" {
		return p.Data, nil
	}
	return app.DataDir()
}

// Remote reports whether commands work on a server. A directory or a database on
// the command line wins over the environment.
func (p *Profile) Remote() bool {
	return p.server != "" && (p.Given("server") || !p.Given("data") && !p.Given("database"))
}

// WhereFlags returns the flags with which another program works where this command does, and as whom.
// Paths are absolute. Secrets are never in them: what only a secret reaches is an error.
func (p *Profile) WhereFlags() ([]string, error) {
	data := p.Data
	if data == "" {
		data = os.Getenv("HAFT_DATA")
	}
	key := p.keyFile
	switch {
	case p.Remote() && key == "":
		return nil, exit.Misuse(errors.New("a key is not written into a configuration: name its file with --key-file"))
	case p.Remote():
		data = ""
	case p.Database != "":
		return nil, exit.Misuse(errors.New("the URL of a database is not written into a configuration: start haft " +
			"serve with it and name the server with --server and --key-file"))
	default:
		key = ""
	}
	var flags []string
	for _, f := range []struct {
		name, value string
		path        bool
	}{{"--data", data, true}, {"--key-file", key, true}, {"--user", p.User, false}, {"--agent", p.Acting, false}} {
		if f.value == "" {
			continue
		}
		if abs, err := filepath.Abs(f.value); f.path {
			if f.value = abs; err != nil {
				return nil, fmt.Errorf("find the file of %s: %w", f.name, err)
			}
		}
		flags = append(flags, f.name, f.value)
	}
	if p.Remote() {
		flags = append(flags, "--server", p.server)
	}
	if p.Org != "local" {
		flags = append(flags, "--org", p.Org)
	}
	if len(p.Roles) > 0 || os.Getenv("HAFT_ROLES") != "" {
		for _, role := range p.Principal().Roles {
			flags = append(flags, "--role", role)
		}
	}
	return flags, nil
}

// A System is in this process or a server.
type System = backend.System

// A Session is an open system and who works with it.
type Session struct {
	System
	*Profile
	Who haft.Principal
}

// Do opens the system, does the work and closes the system again.
func (p *Profile) Do(ctx context.Context, work func(context.Context, *Session) error) error {
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
		Report(p.Err, closed) // err decides the exit code
	}
	return err
}

// open opens the system that the flags name.
func (p *Profile) open(ctx context.Context) (*Session, error) {
	if p.Remote() {
		return p.dial(ctx)
	}
	dir, err := p.Dir()
	if err != nil {
		return nil, err
	}
	cfg := app.ServiceConfig{
		Config: app.Config{Packages: supply.FromEnv(os.Getenv), AllowReduced: p.Reduced},
		Data:   dir, Database: p.Database, Wait: p.LockWait, Progress: terminal.NewProgress(p.Err).Line,
	}
	if p.Talks {
		if cfg.Agents.Models, err = modelfile.Load(p.Models, os.Getenv); err != nil {
			return nil, err
		}
	}
	cfg.Engine.Brief = !p.Talks
	sys, err := p.find(ctx, cfg)
	if err != nil {
		return nil, exit.Advise(err, "look at the data directory ("+dir+"), or name another with --data DIR")
	}
	s := &Session{System: sys, Profile: p, Who: p.Principal()}
	s.Who.Agent = s.AgentID(ctx, s.Who.Agent)
	return s, nil
}

// dial opens the system of a server. It asks the server whose the key is, so that a key that
// is not valid, or that is of another principal than the flags name, does nothing.
func (p *Profile) dial(ctx context.Context) (*Session, error) {
	if p.Given("server") && (p.Given("data") || p.Given("database")) {
		return nil, exit.Misuse(errors.New("--server is a system of its own: leave --data and --database out"))
	}
	if p.Given("models") {
		return nil, exit.Misuse(errors.New("--models is decided where agents run: start the server with it, haft " +
			"serve " +
			"--models"))
	}
	if p.Given("allow-reduced") {
		return nil, exit.Misuse(errors.New("--allow-reduced is decided where tools run: " +
			"start the server with it, haft serve --allow-reduced"))
	}
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{URL: p.server, Key: key, Name: "haft/" + p.Version})
	if err != nil {
		return nil, exit.Misuse(fmt.Errorf("--server: %w", err))
	}
	self, err := c.Self(ctx)
	switch haft.CodeOf(err) {
	case haft.CodeUnauthenticated:
		if from := p.keySource(key); from != "" {
			err = fmt.Errorf("the key %s is not valid at %s: %w", from, p.server, err)
		}
		err = exit.Advise(err, "give the key with --key-file FILE or in $HAFT_KEY; haft serve writes the first one "+
			"to admin.key in its data directory")
	case haft.CodeUnavailable, haft.CodeNotFound:
		err = exit.Advise(err, "look whether a Haft server is at "+p.server+"; start one with: haft serve")
	}
	s := &Session{System: backend.NewRemote(c), Profile: p}
	if err == nil {
		s.Who, err = p.keyPrincipal(self.Principal)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return s, nil
}

// key reads the key for the server. It never stands on the command line, which
// others on the machine can read.
func (p *Profile) key() (string, error) {
	text := os.Getenv("HAFT_KEY")
	if p.keyFile != "" && (p.Given("key-file") || p.ownKey || text == "") {
		raw, err := toolfile.ReadBounded(p.keyFile, 64<<10)
		if err != nil {
			return "", exit.Misuse(fmt.Errorf("read the key: %w", err))
		}
		if info, err := os.Stat(p.keyFile); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			fmt.Fprintf(p.Err, "note: %s can be read by others on this machine\n", p.keyFile)
		}
		text = string(raw)
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", exit.Misuse(errors.New("a server wants a key: give it with --key-file FILE or in $HAFT_KEY; haft " +
			"serve writes the first one to admin.key in its data directory"))
	}
	return text, nil
}

// keySource says which file or variable the key is from.
func (p *Profile) keySource(key string) string {
	if key == strings.TrimSpace(os.Getenv("HAFT_KEY")) {
		return "in $HAFT_KEY"
	}
	if p.keyFile == "" {
		return ""
	}
	return "in " + p.keyFile
}

// environmentAdvice says which variables decide where the command works and as whom, and how to change
// that. It is empty if flags or the profile decide.
func (p *Profile) environmentAdvice() string {
	if p.Given == nil || !p.Remote() {
		return ""
	}
	var names []string
	for _, flag := range []string{"server", "key-file"} {
		if os.Getenv(variable(flag)) != "" && !p.Given(flag) {
			names = append(names, variable(flag))
		}
	}
	if os.Getenv("HAFT_KEY") != "" && !p.Given("key-file") {
		names = append(names, "HAFT_KEY")
	}
	if len(names) == 0 {
		return ""
	}
	return "$" + strings.Join(names, " and $") + " of this terminal say where you work and as whom: unset " +
		strings.Join(names, " ") + ", or name another key with --key-file"
}

// keyPrincipal returns on whose behalf the command works on a server, given the principal of the
// key. Flags and environment may name that principal, and an agent that the key may act as. A
// command that is only about a principal (asIf) may name any other.
func (p *Profile) keyPrincipal(own haft.Principal) (haft.Principal, error) {
	who, said := own, p.Principal()
	if err := said.Check(); err != nil {
		return who, err
	}
	who.Agent = cmp.Or(p.Acting, own.Agent)
	otherUser := p.User != "" && said.User != own.User
	otherRoles := (len(p.Roles) > 0 || os.Getenv("HAFT_ROLES") != "") && !sameSet(said.Roles, own.Roles)
	flag := ""
	switch {
	case (p.Given("org") || os.Getenv("HAFT_ORG") != "") && said.Org != own.Org:
		flag = "--org"
	case p.AsIf && otherUser && otherRoles:
		who.User, who.Roles = said.User, said.Roles
	case p.AsIf && otherUser:
		who.User = said.User
	case p.AsIf && otherRoles:
		who.Roles = said.Roles
	case otherUser:
		flag = "--user"
	case otherRoles:
		flag = "--role"
	}
	if flag != "" {
		err := exit.Misuse(fmt.Errorf("the key is of user %s of %s with the roles [%s], and %s says otherwise: "+
			"on a server the key says who asks", own.User, own.Org, strings.Join(own.Roles, " "), flag))
		return who, exit.Advise(err, cmp.Or(p.environmentAdvice(), "leave "+flag+" out, or name the key of that "+
			"person with --key-file"))
	}
	return who, nil
}

// sameSet reports whether two lists have the same texts.
func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// Local returns the system if it is in this process. Else it returns an error that says what to do.
func (s *Session) Local(otherwise string) (*backend.Local, error) {
	if l, ok := s.System.(*backend.Local); ok {
		return l, nil
	}
	if r, ok := s.System.(*backend.Remote); ok && r.Served.PID != 0 {
		otherwise = "this needs the files of the data directory, which " + r.Served.String() + " has: stop that first"
	}
	return nil, exit.Misuse(errors.New(otherwise))
}

// AgentID returns the id of an agent that is named by its name or id: records, limits
// and rules have the id. A removed agent can only be named by its id.
func (s *Session) AgentID(ctx context.Context, ref string) string {
	if ref == "" || haft.IsAgentID(ref) {
		return ref
	}
	asker := s.Who
	asker.Agent = ""
	if a, err := s.Agent(ctx, asker, ref); err == nil {
		return string(a.ID)
	}
	return ref
}

// ReducedFlag is the flag by which an operator allows tools to run without
// namespaces. A variable that is not a boolean allows nothing.
func ReducedFlag(to *bool) Flag {
	allowed, err := strconv.ParseBool(os.Getenv(doctor.ReducedVar))
	*to = err == nil && allowed
	return Flag{to, "allow-reduced", "also run tools where there are no namespaces, with less isolation: haft doctor " +
		"tells ($" + doctor.ReducedVar + ")"}
}
