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
func (e *Engine) approve(ctx context.Context, f *flight) error {
	if err := e.decideFinal(ctx, f); err != nil {
		return err
	}
	if f.approval == nil && f.decision.Effect != policy.NeedsApproval {
		return nil
	}
	terms, err := e.terms(ctx, f)
	if err != nil {
		return err
	}
	if f.approval != nil {
		return e.useApproval(f, terms)
	}
	shown, err := f.shownTerms(terms)
	if err != nil {
		return err
	}
	now := time.Now()
	expires := f.decision.Expires().D()
	if expires == 0 {
		expires = e.cfg.ApprovalExpires
	}
	e.keep(f)
	f.approval = &haft.Approval{
		ID: haft.ApprovalID(newID("a_")), Call: f.call.ID, Tool: f.tool.Tool.Name, State: haft.ApprovalPending,
		Binds: e.bindsTerms(f, terms), Args: f.rec.Call.Args, Terms: shown, Requester: f.call.Principal, Rule: f.decision.Rule,
		Created: now, Expires: now.Add(expires),
	}
	f.res = f.blank(haft.StatusPending)
	f.res.Approval = f.approval.ID
	return errSettled
}

// decideFinal decides with the arguments as they will run.
func (e *Engine) decideFinal(_ context.Context, f *flight) error { return e.decide(f, f.args) }

// useApproval spends the approval that lets the call run: once, for the version, the
// arguments and the terms that were agreed to, by somebody whom the rules of now accept.
func (e *Engine) useApproval(f *flight, terms *haft.Terms) error {
	a := *f.approval
	f.timeline.Approval = haft.Millis(a.Decided.Sub(a.Created))
	switch {
	case a.State != haft.ApprovalApproved:
		return refuse(haft.StatusRejected, haft.FailRejected, haft.RetryNever, "nobody has agreed to the call")
	case !e.agreedTo(f, &a, terms):
		return refuse(haft.StatusRejected, haft.FailRejected, haft.RetryNever,
			"the approval is for other arguments, another version or other terms (environment, network, limits, sandbox or server): call again, so that somebody agrees to those of now")
	case !f.acceptable(&a):
		return refuse(haft.StatusRejected, haft.FailRejected, haft.RetryNever, "the rules have changed, and name other approvers than the one who agreed: call again")
	case time.Now().After(a.Expires):
		return refuse(haft.StatusRejected, haft.FailRejected, haft.RetrySame, "the approval has expired")
	}
	a.State = haft.ApprovalUsed
	f.approval = &a
	return nil
}

// spent is the approval that the call uses up, to be written with what becomes of the call:
// both are in the store or none.
func (f *flight) spent() []haft.Approval {
	if f.approval == nil || f.approval.State != haft.ApprovalUsed {
		return nil
	}
	return []haft.Approval{*f.approval}
}

// acceptable reports whether whoever agreed may, by the decision of now. Where nothing
// asks any more, the agreement does no harm.
func (f *flight) acceptable(a *haft.Approval) bool {
	if f.decision.Effect != policy.NeedsApproval {
		return true
	}
	return a.Approver != nil && f.decision.MayApprove(*a.Approver, a.Requester) == nil
}

// blank returns a result without a value: nothing ran yet.
func (f *flight) blank(status haft.Status) *haft.Result {
	return &haft.Result{
		Call: f.call.ID, Tool: f.named().Tool, Status: status, Value: json.RawMessage("null"),
		Sandbox: haft.Sandbox{Provider: "none", Isolation: haft.Isolation{Level: haft.LevelNone, Controls: []haft.Control{}}},
	}
}
