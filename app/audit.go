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
	"haft/audit"
)

// auditFor reports why p may not see the audit of its organisation.
func (s *Service) auditFor(p haft.Principal) error {
	if p.Agent == "" && slices.Contains(p.Roles, haft.RoleAdmin) {
		return p.Check()
	}
	return &haft.Error{Code: haft.CodeDenied, Message: "the audit log is for administrators"}
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
// administer it, and returns what was found in it.
func (s *Service) WriteAudit(ctx context.Context, p haft.Principal, w io.Writer) (audit.Report, error) {
	if err := s.auditFor(p); err != nil {
		return audit.Report{}, err
	}
	points, err := s.Store.AllCheckpoints(ctx, p.Org)
	if err != nil {
		return audit.Report{}, err
	}
	rep, err := audit.Export(w, s.Store.Trail(ctx, p.Org), audit.Extract{
		From: audit.Head{Org: p.Org}, Checkpoints: points, Keys: s.Keys, Signer: s.Signer, Time: time.Now(),
	})
	if err != nil {
		return rep, fmt.Errorf("export the audit log: %w", err)
	}
	return rep, nil
}

// VerifyAudit says whether the audit of p's organisation is what was written.
func (s *Service) VerifyAudit(ctx context.Context, p haft.Principal) (audit.Report, error) {
	if err := s.auditFor(p); err != nil {
		return audit.Report{}, err
	}
	points, err := s.Store.AllCheckpoints(ctx, p.Org)
	if err != nil {
		return audit.Report{}, err
	}
	return audit.Verify(s.Store.Trail(ctx, p.Org), points, s.Keys, audit.Head{Org: p.Org})
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
func (s *Service) auditPage(ctx context.Context, p haft.Principal, f haft.AuditFilter, after haft.AuditPlace) ([]audit.Entry, *haft.AuditPlace, error) {
	if err := s.auditFor(p); err != nil {
		return nil, nil, err
	}
	list, next, err := s.Store.FindAudit(ctx, p.Org, f, after)
	return append([]audit.Entry{}, list...), next, err
}

// AuditEntries returns a page of entries for the HTTP server.
func (s *Service) AuditEntries(ctx context.Context, p haft.Principal, f haft.AuditFilter, after haft.AuditPlace) (any, *haft.AuditPlace, error) {
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
