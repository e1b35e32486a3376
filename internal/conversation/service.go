package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

	// Artifacts has the images that tools return; nil means that models are shown none.
	Artifacts Artifacts
	// Events tells what happens in calls that run; nil means that nobody is told.
	Events haft.Watcher
	// Recheck returns what the credential of a principal stands for now, or [haft.CodeUnauthenticated] or
	// [haft.CodeDenied] if it was withdrawn. It is asked before every step; nil means that credentials stay.
	Recheck func(context.Context, haft.Principal) (haft.Principal, error)
	// As returns from as another agent, or [haft.CodeDenied] if it may not act as that. It is asked for each message
	// that an agent sends to another; nil means that there are none.
	As func(ctx context.Context, from haft.Principal, agent haft.AgentID) (haft.Principal, error)
	// Stopped says whether an operator stopped all calls, or the engine is about to end, and why. Until that is over no
	// message is taken, and turns pause before their next step. Nil means never.
	Stopped func() (reason string, stopped bool)
	// Observe begins a span; nil means that there are none.
	Observe Observe
	// Budget is what a turn may take at most, and what it may take if its sender does not say. Steps default to 50,
	// Time to an hour; the others are unbounded.
	Budget haft.Budget
	// Retry says how often a request to a model is tried. It defaults to 6 tries with waits from half a second on.
	Retry haft.Backoff
	// Running is how many turns this process works on at once, and PerOrg how many of one organisation. They default to
	// 1,000 and 200. Turns that wait for a person do not count: while five times PerOrg of an organisation wait here,
	// it begins no others.
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
	if c.Stopped == nil {
		c.Stopped = func() (string, bool) { return "", false }
	}
	if c.Observe == nil {
		c.Observe = func(ctx context.Context, _, _ string, _ haft.Turn) (context.Context,
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
	errPaused    = errors.New("calls are stopped")
	errWaiting   = errors.New("the turn waits for a person")
	errLost      = errors.New("the turn has ended, or another process has it")
)

// maxFailures is how often in a row a turn may be given up before it ends.
const maxFailures = 10

// A failing turn is one of this process that could not go on.
type failing struct {
	times int    // in a row
	purse *purse // of the turn, which also those have that it began
}

// A Service runs turns. It is safe for concurrent use.
//
// Lifecycle: New, then its methods, then Close.
type Service struct {
	cfg Config

	mu     sync.Mutex
	runs   map[haft.TurnID]*run
	waits  map[haft.TurnID]*wait // none of them is in runs
	places map[string]int        // that are taken in each organisation: by runs, and by turns that begin
	all    int                   // places that are taken
	failed map[haft.TurnID]failing

	begins  begins
	images  imageMemory
	working sync.WaitGroup
	life    context.Context //nolint:containedctx // ends when Close begins
	stop    context.CancelCauseFunc
	hard    context.Context //nolint:containedctx // ends when Close waits no longer
	kill    context.CancelCauseFunc
}

var _ haft.Conversations = (*Service)(nil)

// New returns a service, which goes on with turns that nobody runs.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg.filled(), runs: map[haft.TurnID]*run{}, waits: map[haft.TurnID]*wait{},
		failed: map[haft.TurnID]failing{}, places: map[string]int{}, begins: begins{of: map[conversationKey]int{}},
		images: imageMemory{orgs: map[string]int64{}}}
	s.hard, s.kill = context.WithCancelCause(context.Background()) //nolint:forbidigo // it ends with Close
	s.life, s.stop = context.WithCancelCause(s.hard)
	s.every(s.cfg.Beat, s.sweep)
	s.every(min(s.cfg.Beat, answering), s.resume)
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
	waits := s.waits
	s.waits = nil
	s.mu.Unlock()
	for _, w := range waits {
		w.publish(haft.TurnEvent{}, false)
	}
	defer context.AfterFunc(ctx, func() { s.kill(errClosing) })()
	s.working.Wait()
	s.kill(errClosing)
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the calls of turns: %w", context.Cause(ctx))
	}
	return nil
}

// every does something from time to time until Close.
func (s *Service) every(d time.Duration, do func(context.Context) error) {
	s.working.Go(func() {
		for err := error(nil); err == nil; err = pause.For(s.life, d) {
			if err := do(s.life); err != nil && s.life.Err() == nil {
				s.cfg.Logger.Warn("turns cannot be looked for; it is tried again", "error", err)
			}
		}
	})
}

// takePlace takes a place for a turn of an organisation, and reports whether it got one: it always does if it must.
// Precondition: mu is locked.
func (s *Service) takePlace(org string, must bool) bool {
	if !must && (s.life.Err() != nil || s.all >= s.cfg.Running || s.places[org] >= s.cfg.PerOrg) {
		return false
	}
	s.places[org]++
	s.all++
	return true
}

// crowded reports whether so many turns of an organisation wait for people that it begins no others.
func (s *Service) crowded(org string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, w := range s.waits {
		if w.turn.Principal.Org == org {
			n++
		}
	}
	return n >= maxWaiting*s.cfg.PerOrg
}

// givePlace gives a place back. Precondition: mu is locked.
func (s *Service) givePlace(org string) {
	s.all--
	if s.places[org]--; s.places[org] == 0 {
		delete(s.places, org)
	}
}

// start works on a turn in the background, and returns what does, or nil if the service is closed. L, if it is not nil,
// is told all of it. One that was cancelled is only ended. Precondition: mu is locked, and a place was taken for the
// turn; it is given back when the work ends.
func (s *Service) start(ctx context.Context, owner string, t haft.Turn, l *listener, cancelled bool) *run {
	if r := s.runs[t.ID]; r != nil || s.life.Err() != nil {
		s.givePlace(t.Principal.Org)
		return r
	}
	r := &run{s: s, id: t.ID, org: t.Principal.Org, owner: owner, turn: t, ratio: 1, done: make(chan struct{}),
		shared: s.sharedOf(t.ID)}
	if r.shared == nil {
		r.shared = &shared{purse: s.purseOf(t.ID)}
	}
	if r.purse == nil {
		r.purse = &purse{most: lesser(t.Budget, s.cfg.Budget), used: t.Usage, up: s.purseOf(t.Parent)}
	}
	delete(s.waits, t.ID)
	if l != nil {
		l.of, r.list = &r.listeners, []*listener{l}
	}
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(s.hard, func() { end(errClosing) })
	r.base, r.observed = s.cfg.Observe(base, "invoke_agent", "", t)
	r.ctx, r.cancel = context.WithCancelCause(r.base)
	if cancelled { // before anything is done
		r.cancel(errCancelled)
	}
	hopeless := s.failed[t.ID].times >= maxFailures
	s.runs[t.ID] = r
	s.working.Go(func() {
		defer end(nil)
		defer unhook()
		s.leave(r, r.work(hopeless))
	})
	return r
}

// sharedOf returns what outlives the runs of a turn that is worked on or waits here, or nil. Precondition: mu is
// locked.
func (s *Service) sharedOf(id haft.TurnID) *shared {
	if r := s.runs[id]; r != nil {
		return r.shared
	}
	if w := s.waits[id]; w != nil {
		return w.shared
	}
	return nil
}

// purseOf returns the purse of a turn of this process, or nil. Precondition: mu is locked.
func (s *Service) purseOf(id haft.TurnID) *purse {
	if here := s.sharedOf(id); here != nil {
		return here.purse
	}
	return s.failed[id].purse
}

// leave notes that a turn is not worked on any more.
func (s *Service) leave(r *run, err error) {
	s.mu.Lock()
	delete(s.runs, r.id)
	s.givePlace(r.org)
	waits, again := errors.Is(err, errWaiting) && s.life.Err() == nil, false
	switch {
	case waits:
		s.waits[r.id] = &wait{shared: r.shared, turn: r.turn, calls: r.asking, since: time.Now()}
	case r.turn.Final():
		delete(s.failed, r.id)
	case errors.Is(err, errLost): // a turn that is ours nevertheless is not tried for ever; others are dropped
		s.failed[r.id] = failing{s.failed[r.id].times + 1, r.purse}
	case !errors.Is(err, errClosing) && !errors.Is(err, errWaiting):
		s.failed[r.id], again = failing{s.failed[r.id].times + 1, r.purse}, true
	}
	s.mu.Unlock()
	if !waits {
		r.publish(haft.TurnEvent{}, false)
	}
	close(r.done)
	if again { // without the lock: writing a log can block
		s.cfg.Logger.Warn("a turn cannot go on; it is tried again", "turn", r.id, "error", err)
	}
}

// progressed notes that a turn got on: only failures in a row count.
func (s *Service) progressed(id haft.TurnID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, id)
}
