package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"haft"
)

// approvalsCommand answers requests that wait for a person.
func approvalsCommand(std streams) *cobra.Command {
	cmd := group("approvals", "Answer the calls that wait for a person", `  haft approvals
  haft approvals show a_…                    all that is agreed to
  haft approvals approve a_… --reason "checked with Ann"
  haft approvals approve a_… --args '{"path": "/tmp/x"}'    agree to other arguments
  haft approvals deny a_… --reason "not on a Friday"`)
	p := attach(cmd)
	list := func(ctx context.Context, s *session, _ []string) error { return listApprovals(ctx, s) }
	cmd.AddCommand(p.command(std, "list", "List the requests that wait", cobra.NoArgs, list), showApproval(p, std),
		approve(p, std), deny(p, std))
	cmd.RunE = p.command(std, "approvals", "", cobra.NoArgs, list).RunE
	return cmd
}

// listApprovals prints the requests that wait.
func listApprovals(ctx context.Context, s *session) error {
	now := time.Now()
	return printList(s, s.Approvals(ctx, s.p, haft.ApprovalFilter{}), "nothing waits for a person",
		[]string{"REQUEST", "TOOL", "WHO ASKS", "WHEN", "EXPIRES", "RULE", "ARGUMENTS"},
		func(tab *table, a haft.Approval) {
			tab.row(cell{string(a.ID), bold}, a.Tool, who(a.Requester), ago(a.Created, now), ago(a.Expires, now),
				a.Rule,
				string(a.Args))
		})
}

// showApproval prints everything that a person agrees to.
func showApproval(p *persona, std streams) *cobra.Command {
	return p.command(std, "show ID", "Show a request and all that it binds: arguments, environment, network, limits",
		cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			id, err := requestOf(ctx, s, args[0])
			if err != nil {
				return err
			}
			a, err := s.Approval(ctx, s.p, id)
			if err != nil {
				return noRequest(err)
			}
			if s.as.json {
				return printJSON(s.std.out, a)
			}
			printFacts(s.std.out, fact{"request", a.ID}, fact{"call", a.Call}, fact{"tool", a.Tool},
				fact{"state", a.State}, fact{"who asks", who(a.Requester)},
				fact{"rule", a.Rule}, fact{"expires", ago(a.Expires, time.Now())}, fact{"arguments", string(a.Args)})
			if a.Terms == nil {
				fmt.Fprintln(s.std.err,
					"the request was made before everything was shown: refuse it if you do not know the rest")
				return nil
			}
			printTerms(s, a.Terms)
			return nil
		})
}

// printTerms prints what changes the effect of a call besides its arguments.
func printTerms(s *session, t *haft.Terms) {
	variables := make([]string, len(t.Env))
	for i, v := range t.Env {
		variables[i] = v.String()
	}
	more := ""
	if t.MoreEnv > 0 {
		more = fmt.Sprintf("and %d more variables", t.MoreEnv)
	}
	webhook := ""
	if t.Webhook {
		webhook = "adds variables when the call runs"
	}
	needs := slices.Concat(t.Requirements.Pip, t.Requirements.NPM, t.OrgRequirements.Pip, t.OrgRequirements.NPM)
	within := make([]string, len(t.Within))
	for i, hosts := range t.Within {
		within[i] = "[" + strings.Join(hosts, ", ") + "]"
	}
	printFacts(s.std.out, fact{"version", t.Digest}, fact{"environment", strings.Join(variables, ", ")}, fact{"", more},
		fact{"credentials webhook", webhook}, fact{"packages", strings.Join(needs, ", ")},
		fact{"network", strings.Join(t.Network, ", ")},
		fact{"network within", strings.Join(within, " and ")}, fact{"sandbox", t.Sandbox},
		fact{"isolation", t.MinIsolation},
		fact{"time", t.Limits.Wall}, fact{"memory", t.Limits.Memory})
	if m := t.Server; m != nil {
		mounts := make([]string, len(m.Mounts))
		for i, d := range m.Mounts {
			if mounts[i] = d.Dir; d.Writable {
				mounts[i] += " (writable)"
			}
		}
		printFacts(s.std.out, fact{"server", m.Name}, fact{"server url", m.URL},
			fact{"server command", strings.Join(m.Command, " ")},
			fact{"server mounts", strings.Join(mounts, ", ")}, fact{"server network", strings.Join(m.Network, ", ")})
	}
}

// requestOf finds the request of an id, which may also be that of its call.
func requestOf(ctx context.Context, s *session, id string) (haft.ApprovalID, error) {
	if !strings.HasPrefix(id, "c_") {
		return haft.ApprovalID(id), nil
	}
	for a, err := range s.Approvals(ctx, s.p, haft.ApprovalFilter{}) {
		if err != nil {
			return "", err
		}
		if a.Call == haft.CallID(id) {
			return a.ID, nil
		}
	}
	return "", noRequest(&haft.Error{Code: haft.CodeNotFound, Message: "this call does not wait for a person"})
}

// noRequest says what to do about a request that cannot be answered.
func noRequest(err error) error {
	switch haft.CodeOf(err) {
	case haft.CodeNotFound, haft.CodeConflict:
		return advise(err, "see what waits with: haft approvals")
	case haft.CodeDenied:
		return advise(err,
			"see who may answer with: haft policy explain TOOL; answer as somebody else with --user and --role")
	}
	return err
}

// approve agrees to a call.
func approve(p *persona, std streams) *cobra.Command {
	var (
		edited, reason string
		noWait         bool
	)
	cmd := p.command(std, "approve ID", "Agree to a call, wait for it and print its result", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			id, err := requestOf(ctx, s, args[0])
			if err != nil {
				return err
			}
			answer := haft.Answer{Approve: true, Reason: reason}
			if edited != "" {
				if answer.Args, err = (runFlags{args: edited}).arguments(s.std.in); err != nil {
					return err
				}
			}
			a, err := s.Decide(ctx, s.p, id, answer)
			if err != nil {
				return noRequest(err)
			}
			s.Owe(s.p.Org, a.Call)
			if noWait {
				return printApproval(s, a)
			}
			return outcome(ctx, s, a)
		})
	cmd.Flags().StringVar(&edited, "args", "", "agree to these arguments instead: `JSON`, @FILE or -")
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	cmd.Flags().BoolVar(&noWait, "no-wait", false,
		"print the answer, not the result; the call runs before the command ends")
	return cmd
}

// outcome waits for the call that was agreed to, and for its chain, and prints
// what became of it.
func outcome(ctx context.Context, s *session, a *haft.Approval) error {
	r, err := s.Record(ctx, s.p, a.Call)
	if haft.CodeOf(err) == haft.CodeNotFound {
		fmt.Fprintln(s.std.err, "the call goes on; its result is for those who may see it")
		return printApproval(s, a)
	}
	if err != nil {
		return err
	}
	res, err := s.waited(ctx, a.Call, a.ID, 0)
	if err != nil {
		return noCall(err)
	}
	if r.Call.Chain == "" {
		return s.result(res, false)
	}
	chain, err := s.chainAfter(ctx, r.Call.Chain, a.ID)
	if err != nil {
		return err
	}
	return printChain(s, chain)
}

// chainAfter waits until a chain has gone on from an approval as far as it goes.
func (s *session) chainAfter(ctx context.Context, id haft.ChainID, given haft.ApprovalID) (*haft.Chain, error) {
	asks := func(step haft.StepResult) bool {
		return step.State == haft.StepRunning && step.Result != nil && step.Result.Approval == given
	}
	for {
		c, err := s.Chain(ctx, s.p, id)
		if err != nil {
			return nil, err
		}
		if c.Status.Final() || c.Status == haft.StatusPending && !slices.ContainsFunc(c.Steps, asks) {
			return c, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for chain %s: %w", id, context.Cause(ctx))
		}
	}
}

// deny refuses a call.
func deny(p *persona, std streams) *cobra.Command {
	var reason string
	cmd := p.command(std, "deny ID", "Refuse a call", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			id, err := requestOf(ctx, s, args[0])
			if err != nil {
				return err
			}
			a, err := s.Decide(ctx, s.p, id, haft.Answer{Reason: reason})
			if err != nil {
				return noRequest(err)
			}
			return printApproval(s, a)
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why; the caller is told")
	return cmd
}

// printApproval prints an answer.
func printApproval(s *session, a *haft.Approval) error {
	if s.as.json {
		return printJSON(s.std.out, a)
	}
	by := ""
	if a.Approver != nil {
		by = a.Approver.User
	}
	printFacts(s.std.out, fact{"request", a.ID}, fact{"call", a.Call}, fact{"tool", a.Tool}, fact{"state", a.State},
		fact{"by", by}, fact{"reason", a.Reason})
	return nil
}
