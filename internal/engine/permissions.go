package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/internal/membership"
	"haft/internal/orgconfig"
	"haft/internal/pause"
	"haft/internal/store"
)

// The times and bounds of reviews.
const (
	// permissionsPoll is how often changes of other processes and ends of credentials
	// are looked for.
	permissionsPoll = 300 * time.Millisecond
	// reviewAgain is when a review is repeated that the store did not let finish.
	reviewAgain = 500 * time.Millisecond
	// reviewsAtOnce is how many organisations are reviewed at once.
	reviewsAtOnce = 8
)

// permissions is the state of reviews.
type permissions struct {
	cfg        *Config
	store      *store.Store
	authorizer *authorizer
	calls      *callTable
	members    *membership.Membership
	operator   *operator
	recorder   *recorder
	redaction  *redaction
	orgs       *orgconfig.Reader
	seals      *callSealer

	changes atomic.Int64 // of permissions, that this process knows of

	mu      sync.Mutex
	reviews map[string]bool // organisations under review; true means that another one has to follow
	waiting map[string]haft.Principal
	// ends says when a credential of a call that waits for a person ends, by
	// organisation: it is reviewed then.
	ends map[string]time.Time
	// turns bounds how many reviews run at once, and run makes one.
	turns chan struct{}
	run   func(ctx context.Context, org string)
}

// permissionsChanged has the calls of an organisation reviewed, of all if it is empty,
// and tells others. Whatever was kept of rules and sandbox configurations is forgotten
// before the change counts: a call that came in after it must not be decided about by
// rules of before.
func (pm *permissions) permissionsChanged(org string) {
	pm.orgs.Forget(org)
	pm.changes.Add(1)
	if org != "" {
		pm.review(org)
	} else {
		pm.calls.Go(func(ctx context.Context) {
			for _, org := range pm.orgsWithCalls(ctx) {
				pm.review(org)
			}
		})
	}
	if pm.cfg.Changed != nil {
		pm.cfg.Changed(org)
	}
}

// AnnounceChange has what is kept in memory of an organisation read again, here and elsewhere.
func (pm *permissions) AnnounceChange(ctx context.Context, org string) error {
	pm.orgs.Forget(org)
	if pm.store.Shared() {
		if err := pm.store.Settings.MarkChange(ctx, org); err != nil {
			return err
		}
	}
	pm.permissionsChanged(org)
	return nil
}

// orgsWithCalls lists organisations that have calls here, or may have some that wait
// for a person.
func (pm *permissions) orgsWithCalls(ctx context.Context) []string {
	orgs, err := pm.store.Audit.AuditOrgs(ctx)
	if err != nil {
		pm.cfg.Logger.Warn("organisations cannot be listed: calls that wait are looked at when somebody answers",
			"error", err)
	}
	pm.calls.mu.Lock()
	for _, ex := range pm.calls.executions {
		orgs = append(orgs, ex.asked.Principal.Org)
	}
	pm.calls.mu.Unlock()
	slices.Sort(orgs)
	return slices.Compact(orgs)
}

// review looks at the calls of an organisation in the background. One that is asked for
// while another runs follows it.
func (pm *permissions) review(org string) {
	if org == canaryOrg {
		return
	}
	pm.mu.Lock()
	defer pm.mu.Unlock()
	if _, running := pm.reviews[org]; running {
		pm.reviews[org] = true
		return
	}
	pm.reviews[org] = false
	if !pm.calls.Go(func(ctx context.Context) { pm.run(ctx, org) }) {
		delete(pm.reviews, org)
	}
}

// reviewOrg looks at the calls of an organisation until nothing is changed meanwhile.
func (pm *permissions) reviewOrg(ctx context.Context, org string) {
	for {
		select {
		case pm.turns <- struct{}{}:
		case <-ctx.Done():
			return
		}
		// What is wrong with one call must not spare the others.
		err := errors.Join(pm.reviewRunning(ctx, org), pm.reviewWaiting(ctx, org))
		<-pm.turns
		if err != nil && ctx.Err() == nil {
			pm.cfg.Logger.Warn("permissions of calls cannot be looked at; it is tried again", "org", org, "error", err)
			if pause.For(ctx, reviewAgain) == nil {
				continue
			}
		}
		pm.mu.Lock()
		again := pm.reviews[org] && ctx.Err() == nil
		if again {
			pm.reviews[org] = false
		} else {
			delete(pm.reviews, org)
		}
		pm.mu.Unlock()
		if !again {
			return
		}
	}
}

// running is what is looked at of a call on its way, which another goroutine has.
type running struct {
	call    haft.Call // as it came, or with the arguments that run if final
	pinned  string    // the version that the caller named
	final   bool
	fresh   bool // it came in after the last change, whose rules it goes by itself
	granted grant
	cancel  context.CancelCauseFunc
}

// running returns what is looked at of the execution. callTable.mu is held, unless its own
// goroutine asks.
func (ex *execution) running() running {
	r := running{call: ex.asked, pinned: ex.pinned, final: ex.final != nil, granted: ex.granted, cancel: ex.cancel}
	if r.final {
		r.call.Args = ex.final
	}
	return r
}

// reviewRunning ends the calls of an organisation on their way here that are denied
// now. No lock is held while it decides.
func (pm *permissions) reviewRunning(ctx context.Context, org string) error {
	changes := pm.changes.Load()
	pm.calls.mu.Lock()
	var list []running
	for _, ex := range pm.calls.executions {
		if ex.asked.Principal.Org != org {
			continue
		}
		r := ex.running()
		r.fresh = ex.seen == changes
		list = append(list, r)
	}
	pm.calls.mu.Unlock()
	var failed failures
	for _, r := range list {
		err := pm.authorizer.stillAllowed(ctx, r)
		if w, ok := errors.AsType[*withdrawal](err); ok {
			r.cancel(w)
		} else {
			failed.add(r.call.ID, err)
		}
	}
	return failed.err()
}

// failures are errors about calls, of which the first is told.
type failures struct {
	first error
	count int
}

func (f *failures) add(id haft.CallID, err error) {
	if err == nil {
		return
	}
	if f.count++; f.first == nil {
		f.first = fmt.Errorf("review the call %s: %w", id, err)
	}
}

func (f *failures) err() error {
	if f.count > 1 {
		return fmt.Errorf("%w, and %d other calls", f.first, f.count-1)
	}
	return f.first
}

// reviewWaiting ends the calls of an organisation that wait for a person, or in a queue
// of nobody, and are denied now. It notes when a credential of the others ends.
func (pm *permissions) reviewWaiting(ctx context.Context, org string) error {
	var first time.Time
	var failed failures
	filter := haft.CallFilter{Org: org, Status: []haft.Status{haft.StatusPending, haft.StatusQueued}, Limit: 200}
	for {
		records, err := pm.store.Calls.Records(ctx, filter)
		if err != nil {
			return err
		}
		for _, r := range records {
			filter.Before = r.Call.ID
			if pm.calls.executionOf(r.Call.ID) != nil || r.Status == haft.StatusQueued &&
				r.Owner != pm.members.Owner() {
				continue // it is looked at where it is on its way
			}
			ends, err := pm.reviewRecord(ctx, org, r.Call.ID)
			failed.add(r.Call.ID, err)
			if err == nil && !ends.IsZero() && (first.IsZero() || ends.Before(first)) {
				first = ends
			}
		}
		if len(records) < filter.Limit {
			break
		}
	}
	pm.mu.Lock()
	defer pm.mu.Unlock()
	if first.IsZero() {
		delete(pm.ends, org)
	} else {
		pm.ends[org] = first
	}
	return failed.err()
}

// reviewRecord ends one call that waits, if it is denied now, and else says when its
// credential ends.
func (pm *permissions) reviewRecord(ctx context.Context, org string, id haft.CallID) (ends time.Time, err error) {
	r, err := pm.store.Calls.Record(ctx, org, id)
	if err != nil || r.Status.Final() {
		return ends, err
	}
	ex, err := pm.seals.unseal(r)
	if err != nil {
		return ends, nil //nolint:nilerr // what cannot be opened cannot run either
	}
	ex.call.Digest = r.Digest
	err = pm.authorizer.stillAllowed(ctx, running{call: ex.call, pinned: r.Call.Digest,
		final: r.Status == haft.StatusPending})
	if w, ok := errors.AsType[*withdrawal](err); ok {
		return ends, pm.dropWithdrawn(ctx, r, w)
	}
	if err != nil {
		return ends, err
	}
	_, ends, err = pm.authorizer.principalNow(ctx, r.Call.Principal)
	return ends, err
}

// dropWithdrawn ends a call that waits.
func (pm *permissions) dropWithdrawn(ctx context.Context, r *haft.Record, w *withdrawal) error {
	return ended(pm.recorder.drop(ctx, r, haft.StatusDenied, haft.FailDenied, w.Error()))
}

// noteWaiting has the end of the credential of a call that waits for a person looked up.
func (pm *permissions) noteWaiting(p haft.Principal) {
	if p.Credential == "" || pm.cfg.Recheck == nil {
		return
	}
	pm.mu.Lock()
	defer pm.mu.Unlock()
	pm.waiting[p.Credential] = p
}

// watchPermissions finds what other processes changed, and the ends of credentials,
// until ctx ends.
func (pm *permissions) watchPermissions(ctx context.Context) {
	tick := time.NewTicker(permissionsPoll)
	defer tick.Stop()
	var last int64
	known := false // the counter as it was when we began
	var ends map[string]time.Time
	for seen := pm.changes.Load(); ; {
		if now := pm.changes.Load(); now != seen {
			seen, ends = now, nil // they may end earlier now
		}
		if pm.store.Shared() {
			now, orgs, err := pm.store.Settings.Changes(ctx, last)
			if err != nil && ctx.Err() == nil {
				pm.cfg.Logger.Warn("changes of other servers cannot be looked for", "error", err)
			}
			if err == nil {
				if known && now != last {
					pm.changedElsewhere(ctx, orgs)
				}
				last, known = now, true
			}
		}
		ends = pm.reviewEnded(ctx, ends)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// changedElsewhere does what a change of this process would have done.
func (pm *permissions) changedElsewhere(ctx context.Context, orgs []string) {
	if slices.Contains(orgs, "") {
		if err := pm.operator.followStop(ctx); err != nil {
			pm.cfg.Logger.Warn("whether calls are stopped cannot be read", "error", err)
		}
		orgs = []string{""}
	}
	for _, org := range orgs {
		pm.permissionsChanged(org)
	}
}

// followStop does what another process was told about stopping calls.
func (o *operator) followStop(ctx context.Context) error {
	before := o.stopped.Load()
	if before != nil && before.leaving {
		return nil
	}
	text, err := o.store.Settings.Setting(ctx, stopSetting)
	if err != nil {
		return err
	}
	if text == "" {
		o.stopped.CompareAndSwap(before, nil)
		return nil
	}
	if err := o.readStop(ctx); err != nil {
		return err
	}
	if note := o.stopped.Load(); note != nil && note.Kill && (before == nil || !before.At.Equal(note.At)) {
		o.kill(note.Reason)
	}
	return nil
}

// reviewEnded reviews the organisations of calls whose credential has ended by now, and
// returns when those of the others do. It asks once for each credential that has a call
// which takes longer than a moment.
func (pm *permissions) reviewEnded(ctx context.Context, known map[string]time.Time) map[string]time.Time {
	if pm.cfg.Recheck == nil {
		return nil
	}
	now := time.Now()
	held := map[string]haft.Principal{}
	pm.calls.mu.Lock()
	for _, ex := range pm.calls.executions {
		if ex.asked.Principal.Credential != "" && now.Sub(ex.began) > permissionsPoll {
			held[ex.asked.Principal.Credential] = ex.asked.Principal
		}
	}
	pm.calls.mu.Unlock()
	pm.mu.Lock()
	waiting := pm.waiting
	pm.waiting = map[string]haft.Principal{}
	var due []string
	for org, at := range pm.ends {
		if !now.Before(at) {
			due = append(due, org)
			delete(pm.ends, org)
		}
	}
	pm.mu.Unlock()
	next := make(map[string]time.Time, len(held))
	for name, who := range held {
		at, asked := known[name]
		if !asked {
			var err error
			if _, at, err = pm.authorizer.principalNow(ctx, who); err != nil {
				at = now
			}
		}
		if !at.IsZero() && !now.Before(at) {
			due = append(due, who.Org)
			continue
		}
		next[name] = at
	}
	for _, who := range waiting {
		_, at, err := pm.authorizer.principalNow(ctx, who)
		if err != nil {
			at = now
		}
		if at.IsZero() {
			continue
		}
		pm.mu.Lock()
		if old, ok := pm.ends[who.Org]; !ok || at.Before(old) {
			pm.ends[who.Org] = at
		}
		pm.mu.Unlock()
	}
	for _, org := range due {
		pm.review(org)
	}
	return next
}
