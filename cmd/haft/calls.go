package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/flagvalue"
	"haft/internal/terminal"
	"haft/internal/tooltest"
)

// noSuchCall is what to do about a call that does not exist.
const noSuchCall = "see which there are with: haft calls"

// callsCommand looks back at calls, and ends them.
func callsCommand(*cli.Profile) cli.Command {
	var (
		f, counted = callFilter{}, callFilter{}
		of         haft.Principal
		keep       haft.Retention

		all, follow, kill    bool
		reason, organisation string
		save                 artifactFlags
	)
	f.Limit, counted.Limit = 50, 100_000
	return cli.Command{
		Use: "calls", Short: "Look back at calls, replay and cancel them, stop everything",
		Example: `  haft calls --status error --since 1h
  haft calls show c_…
  haft calls replay c_…            the same version and arguments again, and what differs
  haft calls stop --reason "bad deploy" --kill`,
		Missing: noSuchCall, Flags: f.listFlags(), Run: f.list,
		Subs: []cli.Command{
			{Use: "list", Short: "List calls, newest first", Flags: f.listFlags(), Run: f.list},
			tooltest.ShowCommand(cli.ShowOne(cli.System.Record, printRecord)),
			{Use: "cancel {ID… | --all}", Short: "Cancel calls that run, are queued or wait for a person",
				Flags: []cli.Flag{
					{&all, "all", "all of the organisation"},
					{&of.User, "of-user", "with --all: only those of a user"},
					{&of.Agent, "of-agent", "with --all: only those of an agent"},
				},
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					return cancelCalls(ctx, s, args, all, of)
				}},
			{Use: "replay ID", Short: "Call the same version with the same arguments again, and show what differs",
				Long: `Call the same version of the tool with the same arguments and environment again, as a
new call, and compare status, value, error and output with those of the old one. The
exit code is 0 if they are equal and 1 if they differ.`,
				Run: replayCall},
			{Use: "events ID", Short: "Show what happened to a call, in order",
				Flags: []cli.Flag{{&follow, "follow", "also those to come, until the call has ended"}},
				Run: func(ctx context.Context, s *cli.Session, args []string) error {
					return showEvents(ctx, s, haft.CallID(args[0]), follow)
				}},
			{Use: "artifacts ID", Short: "List the files that a call left, and save them",
				Flags: save.flags(), Run: save.show},
			{Use: "stats",
				Short: "Count calls by tool: how many succeeded, failed and were refused, and how long they took",
				Flags: append(counted.flags(),
					cli.Flag{&counted.Limit, "limit", "the most calls to count, the newest first"}),
				Run: counted.count},
			{Use: "retention", Short: "Show or set how long the calls of an organisation are kept",
				Example: `  haft calls retention                              what holds, and how many calls there are
  haft calls retention --refused 1d --calls 30d     what is not given is as the server has it
  haft calls retention --of acme --calls none       for the operator: keep the calls of acme for ever`,
				Flags: append(retentionFlags(&keep, ""),
					cli.Flag{&organisation, "of", "another `ORGANISATION`, for the operator of the server"}),
				Run: func(ctx context.Context, s *cli.Session, _ []string) error {
					return setRetention(ctx, s, organisation, keep)
				}},
			{Use: "stop", Short: "Refuse all calls of everybody until haft calls resume, also after a restart",
				Flags: []cli.Flag{
					{&reason, "reason", "why, for those who are refused"},
					{&kill, "kill", "end those that run; else they may finish"},
				},
				Run: func(ctx context.Context, s *cli.Session, _ []string) error {
					if err := s.Stop(ctx, s.Who, reason, kill); err != nil {
						return err
					}
					return s.PrintLine(map[string]any{"stopped": true, "reason": reason, "kill": kill},
						"calls are stopped; let them go on with: haft calls resume")
				}},
			{Use: "resume", Short: "Take calls again after haft calls stop",
				Run: func(ctx context.Context, s *cli.Session, _ []string) error {
					if err := s.Resume(ctx, s.Who); err != nil {
						return err
					}
					return s.PrintLine(map[string]any{"stopped": false}, "calls are taken again")
				}},
		},
	}
}

// A callFilter says which calls are meant.
type callFilter struct {
	haft.CallFilter
	statuses cli.CommaList
	since    string
}

func (f *callFilter) flags() []cli.Flag {
	return []cli.Flag{
		{&f.since, "since", "only calls since a `TIME`: 90s, 2h, 3d, or 2006-01-02T15:04:05Z"},
		{&f.Tool, "tool", "only calls of a tool"},
		{&f.User, "of-user", "only calls of a user"},
		{&f.Agent, "of-agent", "only calls of an agent"},
	}
}

func (f *callFilter) listFlags() []cli.Flag {
	return append(f.flags(), []cli.Flag{
		{&f.Turn, "turn", "only calls of a turn"},
		{&f.statuses, "status", "only calls with a status; may be given again"},
		{&f.Limit, "limit", "the most to list"},
	}...)
}

// read returns the filter of the flags.
func (f *callFilter) read(ctx context.Context, s *cli.Session) (which haft.CallFilter, err error) {
	which = f.CallFilter
	for _, text := range f.statuses {
		if !slices.Contains(haft.Statuses(), haft.Status(text)) {
			return which, exit.Misuse(fmt.Errorf("--status is one of %s", oneOf(haft.Statuses())))
		}
		which.Status = append(which.Status, haft.Status(text))
	}
	if which.Since, err = flagvalue.ParseSince(f.since, time.Now()); err != nil {
		return which, exit.Misuse(err)
	}
	which.Agent = s.AgentID(ctx, which.Agent)
	return which, nil
}

// list lists calls.
func (f *callFilter) list(ctx context.Context, s *cli.Session, _ []string) error {
	which, err := f.read(ctx, s)
	if err != nil {
		return err
	}
	return cli.PrintList(s.Profile, s.Records(ctx, s.Who, which), cli.Listing[haft.Record]{
		"CALL,TOOL,STATUS,WHO,WHEN,TOOK,RESULT", func(r haft.Record) []any {
			took := ""
			if !r.Ended.IsZero() {
				took = r.Ended.Sub(r.Created).Round(100 * time.Microsecond).String()
			}
			return []any{r.Call.ID, r.Call.Tool, cli.StatusCell(r.Status), who(r.Call.Principal),
				cli.Since(r.Created), took,
				outcomeText(r.Result)}
		}, "there are no such calls"})
}

// who says on whose behalf a call is, for people.
func who(p haft.Principal) string {
	if p.Agent != "" {
		return p.User + " by " + p.Agent
	}
	return p.User
}

// usageText says what a call used, and what of it is not known.
func usageText(u haft.Usage) string {
	cpu, memory := "unknown processor time", "unknown memory"
	used, rss := u.Measured()
	if used != nil {
		cpu = used.String() + " of a processor"
	}
	if rss != nil {
		memory = fmt.Sprintf("%d MiB", (*rss+1<<20-1)>>20) // rounded up: never 0
	}
	return fmt.Sprintf("%s on the clock, %s, %s", u.Wall, cpu, memory)
}

// printRecord shows a call to a person.
func printRecord(s *cli.Session, r *haft.Record) {
	c, arguments := r.Call, string(r.Call.Args)
	if r.Redacted {
		arguments += " (not all is kept)"
	}
	facts := []any{"call", cli.Shaded(string(c.ID), bold), "tool", c.Tool, "version", r.Digest, "status",
		cli.StatusCell(r.Status), "who", who(c.Principal), "roles", strings.Join(c.Principal.Roles, ", "),
		"when", cli.Since(r.Created), "arguments", arguments, "key", c.IdempotencyKey, "turn", c.Turn, "chain", c.Chain,
		"parent", c.Parent}
	if res := r.Result; res != nil {
		facts = append(facts, "tries", res.Tries,
			"sandbox", fmt.Sprintf("%s, isolation %s", res.Sandbox.Provider, res.Sandbox.Isolation.Level),
			"used", usageText(res.Usage), "timeline", timelineText(res.Timeline),
			"notices", strings.Join(res.Notices, "; "), "stdout", strings.TrimRight(res.Stdout, "\n"),
			"stderr", strings.TrimRight(res.Stderr, "\n"))
		switch {
		case res.Error != nil:
			facts = append(facts,
				"error", fmt.Sprintf("%s (%s): %s", res.Error.Kind, res.Error.Severity, res.Error.Message),
				"traceback", res.Error.Traceback)
		case r.Status == haft.StatusSuccess:
			facts = append(facts, "value", string(res.Value))
		}
		if r.Status == haft.StatusPending {
			facts = append(facts, "next", "haft approvals approve "+string(res.Approval))
		}
	}
	cli.PrintFacts(s.Out, facts...)
}

// timelineText answers "why was it slow?" in a line.
func timelineText(t haft.Timeline) string {
	var parts []string
	for i, took := range []haft.Millis{t.Queue, t.Policy, t.Validate, t.Approval, t.Setup, t.Execute, t.Serialise,
		t.Total} {
		if took > 0 {
			name := []string{"queue", "policy", "validate", "approval", "setup", "execute", "serialise", "total"}[i]
			parts = append(parts, name+" "+took.D().Round(10*time.Microsecond).String())
		}
	}
	if t.Cell != "" {
		parts = append(parts, "cell "+t.Cell)
	}
	return strings.Join(parts, ", ")
}

// cancelCalls cancels calls: those of ids, or all of a principal.
func cancelCalls(ctx context.Context, s *cli.Session, ids []string, all bool, of haft.Principal) error {
	if all == (len(ids) > 0) {
		return exit.Misuse(errors.New("name calls, or say --all, with --of-user or --of-agent where only theirs " +
			"are meant"))
	}
	if all {
		of.Agent = s.AgentID(ctx, of.Agent)
		n, err := s.CancelAll(ctx, s.Who, of)
		if err != nil {
			return err
		}
		return s.PrintLine(map[string]int{"cancelled": n}, fmt.Sprintf("%d calls were cancelled", n))
	}
	states := []map[string]any{}
	for _, id := range ids {
		if err := s.Cancel(ctx, s.Who, haft.CallID(id)); err != nil {
			return err
		}
		r, err := s.Record(ctx, s.Who, haft.CallID(id))
		if err != nil {
			return err
		}
		states = append(states, map[string]any{"call_id": id, "status": r.Status})
		if !s.JSON {
			fmt.Fprintln(s.Out, id, r.Status)
		}
	}
	return s.Print(states, func() {})
}

// eventTime is how the time of an event is printed.
const eventTime = "15:04:05.000"

// showEvents shows what happened to a call, and with follow also what happens until it ends.
func showEvents(ctx context.Context, s *cli.Session, id haft.CallID, follow bool) error {
	if !follow {
		return cli.PrintList(s.Profile, s.EventsOf(ctx, s.Who, id),
			cli.Listing[haft.Event]{"SEQ,TIME,EVENT,DATA", func(e haft.Event) []any {
				return []any{e.Seq, e.Time.Local().Format(eventTime), cli.Shaded(string(e.Type), cyan), string(e.Data)}
			}, "the events of this call are not kept any more"})
	}
	if s.JSON {
		return exit.Misuse(errors.New("--follow goes on, and --json prints one document: leave one out"))
	}
	for e, err := range s.WatchCall(ctx, s.Who, id) {
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "%d  %s  %s  %s\n", e.Seq, e.Time.Local().Format(eventTime),
			paint(s.Out, cyan, string(e.Type)), terminal.OneLine(string(e.Data), 2*cli.MaxCell))
		if e.Type == haft.EventCompleted {
			break
		}
	}
	return nil
}
