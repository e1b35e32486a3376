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
	"haft/audit"
	"haft/policy"
	"haft/store"
)

// asError returns the coded error that err is or wraps.
func asError(err error) (*haft.Error, bool) { return errors.AsType[*haft.Error](err) }

// leave is the one way out: whatever became of the call, it is redacted, written
// down and told here, and only then does the caller hear of it.
func (e *Engine) leave(ctx context.Context, f *flight, err error) (*haft.Result, error) {
	if e.overtaken(ctx, err) {
		return e.fromOthers(ctx, f, err)
	}
	if e.postpones(ctx, f, err) {
		e.journal.forget(f.call.ID)
		e.endTrace(f, nil, errPostponed)
		return nil, fmt.Errorf("%w: %w", errPostponed, err)
	}
	if errors.Is(err, errLabel) {
		return nil, e.refuseLabel(context.WithoutCancel(ctx), f, err)
	}
	waiting, stages := ctx, err
	ctx = context.WithoutCancel(ctx) // what happened is written also when the caller has left
	res, err := e.outcome(f, err)
	if ended := e.withdrawnResult(waiting, f, res, stages); ended != nil {
		res, err = ended, nil
	}
	if res.Status == haft.StatusPending {
		return e.park(ctx, f, res)
	}
	if f.begun && res.Status != haft.StatusSuccess {
		f.release() // another call may stand in, which needs what this one holds
		res = e.rescue(ctx, f, res)
	}
	e.screen(waiting, f, res)
	e.finish(f, res)
	err = f.cleanError(err)
	if werr := e.record(ctx, waiting, f, res); werr != nil {
		if e.overtaken(waiting, werr) {
			return e.fromOthers(ctx, f, werr)
		}
		return nil, e.unrecorded(ctx, f, werr)
	}
	if !f.begun && !res.Cached {
		e.unclaim(ctx, f) // nothing ran: the key may be used again
	}
	e.react(ctx, f, res)
	e.endTrace(f, res, err)
	if err != nil {
		return nil, err
	}
	return res, nil
}

// endTrace tells the observer.
func (e *Engine) endTrace(f *flight, res *haft.Result, err error) {
	if f.trace != nil {
		f.trace.End(res, err)
	}
}

// outcome makes a result of what the stages came to. The error is what the caller
// gets instead of the result, where the contract of [haft.Caller] wants one.
func (e *Engine) outcome(f *flight, err error) (*haft.Result, error) {
	var r *refusal
	switch {
	case err == nil, errors.Is(err, errSettled):
		return f.res, nil
	case errors.As(err, &r):
		res := f.failed(r.status, r.failure.Kind, r.failure.Message)
		res.Error = &r.failure
		return res, nil
	case errors.Is(err, context.DeadlineExceeded):
		return f.failed(haft.StatusTimeout, haft.FailTimeout, "the deadline of the call has passed"), nil
	case errors.Is(err, context.Canceled), errors.Is(err, errCancelled), errors.Is(err, errClosing), isWithdrawn(err):
		return f.failed(haft.StatusCancelled, haft.FailCancelled, "the call was cancelled"), nil
	case errors.Is(err, errPanic) && f.begun:
		return f.failed(haft.StatusUnknown, haft.FailUnknown, "nobody can know whether the tool ran"), nil
	}
	return e.coded(f, err)
}

// coded makes a result of an error with a code, or of a fault of ours.
func (e *Engine) coded(f *flight, err error) (*haft.Result, error) {
	message := haft.MessageOf(err)
	switch haft.CodeOf(err) {
	case haft.CodeNotFound:
		return f.failed(haft.StatusValidation, haft.FailNotFound, message), err
	case haft.CodeDenied:
		kind := haft.FailDenied
		if f.begun {
			kind = haft.FailIsolation // of the executor, which could not give what is demanded
		}
		return f.failed(haft.StatusDenied, kind, message), nil
	case haft.CodeInvalid:
		return f.failed(haft.StatusValidation, haft.FailValidation, message), nil
	case haft.CodeConflict:
		return f.failed(haft.StatusValidation, haft.FailValidation, message), err
	}
	e.logOf(f).Error("a call failed inside haft", "call", f.call.ID, "error", err)
	res := f.failed(haft.StatusError, haft.FailInternal, message)
	res.Error.Retry = haft.RetrySame
	if f.begun {
		return res, nil
	}
	return res, err
}

// finish completes a result and redacts it.
func (e *Engine) finish(f *flight, res *haft.Result) {
	res.Call, res.Tool, res.Tries = f.call.ID, f.named().Tool, f.rec.Tries
	if res.Digest = ""; f.tool != nil {
		res.Digest = f.tool.Tool.Version.Digest
	}
	if res.Approval = ""; f.approval != nil {
		res.Approval = f.approval.ID
	}
	if res.Value == nil {
		res.Value = json.RawMessage("null")
	}
	t := &f.timeline
	res.Timeline.Queue, res.Timeline.Policy, res.Timeline.Validate = t.Queue, t.Policy, t.Validate
	res.Timeline.Approval = t.Approval
	res.Timeline.Serialise += t.Serialise
	res.Timeline.Total = haft.Millis(time.Since(f.began))
	res.Notices = f.notices
	if res.Error != nil && res.Error.Severity == "" {
		res.Error.Severity = e.severity(f, res.Error.Kind)
	}
	f.redactResult(res)
}

// severity says how bad a failure is.
func (e *Engine) severity(f *flight, kind haft.FailureKind) haft.Severity {
	if f.rules != nil && f.tool != nil {
		return f.rules.Severity(f.tool.Tool, kind)
	}
	return policy.SeverityOf(kind)
}

// endedData is what the last event of a call says.
type endedData struct {
	Status haft.Status   `json:"status"`
	Error  *haft.Failure `json:"error,omitempty"`
	Wall   haft.Millis   `json:"wall_ms"`
	CPU    *haft.Millis  `json:"cpu_ms"`
	MaxRSS *int64        `json:"max_rss_bytes"`
	Queue  haft.Millis   `json:"queue_ms,omitempty"`
	Total  haft.Millis   `json:"total_ms"`
	Tries  int           `json:"tries,omitempty"`
	Cached bool          `json:"cached,omitempty"`
}

// park writes down that the call waits for a person.
func (e *Engine) park(ctx context.Context, f *flight, res *haft.Result) (*haft.Result, error) {
	sealed, err := e.seal(f)
	if err != nil {
		return nil, err
	}
	e.finish(f, res)
	f.rec.Status, f.rec.Sealed, f.rec.Result = haft.StatusPending, sealed, res
	body := map[string]any{"approval": f.approval.ID, "binds": f.approval.Binds, "rule": f.approval.Rule, "expires": f.approval.Expires}
	part := &store.Batch{
		Records: []haft.Record{f.rec}, Approvals: []haft.Approval{*f.approval}, Limits: rows(f.taken), Keys: f.keysHeld(),
		Audit: []audit.Entry{e.entry(f, "approval.requested", body)},
	}
	data := map[string]any{"approval_id": f.approval.ID, "args": f.approval.Args, "expires_at": f.approval.Expires, "rule": f.approval.Rule, "terms": f.approval.Terms}
	if err := e.tell(ctx, f, haft.EventApproval, data, part); err != nil {
		return nil, err // it keeps its key: it may be in the store all the same
	}
	e.endTrace(f, res, nil)
	return res, nil
}

// rescue asks the recoveries, then the tool's fallback, for another result.
func (e *Engine) rescue(ctx context.Context, f *flight, res *haft.Result) *haft.Result {
	if res.Error == nil || res.Status == haft.StatusCancelled {
		return res
	}
	for _, r := range e.cfg.Recoveries {
		if r.Tool != "" && r.Tool != f.tool.Tool.Name || r.Kind != "" && r.Kind != res.Error.Kind {
			continue
		}
		if other := r.Recover(ctx, f.call, res); other != nil {
			f.notices = append(f.notices, "recovered from "+string(res.Error.Kind))
			return other
		}
	}
	name := f.tool.Tool.Version.Settings.Fallback
	if name == "" || f.depth >= maxDepth {
		return res
	}
	c := haft.Call{Tool: name, Args: f.call.Args, Principal: f.call.Principal, Deadline: f.call.Deadline, Env: f.call.Env,
		Limits: f.call.Limits, Parent: f.call.ID, Turn: f.call.Turn, Chain: f.call.Chain, Trace: f.call.Trace}
	child, err := e.enter(c)
	if err != nil {
		return res
	}
	child.depth, child.seen = f.depth+1, f.seen
	other, err := e.fly(ctx, child)
	if err != nil || other.Status != haft.StatusSuccess {
		return res
	}
	copied := *other
	copied.Error = nil
	copied.Content, copied.Artifacts = slices.Clone(other.Content), slices.Clone(other.Artifacts) // those who see the other call have its own
	f.notices = append(f.notices, fmt.Sprintf("%s failed with %s; its fallback %s answered as call %s", f.tool.Tool.Name, res.Error.Kind, name, other.Call))
	return &copied
}

// maxDepth is how far fallbacks of fallbacks go.
const maxDepth = 3

// react does what the severity of a failure demands.
func (e *Engine) react(ctx context.Context, f *flight, res *haft.Result) {
	if res.Error == nil {
		return
	}
	if f.begun && res.Error.Severity == haft.SeverityCritical {
		e.blocks.add(f)
		e.logOf(f).Warn("a critical failure: the caller cannot use the tool for a while", "call", f.call.ID, "tool", res.Tool, "org", f.call.Principal.Org, "kind", res.Error.Kind)
	}
	if hook := e.cfg.OnFailure[res.Error.Severity]; hook != nil {
		hook(ctx, f.rec)
	}
}

// entry makes an entry of the audit about a flight.
func (e *Engine) entry(f *flight, kind string, body any) audit.Entry {
	raw, err := json.Marshal(body)
	if err != nil { // of our own types: cannot be
		raw = json.RawMessage(`{"error":"the body cannot be encoded"}`)
	}
	raw, _ = f.redactor.JSON(raw)
	named := f.named()
	return audit.Entry{
		Org: f.call.Principal.Org, Time: time.Now(), Kind: kind, Actor: named.Principal,
		Call: f.call.ID, Tool: named.Tool, Digest: f.rec.Digest, Body: raw,
	}
}

// startedBody is what the audit says when a call begins.
func (e *Engine) startedBody(f *flight) any {
	b := struct {
		Effect   policy.Effect   `json:"effect"`
		Rule     string          `json:"rule,omitempty"`
		Policy   string          `json:"policy,omitempty"`
		Approval haft.ApprovalID `json:"approval,omitempty"`
		Digest   string          `json:"args_digest"`
		Args     json.RawMessage `json:"args,omitempty"`
		Parent   haft.CallID     `json:"parent,omitempty"`
	}{Effect: f.decision.Effect, Rule: f.decision.Rule, Policy: f.rules.Digest(), Digest: f.rec.ArgsDigest, Parent: f.call.Parent}
	if f.approval != nil {
		b.Approval = f.approval.ID
	}
	if e.cfg.AuditArgs {
		b.Args = f.rec.Call.Args
	}
	return b
}

// endedBody is what the audit says when a call ends.
func (e *Engine) endedBody(f *flight, res *haft.Result) any {
	b := struct {
		Status    haft.Status      `json:"status"`
		Kind      haft.FailureKind `json:"kind,omitempty"`
		Rule      string           `json:"rule,omitempty"`
		Args      string           `json:"args_digest"`
		Result    string           `json:"result_digest"`
		Tries     int              `json:"tries,omitempty"`
		Provider  string           `json:"provider,omitempty"`
		Isolation haft.Level       `json:"isolation,omitempty"`
		Wall      haft.Millis      `json:"wall_ms,omitempty"`
		Total     haft.Millis      `json:"total_ms"`
		Withdrawn string           `json:"withdrawn,omitempty"` // why its permission is gone
		Notices   []string         `json:"notices,omitempty"`
		Contacts  []Contact        `json:"connections,omitempty"`
		Connected int              `json:"connections_count,omitempty"`
	}{
		Status: res.Status, Rule: f.decision.Rule, Args: f.rec.ArgsDigest, Result: f.rec.ResultDigest, Tries: res.Tries,
		Provider: res.Sandbox.Provider, Isolation: res.Sandbox.Isolation.Level, Wall: res.Usage.Wall,
		Total: res.Timeline.Total, Notices: slices.Clone(res.Notices), Contacts: f.keptContacts(), Connected: len(f.contacts),
	}
	if res.Error != nil {
		b.Kind = res.Error.Kind
		if why, ok := strings.CutPrefix(res.Error.Message, withdrawnPrefix); ok {
			b.Withdrawn = why
		}
	}
	return b
}
