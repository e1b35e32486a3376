package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
)

// Kind is that of the entry that says that a person accepted a loss.
const Kind = "audit.restored"

// A Restoration is what a person accepts who goes on with a database that does not have
// what was signed.
type Restoration struct {
	// Signed is the serial of the last checkpoint that was signed, and Have of the last
	// that the database has. Without Signed nobody knows what was signed.
	Signed int64 `json:"signed"`
	Have   int64 `json:"have"`
	// Losses are by organisation.
	Losses []Loss `json:"losses"`

	k     *Keeper
	have  audit.Tip
	marks map[string]audit.Mark // of the database

	signed map[string]audit.Mark // of the file of the heads, and of the sink
}

// Plan finds out what is lost if this database is gone on with. It returns nil if nothing
// is: then the database continues what was signed. A database whose last checkpoints no
// trusted key signed is not gone on with: a loss can be accepted, a forgery cannot. Nothing
// is changed.
func Plan(ctx context.Context, cfg Config) (*Restoration, error) {
	k, err := Open(ctx, cfg)
	if err == nil {
		return nil, k.Close()
	}
	if !Mismatched(err) {
		return nil, err
	}
	k = newKeeper(cfg)
	heads, err := ReadHeads(cfg.Dir, k.keys)
	if err != nil && !Mismatched(err) {
		return nil, err
	}
	if heads != nil {
		k.load(*heads)
	}
	if err := k.loadSink(); err != nil {
		return nil, err
	}
	r := &Restoration{Signed: k.tip.Serial, k: k, marks: make(map[string]audit.Mark), signed: maps.Clone(k.marks)}
	last, err := cfg.Store.Audit.LastChained(ctx)
	if err != nil {
		return nil, err
	}
	if last != nil {
		if err := k.trusted(*last); err != nil {
			return nil, err // signing after it would vouch for it
		}
		r.have, r.Have = last.Tip(), last.Place.Serial
	}
	if err := r.compare(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(r.Losses, func(a, b Loss) int { return strings.Compare(a.Org, b.Org) })
	return r, nil
}

// compare notes what is lost of every organisation.
func (r *Restoration) compare(ctx context.Context) error {
	k := r.k
	orgs, err := k.cfg.Store.Audit.AuditOrgs(ctx)
	if err != nil {
		return err
	}
	for org := range k.marks {
		orgs = append(orgs, org)
	}
	slices.Sort(orgs)
	broken := make(map[string]bool)
	for _, org := range slices.Compact(orgs) {
		last, err := k.cfg.Store.Audit.LastChainedOf(ctx, org, 1)
		if err != nil {
			return err
		}
		if len(last) > 0 {
			if err := k.trusted(last[0]); err != nil {
				return err
			}
			r.marks[org] = last[0].Mark()
		}
		if m, known := k.marks[org]; known {
			if broken[org], err = r.add(ctx, org, m); err != nil {
				return err
			}
		}
	}
	// Entries that are not signed yet, and do not follow those that are.
	return k.eachGrown(ctx, func(u store.Unsigned) error {
		org := u.Head.Org
		if broken[org] {
			return nil
		}
		if m, ok := r.marks[org]; ok {
			k.marks[org] = m // it may be later than the file of the heads
		}
		err := k.linked(ctx, u)
		if Mismatched(err) {
			r.Losses = append(r.Losses, Loss{Org: org, From: k.marks[org].Seq + 1, To: u.Head.Seq})
			return nil
		}
		return err
	})
}

// loadSink takes in what a sink knows and the file of the heads does not.
func (k *Keeper) loadSink() error {
	if k.cfg.Sink == nil {
		return nil
	}
	tip := audit.Checkpoint{Place: &audit.Place{}}
	last := make(map[string]audit.Checkpoint)
	err := k.sinkKnown(k.cfg.Sink, true, func(c audit.Checkpoint) {
		if c.Place.Serial > tip.Place.Serial {
			tip = c
		}
		if old, ok := last[c.Org]; !ok || c.Place.Number > old.Place.Number {
			last[c.Org] = c
		}
	})
	if err != nil {
		return err
	}
	if tip.Place.Serial > k.tip.Serial {
		k.tip = tip.Tip()
	}
	for org, c := range last {
		if c.Place.Number > k.marks[org].Number {
			k.marks[org] = c.Mark()
		}
	}
	return nil
}

// add notes what is lost of an organisation, and reports whether something is.
func (r *Restoration) add(ctx context.Context, org string, m audit.Mark) (bool, error) {
	l, err := r.k.loss(ctx, m)
	if err != nil {
		return false, err
	}
	have := r.marks[org]
	if l.From > l.To && have.Number >= m.Number && (have.Number > m.Number || have == m) {
		return false, nil
	}
	r.Losses = append(r.Losses, l)
	return true, nil
}

// Do accepts the loss: it writes an entry into the audit log of every organisation that
// lost something, or of org if that is none, signs all chains, and writes the file of the
// heads.
func (r *Restoration) Do(ctx context.Context, by haft.Principal) error {
	k := r.k
	lost := make(map[string]Loss)
	for _, l := range r.Losses {
		lost[l.Org] = l
	}
	if len(lost) == 0 {
		lost[by.Org] = Loss{Org: by.Org, From: 1}
	}
	if err := r.recordLoss(ctx, lost, by); err != nil {
		return err
	}
	if err := k.cfg.Store.Audit.ResetTip(ctx); err != nil {
		return err
	}
	// What is in the database is the beginning of what is signed from now on.
	lostTip, lostMarks := k.tip, r.signed
	k.tip, k.marks = r.have, r.marks
	var list []audit.Checkpoint
	tip := r.have
	for _, org := range slices.Sorted(maps.Keys(lost)) {
		head, err := k.cfg.Store.Audit.AuditHead(ctx, org)
		if err != nil {
			return err
		}
		c := k.cfg.Signer.SignLoss(head, r.marks[org], lostMarks[org], tip, lostTip, time.Now())
		list, tip = append(list, c), c.Tip()
	}
	if err := k.cfg.Store.Audit.AddCheckpoints(ctx, r.have.Serial, list); err != nil {
		return err
	}
	k.tip = tip
	for _, c := range list {
		k.marks[c.Org] = c.Mark()
	}
	k.stale = true
	return k.writeHeads()
}

// recordLoss writes entries about the loss into the audit log.
func (r *Restoration) recordLoss(ctx context.Context, lost map[string]Loss, by haft.Principal) error {
	var b store.Batch
	for org, l := range lost {
		mark := r.signed[org]
		body, err := json.Marshal(map[string]any{
			"lost_from": l.From, "lost_to": l.To, "signed_hash": mark.Hash,
			"signed_checkpoint": r.Signed, "database_checkpoint": r.Have,
		})
		if err != nil {
			return fmt.Errorf("encode what is lost: %w", err)
		}
		b.Audit = append(b.Audit, audit.Entry{Org: org, Time: time.Now(), Kind: Kind, Actor: by, Body: body})
	}
	slices.SortFunc(b.Audit, func(a, b audit.Entry) int { return strings.Compare(a.Org, b.Org) })
	return r.k.cfg.Store.Commit(ctx, b)
}
