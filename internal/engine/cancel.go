package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/authority"
	"haft/internal/followup"
	"haft/internal/store"
	"haft/sandbox"
)

// An operator cancels, stops and resumes calls.
type operator struct {
	cfg         *Config
	store       *store.Store
	authority   authority.Rules
	calls       *callTable
	entrance    *entrance
	permissions *permissions
	recorder    *recorder
	redaction   *redaction

	stopped atomic.Pointer[stopNote] // nil while calls are taken
}

// errCancelled is the cause of the end of a call that somebody cancelled.
var errCancelled = errors.New("the call was cancelled")

// errKilled is the cause of the end of a call when an operator ends all at once.
var errKilled = fmt.Errorf("%w: %w", errCancelled, sandbox.ErrNoGrace)

// Unwrap says that a tool without permission is ended at once.
func (w *withdrawal) Unwrap() error { return sandbox.ErrNoGrace }

// Cancel implements [haft.Caller]. It is for whoever made the call and for managers.
// Those who answer requests for approval see the call and refuse it by [Engine.Decide],
// which asks whether they may.
func (o *operator) Cancel(ctx context.Context, p haft.Principal, id haft.CallID) error {
	if err := o.authority.May(p, haft.CallsWrite); err != nil {
		return err
	}
	if o.calls.cancelExecution(id, func(q haft.Principal) bool {
		return o.authority.Authorize(p, haft.CallsWrite, authority.Owned("call", q)) == nil
	}) {
		return nil
	}
	r, err := o.entrance.Seen(ctx, p, id, haft.CallsRead, haft.CallsWrite)
	if err != nil {
		return err
	}
	if err := o.authority.Authorize(p, haft.CallsWrite, authority.Owned("", r.Call.Principal)); err != nil {
		return &haft.Error{Code: haft.CodeDenied, Message: "a call is cancelled by who made it or by a manager; an " +
			"approver refuses its request instead", Err: err}
	}
	return o.recorder.cancel(ctx, r)
}

// errElsewhere says that a call cannot be cancelled here.
var errElsewhere = &haft.Error{Code: haft.CodeUnavailable, Message: "the call runs on another server: cancel it there"}

// cancel closes a call that waits, or stops it if it is on its way here: it may begin, or be agreed to, in this moment.
func (w *recorder) cancel(ctx context.Context, r *haft.Record) error {
	id, p := r.Call.ID, r.Call.Principal
	for tries := 3; ; tries-- {
		switch {
		case w.calls.cancelExecution(id, func(q haft.Principal) bool {
			return q.Org == p.Org && q.Owner() == p.Owner()
		}):
			return nil
		case r.Status.Final():
			return nil
		case tries == 0:
			return errElsewhere
		}
		err := w.drop(ctx, r, haft.StatusCancelled, haft.FailCancelled, "the call was cancelled")
		if !errors.Is(err, errOvertaken) {
			return err
		}
		if r, err = w.store.Calls.Record(ctx, p.Org, id); err != nil {
			return err
		}
	}
}

// endCancelled closes a call that was cancelled and has not ended: its execution left it to wait for a person or for a
// place, or somebody else did, or the store did not answer. Precondition: nobody can cancel the execution any more.
func (w *recorder) endCancelled(ctx context.Context, ex *execution) {
	if !ex.cancelled || ex.result != nil && ex.result.Status != haft.StatusPending {
		return
	}
	ctx, stop := context.WithTimeout(ctx, recordWait)
	defer stop()
	r, err := w.store.Calls.Record(ctx, ex.call.Principal.Org, ex.call.ID)
	if err == nil && r.Created.UnixMicro() == ex.rec.Created.UnixMicro() { // else it is not the call that was meant
		err = w.cancel(ctx, r)
	}
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		w.redaction.logOf(ex).Error("a call that was cancelled still waits", "call", ex.call.ID, "error", err)
	}
}

// drop closes a call that has not begun. One that has begun meanwhile goes on, and the error says so.
func (w *recorder) drop(ctx context.Context, r *haft.Record, status haft.Status, kind haft.FailureKind,
	message string) error {
	if r.Status == haft.StatusRunning {
		return overtaken()
	}
	ex, err := w.seals.unseal(r)
	if err != nil { // what cannot be opened can still be closed
		ex = w.seals.bareExecution(r)
	}
	res := ex.failed(status, kind, message)
	w.completeResult(ex, res)
	return w.close(ctx, ex, res)
}

// close writes the end of a call that nobody has in hand, and of the requests for its approval.
func (w *recorder) close(ctx context.Context, ex *execution, res *haft.Result) error {
	asked, err := w.store.Approvals.PendingOf(ctx, ex.rec.Call.Principal.Org, ex.rec.Call.ID)
	if err != nil {
		return err
	}
	for i := range asked { // unless somebody answers right now, who is first then
		asked[i].State, asked[i].Decided, asked[i].Reason = haft.ApprovalExpired, time.Now(), res.Error.Message
	}
	if ex.rec.Status.Final() { // an older version of this program left requests behind
		return w.store.Commit(ctx, store.Batch{Approvals: asked})
	}
	res.Tool, res.Digest = ex.rec.Call.Tool, ex.rec.Digest
	waits := ex.rec.Status != haft.StatusRunning
	ex.rec.Status, ex.rec.Ended, ex.rec.Result, ex.rec.Sealed = res.Status, time.Now(), res, nil
	ex.rec.ResultDigest = w.digests.Digest("result", res.Value)
	rec := ex.rec
	if waits {
		rec.Owner = "" // the store then refuses it if the call has begun, in this process too
	}
	part := &store.Batch{Records: []haft.Record{rec}, Approvals: asked,
		Audit: []audit.Entry{w.entry(ex, "call.closed", w.endedBody(ex, res))}}
	err = w.publish(ctx, ex, haft.EventCompleted, followup.Ended{Status: res.Status, Error: res.Error}, part)
	w.chains.Push(ex.rec.Call.Principal.Org, ex.rec.Call.Chain) // which goes on, or ends, without it
	return err
}

// CancelAll implements [haft.Operator]. Of is a user, an agent or the credential of
// a caller without a user; who does not manage names what is their own.
func (o *operator) CancelAll(ctx context.Context, p, of haft.Principal) (int, error) {
	if of.Org == "" {
		of.Org = p.Org
	}
	if err := o.authority.Authorize(p, haft.CallsWrite, authority.Owned("", of)); err != nil {
		return 0, &haft.Error{Code: haft.CodeOf(err),
			Message: "only a manager cancels calls of others: " + haft.MessageOf(err), Err: err}
	}
	who := of.Owner()
	these := func(q haft.Principal) bool {
		return q.Org == of.Org && (who == "" || q.Owner() == who) && (of.Agent == "" || q.Agent == of.Agent)
	}
	cancelled := o.calls.cancelExecutions(errCancelled, these)
	o.cfg.Killed("its calls were cancelled", these)
	err := o.cancelWaiting(ctx, haft.CallFilter{Org: of.Org, User: who, Agent: of.Agent,
		Status: []haft.Status{haft.StatusQueued, haft.StatusPending, haft.StatusRunning}, Limit: 200}, cancelled)
	// What waited may have begun meanwhile, in the places of what has ended.
	maps.Copy(cancelled, o.calls.cancelExecutions(errCancelled, these))
	return len(cancelled), err
}

// cancelWaiting cancels the calls that fit a filter, and adds them to those that are cancelled already. It returns
// [errElsewhere] if others run on another server.
func (o *operator) cancelWaiting(ctx context.Context, f haft.CallFilter, cancelled map[haft.CallID]bool) error {
	for elsewhere := error(nil); ; {
		records, err := o.store.Calls.Records(ctx, f)
		if err != nil || len(records) == 0 {
			return cmp.Or(err, elsewhere)
		}
		for _, r := range records {
			f.Before = r.Call.ID
			full, err := o.store.Calls.Record(ctx, f.Org, r.Call.ID)
			if err == nil && !full.Status.Final() {
				if err = o.recorder.cancel(ctx, full); err == nil {
					cancelled[r.Call.ID] = true
				}
			}
			if errors.Is(err, errElsewhere) {
				elsewhere = err
			} else if err != nil && haft.CodeOf(err) != haft.CodeConflict {
				return err
			}
		}
	}
}

// cancelExecution cancels a call that is on its way here for somebody that which says. It reports whether it is: then
// the call ends, or [pipeline.runCall] closes it.
func (t *callTable) cancelExecution(id haft.CallID, which func(haft.Principal) bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	ex := t.executions[id]
	if ex == nil || !which(ex.asked.Principal) {
		return false
	}
	ex.cancelled = true
	ex.cancel(errCancelled)
	return true
}

// cancelExecutions cancels what is on its way here for those that which says, and returns what that is.
func (t *callTable) cancelExecutions(cause error, which func(haft.Principal) bool) map[haft.CallID]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	cancelled := map[haft.CallID]bool{}
	for id, ex := range t.executions {
		if which(ex.asked.Principal) {
			ex.cancel(cause)
			ex.cancelled, cancelled[id] = true, true
		}
	}
	return cancelled
}

// A stopNote says why calls are refused.
type stopNote struct {
	Reason  string    `json:"reason"`
	By      string    `json:"by"`
	At      time.Time `json:"at"`
	Kill    bool      `json:"kill,omitempty"` // what runs was cancelled too
	leaving bool      // this process only, on its way out
}

// stopSetting is where the store keeps it.
const stopSetting = "stopped"

// Stop implements [haft.Operator].
func (o *operator) Stop(ctx context.Context, p haft.Principal, reason string, kill bool) error {
	if err := o.authority.Authorize(p, haft.Operate, authority.Resource{Server: true}); err != nil {
		return err
	}
	if reason == "" {
		reason = "the operator stopped them"
	}
	reason = o.redaction.env.StrictOf(ctx, p.Org).Text(reason) // callers of every organisation are told it
	note := &stopNote{Reason: reason, By: p.User, At: time.Now(), Kill: kill}
	raw, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode why calls are stopped: %w", err)
	}
	o.stopped.Store(note) // first: what cannot be written is stopped all the same
	if kill {
		o.kill(reason)
	}
	if err := o.store.Settings.PutSetting(ctx, stopSetting, string(raw)); err != nil {
		return err
	}
	return o.permissions.Log(ctx, p, "", "operator.stop", map[string]any{"reason": reason, "kill": kill})
}

// kill ends everything that runs here.
func (o *operator) kill(reason string) {
	o.calls.cancelExecutions(errKilled, func(haft.Principal) bool { return true })
	o.cfg.Killed(reason, func(haft.Principal) bool { return true })
}

// Resume implements [haft.Operator].
func (o *operator) Resume(ctx context.Context, p haft.Principal) error {
	if err := o.authority.Authorize(p, haft.Operate, authority.Resource{Server: true}); err != nil {
		return err
	}
	if err := o.store.Settings.PutSetting(ctx, stopSetting, ""); err != nil {
		return err
	}
	if err := o.permissions.Log(ctx, p, "", "operator.resume", nil); err != nil {
		return err
	}
	o.stopped.Store(nil)
	return nil
}

// Stopped returns why calls are refused, and whether they are.
func (o *operator) Stopped() (string, bool) {
	if note := o.stopped.Load(); note != nil {
		return note.Reason, true
	}
	return "", false
}

// readStop learns whether calls were stopped before the restart.
func (o *operator) readStop(ctx context.Context) error {
	text, err := o.store.Settings.Setting(ctx, stopSetting)
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	if text == "" {
		return nil
	}
	note := &stopNote{Reason: "the operator stopped them"}
	if err := json.Unmarshal([]byte(text), note); err != nil {
		o.cfg.Logger.Warn("why calls are stopped cannot be read", "error", err)
	}
	o.stopped.Store(note)
	return nil
}

// entry returns an entry of the audit that is not about a call.
func (pm *permissions) entry(ctx context.Context, p haft.Principal, kind string, body any) (audit.Entry, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return audit.Entry{}, fmt.Errorf("encode an entry of the audit: %w", err)
	}
	return audit.Entry{Org: p.Org, Time: time.Now(), Kind: kind, Actor: p,
		Body: pm.redaction.cleanBody(ctx, p.Org, raw)}, nil
}

// Log writes an entry of the audit that is not about a call, and has the calls of an
// organisation, or of all if it is empty, decided again. This is the one place that every
// change of permissions passes.
func (pm *permissions) Log(ctx context.Context, p haft.Principal, org, kind string, body any) error {
	if !audit.TakesNothing(kind) { // first: the change is made, and to write of it may take a while, or fail
		pm.orgs.Forget(org)
	}
	entry, err := pm.entry(ctx, p, kind, body)
	if err == nil {
		err = pm.store.Commit(ctx, store.Batch{Audit: []audit.Entry{entry}})
	}
	if audit.TakesNothing(kind) {
		if pm.cfg.Changed != nil {
			pm.cfg.Changed(org)
		}
		return err
	}
	if pm.store.Shared() {
		if failed := pm.store.Settings.MarkChange(ctx, org); failed != nil {
			err = errors.Join(err, &haft.Error{Code: haft.CodeUnavailable,
				Message: "the change is made, and other servers of the database could not be told: do it again",
				Err:     failed})
		}
	}
	pm.permissionsChanged(org)
	return err
}
