package engine

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/callenv"
	"haft/internal/chains"
	"haft/internal/membership"
	"haft/internal/registry"
	"haft/internal/store"
)

// A recovery takes further what this process owns and nobody has in hand.
type recovery struct {
	cfg        *Config
	store      *store.Store
	registry   *registry.Registry
	calls      *callTable
	chains     *chains.Chains
	dispatcher *dispatcher
	members    *membership.Membership
	recorder   *recorder
	seals      *callSealer

	adoptAfter atomic.Int64 // when what belongs to nobody may be adopted again, see noteSealed
}

// The rule of this file: an accepted call ends. What a process has is in the store under
// its name; what belongs to no living process is adopted ([store.Processes.Adopt]), and what
// this process owns and has not in hand is taken further by [Engine.sweep], however it
// came to that: a crash, an outage of the store, a server that was given up, an older
// haft. Nothing here needs to know why.

// recover takes up what was left when this process begins, which has joined.
func (rc *recovery) recover(ctx context.Context) error {
	if rc.store.Shared() {
		rc.calls.Go(rc.members.KeepAlive) // first: there may be thousands of calls to take up
	} else if err := rc.adopt(ctx); err != nil { // once: nobody dies while this process lives
		return err
	}
	return rc.sweep(ctx)
}

// sweep adopts what belongs to nobody, and takes further what this process owns and has
// not in hand.
func (rc *recovery) sweep(ctx context.Context) error {
	if rc.store.Shared() && !rc.calls.handedOver.Load() && time.Now().UnixNano() >= rc.adoptAfter.Load() {
		if err := rc.adopt(ctx); err != nil {
			return err
		}
	}
	err := errors.Join(rc.sweepRunning(ctx), rc.sweepAnswered(ctx))
	if rc.calls.handedOver.Load() { // also what was accepted, or queued again, since
		err = errors.Join(err, rc.store.Calls.ReleaseCalls(ctx, rc.members.Owner(), nil))
	} else {
		if err = errors.Join(err, rc.dispatcher.countQueued(ctx)); !rc.cfg.Brief {
			err = errors.Join(err, rc.chains.Sweep(ctx))
		}
	}
	return err
}

// adopt takes over what belongs to no server.
func (rc *recovery) adopt(ctx context.Context) error {
	n, err := rc.store.Processes.Adopt(ctx, rc.members.Owner(), !rc.cfg.Brief)
	if n > 0 {
		rc.cfg.Logger.Info("calls and chains that belonged to no server are taken over", "count", n)
	}
	return err
}

// sweepRunning ends calls that run by the store and not here, or has them run again if
// that does no harm.
func (rc *recovery) sweepRunning(ctx context.Context) error {
	list, err := rc.store.Calls.Running(ctx, rc.members.Owner())
	if err != nil {
		return err
	}
	var failed failures
	for _, ref := range list {
		if rc.inHand(haft.CallID(ref.ID)) {
			continue
		}
		failed.add(haft.CallID(ref.ID), rc.settleLost(ctx, ref))
	}
	return failed.err()
}

// inHand reports whether this process has a call: it is on its way, or its end is being
// recorded. What began before the process was given up is not: its end is not recorded here.
func (rc *recovery) inHand(id haft.CallID) bool {
	rc.calls.mu.Lock()
	defer rc.calls.mu.Unlock()
	ex := rc.calls.executions[id]
	return ex != nil && ex.owner == rc.members.Owner() || rc.calls.recording[id]
}

// settleLost ends a call that nobody runs, or queues it again.
func (rc *recovery) settleLost(ctx context.Context, ref store.Ref) error {
	r, err := rc.store.Calls.RecordOf(ctx, ref)
	if err != nil || r.Status != haft.StatusRunning || r.Owner != rc.members.Owner() || rc.inHand(r.Call.ID) {
		return err // it has ended meanwhile
	}
	again, err := rc.again(ctx, r)
	if err != nil {
		return err
	}
	settle := rc.recorder.lose
	switch {
	case again && rc.cfg.Brief && !rc.dispatcher.NeverBegan(r):
		settle = rc.leaveToServer
	case again:
		settle = rc.requeue
	case rc.dispatcher.NeverBegan(r):
		settle = rc.recorder.endUnbegun
	}
	if err = settle(ctx, r, "the server ended while the call ran"); err == nil {
		rc.dispatcher.ForgetUnbegun(r.Call.ID)
	}
	return err
}

// again reports whether a call that the store says to run may be run again: its tool is
// idempotent, or this process knows that it did not begin.
func (rc *recovery) again(ctx context.Context, r *haft.Record) (bool, error) {
	if len(r.Sealed) == 0 {
		return false, nil
	}
	if rc.dispatcher.NeverBegan(r) {
		return true, nil
	}
	tool, err := rc.registry.Resolve(ctx, r.Call.Principal.Org, string(r.ToolID), r.Digest)
	if err != nil {
		if code := haft.CodeOf(err); code == haft.CodeUnavailable || code == haft.CodeInternal {
			return false, err
		}
		return false, nil
	}
	return tool.Tool.Version.Settings.Idempotent, nil
}

// requeue has a call run that the store has in another state.
func (rc *recovery) requeue(ctx context.Context, r *haft.Record, why string) error {
	ex := rc.seals.bareExecution(r)
	ex.rec.Status, ex.rec.Result, ex.rec.Started = haft.StatusQueued, nil, time.Time{}
	part := &store.Batch{Records: []haft.Record{ex.rec},
		Audit: []audit.Entry{rc.recorder.entry(ex, "call.requeued", map[string]any{"reason": why})}}
	return ended(rc.recorder.publish(ctx, ex, haft.EventQueued, nil, part))
}

// leaveToServer is requeue for a call that this process does not run: a command would wait
// for it, or cancel it when it is interrupted.
func (rc *recovery) leaveToServer(ctx context.Context, r *haft.Record, why string) error {
	if err := rc.requeue(ctx, r, why); err != nil {
		return err
	}
	return rc.store.Calls.ReleaseCalls(ctx, rc.members.Owner(), []haft.CallID{r.Call.ID})
}

// sweepAnswered takes calls further whose requests for approval are answered and that wait
// all the same.
func (rc *recovery) sweepAnswered(ctx context.Context) error {
	list, err := rc.store.Calls.Answered(ctx)
	if err != nil {
		return err
	}
	var failed failures
	for _, ref := range list {
		if rc.inHand(haft.CallID(ref.ID)) {
			continue
		}
		r, err := rc.store.Calls.RecordOf(ctx, ref)
		if err == nil && r.Status == haft.StatusPending {
			err = rc.followAnswer(ctx, r)
		}
		failed.add(haft.CallID(ref.ID), err)
	}
	return failed.err()
}

// followAnswer does what an answer says.
func (rc *recovery) followAnswer(ctx context.Context, r *haft.Record) error {
	a, err := rc.store.Approvals.ApprovalOf(ctx, r.Call.Principal.Org, r.Call.ID)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound:
		return rc.recorder.lose(ctx, r, "the request for approval is gone")
	case err != nil:
		return err
	}
	switch a.State {
	case haft.ApprovalApproved:
		return rc.requeue(ctx, r, "the request for approval was agreed to")
	case haft.ApprovalDenied:
		return rc.recorder.end(ctx, r, haft.StatusRejected, haft.FailRejected, "a person refused the call")
	case haft.ApprovalExpired:
		return rc.recorder.end(ctx, r, haft.StatusRejected, haft.FailRejected, "nobody agreed in time")
	case haft.ApprovalUsed: // by an older haft, right before it wrote that the call runs
		return rc.recorder.lose(ctx, r, "the server ended while the call was about to run")
	}
	return nil // it is asked for again
}

// revive makes an execution of a queued call. It returns nil if the call cannot run and has
// ended, and an error that wraps chains.ErrSealed if this server has no key for it.
func (rc *recovery) revive(ctx context.Context, r *haft.Record) (*execution, error) {
	ex, err := rc.seals.unseal(r)
	switch {
	case errors.Is(err, chains.ErrSealed):
		return nil, err
	case err != nil:
		return nil, rc.recorder.lose(ctx, r, "what was kept of the call cannot be read")
	case ex.free:
		return ex, nil
	}
	a, err := rc.store.Approvals.ApprovalOf(ctx, r.Call.Principal.Org, r.Call.ID)
	switch {
	case haft.CodeOf(err) == haft.CodeNotFound: // of an older haft
		return ex, nil
	case err != nil:
		return nil, err
	case a.State == haft.ApprovalUsed: // likewise, right before it wrote that the call runs
		return nil, rc.recorder.lose(ctx, r, "the server ended while the call was about to run")
	}
	return rc.seals.approved(ex, a), nil
}

// lose closes a call that may or may not have run.
func (w *recorder) lose(ctx context.Context, r *haft.Record, why string) error {
	return w.end(ctx, r, haft.StatusUnknown, haft.FailUnknown, "nobody can know whether the tool ran: "+why)
}

// endUnbegun closes a call that did not run and of which nothing is kept to run it now.
func (w *recorder) endUnbegun(ctx context.Context, r *haft.Record, _ string) error {
	return w.end(ctx, r, haft.StatusError, haft.FailInternal,
		"the tool did not run: the store did not answer when it was to begin")
}

// end closes a call that nobody has in hand.
func (w *recorder) end(ctx context.Context, r *haft.Record, status haft.Status, kind haft.FailureKind,
	message string) error {
	ex := w.seals.bareExecution(r)
	res := ex.failed(status, kind, message)
	w.completeResult(ex, res)
	if err := ended(w.close(ctx, ex, res)); err != nil {
		return fmt.Errorf("close the call %s: %w", r.Call.ID, err)
	}
	return nil
}

// bareExecution is an execution for writing the record of a call that is not run.
func (k *callSealer) bareExecution(r *haft.Record) *execution {
	ex := &execution{call: r.Call, rec: *r, env: callenv.Env{Redactor: k.redaction.env.Plain()},
		arrival: arrival{began: time.Now()}, tracking: tracking{done: make(chan struct{})}}
	ex.rec.Owner = k.members.Owner()
	return ex
}

// ended makes nothing of an error that says that somebody else was faster.
func ended(err error) error {
	if errors.Is(err, errOvertaken) {
		return nil
	}
	return err
}

// noteSealed says once that this server lacks a key, and leaves adopting to others.
func (rc *recovery) noteSealed() {
	if rc.adoptAfter.Swap(time.Now().Add(sealedPause).UnixNano()) == 0 {
		rc.cfg.Logger.Error("calls or chains that wait are encrypted with a key that this server does not have: they " +
			"wait for a server that has it")
	}
}
