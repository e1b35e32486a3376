package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
)

// The rule of this file: an accepted call ends. What a process has is in the store under
// its name; what belongs to no living process is adopted ([store.Store.Adopt]), and what
// this process owns and has not in hand is taken further by [Engine.sweep], however it
// came to that: a crash, an outage of the store, a server that was given up, an older
// haft. Nothing here needs to know why.

// recover takes up what was left when this process begins.
func (e *Engine) recover(ctx context.Context) error {
	if err := e.join(ctx, e.cfg.Owner); err != nil {
		return err
	}
	if e.store.Shared() {
		e.Go(e.keepAlive) // first: there may be thousands of calls to take up
	} else if err := e.adopt(ctx); err != nil { // once: nobody dies while this process lives
		return err
	}
	return e.sweep(ctx)
}

// sweep adopts what belongs to nobody, and takes further what this process owns and has
// not in hand.
func (e *Engine) sweep(ctx context.Context) error {
	if e.store.Shared() && !e.handedOver.Load() && time.Now().UnixNano() >= e.adoptAfter.Load() {
		if err := e.adopt(ctx); err != nil {
			return err
		}
	}
	err := errors.Join(e.sweepRunning(ctx), e.sweepAnswered(ctx))
	if e.handedOver.Load() { // also what was accepted, or queued again, since
		err = errors.Join(err, e.store.ReleaseCalls(ctx, e.owner(), nil))
	} else {
		if err = errors.Join(err, e.countQueued(ctx)); !e.cfg.Brief {
			err = errors.Join(err, e.sweepChains(ctx))
		}
	}
	return err
}

// adopt takes over what belongs to no server.
func (e *Engine) adopt(ctx context.Context) error {
	n, err := e.store.Adopt(ctx, e.owner(), !e.cfg.Brief)
	if n > 0 {
		e.cfg.Logger.Info("calls and chains that belonged to no server are taken over", "count", n)
	}
	return err
}

// sweepRunning ends calls that run by the store and not here, or has them run again if
// that does no harm.
func (e *Engine) sweepRunning(ctx context.Context) error {
	list, err := e.store.Running(ctx, e.owner())
	if err != nil {
		return err
	}
	var failed failures
	for _, ref := range list {
		if e.inHand(haft.CallID(ref.ID)) {
			continue
		}
		failed.add(haft.CallID(ref.ID), e.settleLost(ctx, ref))
	}
	return failed.err()
}

// settleLost ends a call that nobody runs, or queues it again.
func (e *Engine) settleLost(ctx context.Context, ref store.Ref) error {
	r, err := e.store.RecordOf(ctx, ref)
	if err != nil || r.Status != haft.StatusRunning || r.Owner != e.owner() || e.inHand(r.Call.ID) {
		return err // it has ended meanwhile
	}
	again, err := e.again(ctx, r)
	if err != nil {
		return err
	}
	settle := e.lose
	switch {
	case again && e.cfg.Brief && !e.dispatcher.neverBegan(r):
		settle = e.leaveToServer
	case again:
		settle = e.requeue
	case e.dispatcher.neverBegan(r):
		settle = e.endUnbegun
	}
	if err = settle(ctx, r, "the server ended while the call ran"); err == nil {
		e.dispatcher.forgetUnbegun(r.Call.ID)
	}
	return err
}

// again reports whether a call that the store says to run may be run again: its tool is
// idempotent, or this process knows that it did not begin.
func (e *Engine) again(ctx context.Context, r *haft.Record) (bool, error) {
	if len(r.Sealed) == 0 {
		return false, nil
	}
	if e.dispatcher.neverBegan(r) {
		return true, nil
	}
	tool, err := e.registry.Resolve(ctx, r.Call.Principal.Org, string(r.ToolID), r.Digest)
	if err != nil {
		if code := haft.CodeOf(err); code == haft.CodeUnavailable || code == haft.CodeInternal {
			return false, err
		}
		return false, nil
	}
	return tool.Tool.Version.Settings.Idempotent, nil
}

// requeue has a call run that the store has in another state.
func (e *Engine) requeue(ctx context.Context, r *haft.Record, why string) error {
	ex := e.bareExecution(r)
	ex.rec.Status, ex.rec.Result, ex.rec.Started = haft.StatusQueued, nil, time.Time{}
	part := &store.Batch{Records: []haft.Record{ex.rec},
		Audit: []audit.Entry{e.entry(ex, "call.requeued", map[string]any{"reason": why})}}
	return ended(e.tell(ctx, ex, haft.EventQueued, nil, part))
}

// leaveToServer is requeue for a call that this process does not run: a command would wait
// for it, or cancel it when it is interrupted.
func (e *Engine) leaveToServer(ctx context.Context, r *haft.Record, why string) error {
	if err := e.requeue(ctx, r, why); err != nil {
		return err
	}
	return e.store.ReleaseCalls(ctx, e.owner(), []haft.CallID{r.Call.ID})
}

// sweepAnswered takes calls further whose requests for approval are answered and that wait
// all the same.
func (e *Engine) sweepAnswered(ctx context.Context) error {
	list, err := e.store.Answered(ctx)
	if err != nil {
		return err
	}
	var failed failures
	for _, ref := range list {
		if e.inHand(haft.CallID(ref.ID)) {
			continue
		}
		r, err := e.store.RecordOf(ctx, ref)
		if err == nil && r.Status == haft.StatusPending {
			err = e.followAnswer(ctx, r)
		}
		failed.add(haft.CallID(ref.ID), err)
	}
	return failed.err()
}

// followAnswer does what an answer says.
func (e *Engine) followAnswer(ctx context.Context, r *haft.Record) error {
	a, err := e.store.ApprovalOf(ctx, r.Call.Principal.Org, r.Call.ID)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound:
		return e.lose(ctx, r, "the request for approval is gone")
	case err != nil:
		return err
	}
	switch a.State {
	case haft.ApprovalApproved:
		return e.requeue(ctx, r, "the request for approval was agreed to")
	case haft.ApprovalDenied:
		return e.end(ctx, r, haft.StatusRejected, haft.FailRejected, "a person refused the call")
	case haft.ApprovalExpired:
		return e.end(ctx, r, haft.StatusRejected, haft.FailRejected, "nobody agreed in time")
	case haft.ApprovalUsed: // by an older haft, right before it wrote that the call runs
		return e.lose(ctx, r, "the server ended while the call was about to run")
	}
	return nil // it is asked for again
}

// revive makes an execution of a queued call. It returns nil if the call cannot run and has
// ended, and an error that wraps errSealed if this server has no key for it.
func (e *Engine) revive(ctx context.Context, r *haft.Record) (*execution, error) {
	ex, err := e.unseal(r)
	switch {
	case errors.Is(err, errSealed):
		return nil, err
	case err != nil:
		return nil, e.lose(ctx, r, "what was kept of the call cannot be read")
	case ex.free:
		return ex, nil
	}
	a, err := e.store.ApprovalOf(ctx, r.Call.Principal.Org, r.Call.ID)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound: // of an older haft
		return ex, nil
	case err != nil:
		return nil, err
	case a.State == haft.ApprovalUsed: // likewise, right before it wrote that the call runs
		return nil, e.lose(ctx, r, "the server ended while the call was about to run")
	}
	return e.approved(ex, a), nil
}

// lose closes a call of which nobody can know whether it ran.
func (e *Engine) lose(ctx context.Context, r *haft.Record, why string) error {
	return e.end(ctx, r, haft.StatusUnknown, haft.FailUnknown, "nobody can know whether the tool ran: "+why)
}

// endUnbegun closes a call that did not run and of which nothing is kept to run it now.
func (e *Engine) endUnbegun(ctx context.Context, r *haft.Record, _ string) error {
	return e.end(ctx, r, haft.StatusError, haft.FailInternal,
		"the tool did not run: the store did not answer when it was to begin")
}

// end closes a call that nobody has in hand.
func (e *Engine) end(ctx context.Context, r *haft.Record, status haft.Status, kind haft.FailureKind,
	message string) error {
	ex := e.bareExecution(r)
	res := ex.failed(status, kind, message)
	e.completeResult(ex, res)
	if err := ended(e.close(ctx, ex, res)); err != nil {
		return fmt.Errorf("close the call %s: %w", r.Call.ID, err)
	}
	return nil
}

// bareExecution is an execution for writing the record of a call that is not run.
func (e *Engine) bareExecution(r *haft.Record) *execution {
	ex := &execution{call: r.Call, rec: *r, began: time.Now(), done: make(chan struct{}), redactor: e.plain}
	ex.rec.Owner = e.owner()
	return ex
}

// ended makes nothing of an error that says that somebody else was faster.
func ended(err error) error {
	if errors.Is(err, errOvertaken) {
		return nil
	}
	return err
}
