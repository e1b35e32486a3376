package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"haft"
	"haft/internal/bench"
	"haft/internal/exit"
	"haft/internal/flagvalue"
)

// A tally counts the calls of one tool by their outcome.
type tally struct {
	Tool string `json:"tool"`
	// Calls are all of them: Succeeded, Failed, Refused and Open together.
	Calls     int `json:"calls"`
	Succeeded int `json:"succeeded"`
	// Failed ran and gave no value, and Refused never ran.
	Failed  int `json:"failed"`
	Refused int `json:"refused"`
	Open    int `json:"open"`
	// Statuses counts each by itself.
	Statuses map[haft.Status]int `json:"statuses"`
	Users    int                 `json:"users"`
	P50      haft.Millis         `json:"p50_ms"`
	P95      haft.Millis         `json:"p95_ms"`

	times []time.Duration
	users map[string]bool
}

// add counts a call.
func (t *tally) add(r haft.Record) {
	t.Calls++
	t.Statuses[r.Status]++
	t.users[r.Call.Principal.User] = true
	ran := r.Result != nil && (r.Result.Tries > 0 || r.Result.Cached)
	switch {
	case !r.Status.Final():
		t.Open++
		return
	case r.Status == haft.StatusSuccess:
		t.Succeeded++
	case ran || r.Status == haft.StatusUnknown:
		t.Failed++
	default:
		t.Refused++
		return
	}
	t.times = append(t.times, r.Ended.Sub(r.Created))
}

// finish sets the fields that are known only when all calls are counted.
func (t *tally) finish() {
	t.Users = len(t.users)
	slices.Sort(t.times)
	if n := len(t.times); n > 0 {
		t.P50, t.P95 = haft.Millis(t.times[n/2]), haft.Millis(t.times[min(n-1, n*95/100)])
	}
}

// count counts calls by tool.
func (f *callFilter) count(ctx context.Context, s *session, _ []string) error {
	which, err := f.read(ctx, s)
	if err != nil {
		return err
	}
	tools := map[string]*tally{}
	for r, err := range s.Records(ctx, s.p, which) {
		if err != nil {
			return err
		}
		t := tools[r.Call.Tool]
		if t == nil {
			t = &tally{Tool: r.Call.Tool, Statuses: map[haft.Status]int{}, users: map[string]bool{}}
			tools[r.Call.Tool] = t
		}
		t.add(r)
	}
	list := []*tally{}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		tools[name].finish()
		list = append(list, tools[name])
	}
	return s.print(list, func() {
		printTable(s.out, list, listing[*tally]{
			"TOOL,CALLS,SUCCEEDED,FAILED,REFUSED,OPEN,USERS,P50,P95", func(t *tally) []any {
				return []any{cell{t.Tool, bold}, t.Calls, cell{strconv.Itoa(t.Succeeded), green},
					cell{strconv.Itoa(t.Failed), red}, cell{strconv.Itoa(t.Refused), yellow}, t.Open, t.Users,
					bench.Round(t.P50.D()), bench.Round(t.P95.D())}
			}, "there are no such calls"})
	})
}

// A difference is one thing in which two results are not the same.
type difference struct {
	What string `json:"what"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// A comparison is an old result beside a new one.
type comparison struct {
	Equal       bool         `json:"equal"`
	Differences []difference `json:"differences"`
	Old         *haft.Result `json:"old"`
	New         *haft.Result `json:"new"`
}

// replayCall makes a call again, prints what differs, and fails if something does.
func replayCall(ctx context.Context, s *session, args []string) error {
	rec, err := s.Record(ctx, s.p, haft.CallID(args[0]))
	if err != nil {
		return err
	}
	old := rec.Result
	if old == nil || !rec.Status.Final() {
		return exit.Advise(&haft.Error{Code: haft.CodeConflict,
			Message: "the call has not ended: there is nothing to compare with"},
			"see where it stands with: haft calls show "+args[0])
	}
	res, err := s.Replay(ctx, s.p, rec.Call.ID)
	if err != nil {
		return err
	}
	c := comparison{Differences: compare(old, res), Old: old, New: res}
	c.Equal = len(c.Differences) == 0
	if err := s.print(c, func() { printComparison(s, c) }); err != nil {
		return err
	}
	switch {
	case res.Status == haft.StatusPending:
		fmt.Fprintf(s.err, "the new call waits for a person\n  next: haft approvals approve %s\n", res.Approval)
		return exit.With(exit.Denied)
	case !c.Equal:
		return exit.With(exit.Tool)
	}
	return nil
}

// compare finds out in what two results differ.
func compare(old, res *haft.Result) []difference {
	list := []difference{}
	add := func(what, a, b string) {
		if a != b {
			list = append(list, difference{what, a, b})
		}
	}
	add("status", string(old.Status), string(res.Status))
	add("value", compactJSON(old.Value), compactJSON(res.Value))
	add("error", failureText(old.Error), failureText(res.Error))
	add("stdout", old.Stdout, res.Stdout)
	add("stderr", old.Stderr, res.Stderr)
	return list
}

// compactJSON is a JSON text without blanks.
func compactJSON(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return string(raw)
	}
	return b.String()
}

// failureText is the part of a failure that does not differ from run to run.
func failureText(f *haft.Failure) string {
	if f == nil {
		return ""
	}
	return string(f.Kind) + ": " + f.Message
}

// printComparison prints what differs.
func printComparison(s *session, c comparison) {
	w := s.out
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
func retentionFlags(r *haft.Retention, prefix string) []flag {
	return []flag{
		{(*flagvalue.Age)(&r.Refused), prefix + "refused", "prune calls that were refused after this `AGE`"},
		{(*flagvalue.Count)(&r.RefusedCount), prefix + "refused-count",
			"keep the newest `N` refused calls of each status of an organisation"},
		{(*flagvalue.Age)(&r.Calls), prefix + "calls", "prune calls that have ended after this `AGE`; a day at least"},
		{(*flagvalue.Count)(&r.CallsCount), prefix + "calls-count", "keep the newest `N` calls of an organisation"},
	}
}

// setRetention sets how long calls are kept if a flag says so, and shows it.
func setRetention(ctx context.Context, s *session, org string, r haft.Retention) error {
	k, err := s.Retention(ctx, s.p, org)
	if err == nil && r != (haft.Retention{}) {
		k, err = s.SetRetention(ctx, s.p, org, r)
	}
	if err != nil {
		return err
	}
	return s.print(k, func() {
		tab := newTable(s.out, "WHAT", "NOW", "AGE", "COUNT", "MOST")
		row := func(what string, now int64, age, mostAge haft.Millis, count, most int64) {
			tab.row(what, now, flagvalue.AgeText(age), flagvalue.CountText(count),
				flagvalue.AgeText(mostAge)+", "+flagvalue.CountText(most))
		}
		row("refused", k.Refused, k.Retention.Refused, k.Most.Refused, k.Retention.RefusedCount, k.Most.RefusedCount)
		row("calls", k.Calls, k.Retention.Calls, k.Most.Calls, k.Retention.CallsCount, k.Most.CallsCount)
		tab.print("")
	})
}
