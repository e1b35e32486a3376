package checkpoint

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/authority"
	"haft/internal/store"
)

// An AuditLog reads, exports and verifies the audit logs of all organisations. It
// changes nothing.
type AuditLog struct {
	Store *store.Store
	// Dir is the data directory, which says what was signed last; "" means that there
	// is none.
	Dir string
	// Keys verify checkpoints. Signer signs what is exported; nil leaves it unsigned.
	Keys   audit.Keys
	Signer *audit.Signer
	// MayRead reports why a principal may not see the audit of its organisation. Nil
	// means by the rules of a server without configuration.
	MayRead func(p haft.Principal) error
}

// permit reports why p may not see the audit of its organisation.
func (l *AuditLog) permit(p haft.Principal) error {
	if l.MayRead == nil {
		return authority.Rules{}.Authorize(p, haft.AuditRead, authority.Resource{})
	}
	return l.MayRead(p)
}

// ExportAudit is WriteAudit for the HTTP server. With a filter it writes only what
// fits it, one entry on each line: that is no chain, and proves nothing.
func (l *AuditLog) ExportAudit(ctx context.Context, p haft.Principal, f haft.AuditFilter, w io.Writer) error {
	if !f.Narrow() {
		_, err := l.WriteAudit(ctx, p, w)
		return err
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for e, err := range l.FindAudit(ctx, p, f) {
		if err == nil {
			err = out.Encode(e)
		}
		if err != nil {
			return fmt.Errorf("export a part of the audit log: %w", err)
		}
	}
	return nil
}

// WriteAudit writes the audit of p's organisation as JSON lines, for those who
// administer it, and returns what was found in it. It is signed only if it continues what
// was signed last.
func (l *AuditLog) WriteAudit(ctx context.Context, p haft.Principal, w io.Writer) (audit.Report, error) {
	if err := l.permit(p); err != nil {
		return audit.Report{}, err
	}
	k, err := l.known(ctx, p.Org, false)
	if err != nil {
		return audit.Report{}, err
	}
	x := audit.Extract{
		From: audit.Head{Org: p.Org}, Checkpoints: k.points, Marks: k.marks, Keys: l.Keys, Signer: l.Signer,
		Time: time.Now(),
	}
	if len(k.problems) > 0 {
		x.Signer = nil
	}
	rep, err := audit.Export(w, l.Store.Audit.Trail(ctx, p.Org), x)
	if err != nil {
		return rep, fmt.Errorf("export the audit log: %w", err)
	}
	return k.add(rep), nil
}

// VerifyAudit says whether the audit of p's organisation is what was written. Besides the
// checkpoints in the database it must have marks, which are known from elsewhere, and what
// the data directory says was signed last.
func (l *AuditLog) VerifyAudit(ctx context.Context, p haft.Principal, marks []audit.Mark) (audit.Report, error) {
	if err := l.permit(p); err != nil {
		return audit.Report{}, err
	}
	k, err := l.known(ctx, p.Org, true)
	if err != nil {
		return audit.Report{}, err
	}
	marks = append(slices.Clone(marks), k.marks...)
	rep, err := audit.VerifyMarks(l.Store.Audit.Trail(ctx, p.Org), k.points, l.Keys, audit.Head{Org: p.Org}, marks)
	return k.add(rep), err
}

// FindAudit yields the entries of the audit of p's organisation that fit f.
func (l *AuditLog) FindAudit(ctx context.Context, p haft.Principal, f haft.AuditFilter) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		var after haft.AuditPlace
		for n := 0; ; {
			list, next, err := l.auditPage(ctx, p, f, after)
			if err != nil {
				yield(audit.Entry{}, err)
				return
			}
			for _, e := range list {
				if n++; !yield(e, nil) || n == f.Limit {
					return
				}
			}
			if next == nil {
				return
			}
			after = *next
		}
	}
}

// auditPage returns a page of entries that fit f, and where to go on.
func (l *AuditLog) auditPage(ctx context.Context, p haft.Principal, f haft.AuditFilter,
	after haft.AuditPlace) ([]audit.Entry, *haft.AuditPlace, error) {
	if err := l.permit(p); err != nil {
		return nil, nil, err
	}
	list, next, err := l.Store.Audit.FindAudit(ctx, p.Org, f, after)
	return append([]audit.Entry{}, list...), next, err
}

// AuditEntries returns a page of entries for the HTTP server.
func (l *AuditLog) AuditEntries(ctx context.Context, p haft.Principal, f haft.AuditFilter,
	after haft.AuditPlace) (any, *haft.AuditPlace, error) {
	return l.auditPage(ctx, p, f, after)
}

// AuditKeys returns the public keys that prove the audit, as PEM.
func (l *AuditLog) AuditKeys(_ context.Context, p haft.Principal) ([]byte, error) {
	if err := l.permit(p); err != nil {
		return nil, err
	}
	if len(l.Keys) == 0 {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "nothing signs the audit log here"}
	}
	return l.Keys.PEM()
}

// evidence is what is known of the audit of an organisation besides its entries.
type evidence struct {
	points   []audit.Checkpoint
	marks    []audit.Mark
	problems []audit.Problem
}

// add adds the problems to those of a report.
func (e *evidence) add(rep audit.Report) audit.Report {
	for _, p := range e.problems {
		rep.Add(p)
	}
	return rep
}

// known reads what was signed of an organisation, in the data directory and then in the
// database, which is later then. If all is set it also looks at the chain of the checkpoints
// of all organisations, and else only at its end: who exports one log does not have those of
// all others read.
func (l *AuditLog) known(ctx context.Context, org string, all bool) (*evidence, error) {
	e := &evidence{}
	var heads *audit.Heads
	if l.Dir != "" {
		var err error
		heads, err = ReadHeads(l.Dir, l.Keys)
		if haft.CodeOf(err) == haft.CodeConflict {
			e.problems = append(e.problems, audit.Problem{Kind: audit.NoHeads})
		} else if err != nil {
			return nil, err
		}
	}
	var tip audit.Tip
	if heads != nil {
		tip = heads.Tip
		if m, ok := heads.Find(org); ok {
			e.marks = []audit.Mark{m}
		}
	}
	counted, err := l.count(ctx, e, tip, all)
	if err != nil {
		return nil, err
	}
	if l.Dir != "" && heads == nil && counted && len(e.problems) == 0 {
		e.problems = append(e.problems, audit.Problem{Kind: audit.NoHeads})
	}
	e.points, err = l.Store.Audit.AllCheckpoints(ctx, org)
	return e, err
}

// maxUncounted bounds the problems of the chain of all organisations that are listed.
const maxUncounted = 10

// count looks at the chain of the checkpoints of all organisations, which must have tip, and
// reports whether there is one.
func (l *AuditLog) count(ctx context.Context, e *evidence, tip audit.Tip, all bool) (bool, error) {
	var last audit.Tip
	if !all {
		list, err := l.Store.Audit.ChainedFrom(ctx, tip.Serial, 1)
		if err == nil && tip.Serial > 0 && (len(list) == 0 || list[0].Tip() != tip) {
			e.problems = append(e.problems, audit.Problem{Kind: audit.Uncounted, Seq: tip.Serial})
		}
		return len(list) > 0, err
	}
	found, n := tip.Serial == 0, 0
	for {
		list, err := l.Store.Audit.ChainedFrom(ctx, last.Serial+1, store.MaxPage)
		if err != nil {
			return false, err
		}
		for _, c := range list {
			// Up to the signed file of heads the hashes suffice.
			if !c.FollowsTip(last) || c.Place.Serial > tip.Serial && c.Check(l.Keys) != "" {
				if n++; n <= maxUncounted {
					e.problems = append(e.problems, audit.Problem{Kind: audit.Uncounted, Seq: c.Place.Serial})
				}
			}
			last = c.Tip()
			found = found || last == tip
		}
		if len(list) < store.MaxPage {
			break
		}
	}
	if !found {
		e.problems = append(e.problems, audit.Problem{Kind: audit.Uncounted, Seq: tip.Serial})
	}
	return last.Serial > 0, nil
}
