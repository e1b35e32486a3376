package follow

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/terminal"
)

// The bounds of what top looks at.
const (
	maxOpen   = 500
	maxEnded  = 1000
	rateSpan  = 10 * time.Second
	clearText = "\x1b[H\x1b[2J"
)

// Top shows what runs, waits and has just ended.
type Top struct {
	Out io.Writer
	// Every is the time between two looks; 0 means one look only.
	Every time.Duration
	// Lines is how many calls are shown; 0 means 20.
	Lines int
	// Sessions lists the sandboxes that are kept for many calls.
	Sessions func(ctx context.Context) ([]haft.Session, error)

	now func() time.Time // tests set it
}

// A look is what is seen at one moment.
type look struct {
	at          time.Time
	open, ended []haft.Record
	sessions    []haft.Session
}

// Show prints what it sees, and again until the context ends.
func (t Top) Show(ctx context.Context, s Source, p haft.Principal) error {
	if t.now == nil {
		t.now = time.Now
	}
	for {
		seen, err := t.look(ctx, s, p)
		if err != nil {
			return ended(ctx, err)
		}
		text := t.text(seen)
		if t.Every <= 0 {
			_, err := io.WriteString(t.Out, text)
			return err
		}
		if _, err := io.WriteString(t.Out, clearText+text); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(t.Every):
		}
	}
}

// look reads what is open and what ended in the last seconds.
func (t Top) look(ctx context.Context, s Source, p haft.Principal) (seen look, err error) {
	seen.at = t.now()
	open := slices.DeleteFunc(slices.Clone(haft.Statuses()), haft.Status.Final)
	for r, err := range s.Records(ctx, p, haft.CallFilter{Org: p.Org, Status: open, Limit: maxOpen}) {
		if err != nil {
			return seen, err
		}
		seen.open = append(seen.open, r)
	}
	recent := haft.CallFilter{Org: p.Org, Since: seen.at.Add(-rateSpan), Limit: maxEnded}
	for r, err := range s.Records(ctx, p, recent) {
		if err != nil {
			return seen, err
		}
		if r.Status.Final() {
			seen.ended = append(seen.ended, r)
		}
	}
	if t.Sessions != nil {
		seen.sessions, err = t.Sessions(ctx)
	}
	return seen, err
}

// text is one picture.
func (t Top) text(seen look) string {
	var b strings.Builder
	count := map[haft.Status]int{}
	for _, r := range seen.open {
		count[r.Status]++
	}
	failed := 0
	for _, r := range seen.ended {
		if r.Status != haft.StatusSuccess {
			failed++
		}
	}
	fmt.Fprintf(&b, "%s  %d open", seen.at.Local().Format(time.TimeOnly), len(seen.open))
	for _, status := range haft.Statuses() {
		if n := count[status]; n > 0 {
			fmt.Fprintf(&b, ", %d %s", n, status)
		}
	}
	many := ""
	if len(seen.ended) == maxEnded {
		many = "more than "
	}
	fmt.Fprintf(&b, "\nlast %s: %s%.1f calls/s, %d of %d not successful; %d sessions\n\n", rateSpan, many,
		float64(len(seen.ended))/rateSpan.Seconds(), failed, len(seen.ended), len(seen.sessions))
	lines := t.Lines
	if lines <= 0 {
		lines = 20
	}
	fmt.Fprintf(&b, "%-28s %-24s %-18s %10s  %s\n", "CALL", "TOOL", "STATUS", "TIME", "WHO")
	slices.Reverse(seen.open) // what is open for longest comes first
	for _, r := range slices.Concat(seen.open, seen.ended) {
		if lines--; lines < 0 {
			break
		}
		took := seen.at.Sub(r.Created)
		if !r.Ended.IsZero() {
			took = r.Ended.Sub(r.Created)
		}
		status := fmt.Sprintf("%-18s", terminal.OneLine(string(r.Status), 18))
		fmt.Fprintf(&b, "%-28s %-24s %s %10s  %s\n", r.Call.ID, terminal.OneLine(r.Call.Tool, 24),
			terminal.Paint(t.Out, terminal.StatusColour(r.Status), status), took.Round(time.Millisecond),
			terminal.OneLine(r.Call.Principal.User, 30))
	}
	return b.String()
}
