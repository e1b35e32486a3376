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
	if err := e.decide(f, f.args); err != nil {
		return err
	}
	binds := e.binds(f.tool.Tool.Version.Digest, f.args)
	if f.approval != nil {
		return e.useApproval(ctx, f, binds)
	}
	if f.decision.Effect != policy.NeedsApproval {
		return nil
	}
	now := time.Now()
	expires := f.decision.Expires().D()
	if expires == 0 {
		expires = e.cfg.ApprovalExpires
	}
	e.keep(f)
	f.approval = &haft.Approval{
		ID: haft.ApprovalID(newID("a_")), Call: f.call.ID, Tool: f.tool.Tool.Name, State: haft.ApprovalPending,
		Binds: binds, Args: f.rec.Call.Args, Requester: f.call.Principal, Rule: f.decision.Rule,
		Created: now, Expires: now.Add(expires),
	}
	f.res = f.blank(haft.StatusPending)
	f.res.Approval = f.approval.ID
	return errSettled
}

// useApproval spends the approval that lets the call run: once, for the version
// and the arguments that were agreed to.
func (e *Engine) useApproval(ctx context.Context, f *flight, binds string) error {
	a := *f.approval
	f.timeline.Approval = haft.Millis(a.Decided.Sub(a.Created))
	switch {
	case a.State != haft.ApprovalApproved:
		return refuse(haft.StatusRejected, haft.FailRejected, haft.RetryNever, "nobody has agreed to the call")
	case a.Binds != binds:
		return refuse(haft.StatusRejected, haft.FailRejected, haft.RetryNever, "the approval is for other arguments or another version")
	case time.Now().After(a.Expires):
		return refuse(haft.StatusRejected, haft.FailRejected, haft.RetrySame, "the approval has expired")
	}
	a.State = haft.ApprovalUsed
	if err := e.store.MoveApproval(ctx, f.call.Principal.Org, a.ID, haft.ApprovalApproved, a); err != nil {
		if haft.CodeOf(err) == haft.CodeConflict {
			return refuse(haft.StatusRejected, haft.FailRejected, haft.RetryNever, "the approval was used already")
		}
		return err
	}
	f.approval = &a
	return nil
}

// blank returns a result without a value: nothing ran yet.
func (f *flight) blank(status haft.Status) *haft.Result {
	return &haft.Result{
		Call: f.call.ID, Tool: f.named().Tool, Status: status, Value: json.RawMessage("null"),
		Sandbox: haft.Sandbox{Provider: "none", Isolation: haft.Isolation{Level: haft.LevelNone, Controls: []haft.Control{}}},
	}
}
