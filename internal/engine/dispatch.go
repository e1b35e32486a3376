package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"haft"
	"haft/internal/store"
)

// The bounds of what is accepted and of what of it is in memory.
const (
	// maxTenantInFlight is how many accepted calls of an organisation are in memory at once, if
	// the queue of the limiter takes twice as many; the others wait in the store.
	maxTenantInFlight = 400
	// maxInFlight bounds those of all organisations.
	maxInFlight = 8000
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
	cfg       *Config
	store     *store.Store
	journal   *journal
	calls     *callTable
	chains    *chains
	members   *membership
	pipeline  *pipeline
	recorder  *recorder
	recovery  *recovery
	redaction *redaction

	most, mostAll int // how many calls are accepted of an organisation and of all
	perTenant     int // how many of an organisation are in memory

	mu       sync.Mutex
	queues   map[string]*tenantQueue // by store.OrgKey
	kept     int                     // of all queues
	inFlight int
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

// A tenantQueue has the accepted calls of one organisation.
type tenantQueue struct {
	kept int // accepted, and not ended
	// reserved are those of them that are not in the store yet.
	reserved int
	inFlight int // of them, in memory
	begun    int // of those, whatever became of them since
	wait     time.Duration
	after    time.Time // nothing is launched before
	look     time.Time // the store is not read before: it had nothing
	changed  int       // the last of dispatcher.changes that was one of this queue
}

func newDispatcher(most, mostAll, queue int) *dispatcher {
	if queue == 0 {
		queue = 2 * maxTenantInFlight
	}
	return &dispatcher{most: most, mostAll: mostAll, perTenant: min(max(queue/2, 2), maxTenantInFlight),
		queues: map[string]*tenantQueue{}, postponed: map[string]int{},
		unbegun: map[haft.CallID]time.Time{}, wake: make(chan struct{}, 1)}
}

// queue returns that of an organisation. mu is held.
func (d *dispatcher) queue(key string) *tenantQueue {
	q := d.queues[key]
	if q == nil {
		q = &tenantQueue{}
		d.queues[key] = q
	}
	return q
}

// change notes that a call of a queue came, began or went. mu is held.
func (d *dispatcher) change(q *tenantQueue) {
	d.changes++
	q.changed = d.changes
}

// reserve takes the place of a call that is about to be accepted, or refuses it.
func (d *dispatcher) reserve(org string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(store.OrgKey(org))
	switch {
	case d.closed:
		return &haft.Error{Code: haft.CodeUnavailable, Message: "this server is shutting down",
			RetryAfter: haft.Millis(time.Second)}
	case q.kept >= d.most:
		return &haft.Error{Code: haft.CodeRateLimited, RetryAfter: haft.Millis(retryBacklog),
			Message: fmt.Sprintf("%d calls of the organisation wait already, which is the most", q.kept)}
	case d.kept >= d.mostAll:
		return &haft.Error{Code: haft.CodeUnavailable, RetryAfter: haft.Millis(retryBacklog),
			Message: "too many calls wait on this server already"}
	}
	q.kept++
	q.reserved++
	d.kept++
	d.change(q)
	return nil
}

// retryBacklog is when to come back after a backlog was full.
const retryBacklog = 5 * time.Second

// settle says whether a call whose place was reserved is in the store.
func (d *dispatcher) settle(org string, kept bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(store.OrgKey(org))
	d.change(q)
	q.reserved--
	if !kept && q.kept > 0 {
		q.kept--
		d.kept--
	}
}

// takePlace takes the place of an execution in memory, if there is one.
func (d *dispatcher) takePlace(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(key)
	if d.closed || q.inFlight >= d.perTenant || d.inFlight >= maxInFlight || time.Now().Before(q.after) {
		return false
	}
	q.inFlight++
	d.inFlight++
	return true
}

// returnPlace gives a place in memory back. The call may still be in the store as it was.
func (d *dispatcher) returnPlace(ex *execution, why error) {
	key := store.OrgKey(ex.asked.Principal.Org)
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(key)
	q.inFlight--
	d.inFlight--
	d.change(q)
	if ex.begun {
		q.begun--
	}
	if errors.Is(why, errPostponed) {
		if errors.Is(why, errQueueFull) {
			q.wait = postponeFor
		} else {
			q.wait = min(max(2*q.wait, postponeFor), postponeMost)
		}
		q.after = time.Now().Add(q.wait)
	} else {
		q.wait = 0
		delete(d.postponed, string(ex.call.ID))
		if q.kept > q.reserved {
			q.kept--
			d.kept--
		}
	}
	if q.inFlight == 0 && q.kept == 0 {
		delete(d.queues, key)
	} else if q.kept > q.inFlight && q.inFlight <= d.perTenant/2 {
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
func (d *dispatcher) noteUnbegun(ex *execution) {
	d.mu.Lock()
	d.unbegun[ex.call.ID] = ex.rec.Started
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
	d.queue(key).look = time.Now().Add(postponeMost / 10)
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
	q := d.queue(store.OrgKey(org))
	q.kept++
	d.kept++
	d.change(q)
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

// due lists the queues that have more calls in the store than in memory, and when the next
// of the others is due.
func (d *dispatcher) due() (keys []string, next time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	next = time.Hour
	for key, q := range d.queues {
		switch {
		case d.closed || q.kept <= q.inFlight || q.inFlight > d.perTenant/2:
		case now.Before(q.after), now.Before(q.look):
			next = min(next, max(q.after.Sub(now), q.look.Sub(now)))
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
		d.queue(key)
	}
	for key, q := range d.queues {
		n := queued[key] + q.begun + q.reserved
		if q.changed > changes {
			n = max(n, q.kept)
		}
		d.kept += n - q.kept
		if q.kept = n; n == 0 && q.inFlight == 0 {
			delete(d.queues, key)
		}
	}
	if len(d.queues) > 0 {
		d.nudge()
	}
}

// begins counts an accepted call that runs from now on, or does not after all.
func (d *dispatcher) begins(ex *execution, n int) {
	if !ex.accepted {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(store.OrgKey(ex.asked.Principal.Org))
	q.begun += n
	d.change(q)
}

// dispatch launches accepted calls until ctx ends.
func (d *dispatcher) dispatch(ctx context.Context) {
	if !d.calls.awaitStart(ctx) {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-timer.C:
		}
		keys, next := d.due()
		for _, key := range keys {
			if err := d.startQueued(ctx, key); err != nil {
				if ctx.Err() == nil {
					d.cfg.Logger.Warn("calls that wait cannot be read; it is tried again", "error", err)
				}
				next = min(next, postponeMost)
			}
		}
		timer.Reset(next)
	}
}

// startQueued starts calls of an organisation that wait in the store.
func (d *dispatcher) startQueued(ctx context.Context, key string) error {
	list, err := d.store.Queued(ctx, d.members.owner(), key, d.perTenant)
	if err != nil {
		return err
	}
	var closed []haft.CallID
	launched := false
	for i := range list {
		r := &list[i]
		if d.calls.executionOf(r.Call.ID) != nil {
			continue
		}
		ex, err := d.recovery.revive(ctx, r)
		switch {
		case errors.Is(err, errSealed):
			closed = append(closed, r.Call.ID)
			continue
		case err != nil:
			return err
		case ex == nil:
			continue // it has ended
		}
		if !d.takePlace(key) {
			return d.leaveSealed(ctx, closed)
		}
		d.forgetUnbegun(ex.call.ID) // the store says that it is queued
		d.startBackground(ex)
		launched = true
	}
	if !launched && len(list) < d.perTenant { // what was counted is not there
		d.rest(key)
		d.recount(ctx)
	}
	return d.leaveSealed(ctx, closed)
}

// recount learns how many calls wait.
func (d *dispatcher) recount(ctx context.Context) {
	if err := d.countQueued(ctx); err != nil {
		d.cfg.Logger.Warn("calls that wait cannot be counted; it is tried again", "error", err)
	}
}

func (d *dispatcher) countQueued(ctx context.Context) error {
	changes := d.seen()
	queued, err := d.store.QueuedByOrg(ctx, d.members.owner())
	if err == nil {
		d.count(queued, changes)
	}
	return err
}

// leaveSealed leaves calls to other servers that this one has no key for. They are not
// closed: whoever has the key goes on with them.
func (d *dispatcher) leaveSealed(ctx context.Context, ids []haft.CallID) error {
	if len(ids) == 0 {
		return nil
	}
	d.recovery.noteSealed()
	defer d.nudge() // there may be more behind them
	return d.store.ReleaseCalls(ctx, d.members.owner(), ids)
}

// leaveSealedChain is leaveSealed for a chain.
func (ch *chains) leaveSealedChain(ctx context.Context, owner string, c *haft.Chain) error {
	ch.recovery.noteSealed()
	return ch.store.ReleaseChain(ctx, owner, c.ID)
}

// sealedPause is how long a server that found something for which it has no key adopts
// nothing, so that others can. It goes on then: one call that nobody can open must not keep
// those of dead servers from being taken over.
const sealedPause = 20 * time.Second

// accepted launches a call that was accepted just now, if there is room; else it waits in
// the store for its turn.
func (d *dispatcher) accepted(ex *execution) {
	if d.takePlace(store.OrgKey(ex.call.Principal.Org)) {
		d.startBackground(ex)
		return
	}
	d.journal.forget(ex.call.ID)
	d.nudge()
}

// startBackground runs a call for which nobody waits, and for which there is a place in memory.
func (d *dispatcher) startBackground(ex *execution) {
	ex.asked = ex.call
	ok := d.calls.Go(func(ctx context.Context) {
		_, err := d.pipeline.runCall(ctx, ex)
		postponed := errors.Is(err, errPostponed)
		d.returnPlace(ex, err)
		if err != nil && !postponed && !d.recorder.overtaken(ctx, err) {
			d.redaction.logOf(ex).Warn("a call in the background has no result", "call", ex.call.ID, "error", err)
		}
		if ex.call.Chain != "" && !postponed {
			d.chains.chainWork.push(chainRef{ex.call.Principal.Org, ex.call.Chain})
		}
	})
	if !ok {
		d.returnPlace(ex, errPostponed) // the next engine goes on with it
	}
}

// errPostponed says that an accepted call could not be taken further for a reason that
// passes. It stays as it is in the store.
var errPostponed = errors.New("the call waits in the store")

// postpones reports whether an accepted call, or a step of a chain, that has not begun stays
// as it is in the store: it must not end for a reason that is not its own. One that cannot be
// taken further for long although the store answers ends all the same.
func (d *dispatcher) postpones(ctx context.Context, ex *execution, err error) bool {
	if err == nil || ex.begun || !ex.accepted && !ex.isStep() {
		return false
	}
	if errors.Is(context.Cause(ctx), errClosing) || errors.Is(err, errQueueFull) || d.passes(ctx, ex, err) {
		if ex.phase == phaseBegins {
			d.noteUnbegun(ex)
		}
		return true
	}
	return false
}

// isStep reports whether the call is a step of a chain, which was accepted with it. Calls
// that a step makes are not: their tool waits for them.
func (ex *execution) isStep() bool { return ex.call.Chain != "" && ex.call.Parent == "" }

// passes reports whether a call failed for a reason that passes: the store is away, or this
// is one of the first times.
func (d *dispatcher) passes(ctx context.Context, ex *execution, err error) bool {
	if _, ok := errors.AsType[*refusal](err); ok || ctx.Err() != nil || errors.Is(err, errPanic) ||
		errors.Is(err, errSettled) {
		return false
	}
	switch haft.CodeOf(err) {
	case haft.CodeUnavailable, haft.CodeInternal:
	default:
		return false
	}
	if _, down := d.store.Setting(ctx, stopSetting); down != nil {
		return true
	}
	name := string(ex.call.ID)
	if !ex.accepted {
		name = string(ex.call.Chain) // whose step has a new id each time
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.postponed[name]++
	return d.postponed[name] < maxPostponed
}
