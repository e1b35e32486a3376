// Package devloop is the loop of somebody who writes tools: it registers files when they are saved, shows
// what models see of them and what is wrong with them, and calls them again.
package devloop

import (
	"context"
	"errors"
	"fmt"
	"io"

	"haft"
	"haft/internal/backend"
	"haft/internal/registry"
)

// Config says what to watch and where to show it.
type Config struct {
	System    backend.System
	Principal haft.Principal
	Dir       string
	// Split finds the tools of one source: a draft for each.
	Split func(ctx context.Context, file string, d haft.Draft) ([]haft.Draft, error)
	// Remove removes tools whose files are deleted; else they stay.
	Remove bool
	// In has the commands of the person, and Out shows everything.
	In  io.Reader
	Out io.Writer
}

// errLeave says that the person wants to leave.
var errLeave = errors.New("the person leaves")

// A save is what a look at the directory has found.
type save struct {
	changed []registry.Found
	gone    []string
}

// A loop is one Run.
type loop struct {
	Config
	in    *input
	out   io.Writer
	paint func(code int, text string) string
	tools map[string][]string // which tools a file has, by path
	last  string              // the last command that was a call
	own   map[haft.CallID]bool
	// pending is the request that the last call waits for.
	pending haft.ApprovalID
}

// maxOwn bounds how many calls of the prompt are remembered, to not show their events too.
const maxOwn = 1000

// Run registers the tools of the directory, and again whatever changes, and does what the person says,
// until the person leaves or ctx ends. If the input has ended before a first line, it goes on without.
func Run(ctx context.Context, cfg Config) error {
	in, err := openInput(cfg.In, cfg.Out)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &loop{Config: cfg, in: in, out: in.out, paint: in.paint, tools: map[string][]string{},
		own: map[haft.CallID]bool{}}
	saves, watched := make(chan save), make(chan error, 1)
	go func() {
		watched <- registry.Watch(ctx, cfg.Dir, func(changed []registry.Found, gone []string) {
			select {
			case saves <- save{changed, gone}:
			case <-ctx.Done():
			}
		})
	}()
	events, listened := make(chan haft.Event), make(chan error, 1)
	go func() { listened <- l.listen(ctx, events) }()
	err = l.run(ctx, saves, events, watched)
	cancel()
	return errors.Join(err, <-watched, <-listened, in.close())
}

// listen passes on what happens to calls, also to those of MCP clients.
func (l *loop) listen(ctx context.Context, to chan<- haft.Event) error {
	f := haft.EventFilter{Types: []haft.EventType{haft.EventCompleted, haft.EventApproval}}
	for e, err := range l.System.Watch(ctx, l.Principal, f, -1) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("watch calls: %w", err)
		}
		select {
		case to <- e:
		case <-ctx.Done():
		}
	}
	return nil
}

// run does the work. What a person types waits until the files are registered.
func (l *loop) run(ctx context.Context, saves <-chan save, events <-chan haft.Event, watched chan error) error {
	var lines <-chan string
	for {
		select {
		case s := <-saves:
			l.register(ctx, s)
			if lines == nil {
				l.printf("%s\n", l.paint(dim, "watching "+l.Dir+"; help lists what you can type"))
				lines = l.in.read(ctx)
			}
		case e := <-events:
			l.showEvent(e)
		case line, ok := <-lines:
			if !ok && l.in.background() {
				lines = make(chan string) // which never has one
				continue
			}
			if !ok {
				return nil
			}
			if err := l.do(ctx, line); err != nil {
				if errors.Is(err, errLeave) {
					return nil
				}
				l.printError(err)
			}
		case <-l.in.interrupts:
			return nil
		case err := <-watched:
			watched <- nil
			return err
		case <-ctx.Done():
			return nil
		}
		l.in.ask(l.prompt())
	}
}

// prompt is what is before the cursor: Enter makes the last call again.
func (l *loop) prompt() string {
	if l.last == "" {
		return "> "
	}
	return "[Enter: " + short(l.last) + "] > "
}

// interruptible does something that Ctrl-C stops.
func (l *loop) interruptible(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case <-l.in.interrupts:
			cancel()
		}
	}
}
