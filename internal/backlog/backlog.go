// Package backlog counts the calls that are accepted and not ended, by organisation, so that
// whoever runs them knows where to look and when enough wait. The calls are in the store;
// nothing depends on what this package remembers.
package backlog

import (
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
	// further for a reason that passes, and PostponeMost how long they wait at most.
	postponeFor  = 20 * time.Millisecond
	PostponeMost = 2 * time.Second
	// retryBacklog is when to come back after a backlog was full.
	retryBacklog = 5 * time.Second
)

// Calls counts accepted calls. It is safe for concurrent use.
type Calls struct {
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
	changed  int       // the last of Calls.changes that was one of this queue
}

// New returns a backlog in which nothing waits: of most calls of an organisation and mostAll
// of all, for a queue of a length; 0 means the default.
func New(most, mostAll, queue int) *Calls {
	if queue == 0 {
		queue = 2 * maxTenantInFlight
	}
	return &Calls{most: most, mostAll: mostAll, perTenant: min(max(queue/2, 2), maxTenantInFlight),
		queues: map[string]*tenantQueue{}, postponed: map[string]int{},
		unbegun: map[haft.CallID]time.Time{}, wake: make(chan struct{}, 1)}
}

// queue returns that of an organisation. mu is held.
func (d *Calls) queue(key string) *tenantQueue {
	q := d.queues[key]
	if q == nil {
		q = &tenantQueue{}
		d.queues[key] = q
	}
	return q
}

// change notes that a call of a queue came, began or went. mu is held.
func (d *Calls) change(q *tenantQueue) {
	d.changes++
	q.changed = d.changes
}

// Reserve takes the place of a call that is about to be accepted, or refuses it.
func (d *Calls) Reserve(org string) error {
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

// Settle says whether a call whose place was reserved is in the store.
func (d *Calls) Settle(org string, kept bool) {
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

// TakePlace takes the place of an execution in memory, if there is one.
func (d *Calls) TakePlace(key string) bool {
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

// Postponed says why a call goes back to the store as it was.
type Postponed int

// The reasons.
const (
	No        Postponed = iota // it does not: it has ended, or is with others
	QueueFull                  // there was no place in the queue of the limiter
	Later                      // something was away
)

// ReturnPlace gives a place in memory back. The call may still be in the store as it was.
func (d *Calls) ReturnPlace(org string, id haft.CallID, begun bool, why Postponed) {
	key := store.OrgKey(org)
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(key)
	q.inFlight--
	d.inFlight--
	d.change(q)
	if begun {
		q.begun--
	}
	switch why {
	case QueueFull:
		q.wait = postponeFor
	case Later:
		q.wait = min(max(2*q.wait, postponeFor), PostponeMost)
	default:
		q.wait = 0
		delete(d.postponed, string(id))
		if q.kept > q.reserved {
			q.kept--
			d.kept--
		}
	}
	if why != No {
		q.after = time.Now().Add(q.wait)
	}
	if q.inFlight == 0 && q.kept == 0 {
		delete(d.queues, key)
	} else if q.kept > q.inFlight && q.inFlight <= d.perTenant/2 {
		d.Nudge()
	}
}

// NeverBegan reports whether a call that runs by its record is known not to have begun.
func (d *Calls) NeverBegan(r *haft.Record) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, known := d.unbegun[r.Call.ID]
	return known && at.Equal(r.Started)
}

// NoteUnbegun notes that a call has not begun, whatever the store may say: that it runs
// since a time.
func (d *Calls) NoteUnbegun(id haft.CallID, started time.Time) {
	d.mu.Lock()
	d.unbegun[id] = started
	d.mu.Unlock()
}

// ForgetUnbegun forgets that a call has not begun: its record says what became of it.
func (d *Calls) ForgetUnbegun(id haft.CallID) {
	d.mu.Lock()
	delete(d.unbegun, id)
	d.mu.Unlock()
}

// ForgetChain drops what is known of a chain that has ended.
func (d *Calls) ForgetChain(id haft.ChainID) {
	d.mu.Lock()
	delete(d.postponed, string(id))
	d.mu.Unlock()
}

// Forget drops what is known of calls that others have.
func (d *Calls) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.unbegun)
	clear(d.postponed)
}

// Rest has the store not read again at once for an organisation.
func (d *Calls) Rest(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue(key).look = time.Now().Add(PostponeMost / 10)
}

// Changes returns how many changes there were.
func (d *Calls) Changes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changes
}

// Add counts a call that waited for a person, and was accepted when it came in.
func (d *Calls) Add(org string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(store.OrgKey(org))
	q.kept++
	d.kept++
	d.change(q)
}

// Nudge has [Calls.Wake] sent to.
func (d *Calls) Nudge() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Close launches nothing more.
func (d *Calls) Close() {
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
}

// Due lists the queues that have more calls in the store than in memory, and when the next
// of the others is due.
func (d *Calls) Due() (keys []string, next time.Duration) {
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

// Count sets how many calls of each organisation there are: those that are queued by the
// store, which others may have changed, and those that have begun here. If some of its own came
// or went since the store was asked, at changes, the answer only says that there are more.
func (d *Calls) Count(queued map[string]int, changes int) {
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
		d.Nudge()
	}
}

// Begins counts an accepted call that runs from now on, or does not after all.
func (d *Calls) Begins(org string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(store.OrgKey(org))
	q.begun += n
	d.change(q)
}

// Postpone counts how often a call or a chain could not be taken further.
func (d *Calls) Postpone(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.postponed[name]++
	return d.postponed[name]
}

// Wake is sent to when there may be calls to run.
func (d *Calls) Wake() <-chan struct{} { return d.wake }

// PerTenant is how many calls of an organisation are in memory at most.
func (d *Calls) PerTenant() int { return d.perTenant }

// Waiting counts the organisations whose calls could not be taken further and wait.
func (d *Calls) Waiting() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, q := range d.queues {
		if q.wait > 0 {
			n++
		}
	}
	return n
}
