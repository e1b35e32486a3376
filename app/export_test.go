package app

import "context"

// SignAudit signs the audit now.
func (s *Service) SignAudit(ctx context.Context) error { return s.keeper.Sign(ctx) }

// Owner is that of a Service with a key and a data directory.
func Owner(key []byte, data string) string { return (&Service{digestKey: key}).owner(data) }
