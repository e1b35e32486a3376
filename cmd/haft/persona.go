package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"haft"
	"haft/app"
	"haft/internal/checkpoint"
	"haft/internal/supply"
)

// A persona is who works where: the flags that every command on kept state has.
// The environment does the same, so that a script can speak for several people.
type persona struct {
	data, database   string
	server, keyFile  string
	org, user, agent string
	roles            []string
	lockWait         time.Duration
	reduced          bool
	json             bool
	// asIf says that the command is about somebody and not done as them.
	asIf bool
	// evidence says that the command looks at the audit log only, which it can also
	// where nothing else works because the log is not what was signed.
	evidence bool
	// given reports whether a flag is on the command line.
	given func(flag string) bool
}

// usual is how long a command waits for another one that has the directory.
const usual = 3 * time.Second

// attach gives cmd and all below it the flags of a persona.
func attach(cmd *cobra.Command) *persona {
	p := &persona{}
	f := cmd.PersistentFlags()
	f.StringVar(&p.data, "data", "", "the `DIR` of the embedded store and of keys ($HAFT_DATA)")
	f.StringVar(&p.database, "database", os.Getenv("HAFT_DATABASE"), "the `URL` of a Postgres ($HAFT_DATABASE)")
	f.StringVar(&p.server, "server", os.Getenv("HAFT_SERVER"),
		"the `URL` of a server to work on ($HAFT_SERVER); who asks is then said by the key")
	f.StringVar(&p.keyFile, "key-file", os.Getenv("HAFT_KEY_FILE"),
		"the `FILE` with the key for the server ($HAFT_KEY_FILE, or the key itself in $HAFT_KEY)")
	f.StringVar(&p.org, "org", or(os.Getenv("HAFT_ORG"), "local"), "the organisation ($HAFT_ORG)")
	f.StringVar(&p.user, "user", os.Getenv("HAFT_USER"),
		"on whose behalf; the user of the system if empty ($HAFT_USER)")
	f.StringArrayVar(&p.roles, "role", nil, "a role, instead of admin and approver; may be given again ($HAFT_ROLES)")
	f.StringVar(&p.agent, "agent", os.Getenv("HAFT_AGENT"), "the agent that acts, by name or id ($HAFT_AGENT)")
	f.DurationVar(&p.lockWait, "lock-wait", lockWait(),
		"how long to wait for another haft that uses the directory ($HAFT_LOCK_WAIT)")
	allowReduced(f, &p.reduced)
	f.BoolVar(&p.json, "json", false, "print one JSON document")
	p.given = func(name string) bool { return f.Changed(name) }
	return p
}

// envDuration is a duration of the environment, or else a default.
func envDuration(name string, usual time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv(name)); err == nil && d >= 0 {
		return d
	}
	return usual
}

// lockWait reads the environment; what is no duration means the usual.
func lockWait() time.Duration {
	return envDuration("HAFT_LOCK_WAIT", usual)
}

// or returns the first text that is not empty.
func or(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// principal is on whose behalf the command works.
func (p *persona) principal() haft.Principal {
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
		// Whoever can read the directory owns the system.
		who.Roles = []string{haft.RoleAdmin, haft.RoleApprover}
	}
	return who
}

// dir returns the data directory.
func (p *persona) dir() (string, error) {
	if p.data != "" {
		return p.data, nil
	}
	return app.DataDir()
}

// A session is an open system and who works with it. End it.
type session struct {
	system
	p haft.Principal
	// own is who really works: another than p if the command is about somebody.
	own haft.Principal
	std streams
	as  *persona
}

// open opens the system that the flags name.
func (p *persona) open(ctx context.Context, std streams) (*session, error) {
	if p.remote() {
		return p.dial(ctx, std)
	}
	dir, err := p.dir()
	if err != nil {
		return nil, err
	}
	cfg := app.ServiceConfig{
		Config: app.Config{Packages: supply.FromEnv(os.Getenv), AllowReduced: p.reduced},
		Data:   dir, Database: p.database, Wait: p.lockWait, Progress: newProgress(std.err).line,
	}
	cfg.Engine.Brief = true
	svc, err := app.OpenService(ctx, cfg)
	if p.evidence && checkpoint.Mismatched(err) {
		report(std.err, err)
		svc, err = app.OpenEvidence(ctx, cfg)
	}
	if err != nil {
		return nil, advise(err, "look at the data directory ("+dir+"), or name another with --data DIR")
	}
	s := &session{system: &embedded{Service: svc}, std: std, as: p}
	s.p = p.principal()
	s.p.Agent = s.agentID(ctx, s.p.Agent)
	s.own = s.p
	return s, nil
}

// agentID returns the id of an agent that is named by its name or id: records, limits
// and rules know it by that. One that is gone can only be named by its id.
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

// do opens the system, has work done and closes it again.
func (p *persona) do(ctx context.Context, std streams, work func(context.Context, *session) error) error {
	s, err := p.open(ctx, std)
	if err != nil {
		return err
	}
	err = work(ctx, s)
	if closed := s.End(ctx); closed != nil {
		closed = fmt.Errorf("close the system: %w", closed)
		if err == nil {
			return closed
		}
		report(std.err, closed) // err decides the exit code
	}
	return err
}

// command makes a command on kept state.
func (p *persona) command(std streams, use, short string, args cobra.PositionalArgs,
	work func(context.Context, *session, []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args: func(c *cobra.Command, list []string) error { return usageArgs(args(c, list)) },
		RunE: func(c *cobra.Command, list []string) error {
			return p.do(c.Context(), std, func(ctx context.Context, s *session) error { return work(ctx, s, list) })
		},
	}
}

// group makes a command that only has others below it.
func group(use, short, example string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example,
		Args: func(c *cobra.Command, list []string) error {
			if len(list) > 0 {
				return usage(fmt.Errorf("there is no command %q of haft %s: see haft %s --help", list[0], c.Name(),
					c.Name()))
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
}

// advised is an error with what to do next.
type advised struct {
	err  error
	next string
}

// Error returns the error without the advice, which stands in a line of its own.
func (a *advised) Error() string { return a.err.Error() }

// Unwrap returns the error.
func (a *advised) Unwrap() error { return a.err }

// advise adds what to do next.
func advise(err error, next string) error {
	if err == nil {
		return nil
	}
	return &advised{err, next}
}

// nextStep returns what to do about an error, or "".
func nextStep(err error) string {
	if a, ok := errors.AsType[*advised](err); ok {
		return a.next
	}
	return ""
}
