package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"haft"
)

// callsCommand looks back at calls, and ends them.
func callsCommand(std streams) *cobra.Command {
	cmd := group("calls", "Look back at calls, replay and cancel them, stop everything",
		`  haft calls --status error --since 1h
  haft calls show c_…
  haft calls replay c_…            the same version and arguments again, and what differs
  haft calls stop --reason "bad deploy" --kill`)
	p := attach(cmd)
	list := callsList(p, std, "list")
	cmd.AddCommand(list, callsShow(p, std), callsCancel(p, std), callsReplay(p, std), callsEvents(p, std),
		callsStats(p, std), callsRetention(p, std), callsStop(p, std), callsResume(p, std))
	bare := callsList(p, std, "calls")
	cmd.RunE = bare.RunE
	cmd.Flags().AddFlagSet(bare.Flags())
	return cmd
}

// callsList lists calls.
func callsList(p *persona, std streams, use string) *cobra.Command {
	var (
		f        haft.CallFilter
		statuses []string
		since    string
	)
	cmd := p.command(std, use, "List calls, newest first", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			f.Status = nil
			for _, st := range statuses {
				if !known(haft.Statuses(), haft.Status(st)) {
					return usage(fmt.Errorf("--status is one of %v", haft.Statuses()))
				}
				f.Status = append(f.Status, haft.Status(st))
			}
			var err error
			if f.Since, err = parseSince(since, time.Now()); err != nil {
				return err
			}
			f.Agent = s.agentID(ctx, f.Agent)
			records := []haft.Record{}
			for r, err := range s.Records(ctx, s.p, f) {
				if err != nil {
					return err
				}
				records = append(records, r)
			}
			if s.as.json {
				return printJSON(s.std.out, records)
			}
			printRecords(s, records)
			return nil
		})
	fl := cmd.Flags()
	fl.StringVar(&f.Tool, "tool", "", "only calls of a tool")
	fl.StringVar(&f.User, "of-user", "", "only calls of a user")
	fl.StringVar(&f.Agent, "of-agent", "", "only calls of an agent")
	fl.StringVar(&f.Turn, "turn", "", "only calls of a turn")
	fl.StringSliceVar(&statuses, "status", nil, "only calls with a status; may be given again")
	fl.StringVar(&since, "since", "", "only calls since a `TIME`: 90s, 2h, 3d, or 2006-01-02T15:04:05Z")
	fl.IntVar(&f.Limit, "limit", 50, "the most to list")
	return cmd
}

// parseSince reads how far to look back.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	short := text
	times := time.Duration(1)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		short, times = days+"h", 24
	}
	if d, err := time.ParseDuration(short); err == nil && d >= 0 && d < 1e6*time.Hour {
		return now.Add(-times * d), nil
	}
	return time.Time{},
		usage(errors.New("--since is a duration such as 90s, 2h or 3d, or a time such as 2006-01-02T15:04:05Z"))
}

// printRecords lists calls for a person.
func printRecords(s *session, records []haft.Record) {
	now := time.Now()
	tab := newTable(s.std.out, "CALL", "TOOL", "STATUS", "WHO", "WHEN", "TOOK", "RESULT")
	for _, r := range records {
		took := ""
		if !r.Ended.IsZero() {
			took = r.Ended.Sub(r.Created).Round(100 * time.Microsecond).String()
		}
		tab.row(r.Call.ID, r.Call.Tool, statusCell(r.Status), who(r.Call.Principal), ago(r.Created, now), took,
			outcomeText(r.Result))
	}
	tab.print("there are no such calls")
}

// who says on whose behalf, for people.
func who(p haft.Principal) string {
	if p.Agent != "" {
		return p.User + " by " + p.Agent
	}
	return p.User
}

// noCall says what to do about a call that is not there.
func noCall(err error) error {
	if haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	return advise(err, "see which there are with: haft calls")
}

// callsShow shows one call.
func callsShow(p *persona, std streams) *cobra.Command {
	return p.command(std, "show ID", "Show a call: who, what, which version, and what became of it", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			r, err := s.Record(ctx, s.p, haft.CallID(args[0]))
			if err != nil {
				return noCall(err)
			}
			if s.as.json {
				return printJSON(s.std.out, r)
			}
			printRecord(s, r)
			return nil
		})
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
func printRecord(s *session, r *haft.Record) {
	w, now, c := s.std.out, time.Now(), r.Call
	arguments := string(c.Args)
	if r.Redacted {
		arguments += " (not all is kept)"
	}
	facts := []fact{
		{"call", cell{string(c.ID), bold}}, {"tool", c.Tool}, {"version", r.Digest}, {"status", statusCell(r.Status)},
		{"who", who(c.Principal)},
		{"roles", strings.Join(c.Principal.Roles, ", ")}, {"when", ago(r.Created, now)}, {"arguments", arguments},
		{"key", c.IdempotencyKey},
		{"turn", c.Turn}, {"chain", c.Chain}, {"parent", c.Parent},
	}
	if res := r.Result; res != nil {
		facts = append(facts, fact{"tries", res.Tries},
			fact{"sandbox", fmt.Sprintf("%s, isolation %s", res.Sandbox.Provider, res.Sandbox.Isolation.Level)},
			fact{"used", usageText(res.Usage)},
			fact{"timeline", timelineText(res.Timeline)}, fact{"notices", strings.Join(res.Notices, "; ")},
			fact{"stdout", strings.TrimRight(res.Stdout, "\n")}, fact{"stderr", strings.TrimRight(res.Stderr, "\n")})
		if res.Error != nil {
			facts = append(facts,
				fact{"error", fmt.Sprintf("%s (%s): %s", res.Error.Kind, res.Error.Severity, res.Error.Message)},
				fact{"traceback", res.Error.Traceback})
		} else if r.Status == haft.StatusSuccess {
			facts = append(facts, fact{"value", string(res.Value)})
		}
		if r.Status == haft.StatusPending {
			facts = append(facts, fact{"next", "haft approvals approve " + string(res.Approval)})
		}
	}
	printFacts(w, facts...)
}

// timelineText answers "why was it slow?" in a line.
func timelineText(t haft.Timeline) string {
	var parts []string
	for _, p := range []struct {
		name string
		took haft.Millis
	}{
		{"queue", t.Queue}, {"policy", t.Policy}, {"validate", t.Validate}, {"approval", t.Approval},
		{"setup", t.Setup},
		{"execute", t.Execute}, {"serialise", t.Serialise}, {"total", t.Total},
	} {
		if p.took > 0 {
			parts = append(parts, p.name+" "+p.took.D().Round(10*time.Microsecond).String())
		}
	}
	if t.Cell != "" {
		parts = append(parts, "cell "+t.Cell)
	}
	return strings.Join(parts, ", ")
}

// callsCancel ends calls.
func callsCancel(p *persona, std streams) *cobra.Command {
	var (
		all bool
		of  haft.Principal
	)
	cmd := p.command(std, "cancel ID…|--all", "Cancel calls that run, are queued or wait for a person",
		cobra.ArbitraryArgs,
		func(ctx context.Context, s *session, args []string) error {
			if all == (len(args) > 0) {
				return usage(errors.New("name calls, or say --all, with --of-user or --of-agent where only theirs " +
					"are meant"))
			}
			if all {
				of.Agent = s.agentID(ctx, of.Agent)
				n, err := s.CancelAll(ctx, s.p, of)
				if err != nil {
					return err
				}
				return tell(s, map[string]int{"cancelled": n}, fmt.Sprintf("%d calls were cancelled", n))
			}
			states := []map[string]any{}
			for _, id := range args {
				if err := s.Cancel(ctx, s.p, haft.CallID(id)); err != nil {
					return noCall(err)
				}
				r, err := s.Record(ctx, s.p, haft.CallID(id))
				if err != nil {
					return noCall(err)
				}
				states = append(states, map[string]any{"call_id": id, "status": r.Status})
				if !s.as.json {
					fmt.Fprintln(s.std.out, id, r.Status)
				}
			}
			if s.as.json {
				return printJSON(s.std.out, states)
			}
			return nil
		})
	cmd.Flags().BoolVar(&all, "all", false, "all of the organisation")
	cmd.Flags().StringVar(&of.User, "of-user", "", "with --all: only those of a user")
	cmd.Flags().StringVar(&of.Agent, "of-agent", "", "with --all: only those of an agent")
	return cmd
}

// tell prints what was done: a document, or words.
func tell(s *session, document any, words string) error {
	if s.as.json {
		return printJSON(s.std.out, document)
	}
	fmt.Fprintln(s.std.out, words)
	return nil
}

// callsEvents shows what happened to a call.
func callsEvents(p *persona, std streams) *cobra.Command {
	var follow bool
	cmd := p.command(std, "events ID", "Show what happened to a call, in order", cobra.ExactArgs(1),
		func(ctx context.Context, s *session, args []string) error {
			if follow && s.as.json {
				return usage(errors.New("--follow goes on, and --json prints one document: leave one out"))
			}
			id := haft.CallID(args[0])
			if follow {
				return followEvents(ctx, s, id)
			}
			events := []haft.Event{}
			for e, err := range s.EventsOf(ctx, s.p, id) {
				if err != nil {
					return noCall(err)
				}
				events = append(events, e)
			}
			if s.as.json {
				return printJSON(s.std.out, events)
			}
			tab := newTable(s.std.out, "SEQ", "TIME", "EVENT", "DATA")
			for _, e := range events {
				tab.row(e.Seq, e.Time.Local().Format("15:04:05.000"), cell{string(e.Type), cyan}, string(e.Data))
			}
			tab.print("the events of this call are not kept any more")
			return nil
		})
	cmd.Flags().BoolVar(&follow, "follow", false, "also those to come, until the call has ended")
	return cmd
}

// followEvents prints events as they come.
func followEvents(ctx context.Context, s *session, id haft.CallID) error {
	w := s.std.out
	for e, err := range s.WatchCall(ctx, s.p, id) {
		if err != nil {
			return noCall(err)
		}
		fmt.Fprintf(w, "%d  %s  %s  %s\n", e.Seq, e.Time.Local().Format("15:04:05.000"), paint(w, cyan, string(e.Type)),
			oneLine(string(e.Data), 2*widest))
		if e.Type == haft.EventCompleted {
			return nil
		}
	}
	return nil
}

// callsStop stops everything.
func callsStop(p *persona, std streams) *cobra.Command {
	var (
		reason string
		kill   bool
	)
	cmd := p.command(std, "stop", "Refuse all calls of everybody until haft calls resume, also after a restart",
		cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			if err := s.Stop(ctx, s.p, reason, kill); err != nil {
				return err
			}
			return tell(s, map[string]any{"stopped": true, "reason": reason, "kill": kill},
				"calls are stopped; let them go on with: haft calls resume")
		})
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who are refused")
	cmd.Flags().BoolVar(&kill, "kill", false, "end those that run; else they may finish")
	return cmd
}

// callsResume lets calls go on.
func callsResume(p *persona, std streams) *cobra.Command {
	return p.command(std, "resume", "Take calls again after haft calls stop", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			if err := s.Resume(ctx, s.p); err != nil {
				return err
			}
			return tell(s, map[string]any{"stopped": false}, "calls are taken again")
		})
}
