package store

import (
	"context"
	"errors"
	"time"

	"haft"
	"haft/internal/store/stored"
)

const policyByOrg unlogged = "SELECT body, updated FROM policies WHERE org = $1"

func scanPolicy(r scanner) (haft.PolicyText, error) {
	p, err := scanPair[string, int64](r)
	return haft.PolicyText{Text: []byte(p.a), Updated: stored.Time(p.b)}, err
}

// Policy returns the policy of an organisation; "" is the server's. The text is nil
// if there is none.
func (s Policies) Policy(ctx context.Context, org string) (haft.PolicyText, error) {
	p, err := first(ctx, s.db, "read a policy", scanPolicy, policyByOrg, column(org))
	if p == nil {
		p = &haft.PolicyText{}
	}
	return *p, err
}

// errPolicyMade says that a policy is there that was not a moment ago.
var errPolicyMade = errors.New("somebody else made the policy")

// PutPolicy replaces the policy of an organisation if that is what p.If says, and
// else returns [haft.CodeConflict]. A nil text removes it. It returns what is kept.
func (s Policies) PutPolicy(ctx context.Context, org string, p haft.PolicyText, author string) (*haft.PolicyText,
	error) {
	if err := document("the policy", string(p.Text)); err != nil {
		return nil, err
	}
	var kept haft.PolicyText
	put := func(ctx context.Context, t *tx) (err error) {
		kept, err = t.putPolicy(ctx, org, p, author)
		return err
	}
	err := s.db.write(ctx, "keep a policy", put)
	if errors.Is(err, errPolicyMade) {
		err = s.db.write(ctx, "keep a policy", put) // it can be locked now
	}
	if err != nil {
		return nil, err
	}
	return &kept, nil
}

func (t *tx) putPolicy(ctx context.Context, org string, p haft.PolicyText,
	author string) (kept haft.PolicyText, err error) {
	old, err := first(ctx, t, "read a policy", scanPolicy, policyByOrg+unlogged(t.s.dialect.ForUpdate), column(org))
	if err != nil {
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
	text := "INSERT INTO policies (org, body, author, updated) VALUES ($1, $2, $3, $4) ON CONFLICT (org) DO NOTHING"
	if old != nil {
		text = "UPDATE policies SET body = $2, author = $3, updated = $4 WHERE org = $1"
	}
	return kept, t.execOr(ctx, &haft.Error{Code: haft.CodeConflict, Err: errPolicyMade,
		Message: "it was changed by somebody else; look again first"},
		text, column(org), string(p.Text), column(author), stored.Micros(kept.Updated))
}
