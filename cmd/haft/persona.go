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
)

// A persona is who works where: the flags that every command on kept state has.
// The environment does the same, so that a script can speak for several people.
type persona struct {
	data, database, server string
	org, user, agent       string
	roles                  []string
	lockWait               time.Duration
	json                   bool
}

// usual is how long a command waits for another one that has the directory.
const usual = 3 * time.Second

// attach gives cmd and all below it the flags of a persona.
func attach(cmd *cobra.Command) *persona {
	p := &persona{}
	f := cmd.PersistentFlags()
	f.StringVar(&p.data, "data", "", "the `DIR` of the embedded store and of keys ($HAFT_DATA)")
	f.StringVar(&p.database, "database", os.Getenv("HAFT_DATABASE"), "the `URL` of a Postgres ($HAFT_DATABASE)")
	f.StringVar(&p.server, "server", "", "the `URL` of a server")
	f.StringVar(&p.org, "org", or(os.Getenv("HAFT_ORG"), "local"), "the organisation ($HAFT_ORG)")
	f.StringVar(&p.user, "user", os.Getenv("HAFT_USER"), "on whose behalf; the user of the system if empty ($HAFT_USER)")
	f.StringArrayVar(&p.roles, "role", nil, "a role, instead of admin and approver; may be given again ($HAFT_ROLES)")
	f.StringVar(&p.agent, "agent", os.Getenv("HAFT_AGENT"), "the agent that acts, by name or id ($HAFT_AGENT)")
	f.DurationVar(&p.lockWait, "lock-wait", lockWait(), "how long to wait for another haft that uses the directory ($HAFT_LOCK_WAIT)")
	f.BoolVar(&p.json, "json", false, "print one JSON document")
	return p
}

// lockWait reads the environment; what is no duration means the usual.
func lockWait() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("HAFT_LOCK_WAIT")); err == nil && d >= 0 {
		return d
	}
	return usual
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
	*app.Service
	p   haft.Principal
	std streams
	as  *persona
	// owed are calls that were acknowledged and run in this process, since there
	// is no server.
	owed []owed
}

// owed is a call that has to end before the command may.
type owed struct {
	org string
	id  haft.CallID
}

// owe notes that a call has to end before the command may.
func (s *session) owe(org string, id haft.CallID) { s.owed = append(s.owed, owed{org, id}) }

// open opens the system that the flags name.
func (p *persona) open(ctx context.Context, std streams) (*session, error) {
	if p.server != "" {
		return nil, usage(errors.New("this build has no client for a server yet: leave --server out and work on the directory with --data, or on its database with --database"))
	}
	dir, err := p.dir()
	if err != nil {
		return nil, err
	}
	if p.database != "" {
		// The keys are kept here all the same.
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, usage(fmt.Errorf("make the directory for keys: %w", err))
		}
	}
	svc, err := app.OpenService(ctx, app.ServiceConfig{Data: dir, Database: p.database, Wait: p.lockWait})
	if err != nil {
		return nil, advise(err, "look at the data directory ("+dir+"), or name another with --data DIR")
	}
	return &session{Service: svc, p: p.principal(), std: std, as: p}, nil
}

// settle waits until a call has ended or waits for a person, and until its chain
// has gone on as far as it goes.
func (s *session) settle(ctx context.Context, o owed) {
	for {
		r, err := s.Store.Record(ctx, o.org, o.id)
		if err != nil {
			return // the next command goes on with it
		}
		asks := false
		if r.Status == haft.StatusPending {
			a, err := s.Store.ApprovalOf(ctx, o.org, o.id)
			asks = err == nil && a.State == haft.ApprovalPending
		}
		done := r.Status.Final() || asks
		if done && r.Call.Chain != "" {
			c, err := s.Store.Chain(ctx, o.org, r.Call.Chain)
			done = err != nil || c.Status.Final() || c.Status == haft.StatusPending && c.Updated.After(r.Ended)
		}
		if done {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// end lets calls on their way finish, and closes the system.
func (s *session) end(ctx context.Context) error {
	for _, o := range s.owed {
		s.settle(ctx, o)
	}
	drained := s.Drain(ctx)
	if ctx.Err() != nil {
		drained = nil // the user does not want to wait
	}
	return errors.Join(drained, s.Close())
}

// do opens the system, has work done and closes it again.
func (p *persona) do(ctx context.Context, std streams, work func(context.Context, *session) error) error {
	s, err := p.open(ctx, std)
	if err != nil {
		return err
	}
	err = work(ctx, s)
	if closed := s.end(ctx); closed != nil {
		closed = fmt.Errorf("close the system: %w", closed)
		if err == nil {
			return closed
		}
		report(std.err, closed) // err decides the exit code
	}
	return err
}

// command makes a command on kept state.
func (p *persona) command(std streams, use, short string, args cobra.PositionalArgs, work func(context.Context, *session, []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		Args: func(c *cobra.Command, list []string) error { return usageArgs(args(c, list)) },
		RunE: func(c *cobra.Command, list []string) error {
			return p.do(c.Context(), std, func(ctx context.Context, s *session) error { return work(ctx, s, list) })
		},
	}
}

// group makes a command that only has others below it.
func group(std streams, use, short, example string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example,
		Args: func(c *cobra.Command, list []string) error {
			if len(list) > 0 {
				return usage(fmt.Errorf("there is no command %q of haft %s: see haft %s --help", list[0], c.Name(), c.Name()))
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
