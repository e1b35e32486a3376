package engine

import (
	"context"
	"errors"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/authority"
	"haft/internal/store"
	"haft/policy"
)

// Answerable reports whether p could answer a request: a rule may name others than
// those who usually do.
func (e *Engine) Answerable(ctx context.Context, p haft.Principal, a haft.Approval) bool {
	if p.Agent != "" || p.User == "" {
		return false
	}
	rec, err := e.store.Record(ctx, p.Org, a.Call)
	if err != nil {
		return false
	}
	ex, err := e.unseal(rec)
	if err != nil {
		return false
	}
	return e.judge(ctx, ex, &a, p, haft.Answer{Approve: true}) == nil
}

// Answer writes what p says to a request that p may see, and has its call go on or ends
// it. Who may answer is decided by the policy of now, with the arguments that are agreed to.
func (e *Engine) Answer(ctx context.Context, p haft.Principal, a *haft.Approval,
	answer haft.Answer) (*haft.Approval, error) {
	if a.State != haft.ApprovalPending {
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "the request is " + string(a.State) + " already"}
	}
	rec, err := e.store.Record(ctx, p.Org, a.Call)
	if err != nil {
		return nil, err
	}
	if !time.Now().Before(a.Expires) {
		if err := e.expire(ctx, rec); err != nil {
			return nil, err
		}
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "the request has expired"}
	}
	ex, err := e.unseal(rec)
	if err != nil {
		return nil, err
	}
	if now, _, err := e.principalNow(ctx, ex.call.Principal); err == nil {
		ex.call.Principal = now
	} else if w, ok := errors.AsType[*withdrawal](err); ok {
		if err := e.dropWithdrawn(ctx, rec, w); err != nil {
			return nil, err
		}
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "the request has ended: " + w.Error()}
	} else {
		return nil, err
	}
	if err := e.judge(ctx, ex, a, p, answer); err != nil {
		return nil, err
	}
	return e.answer(ctx, ex, a, p, answer)
}

// judge looks at the call as it would run, with the arguments of the answer, and
// at whether p may answer.
func (e *Engine) judge(ctx context.Context, ex *execution, a *haft.Approval, p haft.Principal,
	answer haft.Answer) error {
	ex.call.Digest = ex.rec.Digest // the version that was shown
	if err := e.resolve(ctx, ex); err != nil {
		return asCoded(err)
	}
	rules, err := e.policyOf(ctx, p.Org)
	if err != nil {
		return err
	}
	ex.rules = rules
	edited := len(answer.Args) > 0
	if edited {
		if !answer.Approve {
			return &haft.Error{Code: haft.CodeInvalid, Message: "arguments are changed by agreeing, not by refusing"}
		}
		ex.call.Args = answer.Args
	}
	if err := e.validate(ctx, ex); err != nil {
		return asCoded(err)
	}
	d := rules.Decide(ex.request(ex.args))
	if d.Effect == policy.Allow {
		// It was asked for by a rule that is gone, or by the agent's tool rules.
		asking := ex.request(ex.args)
		asking.Tool.Version.Settings.RequiresApproval = true
		d = rules.Decide(asking)
	}
	ex.decision = d
	if d.Effect == policy.Deny && answer.Approve {
		return asCoded(denied(d))
	}
	if d.Effect == policy.Deny {
		// Refusing what is denied anyway is for managers.
		return e.authority.May(authority.Unconfined(p), haft.PoliciesWrite)
	}
	if err := d.MayApprove(p, a.Requester); err != nil {
		return err
	}
	return nil
}

// asCoded makes a coded error of a refusal, for callers that get no result.
func asCoded(err error) error {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		return err
	}
	code := haft.CodeInvalid
	switch r.status {
	case haft.StatusDenied, haft.StatusRejected:
		code = haft.CodeDenied
	case haft.StatusRate:
		code = haft.CodeRateLimited
	}
	return &haft.Error{Code: code, Message: r.failure.Message, Misfits: r.failure.Misfits, Err: r.cause}
}

// answer writes down what p says, once, and has the call go on or ends it.
func (e *Engine) answer(ctx context.Context, ex *execution, a *haft.Approval, p haft.Principal,
	answer haft.Answer) (*haft.Approval, error) {
	answer.Reason = ex.redactor.Text(answer.Reason)
	next := *a
	next.State, next.Approver, next.Reason, next.Decided = haft.ApprovalDenied, &p, answer.Reason, time.Now()
	if answer.Approve {
		next.State, next.Edited = haft.ApprovalApproved, len(answer.Args) > 0
		terms, err := e.terms(ctx, ex)
		if err != nil {
			return nil, err
		}
		// With other arguments everything else is as it was shown.
		if !next.Edited && !e.agreedTo(ex, a, terms) ||
			next.Edited && (a.Terms == nil || a.Terms.Binds != terms.Binds) {
			return nil, &haft.Error{Code: haft.CodeConflict, Message: "the call is not what was asked for any more: " +
				"its environment, network, limits, sandbox, packages or server has changed, or was not shown; " +
				"refuse it, and have it called again"}
		}
		next.Binds = e.bindsTerms(ex, terms)
		if next.Terms, err = ex.shownTerms(terms); err != nil {
			return nil, err
		}
		if next.Edited {
			e.keep(ex)
			next.Args = ex.rec.Call.Args
		}
	}
	ctx = context.WithoutCancel(ctx) // once it is decided the rest happens
	ex.release()
	decided := map[string]any{"approval_id": a.ID, "state": next.State, "by": p.User, "reason": answer.Reason,
		"edited": next.Edited}
	if !answer.Approve {
		message := "a person refused the call"
		if answer.Reason != "" {
			message += ": " + answer.Reason
		}
		res := ex.failed(haft.StatusRejected, haft.FailRejected, message)
		e.completeResult(ex, res)
		part := &store.Batch{Approvals: []haft.Approval{next}, Audit: []audit.Entry{e.decidedEntry(ex, p, decided)}}
		if err := e.tell(ctx, ex, haft.EventDecided, decided, part); err != nil {
			return nil, answered(err)
		}
		return &next, ended(e.close(ctx, ex, res))
	}
	ex.approval = &next
	sealed, err := e.seal(ex)
	if err != nil {
		return nil, err
	}
	ex.rec.Sealed, ex.rec.Status, ex.rec.Result = sealed, haft.StatusQueued, nil
	part := &store.Batch{Records: []haft.Record{ex.rec}, Approvals: []haft.Approval{next},
		Audit: []audit.Entry{e.decidedEntry(ex, p, decided)}}
	if err := e.tell(ctx, ex, haft.EventDecided, decided, part); err != nil {
		return nil, answered(err)
	}
	e.dispatcher.add(ex.call.Principal.Org)
	e.accepted(e.approved(ex, &next))
	return &next, nil
}

// answered says of a request that is not what it was that somebody else was faster.
func answered(err error) error {
	if errors.Is(err, errOvertaken) {
		return &haft.Error{Code: haft.CodeConflict, Message: "the request is answered already", Err: err}
	}
	return err
}

// decidedEntry is what the audit says about an answer.
func (e *Engine) decidedEntry(ex *execution, p haft.Principal, body map[string]any) audit.Entry {
	entry := e.entry(ex, "approval.decided", body)
	entry.Actor = p
	return entry
}

// approved makes an execution of a call that a person agreed to: it starts from the beginning.
func (e *Engine) approved(ex *execution, a *haft.Approval) *execution {
	again := &execution{call: ex.call, rec: ex.rec, async: true, began: time.Now(), approval: a, env: ex.call.Env,
		redactor: e.redactor(nil, nil, ex.call.Env), done: make(chan struct{}), seen: e.changes.Load(), confirm: true,
		accepted: true}
	again.call.Digest = ex.rec.Digest
	return again
}

// expire closes a call whose request nobody answered in time.
func (e *Engine) expire(ctx context.Context, r *haft.Record) error {
	return e.drop(ctx, r, haft.StatusRejected, haft.FailRejected, "nobody agreed in time")
}

// Wait returns the result of a call when it has ended, or when it waits for a
// person, or what is known when ctx ends.
func (e *Engine) Wait(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error) {
	if err := e.authority.Any(p, authority.Resource{}, haft.CallsRead, haft.CallsWrite); err != nil {
		return nil, err
	}
	// A call that was only just made has no record yet.
	if ex := e.executionOf(id); ex != nil {
		whose := authority.Owned("call", ex.asked.Principal)
		if e.authority.Any(p, whose, haft.CallsRead, haft.CallsWrite) == nil {
			return e.await(ctx, p, id)
		}
	}
	if _, err := e.Seen(ctx, p, id, haft.CallsRead, haft.CallsWrite); err != nil {
		return nil, err
	}
	return e.await(ctx, p, id)
}
