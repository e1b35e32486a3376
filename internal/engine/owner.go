package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"haft"
	"haft/internal/store"
)

// A membership is the place of this process among those that share its store.
type membership struct {
	cfg        *Config
	store      *store.Store
	calls      *callTable
	dispatcher *dispatcher

	term    atomic.Pointer[term] // the name of this process, and what ends with it
	peers   peers                // of keepAlive
	hurried chan struct{}        // has keepAlive look now
}

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
func (m *membership) owner() string { return m.term.Load().name }

// join registers this process under a name.
func (m *membership) join(ctx context.Context, name string) error {
	if err := m.store.Join(ctx, name); err != nil {
		return err
	}
	t := &term{name: name}
	t.ctx, t.end = context.WithCancelCause(m.calls.ctx)
	m.term.Store(t)
	return nil
}

// during returns the name of this process, and a context that also ends with its term.
func (m *membership) during(ctx context.Context) (within context.Context, owner string, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := m.term.Load()
	stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	return ctx, t.name, func() { stop(); cancel(nil) }
}

// beat says that this process lives, and finds out whether it was given up.
func (m *membership) beat(ctx context.Context) error {
	err := m.store.Beat(ctx, m.owner())
	if errors.Is(err, store.ErrGivenUp) {
		return m.rejoin(ctx)
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
func (m *membership) rejoin(ctx context.Context) error {
	// First: whoever sees the new name sees that the old term has ended.
	m.term.Load().end(errGivenUp)
	old := m.owner()
	dropped := 0
	m.calls.mu.Lock()
	for _, ex := range m.calls.executions {
		if ex.owner == old {
			ex.cancel(errGivenUp)
			dropped++
		}
	}
	m.calls.mu.Unlock()
	m.dispatcher.Forget()
	if err := m.join(ctx, newID("p_")); err != nil {
		return err
	}
	m.cfg.Logger.Error("this server was given up by others that share its database, since it did not say for too "+
		"long that it lives: "+
		"they go on with its calls, and it drops them", "dropped", dropped, "was", old, "is", m.owner())
	return nil
}

// isGivenUp reports whether err says that others have given this process up.
func isGivenUp(err error) bool { return errors.Is(err, store.ErrGivenUp) || errors.Is(err, errGivenUp) }

// givePeersUp gives up processes whose count of beats stands still. How long it does is
// measured by the clock of this process alone; when that was stopped itself, or could not
// reach the database, it looks anew, since the others may not have been able to beat.
func (m *membership) givePeersUp(ctx context.Context) error {
	now := time.Now()
	beats, err := m.store.Beats(ctx)
	if err != nil {
		m.peers.seen = nil
		return err
	}
	if now.Sub(m.peers.at) > m.cfg.DeadAfter/2 {
		m.peers.seen = nil
	}
	next := make(map[string]sighting, len(beats))
	for name, beat := range beats {
		s, known := m.peers.seen[name]
		if !known || s.beat != beat {
			s = sighting{beat, now}
		}
		next[name] = s
		if name == m.owner() || now.Sub(s.since) < m.cfg.DeadAfter {
			continue
		}
		done, err := m.store.GiveUp(ctx, name, beat)
		if err != nil {
			return err
		}
		if done {
			m.cfg.Logger.Warn("another server of the database does not say that it lives: its calls are taken over",
				"server", name)
		}
	}
	m.peers.seen, m.peers.at = next, now
	return nil
}
