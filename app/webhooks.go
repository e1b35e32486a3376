package app

import (
	"context"
	"fmt"
	"time"

	"haft/internal/egress"
	"haft/internal/webhook"
)

// openWebhooks opens the sender of webhooks. Its guard follows no redirects and reads no
// long answers.
func (s *Service) openWebhooks(ctx context.Context, cfg ServiceConfig) (err error) {
	nc := cfg.Webhooks
	if nc.Client == nil {
		guard := egress.New(egress.Config{Allow: cfg.Allow, Redirects: -1, Timeout: 15 * time.Second,
			MaxBytes: 1 << 20, Mock: cfg.Egress.Mock})
		nc.Client = guard.Client()
		s.closers = append(s.closers, func() error { guard.CloseIdle(); return nil })
	}
	if nc.Logger == nil {
		nc.Logger = s.App.cfg.Logger
	}
	nc.Manage, nc.May, nc.Cursor, nc.Watch = s.Manage, s.May, s.API.Cursor, s.API.WatchFor
	nc.Seal, nc.Open = s.vault.Seal, s.vault.Open
	nc.Idle = !cfg.Deliver
	if s.Sender, err = webhook.Open(ctx, s.Store, nc); err != nil {
		return fmt.Errorf("open webhooks: %w", err)
	}
	s.closers = append(s.closers, s.Sender.Close)
	return nil
}
