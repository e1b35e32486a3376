package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"haft"
	"haft/internal/backend"
	"haft/internal/bench"
	"haft/internal/cli"
	"haft/internal/exit"
	"haft/internal/flagvalue"
)

// count counts calls by tool.
func (f *callFilter) count(ctx context.Context, s *cli.Session, _ []string) error {
	which, err := f.read(ctx, s)
	if err != nil {
		return err
	}
	list, err := backend.CountCalls(s.Records(ctx, s.Who, which))
	if err != nil {
		return err
	}
	return s.Print(list, func() {
		cli.PrintTable(s.Out, list, cli.Listing[*backend.Tally]{
			"TOOL,CALLS,SUCCEEDED,FAILED,REFUSED,OPEN,USERS,P50,P95", func(t *backend.Tally) []any {
				return []any{cli.Shaded(t.Tool, bold), t.Calls, cli.Shaded(strconv.Itoa(t.Succeeded), green),
					cli.Shaded(strconv.Itoa(t.Failed), red), cli.Shaded(strconv.Itoa(t.Refused), yellow), t.Open,
					t.Users,
					bench.Round(t.P50.D()), bench.Round(t.P95.D())}
			}, "there are no such calls"})
	})
}

// replayCall makes a call again, prints what differs, and fails if something does.
func replayCall(ctx context.Context, s *cli.Session, args []string) error {
	rec, err := s.Record(ctx, s.Who, haft.CallID(args[0]))
	if err != nil {
		return err
	}
	old := rec.Result
	if old == nil || !rec.Status.Final() {
		return exit.Advise(&haft.Error{Code: haft.CodeConflict,
			Message: "the call has not ended: there is nothing to compare with"},
			"see where it stands with: haft calls show "+args[0])
	}
	res, err := s.Replay(ctx, s.Who, rec.Call.ID)
	if err != nil {
		return err
	}
	c := backend.Compare(old, res)
	if err := s.Print(c, func() { printComparison(s, c) }); err != nil {
		return err
	}
	switch {
	case res.Status == haft.StatusPending:
		fmt.Fprintf(s.Err, "the new call waits for a person\n  next: haft approvals approve %s\n", res.Approval)
		return exit.With(exit.Denied)
	case !c.Equal:
		return exit.With(exit.Tool)
	}
	return nil
}

// printComparison prints what differs.
func printComparison(s *cli.Session, c backend.Comparison) {
	w := s.Out
	if c.Equal {
		fmt.Fprintf(w, "%s: %s and %s gave the same\n", paint(w, green, "equal"), c.Old.Call, c.New.Call)
	} else {
		fmt.Fprintf(w, "%s: %s gave another result than %s\n", paint(w, red, "different"), c.New.Call, c.Old.Call)
	}
	side := func(shade colour, mark, text string) {
		for line := range strings.Lines(text) {
			fmt.Fprintln(w, paint(w, shade, mark+safe(w, strings.TrimRight(line, "\n"))))
		}
	}
	for _, d := range c.Differences {
		fmt.Fprintln(w, paint(w, bold, d.What))
		side(red, "- ", d.Old)
		side(green, "+ ", d.New)
	}
}

// retentionFlags are the flags for a retention, each with a prefix.
func retentionFlags(r *haft.Retention, prefix string) []cli.Flag {
	return []cli.Flag{
		{(*flagvalue.Age)(&r.Refused), prefix + "refused", "prune calls that were refused after this `AGE`"},
		{(*flagvalue.Count)(&r.RefusedCount), prefix + "refused-count",
			"keep the newest `N` refused calls of each status of an organisation"},
		{(*flagvalue.Age)(&r.Calls), prefix + "calls", "prune calls that have ended after this `AGE`; a day at least"},
		{(*flagvalue.Count)(&r.CallsCount), prefix + "calls-count", "keep the newest `N` calls of an organisation"},
	}
}

// setRetention sets how long calls are kept if a flag says so, and shows it.
func setRetention(ctx context.Context, s *cli.Session, org string, r haft.Retention) error {
	k, err := s.Retention(ctx, s.Who, org)
	if err == nil && r != (haft.Retention{}) {
		k, err = s.SetRetention(ctx, s.Who, org, r)
	}
	if err != nil {
		return err
	}
	return s.Print(k, func() {
		tab := cli.NewTable(s.Out, "WHAT", "NOW", "AGE", "COUNT", "MOST")
		row := func(what string, now int64, age, mostAge haft.Millis, count, most int64) {
			tab.Row(what, now, flagvalue.AgeText(age), flagvalue.CountText(count),
				flagvalue.AgeText(mostAge)+", "+flagvalue.CountText(most))
		}
		row("refused", k.Refused, k.Retention.Refused, k.Most.Refused, k.Retention.RefusedCount, k.Most.RefusedCount)
		row("calls", k.Calls, k.Retention.Calls, k.Most.Calls, k.Retention.CallsCount, k.Most.CallsCount)
		tab.Print("")
	})
}
