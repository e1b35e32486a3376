package engine

import (
	"context"
	"errors"
	"time"

	"haft"
	"haft/internal/backlog"
	"haft/internal/chains"
	"haft/internal/journal"
	"haft/internal/membership"
	"haft/internal/store"
)

// maxPostponed is how often a call is taken up again although the store answers.
const maxPostponed = 20

// A dispatcher runs accepted calls. They are in the store; the dispatcher reads them from
// there, oldest first, so that nothing depends on what this process still remembers.
type dispatcher struct {
	cfg       *Config
	store     *store.Store
	journal   *journal.Journal
	calls     *callTable
	chains    *chains.Chains
	members   *membership.Membership
	pipeline  *pipeline
	recorder  *recorder
	recovery  *recovery
	redaction *redaction

	*backlog.Calls
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
		case <-d.Wake():
		case <-timer.C:
		}
		keys, next := d.Due()
		for _, key := range keys {
			if err := d.startQueued(ctx, key); err != nil {
				if ctx.Err() == nil {
					d.cfg.Logger.Warn("calls that wait cannot be read; it is tried again", "error", err)
				}
				next = min(next, backlog.PostponeMost)
			}
		}
		timer.Reset(next)
	}
}

// startQueued starts calls of an organisation that wait in the store.
func (d *dispatcher) startQueued(ctx context.Context, key string) error {
	list, err := d.store.Calls.Queued(ctx, d.members.Owner(), key, d.PerTenant())
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
		case errors.Is(err, chains.ErrSealed):
			closed = append(closed, r.Call.ID)
			continue
		case err != nil:
			return err
		case ex == nil:
			continue // it has ended
		}
		if !d.TakePlace(key) {
			return d.leaveSealed(ctx, closed)
		}
		d.ForgetUnbegun(ex.call.ID) // the store says that it is queued
		d.startBackground(ex)
		launched = true
	}
	if !launched && len(list) < d.PerTenant() { // what was counted is not there
		d.Rest(key)
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
	changes := d.Changes()
	queued, err := d.store.Calls.QueuedByOrg(ctx, d.members.Owner())
	if err == nil {
		d.Count(queued, changes)
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
	defer d.Nudge() // there may be more behind them
	return d.store.Calls.ReleaseCalls(ctx, d.members.Owner(), ids)
}

// sealedPause is how long a server that found something for which it has no key adopts
// nothing, so that others can. It goes on then: one call that nobody can open must not keep
// those of dead servers from being taken over.
const sealedPause = 20 * time.Second

// accepted launches a call that was accepted just now, if there is room; else it waits in
// the store for its turn.
func (d *dispatcher) accepted(ex *execution) {
	if d.TakePlace(store.OrgKey(ex.call.Principal.Org)) {
		d.startBackground(ex)
		return
	}
	d.journal.Forget(ex.call.ID)
	d.Nudge()
}

// startBackground runs a call for which nobody waits, and for which there is a place in memory.
func (d *dispatcher) startBackground(ex *execution) {
	ex.asked = ex.call
	ok := d.calls.Go(func(ctx context.Context) {
		_, err := d.pipeline.runCall(ctx, ex)
		postponed := errors.Is(err, errPostponed)
		d.leavePlace(ex, err)
		if err != nil && !postponed && !d.recorder.overtaken(ctx, err) {
			d.redaction.logOf(ex).Warn("a call in the background has no result", "call", ex.call.ID, "error", err)
		}
		if !postponed {
			d.chains.Push(ex.call.Principal.Org, ex.call.Chain)
		}
	})
	if !ok {
		d.leavePlace(ex, errPostponed) // the next engine goes on with it
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
	if errors.Is(context.Cause(ctx), chains.ErrClosing) || errors.Is(err, errQueueFull) || d.passes(ctx, ex, err) {
		if ex.phase == phaseBegins {
			d.NoteUnbegun(ex.call.ID, ex.rec.Started)
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
	if _, down := d.store.Settings.Setting(ctx, stopSetting); down != nil {
		return true
	}
	name := string(ex.call.ID)
	if !ex.accepted {
		name = string(ex.call.Chain) // whose step has a new id each time
	}
	return d.Postpone(name) < maxPostponed
}

// leavePlace gives the place of an execution in memory back.
func (d *dispatcher) leavePlace(ex *execution, err error) {
	why := backlog.No
	switch {
	case !errors.Is(err, errPostponed):
	case errors.Is(err, errQueueFull):
		why = backlog.QueueFull
	default:
		why = backlog.Later
	}
	d.ReturnPlace(ex.asked.Principal.Org, ex.call.ID, ex.begun, why)
}
