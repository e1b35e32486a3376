package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"haft"
	"haft/internal/model"
	"haft/internal/pause"
)

// Config is what a service is made of. The fields up to Owner are needed.
type Config struct {
	Turns     Turns
	Claims    Claims
	History   History
	Agents    Agents
	Models    Models
	Calls     Calls
	Authority Authority
	// Owner names this process now, as the engine does.
	Owner func() string

	// Events tells what happens in calls that run; nil means that nobody is told.
	Events haft.Watcher
	// Recheck returns what the credential of a principal stands for now, or [haft.CodeUnauthenticated] or
	// [haft.CodeDenied] if it was withdrawn. It is asked before every step; nil means that credentials stay.
	Recheck func(context.Context, haft.Principal) (haft.Principal, error)
	// Observe begins a span; nil means that there are none.
	Observe Observe
	// Budget is what a turn may take at most, and what it may take if its sender does not say. Steps default to 50,
	// Time to an hour; the others are unbounded.
	Budget haft.Budget
	// Retry says how often a request to a model is tried. It defaults to 6 tries with waits from half a second on.
	Retry haft.Backoff
	// Running is how many turns this process has at once, and PerOrg how many of one organisation. They default to
	// 1,000 and 200.
	Running, PerOrg int
	// Beat is how often turns that nobody runs are looked for. It defaults to 4 seconds.
	Beat time.Duration
	// Logger is told what an operator could act on. Nil discards.
	Logger *slog.Logger
}

// filled returns the configuration with its defaults.
func (c Config) filled() Config {
	if c.Recheck == nil {
		c.Recheck = func(_ context.Context, p haft.Principal) (haft.Principal, error) { return p, nil }
	}
	if c.Observe == nil {
		c.Observe = func(ctx context.Context, _ string, _ haft.Turn) (context.Context,
			func(model.Usage, string, error)) {
			return ctx, func(model.Usage, string, error) {}
		}
	}
	c.Budget.Steps = cmp.Or(max(c.Budget.Steps, 0), 50)
	c.Budget.Time = cmp.Or(max(c.Budget.Time, 0), haft.Millis(time.Hour))
	if c.Retry.Tries == 0 {
		c.Retry = haft.Backoff{Tries: 6, Initial: haft.Millis(500 * time.Millisecond)}
	}
	c.Running, c.PerOrg = cmp.Or(max(c.Running, 0), 1000), cmp.Or(max(c.PerOrg, 0), 200)
	c.Beat = cmp.Or(max(c.Beat, 0), 4*time.Second)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c
}

// Why a turn is not worked on any more in this process.
var (
	errCancelled = errors.New("the turn was cancelled")
	errClosing   = errors.New("this server is shutting down")
	errLost      = errors.New("the turn has ended, or another process has it")
)

// maxFailures is how often in a row a turn may be given up before it ends.
const maxFailures = 10

// A Service runs turns. It is safe for concurrent use.
//
// Lifecycle: New, then its methods, then Close.
type Service struct {
	cfg Config

	mu     sync.Mutex
	runs   map[haft.TurnID]*run
	failed map[haft.TurnID]int // how often in a row turns of this process could not go on

	working sync.WaitGroup
	life    context.Context //nolint:containedctx // ends when Close begins
	stop    context.CancelCauseFunc
	hard    context.Context //nolint:containedctx // ends when Close waits no longer
	kill    context.CancelCauseFunc
}

var _ haft.Conversations = (*Service)(nil)

// New returns a service, which goes on with turns that nobody runs.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg.filled(), runs: map[haft.TurnID]*run{}, failed: map[haft.TurnID]int{}}
	s.hard, s.kill = context.WithCancelCause(context.Background()) //nolint:forbidigo // it ends with Close
	s.life, s.stop = context.WithCancelCause(s.hard)
	s.working.Go(func() {
		for err := error(nil); err == nil; err = pause.For(s.life, s.cfg.Beat) {
			if err := s.sweep(s.life); err != nil && s.life.Err() == nil {
				s.cfg.Logger.Warn("turns cannot be claimed; it is tried again", "error", err)
			}
		}
	})
	return s
}

// Close stops what turns do, and waits until calls that run have ended, or else until ctx ends, which ends these calls.
// The turns go on in another process, or in the next one.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.stop(errClosing)
	for _, r := range s.runs {
		r.cancel(errClosing)
	}
	s.mu.Unlock()
	defer context.AfterFunc(ctx, func() { s.kill(errClosing) })()
	s.working.Wait()
	s.kill(errClosing)
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the calls of turns: %w", context.Cause(ctx))
	}
	return nil
}

// sweep goes on with the turns of this process that nobody runs here, and ends those that are to end.
func (s *Service) sweep(ctx context.Context) error {
	owner := s.cfg.Owner()
	if _, err := s.cfg.Claims.ClaimTurns(ctx, owner); err != nil {
		return err
	}
	list, err := s.cfg.Claims.OpenTurns(ctx, owner)
	if err != nil {
		return err
	}
	cancelled, err := s.cfg.Claims.CancelledTurns(ctx, owner)
	if err != nil {
		return err
	}
	for _, t := range list {
		r := s.running(t.ID)
		if r == nil && s.free("") {
			r = s.start(ctx, owner, t, nil)
		}
		if r != nil && slices.Contains(cancelled, t.ID) {
			r.cancel(errCancelled)
		}
	}
	return nil
}

// free reports whether this process takes another turn, of an organisation if it is not empty.
func (s *Service) free(org string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.runs {
		if r.org == org {
			n++
		}
	}
	return s.life.Err() == nil && len(s.runs) < s.cfg.Running && n < s.cfg.PerOrg
}

// start works on a turn in the background, and returns what does, or nil if the service is closed. L, if it is not nil,
// is told all of it.
func (s *Service) start(ctx context.Context, owner string, t haft.Turn, l *listener) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.runs[t.ID]; r != nil || s.life.Err() != nil {
		return r
	}
	r := &run{s: s, id: t.ID, org: t.Principal.Org, owner: owner, turn: t, ratio: 1, done: make(chan struct{})}
	if l != nil {
		l.of, r.list = &r.listeners, []*listener{l}
	}
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(s.hard, func() { end(errClosing) })
	r.base, r.observed = s.cfg.Observe(base, "invoke_agent", t)
	r.ctx, r.cancel = context.WithCancelCause(r.base)
	hopeless := s.failed[t.ID] >= maxFailures
	s.runs[t.ID] = r
	s.working.Go(func() {
		defer end(nil)
		defer unhook()
		s.leave(r, r.work(hopeless))
	})
	return r
}

// leave notes that a turn is not worked on any more.
func (s *Service) leave(r *run, err error) {
	s.mu.Lock()
	delete(s.runs, r.id)
	switch {
	case r.turn.Final() || errors.Is(err, errLost):
		delete(s.failed, r.id)
	case !errors.Is(err, errClosing):
		s.failed[r.id]++
		s.cfg.Logger.Warn("a turn cannot go on; it is tried again", "turn", r.id, "error", err)
	}
	s.mu.Unlock()
	r.publish(haft.TurnEvent{}, false)
	close(r.done)
}

// running returns what works on a turn here, or nil.
func (s *Service) running(id haft.TurnID) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[id]
}
