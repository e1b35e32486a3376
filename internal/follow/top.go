package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"haft"
	"haft/internal/terminal"
)

// The bounds of what top looks at.
const (
	maxOpen  = 500
	maxEnded = 1000
	rateSpan = 10 * time.Second
)

// What a terminal is sent: a screen of its own, without what was there before, and back.
const (
	openText  = "\x1b[?1049h"
	clearText = "\x1b[H\x1b[2J"
	closeText = "\x1b[?1049l"
)

// ctrlC is the key that a terminal in raw mode sends.
const ctrlC = 3

// Top shows what runs, waits and has just ended.
type Top struct {
	// In is where a person presses q to end it, if that is a terminal.
	In  io.Reader
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

// Show prints what it sees, and again until the context ends or a person ends it.
func (t Top) Show(ctx context.Context, s Source, p haft.Principal) error {
	if t.now == nil {
		t.now = time.Now
	}
	if t.Every > 0 {
		return t.live(ctx, s, p)
	}
	seen, err := t.look(ctx, s, p)
	if err != nil {
		return ended(ctx, err)
	}
	_, err = io.WriteString(t.Out, t.text(seen))
	return err
}

// live shows one picture after the other. The terminal is then as it was before.
func (t Top) live(ctx context.Context, s Source, p haft.Principal) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	restore, err := t.openScreen(stop)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, restore()) }()
	for {
		seen, err := t.look(ctx, s, p)
		if err != nil {
			return ended(ctx, err)
		}
		text := t.text(seen) + "\n" + terminal.Paint(t.Out, terminal.Dim, "q ends this") + "\n"
		// A terminal in raw mode does not begin a new line at its left.
		if _, err := io.WriteString(t.Out, clearText+strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(t.Every):
		}
	}
}

// openScreen takes the terminal, and calls quit when a person presses q or Ctrl-C. The function that it returns gives
// the terminal back.
func (t Top) openScreen(quit func()) (restore func() error, err error) {
	release := func() error { return nil }
	if f, ok := t.In.(*os.File); ok && terminal.Is(f) {
		old, err := term.MakeRaw(int(f.Fd()))
		if err != nil {
			return nil, fmt.Errorf("open the terminal: %w", err)
		}
		release = func() error { return term.Restore(int(f.Fd()), old) }
		go awaitQuit(f, quit) // it ends with the process: nothing ends a read of a terminal
	}
	if _, err := io.WriteString(t.Out, openText); err != nil {
		return nil, errors.Join(err, release())
	}
	return func() error {
		_, err := io.WriteString(t.Out, closeText)
		return errors.Join(err, release())
	}, nil
}

// awaitQuit calls quit when q or Ctrl-C is read, or nothing can be read any more.
func awaitQuit(in io.Reader, quit func()) {
	buf := make([]byte, 64)
	for {
		n, err := in.Read(buf)
		if err != nil || bytes.ContainsAny(buf[:n], "qQ"+string(rune(ctrlC))) {
			quit()
			return
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
