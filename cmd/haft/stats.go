package main

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"haft"
)

// A tally counts what became of the calls of one tool.
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

// close works out what can be known only at the end.
func (t *tally) close() {
	t.Users = len(t.users)
	slices.Sort(t.times)
	if n := len(t.times); n > 0 {
		t.P50, t.P95 = haft.Millis(t.times[n/2]), haft.Millis(t.times[min(n-1, n*95/100)])
	}
}

// callsStats counts calls.
func callsStats(p *persona, std streams) *cobra.Command {
	var (
		since string
		limit int
		f     haft.CallFilter
	)
	cmd := p.command(std, "stats",
		"Count calls by tool: how many succeeded, failed and were refused, and how long they took", cobra.NoArgs,
		func(ctx context.Context, s *session, _ []string) error {
			var err error
			if f.Since, err = parseSince(since, time.Now()); err != nil {
				return err
			}
			f.Limit = limit
			tools := map[string]*tally{}
			f.Agent = s.agentID(ctx, f.Agent)
			for r, err := range s.Records(ctx, s.p, f) {
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
				tools[name].close()
				list = append(list, tools[name])
			}
			if s.as.json {
				return printJSON(s.std.out, list)
			}
			tab := newTable(s.std.out, "TOOL", "CALLS", "SUCCEEDED", "FAILED", "REFUSED", "OPEN", "USERS", "P50", "P95")
			for _, t := range list {
				tab.row(cell{t.Tool, bold}, t.Calls, cell{strconv.Itoa(t.Succeeded), green},
					cell{strconv.Itoa(t.Failed), red}, cell{strconv.Itoa(t.Refused), yellow},
					strconv.Itoa(t.Open), t.Users, round(t.P50.D()), round(t.P95.D()))
			}
			tab.print("there are no such calls")
			return nil
		})
	cmd.Flags().StringVar(&since, "since", "", "only calls since a `TIME`: 90s, 2h, 3d, or 2006-01-02T15:04:05Z")
	cmd.Flags().StringVar(&f.Tool, "tool", "", "only calls of a tool")
	cmd.Flags().StringVar(&f.User, "of-user", "", "only calls of a user")
	cmd.Flags().StringVar(&f.Agent, "of-agent", "", "only calls of an agent")
	cmd.Flags().IntVar(&limit, "limit", 100_000, "the most calls to count, the newest first")
	return cmd
}
