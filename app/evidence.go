package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/checkpoint"
	"haft/internal/engine"
	"haft/internal/store"
)

// openAudit reads the keys of the audit and demands, before anything else is done, that the
// database continues what was signed last. A system that keeps nothing signs nothing.
func (s *Service) openAudit(ctx context.Context, cfg ServiceConfig) (err error) {
	s.data = cfg.Data
	if cfg.Data == "" {
		return nil
	}
	used, err := s.used(ctx)
	if err != nil {
		return err
	}
	// All keys are there before the first thing is written that needs them.
	if s.digestKey, err = s.boundKey(ctx, s.data, digestFile, used); err != nil {
		return err
	}
	kc, err := s.keeperConfig(cfg, used)
	if err != nil {
		return err
	}
	if s.keeper, err = checkpoint.Open(ctx, kc); err != nil {
		return err
	}
	s.closers = append(s.closers, s.keeper.Close)
	return nil
}

// keeperConfig reads the keys of the audit, and opens the sink.
func (s *Service) keeperConfig(cfg ServiceConfig, used bool) (checkpoint.Config, error) {
	var err error
	if s.Signer, s.Keys, err = auditKeys(cfg.Data, used); err != nil {
		return checkpoint.Config{}, err
	}
	kc := checkpoint.Config{Store: s.Store, Signer: s.Signer, Keys: s.Keys, Dir: cfg.Data, Logger: cfg.Logger}
	if cfg.AuditSink != "" {
		if kc.Sink, err = checkpoint.OpenSink(cfg.AuditSink); err != nil {
			return kc, err
		}
	}
	return kc, nil
}

// OpenEvidence opens a system only to look at its audit, whatever state that is in: nothing
// is run, taken over, written or signed.
func OpenEvidence(ctx context.Context, cfg ServiceConfig) (_ *Service, err error) {
	s := &Service{data: cfg.Data}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.openStore(ctx, cfg); err != nil {
		return nil, err
	}
	used, err := s.used(ctx)
	if err != nil {
		return nil, err
	}
	if _, s.Keys, err = auditKeys(cfg.Data, used); err != nil {
		return nil, err
	}
	return s, nil
}

// Mismatched reports whether err says that the database does not continue the audit that
// was signed last.
func Mismatched(err error) bool {
	_, ok := errors.AsType[*checkpoint.Mismatch](err)
	return ok
}

// A Loss is what is given up by whoever goes on with a data directory: files that are
// missing or are not those that belong there, or a part of the audit that was signed.
type Loss struct {
	Files []string
	Audit *checkpoint.Restoration
}

// Restore finds out what is lost if the data directory in cfg is gone on with though files
// of it are missing, or its database does not continue the audit that was signed. If
// something is, accept is asked, maybe more than once, and if it agrees that is written
// into the audit as done by p. Nothing else may use the database.
func Restore(ctx context.Context, cfg ServiceConfig, p haft.Principal, accept func(Loss) (bool, error)) (err error) {
	s := &Service{data: cfg.Data}
	defer func() { err = errors.Join(err, s.Close()) }()
	files := func(lost []string) (bool, error) { return accept(Loss{Files: lost}) }
	if opened, err := s.openDamaged(ctx, cfg, p, files); err != nil || !opened {
		return err
	}
	if err := s.unused(ctx); err != nil {
		return err
	}
	if went, err := s.restoreKeys(ctx, p, files); err != nil || !went {
		return err
	}
	kc, err := s.keeperConfig(cfg, true)
	if err != nil {
		return err
	}
	plan, err := checkpoint.Plan(ctx, kc)
	if err != nil || plan == nil {
		return err
	}
	yes, err := accept(Loss{Audit: plan})
	if err != nil || !yes {
		return err
	}
	if err := plan.Do(ctx, p); err != nil {
		return fmt.Errorf("accept the loss: %w", err)
	}
	return nil
}

// restoreKeys makes new keys in place of those that are lost, if ask agrees, and writes
// that into the audit first. It reports false if ask does not.
func (s *Service) restoreKeys(ctx context.Context, p haft.Principal,
	ask func(lost []string) (bool, error)) (bool, error) {
	list, err := s.lostKeys(ctx)
	if err != nil || len(list) == 0 {
		return err == nil, err
	}
	lost := make([]string, len(list))
	for i, l := range list {
		lost[i] = l.Error() + ": " + l.consequence()
	}
	if yes, err := ask(lost); err != nil || !yes {
		return false, err
	}
	if err := s.Store.Commit(ctx, store.Batch{Audit: []audit.Entry{restoredEntry(p, lost)}}); err != nil {
		return false, err
	}
	return true, s.replaceKeys(ctx, list)
}

// aliveFor is how long a process that shares the database counts as alive.
const aliveFor = 30 * time.Second

// unused reports that a server has the database. The embedded one is locked by its opener.
func (s *Service) unused(ctx context.Context) error {
	if !s.Store.Shared() {
		return nil
	}
	alive, err := s.Store.Alive(ctx, time.Now().Add(-aliveFor))
	if err != nil {
		return err
	}
	if alive {
		return &haft.Error{Code: haft.CodeConflict,
			Message: "a haft server is using this database: stop every one of them, and wait 30 seconds after one " +
				"that crashed"}
	}
	return nil
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
func (s *Service) known(ctx context.Context, org string, all bool) (*evidence, error) {
	e := &evidence{}
	var heads *audit.Heads
	if s.data != "" {
		var err error
		heads, err = checkpoint.ReadHeads(s.data, s.Keys)
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
	counted, err := s.count(ctx, e, tip, all)
	if err != nil {
		return nil, err
	}
	if s.data != "" && heads == nil && counted && len(e.problems) == 0 {
		e.problems = append(e.problems, audit.Problem{Kind: audit.NoHeads})
	}
	e.points, err = s.Store.AllCheckpoints(ctx, org)
	return e, err
}

// maxUncounted bounds the problems of the chain of all organisations that are listed.
const maxUncounted = 10

// count looks at the chain of the checkpoints of all organisations, which must have tip, and
// reports whether there is one.
func (s *Service) count(ctx context.Context, e *evidence, tip audit.Tip, all bool) (bool, error) {
	var last audit.Tip
	if !all {
		list, err := s.Store.ChainedFrom(ctx, tip.Serial, 1)
		if err == nil && tip.Serial > 0 && (len(list) == 0 || list[0].Tip() != tip) {
			e.problems = append(e.problems, audit.Problem{Kind: audit.Uncounted, Seq: tip.Serial})
		}
		return len(list) > 0, err
	}
	found, n := tip.Serial == 0, 0
	for {
		list, err := s.Store.ChainedFrom(ctx, last.Serial+1, store.MaxPage)
		if err != nil {
			return false, err
		}
		for _, c := range list {
			// Up to the signed file of heads the hashes suffice.
			if !c.FollowsTip(last) || c.Place.Serial > tip.Serial && c.Check(s.Keys) != "" {
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

// withAudit adds how the audit is to the counts of the engine.
func (s *Service) withAudit(st engine.Stats) engine.Stats {
	if s.keeper == nil {
		return st
	}
	pending, err := s.keeper.SinkStats()
	st.Unsigned, st.SinkPending, st.SinkFailing = s.keeper.Err() != nil, pending, err != nil
	return st
}

// auditWarnings names what is wrong with the audit though calls work.
func (s *Service) auditWarnings() []string {
	if s.keeper != nil {
		if _, err := s.keeper.SinkStats(); err != nil {
			return []string{"audit_sink"}
		}
	}
	return nil
}
