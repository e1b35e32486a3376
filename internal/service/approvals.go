package service

import (
	"context"
	"iter"

	"haft"
	"haft/internal/authority"
)

// An ApprovalManager lists the requests that wait for a person, and takes answers.
type ApprovalManager struct{ *base }

// Approval implements [haft.Approver].
func (m *ApprovalManager) Approval(ctx context.Context, p haft.Principal, id haft.ApprovalID) (*haft.Approval, error) {
	return m.approvalFor(ctx, p, id, haft.ApprovalsRead)
}

// Approvals implements [haft.Approver]: the requests of the organisation, which
// its approvers and managers see and those whom a rule names, and everybody their
// own.
func (m *ApprovalManager) Approvals(ctx context.Context, p haft.Principal,
	f haft.ApprovalFilter) iter.Seq2[haft.Approval,
	error] {
	return func(yield func(haft.Approval, error) bool) {
		if err := m.authority.May(p, haft.ApprovalsRead); err != nil {
			yield(haft.Approval{}, err)
			return
		}
		if f.State == "" && !f.Any {
			f.State = haft.ApprovalPending
		}
		most := f.Limit
		f.Limit = page
		for n := 0; ; {
			list, err := m.store.Approvals.Approvals(ctx, p.Org, f)
			if err != nil {
				yield(haft.Approval{}, err)
				return
			}
			for _, a := range list {
				f.After, f.AfterID = a.Created, a.ID
				if !m.asked(ctx, p, a) {
					continue
				}
				if n++; !yield(a, nil) || n == most {
					return
				}
			}
			if len(list) < page {
				return
			}
		}
	}
}

// approvalFor returns a request for approval that p may see, for an action. One that
// p may not see is not there, also for who would answer it.
func (m *ApprovalManager) approvalFor(ctx context.Context, p haft.Principal, id haft.ApprovalID,
	a haft.Action) (*haft.Approval, error) {
	if err := m.authority.May(p, a); err != nil {
		return nil, err
	}
	found, err := m.store.Approvals.Approval(ctx, p.Org, id)
	if err != nil {
		return nil, err
	}
	if !m.asked(ctx, p, *found) {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "there is no such approval"}
	}
	return found, nil
}

// asked reports whether p may see a request for approval: it is p's own, p sees
// those of everybody, or a rule has p answer it.
func (m *ApprovalManager) asked(ctx context.Context, p haft.Principal, a haft.Approval) bool {
	return m.authority.Authorize(authority.Unconfined(p), haft.ApprovalsRead, authority.Owned("approval",
		a.Requester)) == nil ||
		m.decisions.Answerable(ctx, p, a)
}

// maxReason bounds what a person says to a request.
const maxReason = 2000

// Decide implements [haft.Approver]. Who may answer is decided by the policy of
// now, with the arguments that are agreed to.
func (m *ApprovalManager) Decide(ctx context.Context, p haft.Principal, id haft.ApprovalID,
	answer haft.Answer) (*haft.Approval, error) {
	if err := m.authority.May(p, haft.ApprovalsWrite); err != nil {
		return nil, err
	}
	if len(answer.Reason) > maxReason {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the reason is too long"}
	}
	a, err := m.approvalFor(ctx, p, id, haft.ApprovalsWrite)
	if err != nil {
		return nil, err
	}
	return m.decisions.Answer(ctx, p, a, answer)
}
