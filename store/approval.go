package store

import (
	"context"
	"fmt"
	"time"

	"haft"
)

// Approval returns one, or [haft.CodeNotFound].
func (s *Store) Approval(ctx context.Context, org string, id haft.ApprovalID) (*haft.Approval, error) {
	return one[haft.Approval](ctx, s, "approval", "SELECT doc FROM approvals WHERE id = $1 AND org = $2", column(string(id)), column(org))
}

// ApprovalOf returns the latest one of a call, or [haft.CodeNotFound].
func (s *Store) ApprovalOf(ctx context.Context, org string, call haft.CallID) (*haft.Approval, error) {
	return one[haft.Approval](ctx, s, "approval", "SELECT doc FROM approvals WHERE call = $1 AND org = $2 ORDER BY created DESC, id DESC LIMIT 1",
		column(string(call)), column(org))
}

// PendingApprovals lists those of an organisation that wait, oldest first, after
// the given one.
func (s *Store) PendingApprovals(ctx context.Context, org string, after haft.ApprovalID, limit int) ([]haft.Approval, error) {
	var created int64
	if after != "" {
		if err := s.rows(ctx, func(r scanner) error { return r.Scan(&created) },
			"SELECT created FROM approvals WHERE id = $1 AND org = $2", column(string(after)), column(org)); err != nil {
			return nil, fmt.Errorf("list approvals: %w", err)
		}
		if created == 0 {
			return nil, notFound("approval")
		}
	}
	list, err := docs[haft.Approval](ctx, s, pendingQuery, column(org), created, column(string(after)), page(limit))
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	return list, nil
}

const pendingQuery = "SELECT doc FROM approvals WHERE org = $1 AND state = 'pending' AND (created, id) > ($2, $3) ORDER BY created, id LIMIT $4"

// ExpiredApprovals lists those of all organisations that wait although their time
// is over.
func (s *Store) ExpiredApprovals(ctx context.Context, now time.Time, limit int) ([]haft.Approval, error) {
	list, err := docs[haft.Approval](ctx, s,
		"SELECT doc FROM approvals WHERE state = 'pending' AND expires > 0 AND expires <= $1 ORDER BY expires LIMIT $2", micros(now), page(limit))
	if err != nil {
		return nil, fmt.Errorf("list expired approvals: %w", err)
	}
	return list, nil
}

// MoveApproval replaces an approval by next if its state is from, and else
// returns [haft.CodeConflict]. Of many who move it at once one does.
func (s *Store) MoveApproval(ctx context.Context, org string, id haft.ApprovalID, from haft.ApprovalState, next haft.Approval) error {
	if next.ID != id || next.Requester.Org != org {
		return invalid("an approval keeps its id and organisation")
	}
	rows, err := approvalRows([]haft.Approval{next})
	if err != nil {
		return err
	}
	err = s.write(ctx, func(ctx context.Context, t *tx) error {
		n, err := t.exec(ctx, "UPDATE approvals SET state = $1, expires = $2, doc = $3 WHERE id = $4 AND org = $5 AND state = $6",
			rows[3], rows[5], rows[6], rows[0], rows[1], string(from))
		if err != nil || n == 1 {
			return err
		}
		found, err := t.query(ctx, "SELECT state FROM approvals WHERE id = $1 AND org = $2", rows[0], rows[1])
		if err != nil {
			return err
		}
		state := ""
		if err := each(found, func(r scanner) error { return r.Scan(&state) }); err != nil {
			return err
		}
		if state == "" {
			return notFound("approval")
		}
		return conflict("the approval is " + state + " already")
	})
	if err != nil {
		return fmt.Errorf("move the approval: %w", err)
	}
	return nil
}
