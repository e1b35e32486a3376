package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"haft"
	"haft/internal/jsontree"
)

// The rule of this file: what a permission allowed ends when the permission is
// withdrawn. Every change of keys, agents, tools, rules and policies comes through
// [Engine.log], which counts it and has the calls of the organisation reviewed: those
// that run or wait in this process by [Engine.reviewRunning], those that wait for a
// person by [Engine.reviewWaiting]. The decision is that about a fresh call. Calls that
// begin while something is changed look again themselves, see [Engine.outdated]. On
// other processes that share the store, [Engine.watchPermissions] finds the change.

// A withdrawal is the cause of the end of a call whose permission is gone.
type withdrawal struct{ why string }

// withdrawnPrefix begins what callers are told of a withdrawal.
const withdrawnPrefix = "the permission for the call was withdrawn: "

// Error says what the caller is told.
func (w *withdrawal) Error() string { return withdrawnPrefix + w.why }

// principalNow returns what the credential of p stands for now, and when it ends.
func (au *authorizer) principalNow(ctx context.Context, p haft.Principal) (now haft.Principal, ends time.Time,
	err error) {
	if au.cfg.Recheck == nil || p.Credential == "" {
		return p, time.Time{}, nil
	}
	now, ends, err = au.cfg.Recheck(ctx, p)
	if code := haft.CodeOf(err); err != nil && (code == haft.CodeUnauthenticated || code == haft.CodeDenied) {
		err = &withdrawal{haft.MessageOf(err)}
	}
	return now, ends, err
}

// confirm has a call that was kept, or during whose start something was changed, go on
// with what its credential stands for now.
func (au *authorizer) confirm(ctx context.Context, ex *execution) error {
	now, _, err := au.principalNow(ctx, ex.call.Principal)
	if err != nil {
		return refuseWithdrawn(err)
	}
	ex.call.Principal, ex.confirm = now, false
	return nil
}

// outdated decides again about a call that is about to run if permissions were changed
// since it came in, each time that it is asked: the call has been given more since the last
// time, by the rules of when it came in. Preconditions: its arguments are those that will run.
func (au *authorizer) outdated(ctx context.Context, ex *execution) error {
	if ex.seen == au.permissions.changes.Load() {
		return nil
	}
	return refuseWithdrawn(au.stillAllowed(ctx, ex.running()))
}

// renew decides again about a call that may have waited for its turn for long, if
// permissions were changed since it came in: rules of now say whether a person has to
// agree, and which filters hold.
func (au *authorizer) renew(ctx context.Context, ex *execution) error {
	if ex.seen == au.permissions.changes.Load() {
		return nil
	}
	rules, err := au.orgs.Policy(ctx, ex.call.Principal.Org)
	if err != nil {
		return err
	}
	args := ex.decided
	ex.rules, ex.decided = rules, jsontree.Document{}
	return refuseWithdrawn(withdrawn(au.decide(ex, args)))
}

// refuseWithdrawn makes a refusal of a [*withdrawal]. Other errors stay what they are.
func refuseWithdrawn(err error) error {
	if w, ok := errors.AsType[*withdrawal](err); ok {
		return refuse(haft.StatusDenied, haft.FailDenied, haft.RetryNever, w.Error())
	}
	return err
}

// stillAllowed decides about a call as if it came now, and returns a [*withdrawal] if
// it is denied. Approvals that were given stay good: that a rule asks for one now is no
// denial. Before its arguments are final, rules of the agent may yet fill some in, and
// what policy says of them does not count. Once they are, the version that runs counts,
// and what it was given: a fresh call that would be given less ends it.
//
// What bounds how often or in which order calls are made (rates, quotas, circuits,
// blocks after failures, tool rules of a turn, a stop that lets calls end) was asked
// when the call came in, and is not asked again.
func (au *authorizer) stillAllowed(ctx context.Context, r running) error {
	c, seen := r.call, au.permissions.changes.Load()
	now, _, err := au.principalNow(ctx, c.Principal)
	if err != nil || r.fresh {
		return err
	}
	c.Principal, c.Digest = now, cmp.Or(r.granted.digest, c.Digest)
	probe := &execution{call: c, arrival: arrival{probe: true, seen: seen}}
	probe.rec.Call.Digest = r.pinned
	if err := au.resolve(ctx, probe); err != nil {
		return withdrawn(err)
	}
	if !probe.tool.For(now) {
		return &withdrawal{"the tool is for callers with a certain role"}
	}
	if probe.rules, err = au.orgs.Policy(ctx, now.Org); err != nil {
		return err
	}
	args, failure := probe.tool.FitRead(probe.readArgs())
	if failure != nil {
		args = jsontree.OrEmpty(probe.readArgs()) // of another version; what does not fit is no question of permission
	}
	if !r.final && probe.agent != nil && len(probe.agent.Rules) > 0 {
		return nil
	}
	if err := au.decide(probe, args); err != nil || r.granted.digest == "" {
		return withdrawn(err)
	}
	return au.stillGranted(ctx, probe, r.granted)
}

// withdrawn makes a [*withdrawal] of an error that says that a call is denied, or that
// its tool is gone. Other errors say nothing about permissions.
func withdrawn(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok {
		if r.status == haft.StatusDenied && r.failure.Kind == haft.FailDenied {
			return &withdrawal{r.failure.Message}
		}
		return nil
	}
	switch haft.CodeOf(err) {
	case haft.CodeDenied, haft.CodeNotFound:
		return &withdrawal{haft.MessageOf(err)}
	case haft.CodeInvalid, haft.CodeConflict:
		return nil
	}
	return err
}

// isWithdrawn reports whether err is a withdrawal, or the end of a request because of
// one.
func isWithdrawn(err error) bool {
	_, ok := errors.AsType[*withdrawal](err)
	return ok || haft.CodeOf(err) == haft.CodeUnauthenticated
}

// withdrawalOf returns why the permission for what has ctx was withdrawn, or nil. A
// server ends the request of a credential with the error that it tells the caller.
func withdrawalOf(ctx context.Context) *withdrawal {
	if ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if w, ok := errors.AsType[*withdrawal](cause); ok {
		return w
	}
	if code := haft.CodeOf(cause); code == haft.CodeUnauthenticated || code == haft.CodeDenied {
		return &withdrawal{haft.MessageOf(cause)}
	}
	return nil
}

// withdrawnResult is what became of a call whose permission was withdrawn while it was
// on its way, or nil if it was not, or if the tool had ended by itself.
func (au *authorizer) withdrawnResult(ctx context.Context, ex *execution, res *haft.Result, err error) *haft.Result {
	w := withdrawalOf(ctx)
	if w == nil && res.Status == haft.StatusCancelled && errors.Is(context.Cause(ctx), context.Canceled) &&
		ex.seen != au.permissions.changes.Load() {
		// Whoever waited for it has left at the same moment, perhaps for this reason.
		late := context.WithoutCancel(ctx)
		if err := au.stillAllowed(late, ex.running()); err != nil {
			w, _ = errors.AsType[*withdrawal](err)
		}
	}
	switch {
	case w == nil:
		return nil
	case ex.begun && (err != nil || res.Status == haft.StatusCancelled):
		ended := ex.failed(haft.StatusCancelled, haft.FailCancelled, w.Error())
		if ex.res != nil { // with what it printed and used until then
			failure := ended.Error
			*ended = *ex.res
			ended.Status, ended.Error, ended.Value = haft.StatusCancelled, failure, json.RawMessage("null")
		}
		return ended
	case !ex.begun && (err != nil && !decided(err) || res.Status == haft.StatusPending):
		return ex.failed(haft.StatusDenied, haft.FailDenied, w.Error())
	}
	return nil
}

// decided reports whether a stage had said why the call does not go on, before or
// while its permission was withdrawn. Then that is what the caller is told.
func decided(err error) bool {
	if _, ok := errors.AsType[*refusal](err); ok {
		return true
	}
	switch haft.CodeOf(err) {
	case haft.CodeNotFound, haft.CodeInvalid, haft.CodeConflict:
		return true
	}
	return false
}
