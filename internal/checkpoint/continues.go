package checkpoint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
)

// A Mismatch says that the database is not one that continues what was signed last.
type Mismatch struct {
	// Serial is that of the last checkpoint that was signed.
	Serial int64
	// Losses are of the organisations whose signed entries are not there.
	Losses []Loss
	// Damaged says what is wrong with the checkpoints themselves, if that is it.
	Damaged string
}

// A Loss is what is not there of an organisation: entries that were signed.
type Loss struct {
	Org string `json:"org"`
	// From and To are the numbers of the first and last entry that are missing or were
	// replaced. From after To means that only the signature is gone.
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Error implements error.
func (m *Mismatch) Error() string {
	if m.Damaged != "" {
		return m.Damaged
	}
	if len(m.Losses) == 0 {
		return fmt.Sprintf("checkpoint %d, which was signed last, is not in the database", m.Serial)
	}
	const few = 3
	var texts []string
	for _, l := range m.Losses[:min(few, len(m.Losses))] {
		texts = append(texts, l.String())
	}
	if more := len(m.Losses) - few; more > 0 {
		texts = append(texts, fmt.Sprintf("and of %d more organisations", more))
	}
	return strings.Join(texts, "; ")
}

// String says what is lost, without values.
func (l Loss) String() string {
	switch {
	case l.From > l.To:
		return fmt.Sprintf("the signature of entry %d of organisation %q is missing", l.To, l.Org)
	case l.From == l.To:
		return fmt.Sprintf("entry %d of organisation %q is missing or was replaced", l.To, l.Org)
	}
	return fmt.Sprintf("entries %d to %d of organisation %q are missing or were replaced", l.From, l.To, l.Org)
}

// wrap makes an error of m that says what to do.
func (m *Mismatch) wrap() error {
	return &haft.Error{Code: haft.CodeConflict, Err: m,
		Message: "the database does not continue the audit log that was signed last: " + m.Error() +
			". Put back the right database, or, if an older one was put back on purpose, run: haft restore " +
			"--accept-loss"}
}

// damaged is the error for checkpoints that cannot be believed.
func damaged(serial int64, format string, args ...any) error {
	m := &Mismatch{Serial: serial, Damaged: fmt.Sprintf(format, args...)}
	return m.wrap()
}

// continues reports a [*Mismatch] if the database does not have what was signed last: of
// all organisations if grown is nil, and else of those that have grown. This is the one
// rule that everything passes that is signed.
func (k *Keeper) continues(ctx context.Context, grown []store.Unsigned) error {
	var marks []audit.Mark
	if grown == nil {
		list, err := k.cfg.Store.Audit.ChainedFrom(ctx, k.tip.Serial, 1)
		if err != nil {
			return err
		}
		if k.tip.Serial > 0 && (len(list) == 0 || list[0].Tip() != k.tip) {
			return k.mismatch(ctx, nil)
		}
		marks = slices.Collect(maps.Values(k.marks))
	}
	for _, u := range grown {
		m, known := k.marks[u.Head.Org]
		switch {
		case u.Last != nil && u.Last.Place.Serial > k.tip.Serial:
			return &haft.Error{Code: haft.CodeConflict,
				Message: "another server has signed the audit log at the same time"}
		case !known && u.Last != nil:
			return unfit(*u.Last, "is not one that was signed here")
		case known && (u.Last == nil || u.Last.Mark() != m):
			return k.mismatch(ctx, []audit.Mark{m})
		}
		if known {
			marks = append(marks, m)
		}
	}
	gone, err := k.missing(ctx, marks)
	if err != nil {
		return err
	}
	if len(gone) > 0 {
		return k.mismatch(ctx, gone)
	}
	for _, u := range grown {
		if err := k.linked(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// missing returns those of marks whose entry is not in the database.
func (k *Keeper) missing(ctx context.Context, marks []audit.Mark) ([]audit.Mark, error) {
	has, err := hasEntries(ctx, k.cfg.Store, marks)
	return slices.DeleteFunc(marks, func(m audit.Mark) bool { return has[m.Head()] }), err
}

// hasEntries reports which entries of marks or checkpoints the database has.
func hasEntries[T interface{ Head() audit.Head }](ctx context.Context, s *store.Store,
	list []T) (map[audit.Head]bool, error) {
	heads := make([]audit.Head, len(list))
	for i, x := range list {
		heads[i] = x.Head()
	}
	return s.Audit.HasEntries(ctx, heads)
}

// linked reports that the entries after the last signature do not follow it. It looks at
// those that are there when the keeper is opened: later ones are written by this process,
// or by others who did the same.
func (k *Keeper) linked(ctx context.Context, u store.Unsigned) error {
	if k.opened {
		return nil
	}
	org := u.Head.Org
	from := audit.Head{Org: org}
	if m, ok := k.marks[org]; ok {
		from = m.Head()
	} else if old, err := k.unchained(ctx, org); err != nil {
		return err
	} else if old != nil {
		from = old.Head()
	}
	rep, err := audit.Verify(k.cfg.Store.Audit.TrailAfter(ctx, org, from.Seq), nil, k.keys, from)
	if err != nil {
		return err
	}
	if !rep.Sound() {
		return damaged(k.tip.Serial, "organisation %q: %s", org, rep.Problems[0])
	}
	return nil
}

// mismatch describes what is missing of marks, or of all organisations if it is nil.
func (k *Keeper) mismatch(ctx context.Context, marks []audit.Mark) error {
	m := &Mismatch{Serial: k.tip.Serial}
	if marks == nil {
		var err error
		if marks, err = k.missing(ctx, slices.Collect(maps.Values(k.marks))); err != nil {
			return err
		}
	}
	for _, mark := range marks {
		loss, err := k.loss(ctx, mark)
		if err != nil {
			return err
		}
		m.Losses = append(m.Losses, loss)
	}
	slices.SortFunc(m.Losses, func(a, b Loss) int { return strings.Compare(a.Org, b.Org) })
	return m.wrap()
}

// loss finds out from which entry on what was signed is not there: after the last
// checkpoint that a trusted key signed and that still fits its entry.
func (k *Keeper) loss(ctx context.Context, m audit.Mark) (Loss, error) {
	l := Loss{Org: m.Org, From: 1, To: m.Seq}
	gone, err := k.missing(ctx, []audit.Mark{m})
	if err != nil {
		return l, err
	}
	if len(gone) == 0 {
		l.From = m.Seq + 1
		return l, nil
	}
	points, err := k.cfg.Store.Audit.LastChainedOf(ctx, m.Org, store.MaxPage)
	if err != nil {
		return l, err
	}
	has, err := hasEntries(ctx, k.cfg.Store, points)
	if err != nil {
		return l, err
	}
	for _, c := range points { // newest first
		if c.Seq < m.Seq && has[c.Head()] && c.Check(k.keys) == "" {
			l.From = c.Seq + 1
			break
		}
	}
	return l, nil
}
