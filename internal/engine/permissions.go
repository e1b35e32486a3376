package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"haft"
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
	mu      sync.Mutex
	reviews map[string]bool // organisations under review; true means that another one has to follow
	parked  map[string]haft.Principal
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
func (e *Engine) permissionsChanged(org string) {
	e.rules.forget(org)
	e.forgetSandboxes(org)
	e.changes.Add(1)
	if org != "" {
		e.review(org)
	} else {
		e.Go(func(ctx context.Context) {
			for _, org := range e.orgsWithCalls(ctx) {
				e.review(org)
			}
		})
	}
	if e.cfg.Changed != nil {
		e.cfg.Changed(org)
	}
}

// AnnounceChange has what is kept in memory of an organisation read again, here and elsewhere.
func (e *Engine) AnnounceChange(ctx context.Context, org string) error {
	e.rules.forget(org)
	e.forgetSandboxes(org)
	if e.store.Shared() {
		if err := e.store.MarkChange(ctx, org); err != nil {
			return err
		}
	}
	e.permissionsChanged(org)
	return nil
}

// orgsWithCalls lists organisations that have calls here, or may have some that wait
// for a person.
func (e *Engine) orgsWithCalls(ctx context.Context) []string {
	orgs, err := e.store.AuditOrgs(ctx)
	if err != nil {
		e.cfg.Logger.Warn("organisations cannot be listed: calls that wait are looked at when somebody answers",
			"error", err)
	}
	e.mu.Lock()
	for _, ex := range e.executions {
		orgs = append(orgs, ex.asked.Principal.Org)
	}
	e.mu.Unlock()
	slices.Sort(orgs)
	return slices.Compact(orgs)
}

// takesNothing reports whether an entry of the audit of that kind says of no change by
// which anybody may do less. Kinds that are not known count as one.
func takesNothing(kind string) bool {
	switch kind {
	case "request.refused", "call.refused", "key.create", "secret.put", "secret.remove", "retention.set",
		"mcp_server.login", "mcp_server.login_ended":
		return true
	}
	return false
}

// review looks at the calls of an organisation in the background. One that is asked for
// while another runs follows it.
func (e *Engine) review(org string) {
	if org == canaryOrg {
		return
	}
	p := &e.permissions
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, running := p.reviews[org]; running {
		p.reviews[org] = true
		return
	}
	p.reviews[org] = false
	if !e.Go(func(ctx context.Context) { p.run(ctx, org) }) {
		delete(p.reviews, org)
	}
}

// reviewOrg looks at the calls of an organisation until nothing is changed meanwhile.
func (e *Engine) reviewOrg(ctx context.Context, org string) {
	p := &e.permissions
	for {
		select {
		case p.turns <- struct{}{}:
		case <-ctx.Done():
			return
		}
		// What is wrong with one call must not spare the others.
		err := errors.Join(e.reviewRunning(ctx, org), e.reviewParked(ctx, org))
		<-p.turns
		if err != nil && ctx.Err() == nil {
			e.cfg.Logger.Warn("permissions of calls cannot be looked at; it is tried again", "org", org, "error", err)
			if Pause(ctx, reviewAgain) == nil {
				continue
			}
		}
		p.mu.Lock()
		again := p.reviews[org] && ctx.Err() == nil
		if again {
			p.reviews[org] = false
		} else {
			delete(p.reviews, org)
		}
		p.mu.Unlock()
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

// running returns what is looked at of the execution. Engine.mu is held, unless its own
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
func (e *Engine) reviewRunning(ctx context.Context, org string) error {
	changes := e.changes.Load()
	e.mu.Lock()
	var list []running
	for _, ex := range e.executions {
		if ex.asked.Principal.Org != org {
			continue
		}
		r := ex.running()
		r.fresh = ex.seen == changes
		list = append(list, r)
	}
	e.mu.Unlock()
	var failed failures
	for _, r := range list {
		err := e.stillAllowed(ctx, r)
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

// reviewParked ends the calls of an organisation that wait for a person, or in a queue
// of nobody, and are denied now. It notes when a credential of the others ends.
func (e *Engine) reviewParked(ctx context.Context, org string) error {
	var first time.Time
	var failed failures
	filter := haft.CallFilter{Org: org, Status: []haft.Status{haft.StatusPending, haft.StatusQueued}, Limit: 200}
	for {
		records, err := e.store.Records(ctx, filter)
		if err != nil {
			return err
		}
		for _, r := range records {
			filter.Before = r.Call.ID
			if e.executionOf(r.Call.ID) != nil || r.Status == haft.StatusQueued && r.Owner != e.owner() {
				continue // it is looked at where it is on its way
			}
			ends, err := e.reviewRecord(ctx, org, r.Call.ID)
			failed.add(r.Call.ID, err)
			if err == nil && !ends.IsZero() && (first.IsZero() || ends.Before(first)) {
				first = ends
			}
		}
		if len(records) < filter.Limit {
			break
		}
	}
	e.permissions.mu.Lock()
	defer e.permissions.mu.Unlock()
	if first.IsZero() {
		delete(e.permissions.ends, org)
	} else {
		e.permissions.ends[org] = first
	}
	return failed.err()
}

// reviewRecord ends one call that waits, if it is denied now, and else says when its
// credential ends.
func (e *Engine) reviewRecord(ctx context.Context, org string, id haft.CallID) (ends time.Time, err error) {
	r, err := e.store.Record(ctx, org, id)
	if err != nil || r.Status.Final() {
		return ends, err
	}
	ex, err := e.unseal(r)
	if err != nil {
		return ends, nil //nolint:nilerr // what cannot be opened cannot run either
	}
	ex.call.Digest = r.Digest
	err = e.stillAllowed(ctx, running{call: ex.call, pinned: r.Call.Digest, final: r.Status == haft.StatusPending})
	if w, ok := errors.AsType[*withdrawal](err); ok {
		return ends, e.dropWithdrawn(ctx, r, w)
	}
	if err != nil {
		return ends, err
	}
	_, ends, err = e.principalNow(ctx, r.Call.Principal)
	return ends, err
}

// dropWithdrawn ends a call that waits, and lets its chain go on to its end.
func (e *Engine) dropWithdrawn(ctx context.Context, r *haft.Record, w *withdrawal) error {
	err := e.drop(ctx, r, haft.StatusDenied, haft.FailDenied, w.Error())
	if err != nil && haft.CodeOf(err) != haft.CodeConflict { // else somebody else was faster
		return err
	}
	if r.Call.Chain != "" {
		e.chainWork.push(chainRef{r.Call.Principal.Org, r.Call.Chain})
	}
	return nil
}

// noteParked has the end of the credential of a call that waits for a person looked up.
func (e *Engine) noteParked(p haft.Principal) {
	if p.Credential == "" || e.cfg.Recheck == nil {
		return
	}
	e.permissions.mu.Lock()
	defer e.permissions.mu.Unlock()
	e.permissions.parked[p.Credential] = p
}

// watchPermissions finds what other processes changed, and the ends of credentials,
// until ctx ends.
func (e *Engine) watchPermissions(ctx context.Context) {
	tick := time.NewTicker(permissionsPoll)
	defer tick.Stop()
	var last int64
	known := false // the counter as it was when we began
	var ends map[string]time.Time
	for seen := e.changes.Load(); ; {
		if now := e.changes.Load(); now != seen {
			seen, ends = now, nil // they may end earlier now
		}
		if e.store.Shared() {
			now, orgs, err := e.store.Changes(ctx, last)
			if err != nil && ctx.Err() == nil {
				e.cfg.Logger.Warn("changes of other servers cannot be looked for", "error", err)
			}
			if err == nil {
				if known && now != last {
					e.changedElsewhere(ctx, orgs)
				}
				last, known = now, true
			}
		}
		ends = e.reviewEnded(ctx, ends)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// changedElsewhere does what a change of this process would have done.
func (e *Engine) changedElsewhere(ctx context.Context, orgs []string) {
	if slices.Contains(orgs, "") {
		if err := e.followStop(ctx); err != nil {
			e.cfg.Logger.Warn("whether calls are stopped cannot be read", "error", err)
		}
		orgs = []string{""}
	}
	for _, org := range orgs {
		e.permissionsChanged(org)
	}
}

// followStop does what another process was told about stopping calls.
func (e *Engine) followStop(ctx context.Context) error {
	before := e.stopped.Load()
	if before != nil && before.leaving {
		return nil
	}
	text, err := e.store.Setting(ctx, stopSetting)
	if err != nil {
		return err
	}
	if text == "" {
		e.stopped.CompareAndSwap(before, nil)
		return nil
	}
	if err := e.readStop(ctx); err != nil {
		return err
	}
	if note := e.stopped.Load(); note != nil && note.Kill && (before == nil || !before.At.Equal(note.At)) {
		e.cancelExecutions(errCancelled, func(haft.Principal) bool { return true })
	}
	return nil
}

// reviewEnded reviews the organisations of calls whose credential has ended by now, and
// returns when those of the others do. It asks once for each credential that has a call
// which takes longer than a moment.
func (e *Engine) reviewEnded(ctx context.Context, known map[string]time.Time) map[string]time.Time {
	if e.cfg.Recheck == nil {
		return nil
	}
	now := time.Now()
	held := map[string]haft.Principal{}
	e.mu.Lock()
	for _, ex := range e.executions {
		if ex.asked.Principal.Credential != "" && now.Sub(ex.began) > permissionsPoll {
			held[ex.asked.Principal.Credential] = ex.asked.Principal
		}
	}
	e.mu.Unlock()
	p := &e.permissions
	p.mu.Lock()
	parked := p.parked
	p.parked = map[string]haft.Principal{}
	var due []string
	for org, at := range p.ends {
		if !now.Before(at) {
			due = append(due, org)
			delete(p.ends, org)
		}
	}
	p.mu.Unlock()
	next := make(map[string]time.Time, len(held))
	for name, who := range held {
		at, asked := known[name]
		if !asked {
			var err error
			if _, at, err = e.principalNow(ctx, who); err != nil {
				at = now
			}
		}
		if !at.IsZero() && !now.Before(at) {
			due = append(due, who.Org)
			continue
		}
		next[name] = at
	}
	for _, who := range parked {
		_, at, err := e.principalNow(ctx, who)
		if err != nil {
			at = now
		}
		if at.IsZero() {
			continue
		}
		p.mu.Lock()
		if old, ok := p.ends[who.Org]; !ok || at.Before(old) {
			p.ends[who.Org] = at
		}
		p.mu.Unlock()
	}
	for _, org := range due {
		e.review(org)
	}
	return next
}
