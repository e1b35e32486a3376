package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"haft"
	"haft/internal/store/stored"
)

// Approval returns one, or [haft.CodeNotFound].
func (s Approvals) Approval(ctx context.Context, org string, id haft.ApprovalID) (*haft.Approval, error) {
	return find(ctx, s.db, "approval", doc[haft.Approval],
		unlogged("SELECT doc FROM approvals WHERE id = $1 AND org = $2"), column(string(id)), column(org))
}

// ApprovalOf returns the latest one of a call, or [haft.CodeNotFound].
func (s Approvals) ApprovalOf(ctx context.Context, org string, call haft.CallID) (*haft.Approval, error) {
	return find(ctx, s.db, "approval", doc[haft.Approval],
		unlogged("SELECT doc FROM approvals WHERE call = $1 AND org = $2 ORDER BY created DESC, id DESC LIMIT 1"),
		column(string(call)), column(org))
}

// PendingOf lists the ones of a call that wait for an answer.
func (s Approvals) PendingOf(ctx context.Context, org string, call haft.CallID) (all []haft.Approval, err error) {
	err = each(ctx, s.db, func(r scanner) error {
		a, err := doc[haft.Approval](r)
		all = append(all, a)
		return err
	}, unlogged("SELECT doc FROM approvals WHERE call = $1 AND org = $2 AND state = 'pending' ORDER BY created, id"),
		column(string(call)), column(org))
	return all, err
}

// Approvals lists those of an organisation that fit f, oldest first, at most
// [MaxPage] of them. An empty state means all.
func (s Approvals) Approvals(ctx context.Context, org string, f haft.ApprovalFilter) ([]haft.Approval, error) {
	states := []haft.ApprovalState{f.State}
	if f.State == "" {
		states = haft.ApprovalStates()
	}
	var all []haft.Approval
	for _, state := range states { // each is a range of an index, in order
		part, err := s.approvalsIn(ctx, org, state, f)
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	slices.SortStableFunc(all, func(a, b haft.Approval) int {
		return cmp.Or(cmp.Compare(stored.Micros(a.Created), stored.Micros(b.Created)),
			cmp.Compare(column(string(a.ID)), column(string(b.ID))))
	})
	return all[:min(len(all), page(f.Limit))], nil
}

const approvalQuery unlogged = "SELECT doc FROM approvals WHERE org = $1 AND state = $2 AND (created, id) > ($3, $4) " +
	"ORDER BY created, id LIMIT $5"

// approvalsIn lists the requests in one state. Who asks for which tool is not in a
// column: such requests wait for people, so there are few.
func (s Approvals) approvalsIn(ctx context.Context, org string, state haft.ApprovalState,
	f haft.ApprovalFilter) ([]haft.Approval, error) {
	var fit []haft.Approval
	after, id := stored.Micros(f.After), column(string(f.AfterID))
	for {
		part, err := list(ctx, s.db, "list approvals", doc[haft.Approval], approvalQuery, column(org), string(state),
			after, id, MaxPage)
		if err != nil {
			return nil, err
		}
		for _, a := range part {
			after, id = stored.Micros(a.Created), column(string(a.ID))
			if (f.Tool == "" || f.Tool == a.Tool) && (f.User == "" || f.User == a.Requester.User) &&
				(f.Agent == "" || f.Agent == a.Requester.Agent) {
				fit = append(fit, a)
			}
		}
		if len(part) < MaxPage || len(fit) >= page(f.Limit) {
			return fit, nil
		}
	}
}

// ExpiredApprovals lists those of all organisations that wait although their time
// is over.
func (s Approvals) ExpiredApprovals(ctx context.Context, now time.Time, limit int) ([]haft.Approval, error) {
	return list(ctx, s.db, "list expired approvals", doc[haft.Approval], unlogged("SELECT doc FROM approvals WHERE "+
		"state = 'pending' AND expires > 0 AND expires <= $1 ORDER BY expires LIMIT $2"),
		stored.Micros(now), page(limit))
}
