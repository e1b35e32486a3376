package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/authority"
	"haft/internal/store"
)

// errCancelled is the cause of the end of a call that somebody cancelled.
var errCancelled = errors.New("the call was cancelled")

// Cancel implements [haft.Caller]. It is for whoever made the call and for managers.
// Those who answer requests for approval see the call and refuse it by [Engine.Decide],
// which asks whether they may.
func (e *Engine) Cancel(ctx context.Context, p haft.Principal, id haft.CallID) error {
	if err := e.authority.May(p, haft.CallsWrite); err != nil {
		return err
	}
	if ex := e.executionOf(id); ex != nil && e.authority.Authorize(p, haft.CallsWrite,
		authority.Owned("call", ex.asked.Principal)) == nil {
		ex.cancel(errCancelled)
		return nil
	}
	r, err := e.Seen(ctx, p, id, haft.CallsRead, haft.CallsWrite)
	if err != nil {
		return err
	}
	if err := e.authority.Authorize(p, haft.CallsWrite, authority.Owned("", r.Call.Principal)); err != nil {
		return &haft.Error{Code: haft.CodeDenied, Message: "a call is cancelled by who made it or by a manager; an " +
			"approver refuses its request instead", Err: err}
	}
	if r.Status.Final() {
		return nil
	}
	if r.Status == haft.StatusRunning {
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the call runs on another machine"}
	}
	return e.drop(ctx, r, haft.StatusCancelled, haft.FailCancelled, "the call was cancelled")
}

// drop closes a call that has not begun and is not on its way here.
func (e *Engine) drop(ctx context.Context, r *haft.Record, status haft.Status, kind haft.FailureKind,
	message string) error {
	ex, err := e.unseal(r)
	if err != nil { // what cannot be opened can still be closed
		ex = e.bareExecution(r)
	}
	var expired []haft.Approval
	if a, err := e.store.ApprovalOf(ctx, r.Call.Principal.Org, r.Call.ID); err == nil &&
		a.State == haft.ApprovalPending {
		a.State, a.Decided, a.Reason = haft.ApprovalExpired, time.Now(), message
		expired = append(expired, *a) // unless somebody answers right now, who is first then
	}
	res := ex.failed(status, kind, message)
	e.completeResult(ex, res)
	return e.close(ctx, ex, res, expired...)
}

// close writes the end of a call that has not begun, and what became of its request for
// approval.
func (e *Engine) close(ctx context.Context, ex *execution, res *haft.Result, answers ...haft.Approval) error {
	res.Tool, res.Digest = ex.rec.Call.Tool, ex.rec.Digest
	ex.rec.Status, ex.rec.Ended, ex.rec.Result, ex.rec.Sealed = res.Status, time.Now(), res, nil
	ex.rec.ResultDigest = e.digest("result", res.Value)
	part := &store.Batch{Records: []haft.Record{ex.rec}, Approvals: answers,
		Audit: []audit.Entry{e.entry(ex, "call.closed", e.endedBody(ex, res))}}
	return e.tell(ctx, ex, haft.EventCompleted, endedData{Status: res.Status, Error: res.Error}, part)
}

// CancelAll implements [haft.Operator]. Of is a user, an agent or the credential of
// a caller without a user; who does not manage names what is their own.
func (e *Engine) CancelAll(ctx context.Context, p, of haft.Principal) (int, error) {
	if of.Org == "" {
		of.Org = p.Org
	}
	if err := e.authority.Authorize(p, haft.CallsWrite, authority.Owned("", of)); err != nil {
		return 0, &haft.Error{Code: haft.CodeOf(err),
			Message: "only a manager cancels calls of others: " + haft.MessageOf(err), Err: err}
	}
	who := of.Owner()
	n := e.cancelExecutions(errCancelled, func(q haft.Principal) bool {
		return q.Org == of.Org && (who == "" || q.Owner() == who) && (of.Agent == "" || q.Agent == of.Agent)
	})
	filter := haft.CallFilter{Org: of.Org, User: who, Agent: of.Agent,
		Status: []haft.Status{haft.StatusQueued, haft.StatusPending}, Limit: 200}
	for {
		records, err := e.store.Records(ctx, filter)
		if err != nil || len(records) == 0 {
			return n, err
		}
		for _, r := range records {
			filter.Before = r.Call.ID
			if e.executionOf(r.Call.ID) != nil {
				continue
			}
			full, err := e.store.Record(ctx, of.Org, r.Call.ID)
			if err == nil && !full.Status.Final() {
				err = e.drop(ctx, full, haft.StatusCancelled, haft.FailCancelled, "the call was cancelled")
				n++
			}
			if err != nil && haft.CodeOf(err) != haft.CodeConflict {
				return n, err
			}
		}
	}
}

// cancelExecutions cancels what is on its way here for those that which says.
func (e *Engine) cancelExecutions(cause error, which func(haft.Principal) bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, ex := range e.executions {
		if which(ex.asked.Principal) {
			ex.cancel(cause)
			n++
		}
	}
	return n
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
func (e *Engine) Stop(ctx context.Context, p haft.Principal, reason string, kill bool) error {
	if err := e.authority.Authorize(p, haft.Operate, authority.Resource{Server: true}); err != nil {
		return err
	}
	if reason == "" {
		reason = "the operator stopped them"
	}
	reason = e.strictOf(ctx, p.Org).Text(reason) // callers of every organisation are told it
	note := &stopNote{Reason: reason, By: p.User, At: time.Now(), Kill: kill}
	raw, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode why calls are stopped: %w", err)
	}
	e.stopped.Store(note) // first: what cannot be written is stopped all the same
	if kill {
		e.cancelExecutions(errCancelled, func(haft.Principal) bool { return true })
	}
	if err := e.store.PutSetting(ctx, stopSetting, string(raw)); err != nil {
		return err
	}
	return e.Log(ctx, p, "", "operator.stop", map[string]any{"reason": reason, "kill": kill})
}

// Resume implements [haft.Operator].
func (e *Engine) Resume(ctx context.Context, p haft.Principal) error {
	if err := e.authority.Authorize(p, haft.Operate, authority.Resource{Server: true}); err != nil {
		return err
	}
	if err := e.store.PutSetting(ctx, stopSetting, ""); err != nil {
		return err
	}
	if err := e.Log(ctx, p, "", "operator.resume", nil); err != nil {
		return err
	}
	e.stopped.Store(nil)
	return nil
}

// Stopped returns why calls are refused, and whether they are.
func (e *Engine) Stopped() (string, bool) {
	if note := e.stopped.Load(); note != nil {
		return note.Reason, true
	}
	return "", false
}

// readStop learns whether calls were stopped before the restart.
func (e *Engine) readStop(ctx context.Context) error {
	text, err := e.store.Setting(ctx, stopSetting)
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	if text == "" {
		return nil
	}
	note := &stopNote{Reason: "the operator stopped them"}
	if err := json.Unmarshal([]byte(text), note); err != nil {
		e.cfg.Logger.Warn("why calls are stopped cannot be read", "error", err)
	}
	e.stopped.Store(note)
	return nil
}

// Log writes an entry of the audit that is not about a call, and has the calls of an
// organisation, or of all if it is empty, decided again. This is the one place that every
// change of permissions passes.
func (e *Engine) Log(ctx context.Context, p haft.Principal, org, kind string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode an entry of the audit: %w", err)
	}
	entry := audit.Entry{Org: p.Org, Time: time.Now(), Kind: kind, Actor: p, Body: e.cleanBody(ctx, p.Org, raw)}
	err = e.store.Commit(ctx, store.Batch{Audit: []audit.Entry{entry}})
	if takesNothing(kind) {
		if e.cfg.Changed != nil {
			e.cfg.Changed(org)
		}
		return err
	}
	if e.store.Shared() {
		if told := e.store.MarkChange(ctx, org); told != nil {
			err = errors.Join(err, &haft.Error{Code: haft.CodeUnavailable,
				Message: "the change is made, and other servers of the database could not be told: do it again",
				Err:     told})
		}
	}
	e.permissionsChanged(org)
	return err
}
