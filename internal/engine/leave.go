package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/callenv"
	"haft/internal/chains"
	"haft/internal/followup"
	"haft/internal/store"
	"haft/policy"
)

// asError returns the coded error that err is or wraps.
func asError(err error) (*haft.Error, bool) { return errors.AsType[*haft.Error](err) }

// leave is the one way out: whatever became of the call, it is redacted, written
// down and told here, and only then does the caller hear of it.
func (pl *pipeline) leave(ctx context.Context, ex *execution, err error) (*haft.Result, error) {
	if pl.recorder.overtaken(ctx, err) {
		return pl.recorder.fromOthers(ctx, ex, err)
	}
	if pl.dispatcher.postpones(ctx, ex, err) {
		pl.journal.Forget(ex.call.ID)
		pl.recorder.endTrace(ex, nil, errPostponed)
		return nil, fmt.Errorf("%w: %w", errPostponed, err)
	}
	if errors.Is(err, callenv.ErrLabel) {
		return nil, pl.refuseLabel(context.WithoutCancel(ctx), ex, err)
	}
	waiting, stages := ctx, err
	ctx = context.WithoutCancel(ctx) // what happened is written also when the caller has left
	res, err := pl.outcome(ex, err)
	if ended := pl.authorizer.withdrawnResult(waiting, ex, res, stages); ended != nil {
		res, err = ended, nil
	}
	if res.Status == haft.StatusPending {
		return pl.suspend(ctx, ex, res)
	}
	if ex.begun && res.Status != haft.StatusSuccess {
		ex.release() // another call may stand in, which needs what this one holds
		res = pl.recoverResult(followup.WithBudget(waiting), ex, res)
	}
	pl.filters.screen(waiting, ex, res)
	pl.recorder.completeResult(ex, res)
	err = ex.cleanError(err)
	if werr := pl.recorder.record(ctx, waiting, ex, res); werr != nil {
		if pl.recorder.overtaken(waiting, werr) {
			return pl.recorder.fromOthers(ctx, ex, werr)
		}
		return nil, pl.recorder.unrecorded(ctx, ex, werr)
	}
	if !ex.begun && !res.Cached {
		pl.entrance.unclaim(ctx, ex) // nothing ran: the key may be used again
	}
	pl.react(ctx, ex, ex.recovered)
	pl.react(ctx, ex, res.Error)
	pl.recorder.endTrace(ex, res, err)
	if err != nil {
		return nil, err
	}
	return res, nil
}

// endTrace ends the span of the observer.
func (w *recorder) endTrace(ex *execution, res *haft.Result, err error) {
	if ex.trace != nil {
		ex.trace.End(res, err)
	}
}

// outcome makes a result of what the stages came to. The error is what the caller
// gets instead of the result, where the contract of [haft.Caller] wants one.
func (pl *pipeline) outcome(ex *execution, err error) (*haft.Result, error) {
	var r *refusal
	switch {
	case err == nil, errors.Is(err, errSettled):
		return ex.res, nil
	case errors.As(err, &r):
		res := ex.failed(r.status, r.failure.Kind, r.failure.Message)
		res.Error = &r.failure
		return res, nil
	case errors.Is(err, context.DeadlineExceeded):
		return ex.failed(haft.StatusTimeout, haft.FailTimeout, "the deadline of the call has passed"), nil
	case errors.Is(err, context.Canceled), errors.Is(err, errCancelled), errors.Is(err, chains.ErrClosing),
		isWithdrawn(err):
		return ex.failed(haft.StatusCancelled, haft.FailCancelled, "the call was cancelled"), nil
	case errors.Is(err, errPanic) && ex.begun:
		return ex.failed(haft.StatusUnknown, haft.FailUnknown, "nobody can know whether the tool ran"), nil
	}
	return pl.coded(ex, err)
}

// coded makes a result of an error with a code, or of a fault of ours.
func (pl *pipeline) coded(ex *execution, err error) (*haft.Result, error) {
	message := haft.MessageOf(err)
	switch haft.CodeOf(err) {
	case haft.CodeNotFound:
		return ex.failed(haft.StatusValidation, haft.FailNotFound, message), err
	case haft.CodeDenied:
		kind := haft.FailDenied
		if ex.begun {
			kind = haft.FailIsolation // of the executor, which could not give what is demanded
		}
		return ex.failed(haft.StatusDenied, kind, message), nil
	case haft.CodeInvalid:
		return ex.failed(haft.StatusValidation, haft.FailValidation, message), nil
	case haft.CodeConflict:
		return ex.failed(haft.StatusValidation, haft.FailValidation, message), err
	}
	pl.redaction.logOf(ex).Error("a call failed inside haft", "call", ex.call.ID, "error", err)
	res := ex.failed(haft.StatusError, haft.FailInternal, message)
	res.Error.Retry = haft.RetrySame
	if ex.begun {
		return res, nil
	}
	return res, err
}

// completeResult completes a result and redacts it.
func (w *recorder) completeResult(ex *execution, res *haft.Result) {
	res.Call, res.Tool, res.Tries = ex.call.ID, ex.named().Tool, ex.rec.Tries
	if res.Digest = ""; ex.tool != nil {
		res.Digest = ex.tool.Tool.Version.Digest
	}
	if res.Approval = ""; ex.approval != nil {
		res.Approval = ex.approval.ID
	}
	if res.Value == nil {
		res.Value = json.RawMessage("null")
	}
	t := &ex.timeline
	res.Timeline.Queue, res.Timeline.Policy, res.Timeline.Validate = t.Queue, t.Policy, t.Validate
	res.Timeline.Approval = t.Approval
	res.Timeline.Serialise += t.Serialise
	res.Timeline.Total = haft.Millis(time.Since(ex.began))
	res.Time = time.Now().UTC()
	res.Notices = ex.notices
	res.Usage.Network, res.Usage.Sent, res.Usage.Received = ex.network.Network, ex.network.Sent, ex.network.Received
	if res.Error != nil && res.Error.Severity == "" {
		res.Error.Severity = ex.severity(*res.Error)
	}
	ex.redactResult(res)
}

// severity says how bad a failure is.
func (ex *execution) severity(f haft.Failure) haft.Severity {
	if ex.rules != nil && ex.tool != nil {
		return ex.rules.Severity(ex.tool.Tool, f)
	}
	return policy.SeverityOf(f)
}

// suspend writes down that the call waits for a person.
func (pl *pipeline) suspend(ctx context.Context, ex *execution, res *haft.Result) (*haft.Result, error) {
	sealed, err := pl.seals.seal(ex)
	if err != nil {
		return nil, err
	}
	pl.recorder.completeResult(ex, res)
	ex.rec.Status, ex.rec.Sealed, ex.rec.Result = haft.StatusPending, sealed, res
	body := map[string]any{"approval": ex.approval.ID, "binds": ex.approval.Binds, "rule": ex.approval.Rule,
		"expires": ex.approval.Expires}
	part := &store.Batch{
		Records: []haft.Record{ex.rec}, Approvals: []haft.Approval{*ex.approval}, Limits: ex.taken,
		Keys: ex.keysHeld(), Audit: []audit.Entry{pl.recorder.entry(ex, "approval.requested", body)},
	}
	data := map[string]any{"approval_id": ex.approval.ID, "args": ex.approval.Args, "expires_at": ex.approval.Expires,
		"rule": ex.approval.Rule, "terms": ex.approval.Terms}
	if err := pl.recorder.publish(ctx, ex, haft.EventApproval, data, part); err != nil {
		return nil, err // it keeps its key: it may be in the store all the same
	}
	pl.recorder.endTrace(ex, res, nil)
	return res, nil
}

// recoverResult asks the recoveries, the reactions of the tool and its fallback for another result, in this order. A
// call that was cancelled has none, and ctx ends the calls that are made for it.
func (pl *pipeline) recoverResult(ctx context.Context, ex *execution, res *haft.Result) *haft.Result {
	if res.Error == nil || res.Status == haft.StatusCancelled || errors.Is(ctx.Err(), context.Canceled) {
		return res
	}
	f := *res.Error
	other := pl.anotherResult(ctx, ex, res, f)
	if other == nil {
		return res
	}
	f.Severity = ex.severity(f)
	ex.recovered = &f
	return followup.Instead(res, other)
}

// anotherResult is recoverResult for a call that has failed with f. It returns nil if there is no other result.
func (pl *pipeline) anotherResult(ctx context.Context, ex *execution, res *haft.Result, f haft.Failure) *haft.Result {
	t := ex.tool.Tool
	for _, r := range pl.cfg.Recoveries {
		if !r.Of(t.Name, f) {
			continue
		}
		var other *haft.Result
		if r.Recover != nil {
			other = r.Recover(context.WithoutCancel(ctx), ex.call, res)
		}
		if other == nil && r.Repair != nil && (res.Status != haft.StatusUnknown || t.Version.Settings.Idempotent) {
			if args := r.Repair(context.WithoutCancel(ctx), ex.call, res); args != nil {
				other = pl.callAfter(ctx, ex, t.Name, args)
			}
		}
		if other != nil {
			ex.notices = append(ex.notices, "recovered from "+string(f.Kind))
			return other
		}
	}
	if other := pl.reactTo(ctx, ex, res, f); other != nil {
		return other
	}
	if name := t.Version.Settings.Fallback; name != "" {
		if other := pl.callAfter(ctx, ex, name, nil); other != nil {
			ex.notices = append(ex.notices, fmt.Sprintf("%s failed with %s; its fallback %s answered as call %s",
				t.Name, f.Kind, name, other.Call))
			return other
		}
	}
	return nil
}

// reactTo does what the settings of the tool say of a failure. It returns nil if that gives no other result.
func (pl *pipeline) reactTo(ctx context.Context, ex *execution, res *haft.Result, f haft.Failure) *haft.Result {
	t := ex.tool.Tool
	i := slices.IndexFunc(t.Version.Settings.OnError, func(r haft.Reaction) bool { return r.After(f) })
	if i < 0 {
		return nil
	}
	r, other := t.Version.Settings.OnError[i], (*haft.Result)(nil)
	switch {
	case r.Disable:
		if ex.pinned != "" || ex.tool.Current != nil || !followup.ToolAtFault(ex.asked, f) {
			return nil // what the caller chose says nothing about the tool as others use it
		}
		if err := pl.authorizer.disable(context.WithoutCancel(ctx), ex); err != nil {
			pl.redaction.logOf(ex).Error("a tool could not be disabled", "call", ex.call.ID, "error", err)
			return nil
		}
		ex.notices = append(ex.notices, "on_error: the tool was disabled")
		return nil
	case len(r.Value) > 0:
		other = followup.Constant(res, r.Value)
	case t.Version.Settings.Idempotent:
		args, err := followup.Replace(ex.call.Args, r.Args)
		if err != nil {
			return nil
		}
		other = pl.callAfter(ctx, ex, t.Name, args)
	}
	if other != nil {
		ex.notices = append(ex.notices, fmt.Sprintf("on_error: recovered from %s by reaction %d", f.Kind, i+1))
	}
	return other
}

// callAfter calls a tool after a call has failed. It returns nil if that does not succeed. A call that would wait for a
// person is closed: nobody would get its result.
func (pl *pipeline) callAfter(ctx context.Context, ex *execution, tool string, args json.RawMessage) *haft.Result {
	if ex.depth >= maxDepth || !followup.Spend(ctx) {
		return nil
	}
	c := followup.After(ex.call, tool, args)
	if args != nil {
		c.Digest = ex.pinned
	}
	child, err := pl.entrance.enter(c)
	if err != nil {
		return nil
	}
	child.depth, child.seen = ex.depth+1, ex.seen
	other, err := pl.runCall(ctx, child)
	if err == nil && other.Status == haft.StatusPending {
		err = pl.recorder.cancel(context.WithoutCancel(ctx), &child.rec)
		if err != nil {
			pl.redaction.logOf(ex).Error("a call for which nobody waits still asks for approval", "call",
				child.call.ID, "error", err)
		}
	}
	if err != nil || other.Status != haft.StatusSuccess {
		return nil
	}
	return followup.Adopt(other)
}

// disable disables the tool of a call, for everybody.
func (au *authorizer) disable(ctx context.Context, ex *execution) error {
	p, t, off := ex.call.Principal, ex.tool.Tool, true
	if _, err := au.registry.Set(ctx, p, string(t.ID), haft.ToolState{Disabled: &off,
		If: t.Revision()}); err != nil {
		return err
	}
	return au.permissions.Log(ctx, p, p.Org, "tool.set", map[string]any{"tool": t.Name, "id": t.ID, "disabled": true,
		"call": ex.call.ID, "reason": "on_error"})
}

// maxDepth is how far calls go that are made after calls have failed.
const maxDepth = 3

// react does what the severity of a failure demands, also of one that another result has replaced.
func (pl *pipeline) react(ctx context.Context, ex *execution, f *haft.Failure) {
	if f == nil {
		return
	}
	if ex.begun && ex.rules.Blocks(ex.tool.Tool, *f) {
		pl.authorizer.blocks.Add(blockName(ex))
		pl.redaction.logOf(ex).Warn("a critical failure: the caller cannot use the tool for a while", "call",
			ex.call.ID, "tool", ex.named().Tool, "org", ex.call.Principal.Org, "kind", f.Kind)
	}
	if hook := pl.cfg.OnFailure[f.Severity]; hook != nil {
		hook(ctx, ex.rec)
	}
}

// entry makes an entry of the audit about an execution.
func (w *recorder) entry(ex *execution, kind string, body any) audit.Entry {
	raw, err := json.Marshal(body)
	if err != nil { // of our own types: cannot be
		raw = json.RawMessage(`{"error":"the body cannot be encoded"}`)
	}
	raw, _ = ex.env.Redactor.JSON(raw)
	named := ex.named()
	return audit.Entry{
		Org: ex.call.Principal.Org, Time: time.Now(), Kind: kind, Actor: named.Principal,
		Call: ex.call.ID, Tool: named.Tool, Digest: ex.rec.Digest, Body: raw,
	}
}

// startedBody is what the audit says when a call begins.
func (w *recorder) startedBody(ex *execution) any {
	b := followup.StartedAudit{Effect: ex.decision.Effect, Rule: ex.decision.Rule, Policy: ex.rules.Digest(),
		Digest: ex.rec.ArgsDigest, Parent: ex.call.Parent}
	if ex.approval != nil {
		b.Approval = ex.approval.ID
	}
	if w.cfg.AuditArgs {
		b.Args = ex.rec.Call.Args
	}
	return b
}

// endedBody is what the audit says when a call ends.
func (w *recorder) endedBody(ex *execution, res *haft.Result) any {
	b := followup.NewEndedAudit(res)
	b.Rule, b.Args, b.Result = ex.decision.Rule, ex.rec.ArgsDigest, ex.rec.ResultDigest
	b.Contacts, b.Connected = ex.keptConnections(), len(ex.connections)
	b.Touched = ex.touched.End(followup.Hosts(ex.connections))
	if ex.recovered != nil {
		b.RecoveredFrom = ex.recovered.Kind
	}
	if res.Error != nil {
		if why, ok := strings.CutPrefix(res.Error.Message, withdrawnPrefix); ok {
			b.Withdrawn = why
		}
	}
	return b
}
