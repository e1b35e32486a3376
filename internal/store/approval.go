package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"haft"
)

// Approval returns one, or [haft.CodeNotFound].
func (s *Store) Approval(ctx context.Context, org string, id haft.ApprovalID) (*haft.Approval, error) {
	return one[haft.Approval](ctx, s, "approval", "SELECT doc FROM approvals WHERE id = $1 AND org = $2",
		column(string(id)), column(org))
}

// ApprovalOf returns the latest one of a call, or [haft.CodeNotFound].
func (s *Store) ApprovalOf(ctx context.Context, org string, call haft.CallID) (*haft.Approval, error) {
	return one[haft.Approval](ctx, s, "approval",
		"SELECT doc FROM approvals WHERE call = $1 AND org = $2 ORDER BY created DESC, id DESC LIMIT 1",
		column(string(call)), column(org))
}

// Approvals lists those of an organisation that fit f, oldest first, at most
// [MaxPage] of them. An empty state means all.
func (s *Store) Approvals(ctx context.Context, org string, f haft.ApprovalFilter) ([]haft.Approval, error) {
	states := []haft.ApprovalState{f.State}
	if f.State == "" {
		states = haft.ApprovalStates()
	}
	var list []haft.Approval
	for _, state := range states { // each is a range of an index, in order
		part, err := s.approvalsIn(ctx, org, state, f)
		if err != nil {
			return nil, fmt.Errorf("list approvals: %w", err)
		}
		list = append(list, part...)
	}
	slices.SortStableFunc(list, func(a, b haft.Approval) int {
		return cmp.Or(cmp.Compare(micros(a.Created), micros(b.Created)),
			cmp.Compare(column(string(a.ID)), column(string(b.ID))))
	})
	return list[:min(len(list), page(f.Limit))], nil
}

const approvalQuery = "SELECT doc FROM approvals WHERE org = $1 AND state = $2 AND (created, id) > ($3, $4) ORDER " +
	"BY created, id LIMIT $5"

// approvalsIn lists the requests in one state. Who asks for which tool is not in a
// column: such requests wait for people, so there are few.
func (s *Store) approvalsIn(ctx context.Context, org string, state haft.ApprovalState,
	f haft.ApprovalFilter) ([]haft.Approval, error) {
	var list []haft.Approval
	after, id := micros(f.After), column(string(f.AfterID))
	for {
		part, err := docs[haft.Approval](ctx, s, approvalQuery, column(org), string(state), after, id, MaxPage)
		if err != nil {
			return nil, err
		}
		for _, a := range part {
			after, id = micros(a.Created), column(string(a.ID))
			if (f.Tool == "" || f.Tool == a.Tool) && (f.User == "" || f.User == a.Requester.User) &&
				(f.Agent == "" || f.Agent == a.Requester.Agent) {
				list = append(list, a)
			}
		}
		if len(part) < MaxPage || len(list) >= page(f.Limit) {
			return list, nil
		}
	}
}

// ExpiredApprovals lists those of all organisations that wait although their time
// is over.
func (s *Store) ExpiredApprovals(ctx context.Context, now time.Time, limit int) ([]haft.Approval, error) {
	list, err := docs[haft.Approval](ctx, s,
		"SELECT doc FROM approvals WHERE state = 'pending' AND expires > 0 AND expires <= $1 ORDER BY expires LIMIT $2",
		micros(now), page(limit))
	if err != nil {
		return nil, fmt.Errorf("list expired approvals: %w", err)
	}
	return list, nil
}
