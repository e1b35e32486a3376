package engine

import (
	"context"
	"encoding/json"
	"time"

	"haft"
	"haft/policy"
)

// approve decides with the arguments as they will run, and has a person agree to
// exactly them where that is demanded. A call that waits settles here and starts
// over at the beginning of the pipeline when somebody has agreed: rules may have
// changed in the hours between.
func (au *authorizer) approve(ctx context.Context, ex *execution) error {
	if err := au.decideFinal(ctx, ex); err != nil {
		return err
	}
	if ex.approval == nil && ex.decision.Effect != policy.NeedsApproval {
		return nil
	}
	terms, err := au.terms(ctx, ex)
	if err != nil {
		return err
	}
	if ex.approval != nil {
		return au.useApproval(ex, terms)
	}
	shown, err := ex.shownTerms(terms)
	if err != nil {
		return err
	}
	now := time.Now()
	expires := ex.decision.Expires().D()
	if expires == 0 {
		expires = au.cfg.ApprovalExpires
	}
	au.redaction.keep(ex)
	ex.approval = &haft.Approval{
		ID: haft.ApprovalID(newID("a_")), Call: ex.call.ID, Tool: ex.tool.Tool.Name, State: haft.ApprovalPending,
		Binds: au.bindsTerms(ex, terms), Args: ex.rec.Call.Args, Terms: shown, Requester: ex.call.Principal,
		Rule: ex.decision.Rule, Created: now, Expires: now.Add(expires),
	}
	ex.res = ex.blank(haft.StatusPending)
	ex.res.Approval = ex.approval.ID
	return errSettled
}

// decideFinal decides with the arguments as they will run.
func (au *authorizer) decideFinal(_ context.Context, ex *execution) error {
	return au.decide(ex, ex.runArgs())
}

// useApproval spends the approval that lets the call run: once, for the version, the
// arguments and the terms that were agreed to, by somebody whom the rules of now accept.
func (au *authorizer) useApproval(ex *execution, terms *haft.Terms) error {
	a := *ex.approval
	ex.timeline.Approval = haft.Millis(a.Decided.Sub(a.Created))
	switch {
	case a.State != haft.ApprovalApproved:
		return refuse(haft.StatusRejected, haft.FailRejected, haft.RetryNever, "nobody has agreed to the call")
	case !au.agreedTo(ex, &a, terms):
		return refuse(haft.StatusRejected, haft.FailRejected, haft.RetryNever,
			"the approval is for other arguments, another version or other terms (environment, network, limits, "+
				"sandbox or server): call again, so that somebody agrees to those of now")
	case !ex.acceptable(&a):
		return refuse(haft.StatusRejected, haft.FailRejected, haft.RetryNever,
			"the rules have changed, and name other approvers than the one who agreed: call again")
	case time.Now().After(a.Expires):
		return refuse(haft.StatusRejected, haft.FailRejected, haft.RetrySame, "the approval has expired")
	}
	a.State = haft.ApprovalUsed
	ex.approval = &a
	return nil
}

// spent is the approval that the call uses up, to be written with what becomes of the call:
// both are in the store or none.
func (ex *execution) spent() []haft.Approval {
	if ex.approval == nil || ex.approval.State != haft.ApprovalUsed {
		return nil
	}
	return []haft.Approval{*ex.approval}
}

// acceptable reports whether whoever agreed may, by the decision of now. Where nothing
// asks any more, the agreement does no harm.
func (ex *execution) acceptable(a *haft.Approval) bool {
	if ex.decision.Effect != policy.NeedsApproval {
		return true
	}
	return a.Approver != nil && ex.decision.MayApprove(*a.Approver, a.Requester) == nil
}

// blank returns a result without a value: nothing ran yet.
func (ex *execution) blank(status haft.Status) *haft.Result {
	return &haft.Result{
		Call: ex.call.ID, Tool: ex.named().Tool, Status: status, Value: json.RawMessage("null"),
		Sandbox: haft.Sandbox{Provider: "none", Isolation: haft.Isolation{Level: haft.LevelNone,
			Controls: []haft.Control{}}},
	}
}
