// Package membership is the place of this process among those that share a store: it keeps a name
// under which the process has calls, says regularly that the process lives, and gives up others
// that do not. A process that was given up itself drops its calls and goes on under another name.
package membership

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"haft"
	"haft/internal/store"
	"haft/sandbox"
)

// A Store has the table of processes.
type Store interface {
	Join(ctx context.Context, name string) error
	Beat(ctx context.Context, name string) error
	Beats(ctx context.Context) (map[string]int64, error)
	GiveUp(ctx context.Context, name string, beat int64) (bool, error)
}

// Config is what a membership is made of. All fields are needed.
type Config struct {
	Store Store
	// Beat is how often this process says that it lives, and DeadAfter how long it waits before it
	// gives up one that does not.
	Beat, DeadAfter time.Duration
	// Drop ends everything that this process does under a name, since others have given that name
	// up, and returns how many calls it ended. They end with [ErrDropped] as the cause.
	Drop   func(name string) int
	Logger *slog.Logger
}

// A Membership is the place of this process among those that share its store.
type Membership struct {
	cfg  Config
	life context.Context //nolint:containedctx // ends with the process; that of a term is derived from it

	term    atomic.Pointer[term]
	peers   peers         // of KeepAlive
	hurried chan struct{} // has KeepAlive look now
}

// peers is what this process knows of those that share its store.
type peers struct {
	seen map[string]sighting
	at   time.Time // of the last look
}

// A sighting is a count of beats, and since when it has not changed.
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

// ErrGivenUp is the cause of the end of what runs in a process that was given up: others
// have its calls, and nothing about them is written or published here any more.
var ErrGivenUp = errors.New("this server was given up by others that share its database; what became of the call is " +
	"with them")

// ErrDropped is ErrGivenUp as the cause of the end of a context: tools get no time to clean up,
// because others may run them already.
var ErrDropped = fmt.Errorf("%w: %w", ErrGivenUp, sandbox.ErrNoGrace)

// GivenUp is [ErrGivenUp] for callers.
func GivenUp() error {
	return &haft.Error{Code: haft.CodeUnavailable, Err: ErrGivenUp, RetryAfter: haft.Millis(time.Second),
		Message: "this server was given up by others that share its database: try again"}
}

// IsGivenUp reports whether err says that others have given this process up.
func IsGivenUp(err error) bool { return errors.Is(err, store.ErrGivenUp) || errors.Is(err, ErrGivenUp) }

// NewName makes a name for a process that nobody can guess.
func NewName() string { return "p_" + rand.Text() }

// New makes a membership. Its terms end with ctx at the latest.
func New(ctx context.Context, cfg Config) *Membership {
	return &Membership{cfg: cfg, life: ctx, hurried: make(chan struct{}, 1)}
}

// Owner is the name under which this process has calls now. The process must have joined.
func (m *Membership) Owner() string { return m.term.Load().name }

// Join registers this process under a name.
func (m *Membership) Join(ctx context.Context, name string) error {
	if err := m.cfg.Store.Join(ctx, name); err != nil {
		return err
	}
	t := &term{name: name}
	t.ctx, t.end = context.WithCancelCause(m.life)
	m.term.Store(t)
	return nil
}

// During returns the name of this process, and a context that also ends with its term.
func (m *Membership) During(ctx context.Context) (within context.Context, owner string, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := m.term.Load()
	stop := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	return ctx, t.name, func() { stop(); cancel(nil) }
}

// KeepAlive says regularly that this process lives, and gives up others that do not, until ctx
// ends. Nothing else that takes time is done here: others would give this process up.
func (m *Membership) KeepAlive(ctx context.Context) {
	beat := time.NewTicker(m.cfg.Beat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		case <-m.hurried:
		}
		m.warn(ctx, "beat", m.beat(ctx))
		m.warn(ctx, "look for servers that are gone", m.givePeersUp(ctx))
	}
}

// warn logs that a job of KeepAlive failed.
func (m *Membership) warn(ctx context.Context, job string, err error) {
	if err != nil && ctx.Err() == nil {
		m.cfg.Logger.Warn("housekeeping failed", "job", job, "error", err)
	}
}

// Hurry has this process find out now whether it was given up.
func (m *Membership) Hurry() {
	select {
	case m.hurried <- struct{}{}:
	default:
	}
}

// beat says that this process lives, and finds out whether it was given up.
func (m *Membership) beat(ctx context.Context) error {
	err := m.cfg.Store.Beat(ctx, m.Owner())
	if errors.Is(err, store.ErrGivenUp) {
		return m.rejoin(ctx)
	}
	return err
}

// rejoin drops what this process does and goes on under another name.
func (m *Membership) rejoin(ctx context.Context) error {
	// First: whoever sees the new name sees that the old term has ended.
	m.term.Load().end(ErrDropped)
	old := m.Owner()
	dropped := m.cfg.Drop(old)
	if err := m.Join(ctx, NewName()); err != nil {
		return err
	}
	m.cfg.Logger.Error("this server was given up by others that share its database, since it did not say for too "+
		"long that it lives: "+
		"they go on with its calls, and it drops them", "dropped", dropped, "was", old, "is", m.Owner())
	return nil
}

// givePeersUp gives up processes whose count of beats does not change. How long it has not is
// measured by the clock of this process alone. If this process was stopped itself, or could not
// reach the database, it starts to measure again, since the others may not have been able to beat.
func (m *Membership) givePeersUp(ctx context.Context) error {
	now := time.Now()
	beats, err := m.cfg.Store.Beats(ctx)
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
		if name == m.Owner() || now.Sub(s.since) < m.cfg.DeadAfter {
			continue
		}
		done, err := m.cfg.Store.GiveUp(ctx, name, beat)
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
