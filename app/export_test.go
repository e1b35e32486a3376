package app

import "context"

// SignAudit signs the audit now.
func (s *Service) SignAudit(ctx context.Context) error { return s.keeper.Sign(ctx) }
