// Package follow shows a person what a system does: what tools print, what happens to calls, and what
// runs at this moment.
package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/terminal"
)

// A Source is a system that is looked at.
type Source interface {
	Records(ctx context.Context, p haft.Principal, f haft.CallFilter) iter.Seq2[haft.Record, error]
	Watch(ctx context.Context, p haft.Principal, f haft.EventFilter, after int64) iter.Seq2[haft.Event, error]
}

// clock is how a time is printed.
const clock = "15:04:05.000"

// Logs prints what tools print, call by call.
type Logs struct {
	Out io.Writer
	// Filter says which calls, and how many of the past.
	Filter haft.CallFilter
	// Follow goes on with the calls to come, until the context ends.
	Follow bool
}

// Show prints the calls that have ended, the oldest first, and goes on if it is asked to.
func (l Logs) Show(ctx context.Context, s Source, p haft.Principal) error {
	var coming <-chan watched
	if l.Follow { // before the past is read, so that nothing is between the two
		watching, stop := context.WithCancel(ctx)
		defer stop()
		coming = watch(watching, s, p, haft.EventFilter{Tool: l.Filter.Tool, User: l.Filter.User,
			Agent: l.Filter.Agent, Types: []haft.EventType{haft.EventOutput, haft.EventCompleted}}, -1)
	}
	var past []haft.Record
	for r, err := range s.Records(ctx, p, l.Filter) {
		if err != nil {
			return err
		}
		if r.Status.Final() {
			past = append(past, r)
		}
	}
	slices.Reverse(past)
	shown := map[haft.CallID]bool{}
	for _, r := range past {
		l.record(r)
		shown[r.Call.ID] = true
	}
	if coming == nil {
		return nil
	}
	for w := range coming {
		if w.err != nil {
			return ended(ctx, w.err)
		}
		if !shown[w.event.Call] {
			l.event(w.event)
		}
	}
	return nil
}

// record prints a call that has ended: what its tool printed, and what became of it.
func (l Logs) record(r haft.Record) {
	if r.Result != nil {
		l.text(r.Started, r.Call.Tool, r.Call.ID, "", r.Result.Stdout)
		l.text(r.Started, r.Call.Tool, r.Call.ID, "stderr", r.Result.Stderr)
	}
	took, message := time.Duration(0), ""
	if !r.Ended.IsZero() {
		took = r.Ended.Sub(r.Created)
	}
	if r.Result != nil && r.Result.Error != nil {
		message = r.Result.Error.Message
	}
	l.outcome(r.Ended, r.Call.Tool, r.Call.ID, r.Status, took, message)
}

// event prints what a tool prints now, or that a call has ended.
func (l Logs) event(e haft.Event) {
	var d struct {
		Stream, Text string
		Status       haft.Status
		Error        *haft.Failure
		Total        haft.Millis `json:"total_ms"`
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return
	}
	if e.Type == haft.EventOutput {
		l.text(e.Time, e.Tool, e.Call, strings.TrimPrefix(d.Stream, "stdout"), d.Text)
		return
	}
	message := ""
	if d.Error != nil {
		message = d.Error.Message
	}
	l.outcome(e.Time, e.Tool, e.Call, d.Status, d.Total.D(), message)
}

// text prints lines that a tool printed.
func (l Logs) text(at time.Time, tool string, id haft.CallID, stream, text string) {
	for line := range strings.Lines(text) {
		mark := "|"
		if stream != "" {
			mark = "!"
		}
		fmt.Fprintf(l.Out, "%s %s %s\n", l.head(at, tool, id), mark,
			terminal.Safe(l.Out, strings.TrimRight(line, "\n")))
	}
}

// outcome prints what became of a call.
func (l Logs) outcome(at time.Time, tool string, id haft.CallID, status haft.Status, took time.Duration,
	message string) {
	line := terminal.Paint(l.Out, terminal.StatusColour(status), string(status))
	if took > 0 {
		line += " " + took.Round(100*time.Microsecond).String()
	}
	if message != "" {
		line += ": " + terminal.OneLine(message, 200)
	}
	fmt.Fprintf(l.Out, "%s %s\n", l.head(at, tool, id), line)
}

func (l Logs) head(at time.Time, tool string, id haft.CallID) string {
	return terminal.Paint(l.Out, terminal.Dim, at.Local().Format(clock)+" "+string(id)) + " " +
		terminal.OneLine(tool, 40)
}

// Events prints what happens to all calls, one line or one JSON object each, until the context ends.
func Events(ctx context.Context, w io.Writer, s Source, p haft.Principal, f haft.EventFilter, after int64,
	documents bool) error {
	for e, err := range s.Watch(ctx, p, f, after) {
		if err != nil {
			return ended(ctx, err)
		}
		if documents {
			raw, err := json.Marshal(e)
			if err != nil {
				return fmt.Errorf("print an event: %w", err)
			}
			fmt.Fprintln(w, string(raw))
			continue
		}
		fmt.Fprintf(w, "%s %s %s %s %s\n", terminal.Paint(w, terminal.Dim, e.Time.Local().Format(clock)), e.Call,
			terminal.OneLine(e.Tool, 40), terminal.Paint(w, terminal.Cyan, string(e.Type)),
			terminal.OneLine(string(e.Data), 120))
	}
	return nil
}

// watched is an event, or why there are no more.
type watched struct {
	event haft.Event
	err   error
}

// watch reads events beside something else, until ctx ends.
func watch(ctx context.Context, s Source, p haft.Principal, f haft.EventFilter, after int64) <-chan watched {
	out := make(chan watched)
	go func() {
		defer close(out)
		for e, err := range s.Watch(ctx, p, f, after) {
			select {
			case out <- watched{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// ended is no error if a person ended it.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
