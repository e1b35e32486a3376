package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/backend"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/pause"
)

// approvalsCommand answers requests that wait for a person.
func approvalsCommand(*cli.Profile) cli.Command {
	var (
		arguments argumentFlags
		reason    string
		noWait    bool
	)
	list := cli.ListFiltered(cli.System.Approvals, &haft.ApprovalFilter{}, cli.Listing[haft.Approval]{
		"REQUEST,TOOL,WHO ASKS,WHEN,EXPIRES,RULE,ARGUMENTS", func(a haft.Approval) []any {
			return []any{cli.Shaded(string(a.ID), bold), a.Tool, who(a.Requester), cli.Since(a.Created),
				cli.Since(a.Expires), a.Rule,
				string(a.Args)}
		}, "nothing waits for a person"})
	return cli.Command{
		Use: "approvals", Short: "Answer the calls that wait for a person", Run: list,
		Example: `  haft approvals
  haft approvals show a_…                    all that is agreed to
  haft approvals approve a_… --reason "checked with Ann"
  haft approvals approve a_… --args '{"path": "/tmp/x"}'    agree to other arguments
  haft approvals deny a_… --reason "not on a Friday"`,
		Missing: "see what waits with: haft approvals",
		Subs: []cli.Command{
			{Use: "list", Short: "List the requests that wait", Run: list},
			{Use: "show ID", Short: "Show a request and all that it binds: arguments, environment, network, limits",
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					id, err := requestOf(ctx, s, args[0])
					if err != nil {
						return err
					}
					return cli.ShowOne(cli.System.Approval, printRequest)(ctx, s, []string{string(id)})
				}},
			{Use: "approve ID…", Short: "Agree to calls, wait for each and print its result", Check: cli.SomeRequest,
				Flags: []cli.Flag{
					{&arguments.document, "args", "agree to these arguments instead: `JSON`, @FILE or -"},
					{&reason, "reason", "why"},
					{&noWait, "no-wait", "print the answer, not the result; the call runs before the command ends"},
				},
				Run: cli.ForEach(func(ctx context.Context, s *cli.Session, args []string) (err error) {
					answer := haft.Answer{Approve: true, Reason: reason}
					if arguments.document != "" {
						if answer.Args, err = arguments.read(s.In); err != nil {
							return err
						}
					}
					a, err := decide(ctx, s, args[0], answer)
					if err != nil {
						return err
					}
					s.Owe(s.Who.Org, a.Call)
					if noWait {
						return printApproval(s, a)
					}
					return printOutcome(ctx, s, a)
				})},
			{Use: "deny ID…", Short: "Refuse calls", Check: cli.SomeRequest,
				Flags: []cli.Flag{{&reason, "reason", "why; the caller is told"}},
				Run: cli.ForEach(func(ctx context.Context, s *cli.Session, args []string) error {
					a, err := decide(ctx, s, args[0], haft.Answer{Reason: reason})
					if err != nil {
						return err
					}
					return printApproval(s, a)
				})},
		},
	}
}

// printRequest prints everything that a person agrees to.
func printRequest(s *cli.Session, a *haft.Approval) {
	cli.PrintFacts(s.Out, "request", a.ID, "call", a.Call, "tool", a.Tool, "state", a.State, "who asks",
		who(a.Requester),
		"rule", a.Rule, "expires", cli.Since(a.Expires), "arguments", string(a.Args))
	t := a.Terms
	if t == nil {
		fmt.Fprintln(s.Err, "the request was made before everything was shown: refuse it if you do not know the rest")
		return
	}
	more, webhook := "", ""
	if t.MoreEnv > 0 {
		more = fmt.Sprintf("and %d more variables", t.MoreEnv)
	}
	if t.Webhook {
		webhook = "adds variables when the call runs"
	}
	packages := slices.Concat(t.Requirements.Pip, t.Requirements.NPM, t.OrgRequirements.Pip, t.OrgRequirements.NPM)
	within := joined(t.Within, " and ", func(hosts []string) string { return "[" + strings.Join(hosts, ", ") + "]" })
	cli.PrintFacts(s.Out, "version", t.Digest, "environment", joined(t.Env, ", ", haft.Variable.String), "", more,
		"credentials webhook", webhook, "packages", strings.Join(packages, ", "), "programs",
		strings.Join(t.Programs, ", "), "network", strings.Join(t.Network, ", "), "network within", within,
		"sandbox", t.Sandbox, "isolation", t.MinIsolation, "time", t.Limits.Wall, "memory", t.Limits.Memory)
	if m := t.Server; m != nil {
		mounts := joined(m.Mounts, ", ", func(d haft.MCPMount) string {
			return d.Dir + map[bool]string{true: " (writable)"}[d.Writable]
		})
		cli.PrintFacts(s.Out, "server", m.Name, "server url", m.URL, "server command", strings.Join(m.Command, " "),
			"server mounts", mounts, "server network", strings.Join(m.Network, ", "))
	}
}

// joined joins the texts of a list.
func joined[T any](list []T, separator string, text func(T) string) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = text(v)
	}
	return strings.Join(texts, separator)
}

// requestOf finds the request of an id, which may also be that of its call.
func requestOf(ctx context.Context, s *cli.Session, id string) (haft.ApprovalID, error) {
	if !strings.HasPrefix(id, "c_") {
		return haft.ApprovalID(id), nil
	}
	for a, err := range s.Approvals(ctx, s.Who, haft.ApprovalFilter{}) {
		if err != nil || a.Call == haft.CallID(id) {
			return a.ID, err
		}
	}
	return "", &haft.Error{Code: haft.CodeNotFound, Message: "this call does not wait for a person"}
}

// decide answers a request.
func decide(ctx context.Context, s *cli.Session, ref string, answer haft.Answer) (*haft.Approval, error) {
	id, err := requestOf(ctx, s, ref)
	if err != nil {
		return nil, err
	}
	a, err := s.Decide(ctx, s.Who, id, answer)
	switch haft.CodeOf(err) {
	case haft.CodeConflict:
		err = exit.Advise(err, "see what waits with: haft approvals")
	case haft.CodeDenied:
		err = exit.Advise(err,
			"another person has to answer: --user NAME, with the roles that haft policy explain TOOL names; if you "+
				"work alone on this machine, say so with: haft init --solo")
	}
	return a, err
}

// printApproval prints an answer.
func printApproval(s *cli.Session, a *haft.Approval) error {
	by := ""
	if a.Approver != nil {
		by = a.Approver.User
	}
	return s.Print(a, func() {
		cli.PrintFacts(s.Out, "request", a.ID, "call", a.Call, "tool", a.Tool, "state", a.State, "by", by, "reason",
			a.Reason)
	})
}

// printOutcome waits for the call that was agreed to, and for its chain, and prints the result.
func printOutcome(ctx context.Context, s *cli.Session, a *haft.Approval) error {
	r, err := s.Record(ctx, s.Who, a.Call)
	if haft.CodeOf(err) == haft.CodeNotFound {
		fmt.Fprintln(s.Err, "the call goes on; its result is for those who may see it")
		return printApproval(s, a)
	}
	if err != nil {
		return err
	}
	res, err := backend.WaitFor(ctx, s.System, s.Who, a.Call, a.ID, 0)
	if haft.CodeOf(err) == haft.CodeNotFound {
		return exit.Advise(err, noSuchCall)
	}
	if err != nil {
		return err
	}
	if r.Call.Chain == "" {
		return printCall(s, res, false)
	}
	asks := func(step haft.StepResult) bool {
		return step.State == haft.StepRunning && step.Result != nil && step.Result.Approval == a.ID
	}
	for {
		c, err := s.Chain(ctx, s.Who, r.Call.Chain)
		if err != nil {
			return err
		}
		if c.Status.Final() || c.Status == haft.StatusPending && !slices.ContainsFunc(c.Steps, asks) {
			return printChain(s, c)
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("wait for chain %s: %w", c.ID, err)
		}
	}
}
