package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"haft"
	"haft/store"
)

// The bounds of what is accepted and of what of it is in memory.
const (
	// laneFlights is how many accepted calls of an organisation are in memory at once, if
	// the queue of the limiter takes twice as many; the others wait in the store.
	laneFlights = 400
	// allFlights bounds those of all organisations.
	allFlights = 8000
	// postponeFor is how long an organisation's calls wait after one could not be taken
	// further for a reason that passes, and postponeMost how long they wait at most.
	postponeFor  = 20 * time.Millisecond
	postponeMost = 2 * time.Second
	// maxPostponed is how often a call is taken up again although the store answers.
	maxPostponed = 20
)

// A dispatcher has accepted calls flown. What is accepted is in the store; the dispatcher
// reads it from there, oldest first, so that nothing depends on what this process still
// remembers. It only counts, so as to know where to look.
type dispatcher struct {
	most, mostAll int // how many calls are accepted of an organisation and of all
	perLane       int // how many of an organisation are in memory

	mu     sync.Mutex
	lanes  map[string]*lane // by store.OrgKey
	kept   int              // of all lanes
	flying int
	// changes counts calls that came, began or went.
	changes int
	closed  bool // nothing is launched any more
	// postponed counts, by call and by chain, how often it could not be taken further.
	postponed map[string]int
	// unbegun are calls of which the store may say that they run since a time, and this
	// process knows that they do not. If it says another time, others have run them.
	unbegun map[haft.CallID]time.Time
	wake    chan struct{}
}

// A lane has the accepted calls of one organisation.
type lane struct {
	kept int // accepted, and not ended
	// reserved are those of them that are not in the store yet.
	reserved int
	flying   int // of them, in memory
	begun    int // of those, whatever became of them since
	wait     time.Duration
	after    time.Time // nothing is launched before
	look     time.Time // the store is not read before: it had nothing
	changed  int       // the last of dispatcher.changes that was one of this lane
}

func newDispatcher(most, mostAll, queue int) *dispatcher {
	if queue == 0 {
		queue = 2 * laneFlights
	}
	return &dispatcher{most: most, mostAll: mostAll, perLane: min(max(queue/2, 2), laneFlights), lanes: map[string]*lane{}, postponed: map[string]int{},
		unbegun: map[haft.CallID]time.Time{}, wake: make(chan struct{}, 1)}
}

// lane returns that of an organisation. mu is held.
func (d *dispatcher) lane(key string) *lane {
	l := d.lanes[key]
	if l == nil {
		l = &lane{}
		d.lanes[key] = l
	}
	return l
}

// change notes that a call of a lane came, began or went. mu is held.
func (d *dispatcher) change(l *lane) {
	d.changes++
	l.changed = d.changes
}

// reserve takes the place of a call that is about to be accepted, or refuses it.
func (d *dispatcher) reserve(org string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lane(store.OrgKey(org))
	switch {
	case d.closed:
		return &haft.Error{Code: haft.CodeUnavailable, Message: "this server is shutting down", RetryAfter: haft.Millis(time.Second)}
	case l.kept >= d.most:
		return &haft.Error{Code: haft.CodeRateLimited, RetryAfter: haft.Millis(retryBacklog),
			Message: fmt.Sprintf("%d calls of the organisation wait already, which is the most", l.kept)}
	case d.kept >= d.mostAll:
		return &haft.Error{Code: haft.CodeUnavailable, RetryAfter: haft.Millis(retryBacklog), Message: "too many calls wait on this server already"}
	}
	l.kept++
	l.reserved++
	d.kept++
	d.change(l)
	return nil
}

// retryBacklog is when to come back after a backlog was full.
const retryBacklog = 5 * time.Second

// settle says whether a call whose place was reserved is in the store.
func (d *dispatcher) settle(org string, kept bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lane(store.OrgKey(org))
	d.change(l)
	l.reserved--
	if !kept && l.kept > 0 {
		l.kept--
		d.kept--
	}
}

// board takes the place of a flight in memory, if there is one.
func (d *dispatcher) board(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lane(key)
	if d.closed || l.flying >= d.perLane || d.flying >= allFlights || time.Now().Before(l.after) {
		return false
	}
	l.flying++
	d.flying++
	return true
}

// landed gives a place in memory back. The call may still be in the store as it was.
func (d *dispatcher) landed(f *flight, why error) {
	key := store.OrgKey(f.asked.Principal.Org)
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lane(key)
	l.flying--
	d.flying--
	d.change(l)
	if f.begun {
		l.begun--
	}
	if errors.Is(why, errPostponed) {
		if errors.Is(why, errQueueFull) {
			l.wait = postponeFor
		} else {
			l.wait = min(max(2*l.wait, postponeFor), postponeMost)
		}
		l.after = time.Now().Add(l.wait)
	} else {
		l.wait = 0
		delete(d.postponed, string(f.call.ID))
		if l.kept > l.reserved {
			l.kept--
			d.kept--
		}
	}
	if l.flying == 0 && l.kept == 0 {
		delete(d.lanes, key)
	} else if l.kept > l.flying && l.flying <= d.perLane/2 {
		d.nudge()
	}
}

// neverBegan reports whether a call that runs by its record is known not to have begun.
func (d *dispatcher) neverBegan(r *haft.Record) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, known := d.unbegun[r.Call.ID]
	return known && at.Equal(r.Started)
}

// noteUnbegun notes that a call has not begun, whatever the store may say.
func (d *dispatcher) noteUnbegun(f *flight) {
	d.mu.Lock()
	d.unbegun[f.call.ID] = f.rec.Started
	d.mu.Unlock()
}

// forgetUnbegun forgets that a call has not begun: its record says what became of it.
func (d *dispatcher) forgetUnbegun(id haft.CallID) {
	d.mu.Lock()
	delete(d.unbegun, id)
	d.mu.Unlock()
}

// forgetChain drops what is known of a chain that has ended.
func (d *dispatcher) forgetChain(id haft.ChainID) {
	d.mu.Lock()
	delete(d.postponed, string(id))
	d.mu.Unlock()
}

// forget drops what is known of calls that others have.
func (d *dispatcher) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.unbegun)
	clear(d.postponed)
}

// rest has the store not read again at once for an organisation.
func (d *dispatcher) rest(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lane(key).look = time.Now().Add(postponeMost / 10)
}

// seen returns how many changes there were.
func (d *dispatcher) seen() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changes
}

// add counts a call that waited for a person, and was accepted when it came in.
func (d *dispatcher) add(org string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lane(store.OrgKey(org))
	l.kept++
	d.kept++
	d.change(l)
}

// nudge has the dispatcher look again.
func (d *dispatcher) nudge() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// close launches nothing more.
func (d *dispatcher) close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
}

// due lists the lanes that have more calls in the store than in memory, and when the next
// of the others is due.
func (d *dispatcher) due() (keys []string, next time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	next = time.Hour
	for key, l := range d.lanes {
		switch {
		case d.closed || l.kept <= l.flying || l.flying > d.perLane/2:
		case now.Before(l.after), now.Before(l.look):
			next = min(next, max(l.after.Sub(now), l.look.Sub(now)))
		default:
			keys = append(keys, key)
		}
	}
	return keys, next
}

// count sets how many calls of each organisation there are: those that are queued by the
// store, which others may have changed, and those that have begun here. If some of its own came
// or went since the store was asked, at changes, the answer only says that there are more.
func (d *dispatcher) count(queued map[string]int, changes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range queued {
		d.lane(key)
	}
	for key, l := range d.lanes {
		n := queued[key] + l.begun + l.reserved
		if l.changed > changes {
			n = max(n, l.kept)
		}
		d.kept += n - l.kept
		if l.kept = n; n == 0 && l.flying == 0 {
			delete(d.lanes, key)
		}
	}
	if len(d.lanes) > 0 {
		d.nudge()
	}
}

// begins counts an accepted call that runs from now on, or does not after all.
func (d *dispatcher) begins(f *flight, n int) {
	if !f.accepted {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lane(store.OrgKey(f.asked.Principal.Org))
	l.begun += n
	d.change(l)
}

// dispatch launches accepted calls until ctx ends.
func (e *Engine) dispatch(ctx context.Context) {
	if !e.awaitStart(ctx) {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.dispatcher.wake:
		case <-timer.C:
		}
		keys, next := e.dispatcher.due()
		for _, key := range keys {
			if err := e.launchQueued(ctx, key); err != nil {
				if ctx.Err() == nil {
					e.cfg.Logger.Warn("calls that wait cannot be read; it is tried again", "error", err)
				}
				next = min(next, postponeMost)
			}
		}
		timer.Reset(next)
	}
}

// launchQueued launches calls of an organisation that wait in the store.
func (e *Engine) launchQueued(ctx context.Context, key string) error {
	list, err := e.store.Queued(ctx, e.owner(), key, e.dispatcher.perLane)
	if err != nil {
		return err
	}
	var closed []haft.CallID
	launched := false
	for i := range list {
		r := &list[i]
		if e.flying(r.Call.ID) != nil {
			continue
		}
		f, err := e.revive(ctx, r)
		switch {
		case errors.Is(err, errSealed):
			closed = append(closed, r.Call.ID)
			continue
		case err != nil:
			return err
		case f == nil:
			continue // it has ended
		}
		if !e.dispatcher.board(key) {
			return e.leaveSealed(ctx, closed)
		}
		e.dispatcher.forgetUnbegun(f.call.ID) // the store says that it is queued
		e.launch(f)
		launched = true
	}
	if !launched && len(list) < e.dispatcher.perLane { // what was counted is not there
		e.dispatcher.rest(key)
		e.recount(ctx)
	}
	return e.leaveSealed(ctx, closed)
}

// recount learns how many calls wait.
func (e *Engine) recount(ctx context.Context) {
	if err := e.countQueued(ctx); err != nil {
		e.cfg.Logger.Warn("calls that wait cannot be counted; it is tried again", "error", err)
	}
}

func (e *Engine) countQueued(ctx context.Context) error {
	changes := e.dispatcher.seen()
	queued, err := e.store.QueuedByOrg(ctx, e.owner())
	if err == nil {
		e.dispatcher.count(queued, changes)
	}
	return err
}

// leaveSealed leaves calls to other servers that this one has no key for. They are not
// closed: whoever has the key goes on with them.
func (e *Engine) leaveSealed(ctx context.Context, ids []haft.CallID) error {
	if len(ids) == 0 {
		return nil
	}
	e.noteSealed()
	defer e.dispatcher.nudge() // there may be more behind them
	return e.store.Disown(ctx, e.owner(), ids)
}

// leaveSealedChain is leaveSealed for a chain.
func (e *Engine) leaveSealedChain(ctx context.Context, owner string, c *haft.Chain) error {
	e.noteSealed()
	return e.store.DisownChain(ctx, owner, c.ID)
}

// sealedPause is how long a server that found something for which it has no key adopts
// nothing, so that others can. It goes on then: one call that nobody can open must not keep
// those of dead servers from being taken over.
const sealedPause = 20 * time.Second

// noteSealed says once that this server lacks a key, and leaves adopting to others.
func (e *Engine) noteSealed() {
	if e.adoptAfter.Swap(time.Now().Add(sealedPause).UnixNano()) == 0 {
		e.cfg.Logger.Error("calls or chains that wait are encrypted with a key that this server does not have: they wait for a server that has it")
	}
}

// accepted launches a call that was accepted just now, if there is room; else it waits in
// the store for its turn.
func (e *Engine) accepted(f *flight) {
	if e.dispatcher.board(store.OrgKey(f.call.Principal.Org)) {
		e.launch(f)
		return
	}
	e.journal.forget(f.call.ID)
	e.dispatcher.nudge()
}

// launch flies a call for which nobody waits, and for which there is a place in memory.
func (e *Engine) launch(f *flight) {
	f.asked = f.call
	ok := e.spawn(func(ctx context.Context) {
		_, err := e.fly(ctx, f)
		postponed := errors.Is(err, errPostponed)
		e.dispatcher.landed(f, err)
		if err != nil && !postponed && !e.overtaken(ctx, err) {
			e.logOf(f).Warn("a call in the background has no result", "call", f.call.ID, "error", err)
		}
		if f.call.Chain != "" && !postponed {
			e.chainWork.push(chainRef{f.call.Principal.Org, f.call.Chain})
		}
	})
	if !ok {
		e.dispatcher.landed(f, errPostponed) // the next engine goes on with it
	}
}

// errPostponed says that an accepted call could not be taken further for a reason that
// passes. It stays as it is in the store.
var errPostponed = errors.New("the call waits in the store")

// postpones reports whether an accepted call, or a step of a chain, that has not begun stays
// as it is in the store: it must not end for a reason that is not its own. One that cannot be
// taken further for long although the store answers ends all the same.
func (e *Engine) postpones(ctx context.Context, f *flight, err error) bool {
	if err == nil || f.begun || !f.accepted && !f.isStep() {
		return false
	}
	if errors.Is(context.Cause(ctx), errClosing) || errors.Is(err, errQueueFull) || e.passes(ctx, f, err) {
		if f.phase == phaseBegins {
			e.dispatcher.noteUnbegun(f)
		}
		return true
	}
	return false
}

// isStep reports whether the call is a step of a chain, which was accepted with it. Calls
// that a step makes are not: their tool waits for them.
func (f *flight) isStep() bool { return f.call.Chain != "" && f.call.Parent == "" }

// passes reports whether a call failed for a reason that passes: the store is away, or this
// is one of the first times.
func (e *Engine) passes(ctx context.Context, f *flight, err error) bool {
	if _, ok := errors.AsType[*refusal](err); ok || ctx.Err() != nil || errors.Is(err, errPanic) || errors.Is(err, errSettled) {
		return false
	}
	switch haft.CodeOf(err) {
	case haft.CodeUnavailable, haft.CodeInternal:
	default:
		return false
	}
	if _, down := e.store.Setting(ctx, stopSetting); down != nil {
		return true
	}
	name := string(f.call.ID)
	if !f.accepted {
		name = string(f.call.Chain) // whose step has a new id each time
	}
	d := e.dispatcher
	d.mu.Lock()
	defer d.mu.Unlock()
	d.postponed[name]++
	return d.postponed[name] < maxPostponed
}
