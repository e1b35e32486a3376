package engine

import (
	"context"
	"errors"
	"time"

	"haft"
	"haft/internal/store"
)

// peers is what this process knows of those that share its store.
type peers struct {
	seen map[string]sighting
	at   time.Time // of the last look
}

// A sighting is a count of beats, and since when it stands still.
type sighting struct {
	beat  int64
	since time.Time
}

// A term is the time during which this process has calls under a name. It ends when others
// have given the process up.
type term struct {
	name string
	ctx  context.Context
	end  context.CancelCauseFunc
}

// owner is the name under which this process has calls now.
func (e *Engine) owner() string { return e.term.Load().name }

// join registers this process under a name.
func (e *Engine) join(ctx context.Context, name string) error {
	if err := e.store.Join(ctx, name); err != nil {
		return err
	}
	t := &term{name: name}
	t.ctx, t.end = context.WithCancelCause(e.ctx)
	e.term.Store(t)
	return nil
}

// during returns the name of this process, and a context that also ends with its term.
func (e *Engine) during(ctx context.Context) (within context.Context, owner string, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := e.term.Load()
	stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	return ctx, t.name, func() { stop(); cancel(nil) }
}

// beat says that this process lives, and finds out whether it was given up.
func (e *Engine) beat(ctx context.Context) error {
	err := e.store.Beat(ctx, e.owner())
	if errors.Is(err, store.ErrGivenUp) {
		return e.rejoin(ctx)
	}
	return err
}

// errGivenUp is the cause of the end of what runs in a process that was given up: others
// have its calls, and nothing about them is written or told here any more.
var errGivenUp = errors.New("this server was given up by others that share its database; what became of the call is " +
	"with them")

// givenUp is errGivenUp for callers.
func givenUp() error {
	return &haft.Error{Code: haft.CodeUnavailable, Err: errGivenUp, RetryAfter: haft.Millis(time.Second),
		Message: "this server was given up by others that share its database: try again"}
}

// rejoin drops what this process has in its hands and goes on under another name.
func (e *Engine) rejoin(ctx context.Context) error {
	// First: whoever sees the new name sees that the old term has ended.
	e.term.Load().end(errGivenUp)
	old := e.owner()
	dropped := 0
	e.mu.Lock()
	for _, ex := range e.executions {
		if ex.owner == old {
			ex.cancel(errGivenUp)
			dropped++
		}
	}
	e.mu.Unlock()
	e.dispatcher.forget()
	if err := e.join(ctx, newID("p_")); err != nil {
		return err
	}
	e.cfg.Logger.Error("this server was given up by others that share its database, since it did not say for too "+
		"long that it lives: "+
		"they go on with its calls, and it drops them", "dropped", dropped, "was", old, "is", e.owner())
	return nil
}

// isGivenUp reports whether err says that others have given this process up.
func isGivenUp(err error) bool { return errors.Is(err, store.ErrGivenUp) || errors.Is(err, errGivenUp) }

// givePeersUp gives up processes whose count of beats stands still. How long it does is
// measured by the clock of this process alone; when that was stopped itself, or could not
// reach the database, it looks anew, since the others may not have been able to beat.
func (e *Engine) givePeersUp(ctx context.Context) error {
	now := time.Now()
	beats, err := e.store.Beats(ctx)
	if err != nil {
		e.peers.seen = nil
		return err
	}
	if now.Sub(e.peers.at) > e.cfg.DeadAfter/2 {
		e.peers.seen = nil
	}
	next := make(map[string]sighting, len(beats))
	for name, beat := range beats {
		s, known := e.peers.seen[name]
		if !known || s.beat != beat {
			s = sighting{beat, now}
		}
		next[name] = s
		if name == e.owner() || now.Sub(s.since) < e.cfg.DeadAfter {
			continue
		}
		done, err := e.store.GiveUp(ctx, name, beat)
		if err != nil {
			return err
		}
		if done {
			e.cfg.Logger.Warn("another server of the database does not say that it lives: its calls are taken over",
				"server", name)
		}
	}
	e.peers.seen, e.peers.at = next, now
	return nil
}
