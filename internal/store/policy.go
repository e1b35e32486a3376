package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"haft"
)

const policyByOrg = "SELECT body, updated FROM policies WHERE org = $1"

func scanPolicy(r scanner) (haft.PolicyText, error) {
	var body string
	var at int64
	err := r.Scan(&body, &at)
	return haft.PolicyText{Text: []byte(body), Updated: fromMicros(at)}, err
}

// Policy returns the policy of an organisation; "" is the server's. The text is nil
// if there is none.
func (s *Store) Policy(ctx context.Context, org string) (p haft.PolicyText, err error) {
	err = s.rows(ctx, func(r scanner) (err error) {
		p, err = scanPolicy(r)
		return err
	}, policyByOrg, column(org))
	if err != nil {
		return haft.PolicyText{}, fmt.Errorf("read a policy: %w", err)
	}
	return p, nil
}

// errPolicyMade says that a policy is there that was not a moment ago.
var errPolicyMade = errors.New("somebody else made the policy")

// PutPolicy replaces the policy of an organisation if that is what p.If says, and
// else returns [haft.CodeConflict]. A nil text removes it. It returns what is kept.
func (s *Store) PutPolicy(ctx context.Context, org string, p haft.PolicyText, author string) (*haft.PolicyText, error) {
	if err := document("the policy", string(p.Text)); err != nil {
		return nil, err
	}
	var kept haft.PolicyText
	put := func(ctx context.Context, t *tx) (err error) {
		kept, err = t.putPolicy(ctx, org, p, author)
		return err
	}
	err := s.write(ctx, put)
	if errors.Is(err, errPolicyMade) {
		err = s.write(ctx, put) // it can be locked now
	}
	if err != nil {
		return nil, fmt.Errorf("keep a policy: %w", err)
	}
	return &kept, nil
}

func (t *tx) putPolicy(ctx context.Context, org string, p haft.PolicyText,
	author string) (kept haft.PolicyText, err error) {
	rows, err := t.query(ctx, policyByOrg+t.s.dialect.ForUpdate, column(org))
	if err != nil {
		return kept, err
	}
	var old *haft.PolicyText
	if err := each(rows, func(r scanner) error {
		found, err := scanPolicy(r)
		old = &found
		return err
	}); err != nil {
		return kept, err
	}
	have, before := "", time.Time{}
	if old != nil {
		have, before = old.Revision(), old.Updated
	}
	if err := holds(p.If, have); err != nil {
		return kept, err
	}
	if p.Text == nil {
		_, err := t.exec(ctx, "DELETE FROM policies WHERE org = $1", column(org))
		return kept, err
	}
	kept = haft.PolicyText{Text: p.Text, Updated: stamp(p.Updated, before)}
	if old != nil {
		_, err = t.exec(ctx, "UPDATE policies SET body = $2, author = $3, updated = $4 WHERE org = $1", column(org),
			string(p.Text), column(author), micros(kept.Updated))
		return kept, err
	}
	n, err := t.exec(ctx,
		"INSERT INTO policies (org, body, author, updated) VALUES ($1, $2, $3, $4) ON CONFLICT (org) DO NOTHING",
		column(org), string(p.Text), column(author), micros(kept.Updated))
	if err == nil && n == 0 {
		return kept, &haft.Error{Code: haft.CodeConflict, Message: "it was changed by somebody else; look again first",
			Err: errPolicyMade}
	}
	return kept, err
}
