package app

import (
	"context"
	"errors"

	"haft"
	"haft/internal/audit"
	"haft/internal/checkpoint"
	"haft/internal/datadir"
	"haft/internal/engine"
	"haft/internal/store"
)

// openAudit reads the keys of the audit and checks, before anything else is done, that the
// database continues the audit that was signed last. Without a data directory nothing is
// signed.
func (s *Service) openAudit(ctx context.Context, cfg ServiceConfig) (err error) {
	s.AuditLog = &checkpoint.AuditLog{Store: s.Store, Dir: cfg.Data,
		MayRead: func(p haft.Principal) error { return s.May(p, haft.AuditRead) }}
	s.dir = &datadir.Dir{Path: cfg.Data, Store: s.Store}
	if cfg.Data == "" {
		return nil
	}
	used, err := s.dir.Used(ctx)
	if err != nil {
		return err
	}
	// All keys exist before anything is written that needs them.
	if s.digestKey, err = s.dir.Key(ctx, datadir.DigestFile, used); err != nil {
		return err
	}
	kc, err := s.dir.Checkpoints(cfg.AuditSink, used, cfg.Logger)
	if err != nil {
		return err
	}
	s.AuditLog.Keys, s.AuditLog.Signer = kc.Keys, kc.Signer
	if s.keeper, err = checkpoint.Open(ctx, kc); err != nil {
		return err
	}
	s.closers = append(s.closers, s.keeper.Close)
	return nil
}

// OpenEvidence opens a Service only to read its audit, in whatever state that is: it
// runs, adopts, writes and signs nothing.
func OpenEvidence(ctx context.Context, cfg ServiceConfig) (_ *Service, err error) {
	s := &Service{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.openStore(ctx, cfg); err != nil {
		return nil, err
	}
	if s.AuditLog, err = (&datadir.Dir{Path: cfg.Data, Store: s.Store}).AuditLog(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Restore is [datadir.Restore] for the data directory of cfg.
func Restore(ctx context.Context, cfg ServiceConfig, p haft.Principal,
	accept func(datadir.Loss) (bool, error)) error {
	open := func(ctx context.Context, loss func(*store.LogLoss) audit.Entry) (*store.Store, error) {
		return openStore(ctx, cfg, loss)
	}
	return datadir.Restore(ctx, datadir.RestoreConfig{Path: cfg.Data, Open: open, AuditSink: cfg.AuditSink,
		Logger: cfg.Logger}, p, accept)
}

// withAudit adds the state of the audit to the statistics of the engine.
func (s *Service) withAudit(st engine.Stats) engine.Stats {
	if s.keeper == nil {
		return st
	}
	pending, err := s.keeper.SinkStats()
	st.Unsigned, st.SinkPending, st.SinkFailing = s.keeper.Err() != nil, pending, err != nil
	return st
}

// Warnings names problems of the audit that do not stop calls.
func (s *Service) Warnings() []string {
	if s.keeper != nil {
		if _, err := s.keeper.SinkStats(); err != nil {
			return []string{"audit_sink"}
		}
	}
	return nil
}
