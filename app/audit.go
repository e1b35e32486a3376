package app

import (
	"context"
	"fmt"
	"io"
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

// ExportAudit is WriteAudit for the HTTP server.
func (s *Service) ExportAudit(ctx context.Context, p haft.Principal, w io.Writer) error {
	_, err := s.WriteAudit(ctx, p, w)
	return err
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

// LastAudit returns the last entries of the audit of p's organisation, oldest first.
func (s *Service) LastAudit(ctx context.Context, p haft.Principal, last int) ([]audit.Entry, error) {
	if err := s.auditFor(p); err != nil {
		return nil, err
	}
	head, err := s.Store.AuditHead(ctx, p.Org)
	if err != nil {
		return nil, err
	}
	list, err := s.Store.AuditEntries(ctx, p.Org, max(0, head.Seq-int64(last)), last)
	if err != nil {
		return nil, err
	}
	return append([]audit.Entry{}, list...), nil
}

// AuditEntries is LastAudit for the HTTP server.
func (s *Service) AuditEntries(ctx context.Context, p haft.Principal, last int) (any, error) {
	return s.LastAudit(ctx, p, last)
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
