package checkpoint

import (
	"context"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
)

// begin is for a data directory without a file of heads. Three cases are good: a new
// database; one of an earlier version, whose checkpoints had no chain; and one that other
// servers share, which this one joins. Else the file was removed, and that is refused.
func (k *Keeper) begin(ctx context.Context) error {
	last, err := k.cfg.Store.Audit.LastChained(ctx)
	if err != nil {
		return err
	}
	if last == nil {
		return k.upgrade(ctx)
	}
	gone := &haft.Error{Code: haft.CodeConflict, Err: &Mismatch{Damaged: HeadFile + " is missing"},
		Message: HeadFile + " is missing in the data directory, and the database has an audit log that was signed: " +
			"put the file back, or, if nobody has it and the database is the right one, run: haft restore " +
			"--accept-loss"}
	if !k.cfg.Store.Shared() {
		return gone
	}
	return k.join(ctx, gone)
}

// join takes in all that other servers signed. A server whose own key has signed is not
// new: it must have a file. Every checkpoint must be signed by a key that the operator gave,
// in audit.keys: a database is not believed because nobody is there to compare it with.
func (k *Keeper) join(ctx context.Context, gone error) error {
	own := k.cfg.Signer.ID()
	for serial := int64(1); ; {
		list, err := k.cfg.Store.Audit.ChainedFrom(ctx, serial, store.MaxPage)
		if err != nil {
			return err
		}
		for _, c := range list {
			if c.Key == own {
				return gone
			}
			serial = c.Place.Serial + 1
		}
		if len(list) < store.MaxPage {
			break
		}
	}
	if err := k.absorb(ctx); err != nil {
		return err
	}
	return k.writeHeads()
}

// upgrade looks at the checkpoints of earlier versions: each must fit its entry, and the
// last of each organisation must not have a wrong signature. Then it signs the first
// chained ones.
func (k *Keeper) upgrade(ctx context.Context) error {
	orgs, err := k.cfg.Store.Audit.AuditOrgs(ctx)
	if err != nil {
		return err
	}
	for _, org := range orgs {
		if _, err := k.unchained(ctx, org); err != nil {
			return err
		}
	}
	if err := k.sign(ctx); err != nil {
		return err
	}
	return k.writeHeads()
}

// unchained returns the last checkpoint of an organisation of before there were chains of
// them, or nil if there is none, or none that a trusted key signed: then it vouches for
// nothing. All of them must fit their entries.
func (k *Keeper) unchained(ctx context.Context, org string) (*audit.Checkpoint, error) {
	var last *audit.Checkpoint
	for after := int64(0); ; {
		list, err := k.cfg.Store.Audit.Checkpoints(ctx, org, after, store.MaxPage)
		if err != nil {
			return nil, err
		}
		has, err := hasEntries(ctx, k.cfg.Store, list)
		if err != nil {
			return nil, err
		}
		for i, c := range list {
			if c.Org != org || !has[c.Head()] {
				return nil, unchainedUnfit(c, "does not fit its entry")
			}
			last, after = &list[i], c.Seq
		}
		if len(list) < store.MaxPage {
			break
		}
	}
	if last == nil {
		return nil, nil
	}
	switch last.Check(k.keys) {
	case audit.BadSignature:
		return nil, unchainedUnfit(*last, "has a wrong signature")
	case audit.UnknownKey:
		if !k.warned[last.Key] {
			k.warned[last.Key] = true
			k.cfg.Logger.Warn("the audit log was signed with a key that is not trusted: add its public key to "+
				"audit.keys in the data directory",
				"key", last.Key)
		}
		return nil, nil
	}
	return last, nil
}

func unchainedUnfit(c audit.Checkpoint, why string) error {
	return damaged(0, "the checkpoint of entry %d of organisation %q %s", c.Seq, c.Org, why)
}
