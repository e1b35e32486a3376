package engine

import (
	"context"
	"errors"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/authority"
	"haft/internal/orgconfig"
	"haft/internal/store"
	"haft/policy"
)

// approvals take the answers to requests for approval.
type approvals struct {
	store       *store.Store
	authority   authority.Rules
	authorizer  *authorizer
	dispatcher  *dispatcher
	permissions *permissions
	recorder    *recorder
	redaction   *redaction
	orgs        *orgconfig.Reader
	seals       *callSealer
}

// Answerable reports whether p could answer a request: a rule may name others than
// those who usually do.
func (ap *approvals) Answerable(ctx context.Context, p haft.Principal, a haft.Approval) bool {
	if p.Agent != "" || p.User == "" {
		return false
	}
	rec, err := ap.store.Calls.Record(ctx, p.Org, a.Call)
	if err != nil {
		return false
	}
	ex, err := ap.seals.unseal(rec)
	if err != nil && rec.Status.Final() && !rec.Redacted {
		// What was sealed is gone. Whoever could answer it sees what became of it, by the arguments that are kept:
		// all of them, since rules that look at others might name somebody else.
		ex, err = ap.seals.bareExecution(rec), nil
	}
	if err != nil {
		return false
	}
	return ap.judge(ctx, ex, &a, p, haft.Answer{Approve: true}) == nil
}

// Answer writes what p says to a request that p may see, and has its call go on or ends
// it. Who may answer is decided by the policy of now, with the arguments that are agreed to.
func (ap *approvals) Answer(ctx context.Context, p haft.Principal, a *haft.Approval,
	answer haft.Answer) (*haft.Approval, error) {
	if a.State != haft.ApprovalPending {
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "the request is " + string(a.State) + " already"}
	}
	rec, err := ap.store.Calls.Record(ctx, p.Org, a.Call)
	if err != nil {
		return nil, err
	}
	if !time.Now().Before(a.Expires) {
		if err := ended(ap.recorder.expire(ctx, rec)); err != nil {
			return nil, err
		}
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "the request has expired"}
	}
	ex, err := ap.seals.unseal(rec)
	if err != nil {
		return nil, err
	}
	if now, _, err := ap.authorizer.principalNow(ctx, ex.call.Principal); err == nil {
		ex.call.Principal = now
	} else if w, ok := errors.AsType[*withdrawal](err); ok {
		if err := ap.permissions.dropWithdrawn(ctx, rec, w); err != nil {
			return nil, err
		}
		return nil, &haft.Error{Code: haft.CodeConflict, Message: "the request has ended: " + w.Error()}
	} else {
		return nil, err
	}
	if err := ap.judge(ctx, ex, a, p, answer); err != nil {
		return nil, err
	}
	return ap.answer(ctx, ex, a, p, answer)
}

// judge looks at the call as it would run, with the arguments of the answer, and
// at whether p may answer.
func (ap *approvals) judge(ctx context.Context, ex *execution, a *haft.Approval, p haft.Principal,
	answer haft.Answer) error {
	ex.call.Digest = ex.rec.Digest // the version that was shown
	if err := ap.authorizer.resolve(ctx, ex); err != nil {
		return asCoded(err)
	}
	rules, err := ap.orgs.Policy(ctx, p.Org)
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
	ex.refusing = !answer.Approve
	if err := ap.authorizer.validate(ctx, ex); err != nil {
		return asCoded(err)
	}
	d := rules.Decide(ex.request(ex.runArgs()))
	if d.Effect == policy.Allow {
		// It was asked for by a rule that is gone, or by the agent's tool rules.
		asking := ex.request(ex.runArgs())
		asking.Tool.Version.Settings.RequiresApproval = true
		d = rules.Decide(asking)
	}
	ex.decision = d
	if d.Effect == policy.Deny && answer.Approve {
		return asCoded(denied(d))
	}
	if d.Effect == policy.Deny {
		// Refusing what is denied anyway is for managers.
		return ap.authority.May(authority.Unconfined(p), haft.PoliciesWrite)
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
func (ap *approvals) answer(ctx context.Context, ex *execution, a *haft.Approval, p haft.Principal,
	answer haft.Answer) (*haft.Approval, error) {
	answer.Reason = ex.env.Redactor.Text(answer.Reason)
	next := *a
	next.State, next.Approver, next.Reason, next.Decided = haft.ApprovalDenied, &p, answer.Reason, time.Now()
	if answer.Approve {
		next.State, next.Edited = haft.ApprovalApproved, len(answer.Args) > 0
		terms, err := ap.authorizer.terms(ctx, ex)
		if err != nil {
			return nil, err
		}
		// With other arguments everything else is as it was shown.
		if !next.Edited && !ap.authorizer.agreedTo(ex, a, terms) ||
			next.Edited && (a.Terms == nil || a.Terms.Binds != terms.Binds) {
			return nil, &haft.Error{Code: haft.CodeConflict, Message: "the call is not what was asked for any more: " +
				"its environment, network, limits, sandbox, packages or server has changed, or was not shown; " +
				"refuse it, and have it called again"}
		}
		next.Binds = ap.authorizer.bindsTerms(ex, terms)
		if next.Terms, err = ex.shownTerms(terms); err != nil {
			return nil, err
		}
		if next.Edited {
			ap.redaction.keep(ex)
			next.Args = ex.rec.Call.Args
		}
	}
	ctx = context.WithoutCancel(ctx) // once it is decided the rest happens
	ex.release()
	decided := map[string]any{"approval_id": a.ID, "state": next.State, "by": p.User, "reason": answer.Reason,
		"edited": next.Edited, "self": p.User == a.Requester.User} // whether the same person has asked
	if !answer.Approve {
		message := "a person refused the call"
		if answer.Reason != "" {
			message += ": " + answer.Reason
		}
		res := ex.failed(haft.StatusRejected, haft.FailRejected, message)
		ap.recorder.completeResult(ex, res)
		part := &store.Batch{Approvals: []haft.Approval{next}, Audit: []audit.Entry{ap.decidedEntry(ex, p, decided)}}
		if err := ap.recorder.publish(ctx, ex, haft.EventDecided, decided, part); err != nil {
			return nil, answered(err)
		}
		return &next, ended(ap.recorder.close(ctx, ex, res))
	}
	ex.approval = &next
	sealed, err := ap.seals.seal(ex)
	if err != nil {
		return nil, err
	}
	ex.rec.Sealed, ex.rec.Status, ex.rec.Result = sealed, haft.StatusQueued, nil
	part := &store.Batch{Records: []haft.Record{ex.rec}, Approvals: []haft.Approval{next},
		Audit: []audit.Entry{ap.decidedEntry(ex, p, decided)}}
	if err := ap.recorder.publish(ctx, ex, haft.EventDecided, decided, part); err != nil {
		return nil, answered(err)
	}
	ap.dispatcher.Add(ex.call.Principal.Org)
	ap.dispatcher.accepted(ap.seals.approved(ex, &next))
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
func (ap *approvals) decidedEntry(ex *execution, p haft.Principal, body map[string]any) audit.Entry {
	entry := ap.recorder.entry(ex, "approval.decided", body)
	entry.Actor = p
	return entry
}

// approved makes an execution of a call that a person agreed to: it starts from the beginning.
func (k *callSealer) approved(ex *execution, a *haft.Approval) *execution {
	again := k.taken(ex.call, ex.rec)
	again.approval = a
	again.call.Digest = ex.rec.Digest
	return again
}

// expire closes a call whose request nobody answered in time.
func (w *recorder) expire(ctx context.Context, r *haft.Record) error {
	return w.drop(ctx, r, haft.StatusRejected, haft.FailRejected, "nobody agreed in time")
}

// Wait returns the result of a call when it has ended, or when it waits for a
// person, or what is known when ctx ends.
func (en *entrance) Wait(ctx context.Context, p haft.Principal, id haft.CallID) (*haft.Result, error) {
	if err := en.authority.Any(p, authority.Resource{}, haft.CallsRead, haft.CallsWrite); err != nil {
		return nil, err
	}
	// A call that was only just made has no record yet.
	if ex := en.calls.executionOf(id); ex != nil {
		whose := authority.Owned("call", ex.asked.Principal)
		if en.authority.Any(p, whose, haft.CallsRead, haft.CallsWrite) == nil {
			return en.await(ctx, p, id)
		}
	}
	if _, err := en.Seen(ctx, p, id, haft.CallsRead, haft.CallsWrite); err != nil {
		return nil, err
	}
	return en.await(ctx, p, id)
}
