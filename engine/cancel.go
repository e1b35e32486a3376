package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"haft"
	"haft/audit"
	"haft/store"
)

// errCancelled is the cause of the end of a call that somebody cancelled.
var errCancelled = errors.New("the call was cancelled")

// Cancel implements [haft.Caller].
func (e *Engine) Cancel(ctx context.Context, p haft.Principal, id haft.CallID) error {
	r, err := e.seen(ctx, p, id)
	if f := e.flying(id); f != nil && mayTouch(e, p, f.call.Principal) {
		f.cancel(errCancelled)
		return nil
	}
	if err != nil {
		return err
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
func (e *Engine) drop(ctx context.Context, r *haft.Record, status haft.Status, kind haft.FailureKind, message string) error {
	f, err := e.unseal(r)
	if err != nil { // what cannot be opened can still be closed
		f = &flight{call: r.Call, rec: *r, began: time.Now(), done: make(chan struct{}), redactor: e.plain}
	}
	if a, err := e.store.ApprovalOf(ctx, r.Call.Principal.Org, r.Call.ID); err == nil && a.State == haft.ApprovalPending {
		a.State, a.Decided, a.Reason = haft.ApprovalExpired, time.Now(), message
		if err := e.store.MoveApproval(ctx, r.Call.Principal.Org, a.ID, haft.ApprovalPending, *a); err != nil {
			return err // somebody answers right now
		}
	}
	res := f.failed(status, kind, message)
	e.finish(f, res)
	return e.close(ctx, f, res)
}

// close writes the end of a call that has not begun.
func (e *Engine) close(ctx context.Context, f *flight, res *haft.Result) error {
	res.Tool, res.Digest = f.rec.Call.Tool, f.rec.Digest
	f.rec.Status, f.rec.Ended, f.rec.Result, f.rec.Sealed = res.Status, time.Now(), res, nil
	f.rec.ResultDigest = e.digest("result", res.Value)
	part := &store.Batch{Records: []haft.Record{f.rec}, Audit: []audit.Entry{e.entry(f, "call.closed", e.endedBody(f, res))}}
	return e.tell(ctx, f, haft.EventCompleted, endedData{Status: res.Status, Error: res.Error}, part)
}

// mayTouch reports whether p may act on what belongs to owner: it is p's own, or
// p manages the organisation.
func mayTouch(e *Engine, p, owner haft.Principal) bool {
	if p.Org != owner.Org {
		return false
	}
	if e.manages(p) {
		return true
	}
	return p.User == owner.User && (p.Agent == "" || p.Agent == owner.Agent)
}

// manages reports whether p may change tools, agents and policies.
func (e *Engine) manages(p haft.Principal) bool {
	if p.Agent != "" {
		return false // an agent acts for somebody, and manages nothing
	}
	return slices.ContainsFunc(p.Roles, func(r string) bool { return slices.Contains(e.cfg.Managers, r) })
}

// manager returns the error for somebody who may not manage.
func (e *Engine) manager(p haft.Principal) error {
	if err := p.Check(); err != nil {
		return err
	}
	if !e.manages(p) {
		return &haft.Error{Code: haft.CodeDenied, Message: fmt.Sprintf("this is for callers with one of the roles %v", e.cfg.Managers)}
	}
	return nil
}

// CancelAll implements [haft.Operator].
func (e *Engine) CancelAll(ctx context.Context, p, of haft.Principal) (int, error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	if of.Org == "" {
		of.Org = p.Org
	}
	if of.Org != p.Org || !e.manages(p) && (of.User != p.User || of.User == "") {
		return 0, &haft.Error{Code: haft.CodeDenied, Message: "only a manager cancels calls of others"}
	}
	n := e.cancelFlights(errCancelled, func(q haft.Principal) bool {
		return q.Org == of.Org && (of.User == "" || q.User == of.User) && (of.Agent == "" || q.Agent == of.Agent)
	})
	filter := haft.CallFilter{Org: of.Org, User: of.User, Agent: of.Agent, Status: []haft.Status{haft.StatusQueued, haft.StatusPending}, Limit: 200}
	for {
		records, err := e.store.Records(ctx, filter)
		if err != nil || len(records) == 0 {
			return n, err
		}
		for _, r := range records {
			filter.Before = r.Call.ID
			if e.flying(r.Call.ID) != nil {
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

// cancelFlights cancels what is on its way here for those that which says.
func (e *Engine) cancelFlights(cause error, which func(haft.Principal) bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, f := range e.flights {
		if which(f.call.Principal) {
			f.cancel(cause)
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
	leaving bool      // this process only, on its way out
}

// stopSetting is where the store keeps it.
const stopSetting = "stopped"

// Stop implements [haft.Operator].
func (e *Engine) Stop(ctx context.Context, p haft.Principal, reason string, kill bool) error {
	if err := e.manager(p); err != nil {
		return err
	}
	if reason == "" {
		reason = "the operator stopped them"
	}
	note := &stopNote{Reason: reason, By: p.User, At: time.Now()}
	raw, err := json.Marshal(note)
	if err != nil {
		return fmt.Errorf("encode why calls are stopped: %w", err)
	}
	e.stopped.Store(note) // first: what cannot be written is stopped all the same
	if kill {
		e.cancelFlights(errCancelled, func(haft.Principal) bool { return true })
	}
	if err := e.store.PutSetting(ctx, stopSetting, string(raw)); err != nil {
		return err
	}
	return e.log(ctx, p, "operator.stop", map[string]any{"reason": reason, "kill": kill})
}

// Resume implements [haft.Operator].
func (e *Engine) Resume(ctx context.Context, p haft.Principal) error {
	if err := e.manager(p); err != nil {
		return err
	}
	if err := e.store.PutSetting(ctx, stopSetting, ""); err != nil {
		return err
	}
	if err := e.log(ctx, p, "operator.resume", nil); err != nil {
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

// log writes an entry of the audit that is not about a call.
func (e *Engine) log(ctx context.Context, p haft.Principal, kind string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode an entry of the audit: %w", err)
	}
	entry := audit.Entry{Org: p.Org, Time: time.Now(), Kind: kind, Actor: p, Body: raw}
	err = e.store.Commit(ctx, store.Batch{Audit: []audit.Entry{entry}})
	if e.cfg.Changed != nil {
		e.cfg.Changed(p.Org) // whatever it was: others look themselves
	}
	return err
}
