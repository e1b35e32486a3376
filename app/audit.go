package app

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
)

// auditFor reports why p may not see the audit of its organisation.
func (s *Service) auditFor(p haft.Principal) error {
	if s.Engine == nil { // of [OpenEvidence], which decides nothing else
		return authority.Rules{}.Authorize(p, haft.AuditRead, authority.Resource{})
	}
	return s.May(p, haft.AuditRead)
}

// ExportAudit is WriteAudit for the HTTP server. With a filter it writes only what
// fits it, one entry on each line: that is no chain, and proves nothing.
func (s *Service) ExportAudit(ctx context.Context, p haft.Principal, f haft.AuditFilter, w io.Writer) error {
	if !f.Narrow() {
		_, err := s.WriteAudit(ctx, p, w)
		return err
	}
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	for e, err := range s.FindAudit(ctx, p, f) {
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
func (s *Service) WriteAudit(ctx context.Context, p haft.Principal, w io.Writer) (audit.Report, error) {
	if err := s.auditFor(p); err != nil {
		return audit.Report{}, err
	}
	k, err := s.known(ctx, p.Org, false)
	if err != nil {
		return audit.Report{}, err
	}
	x := audit.Extract{
		From: audit.Head{Org: p.Org}, Checkpoints: k.points, Marks: k.marks, Keys: s.Keys, Signer: s.Signer,
		Time: time.Now(),
	}
	if len(k.problems) > 0 {
		x.Signer = nil
	}
	rep, err := audit.Export(w, s.Store.Trail(ctx, p.Org), x)
	if err != nil {
		return rep, fmt.Errorf("export the audit log: %w", err)
	}
	return k.add(rep), nil
}

// VerifyAudit says whether the audit of p's organisation is what was written. Besides the
// checkpoints in the database it must have marks, which are known from elsewhere, and what
// the data directory says was signed last.
func (s *Service) VerifyAudit(ctx context.Context, p haft.Principal, marks []audit.Mark) (audit.Report, error) {
	if err := s.auditFor(p); err != nil {
		return audit.Report{}, err
	}
	k, err := s.known(ctx, p.Org, true)
	if err != nil {
		return audit.Report{}, err
	}
	marks = append(slices.Clone(marks), k.marks...)
	rep, err := audit.VerifyMarks(s.Store.Trail(ctx, p.Org), k.points, s.Keys, audit.Head{Org: p.Org}, marks)
	return k.add(rep), err
}

// FindAudit yields the entries of the audit of p's organisation that fit f.
func (s *Service) FindAudit(ctx context.Context, p haft.Principal, f haft.AuditFilter) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		var after haft.AuditPlace
		for n := 0; ; {
			list, next, err := s.auditPage(ctx, p, f, after)
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
func (s *Service) auditPage(ctx context.Context, p haft.Principal, f haft.AuditFilter,
	after haft.AuditPlace) ([]audit.Entry, *haft.AuditPlace, error) {
	if err := s.auditFor(p); err != nil {
		return nil, nil, err
	}
	list, next, err := s.Store.FindAudit(ctx, p.Org, f, after)
	return append([]audit.Entry{}, list...), next, err
}

// AuditEntries returns a page of entries for the HTTP server.
func (s *Service) AuditEntries(ctx context.Context, p haft.Principal, f haft.AuditFilter,
	after haft.AuditPlace) (any, *haft.AuditPlace, error) {
	return s.auditPage(ctx, p, f, after)
}

// AuditKeys returns the public keys that prove the audit, as PEM.
func (s *Service) AuditKeys(_ context.Context, p haft.Principal) ([]byte, error) {
	if err := s.auditFor(p); err != nil {
		return nil, err
	}
	if len(s.Keys) == 0 {
		return nil, &haft.Error{Code: haft.CodeNotFound, Message: "nothing signs the audit log here"}
	}
	return s.Keys.PEM()
}
