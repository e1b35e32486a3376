package datadir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/checkpoint"
	"haft/internal/store"
	"haft/internal/store/sqlite"
)

// A Loss is what an operator gives up by continuing with a damaged data directory: files
// that are missing or wrong, or a part of the signed audit.
type Loss struct {
	Files []string
	Audit *checkpoint.Restoration
}

// RestoreConfig says which data directory to restore.
type RestoreConfig struct {
	Path string
	// Open opens the database. What accept returns is written to the audit if a part
	// of the log in front of the database is lost; nil refuses that.
	Open func(ctx context.Context, accept func(*store.LogLoss) audit.Entry) (*store.Store, error)
	// AuditSink is where copies of checkpoints are, see [checkpoint.OpenSink].
	AuditSink string
	Logger    *slog.Logger
}

// Restore makes a data directory usable of which files are missing, or whose database does
// not continue the signed audit. It calls accept with each loss, maybe more than once; a
// loss that accept agrees to is written into the audit as accepted by p. No other process
// may use the database.
func Restore(ctx context.Context, cfg RestoreConfig, p haft.Principal, accept func(Loss) (bool, error)) (err error) {
	files := func(lost []string) (bool, error) { return accept(Loss{Files: lost}) }
	d, err := openDamaged(ctx, cfg, p, files)
	if err != nil || d == nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Store.Close()) }()
	if err := d.unused(ctx); err != nil {
		return err
	}
	if went, err := d.restoreKeys(ctx, p, files); err != nil || !went {
		return err
	}
	kc, err := d.Checkpoints(cfg.AuditSink, true, cfg.Logger)
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

// restoreKeys makes new keys in place of lost ones, if ask agrees, and writes that into the
// audit first. It reports whether ask agreed or nothing was lost.
func (d *Dir) restoreKeys(ctx context.Context, p haft.Principal,
	ask func(lost []string) (bool, error)) (bool, error) {
	list, err := d.lostKeys(ctx)
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
	if err := d.Store.Commit(ctx, store.Batch{Audit: []audit.Entry{restoredEntry(p, lost)}}); err != nil {
		return false, err
	}
	return true, d.replaceKeys(ctx, list)
}

// A server that shares the database counts up its row every few seconds, and removes it when it stops. The row of a
// server that crashed stays, and its count stands still: watchFor is how long it has to, and watchEvery how often it is
// read.
const (
	watchFor   = 20 * time.Second
	watchEvery = 500 * time.Millisecond
)

// unused returns an error if a server uses the database. SQLite is locked when it is opened.
func (d *Dir) unused(ctx context.Context) error {
	if !d.Store.Shared() {
		return nil
	}
	before, err := d.Store.Processes.Beats(ctx)
	if err != nil || len(before) == 0 {
		return err
	}
	tick, end := time.NewTicker(watchEvery), time.After(watchFor)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end:
			return nil
		case <-tick.C:
		}
		now, err := d.Store.Processes.Beats(ctx)
		if err != nil {
			return err
		}
		for owner, count := range now {
			if was, ok := before[owner]; !ok || was != count {
				return &haft.Error{Code: haft.CodeConflict,
					Message: "a haft server is using this database: stop every one of them"}
			}
		}
	}
}

// restoredEntry is the entry of the audit about an accepted loss of files.
func restoredEntry(p haft.Principal, lost []string) audit.Entry {
	body, err := json.Marshal(map[string]any{"files": lost})
	if err != nil {
		body = nil // texts can be encoded
	}
	return audit.Entry{Org: p.Org, Time: time.Now(), Kind: checkpoint.Kind, Actor: p, Body: body}
}

// openDamaged opens the database. If files of it are missing, it asks first, and writes
// into the audit that the loss was accepted. It returns nil if ask does not agree.
func openDamaged(ctx context.Context, cfg RestoreConfig, p haft.Principal,
	ask func(lost []string) (bool, error)) (_ *Dir, err error) {
	db, err := cfg.Open(ctx, nil)
	log, isLog := errors.AsType[*store.LogLoss](err)
	none, isNone := errors.AsType[*sqlite.NoDatabase](err)
	var lost []string
	switch {
	case isLog:
		lost = []string{log.Error()}
	case isNone:
		lost = []string{none.Error()}
	case err != nil:
		return nil, err
	default:
		return &Dir{cfg.Path, db}, nil
	}
	if yes, err := ask(lost); err != nil || !yes {
		return nil, err
	}
	db, err = cfg.Open(ctx, func(l *store.LogLoss) audit.Entry { return restoredEntry(p, []string{l.Error()}) })
	if err != nil {
		return nil, err
	}
	d := &Dir{cfg.Path, db}
	if isNone {
		err = db.Commit(ctx, store.Batch{Audit: []audit.Entry{restoredEntry(p, lost)}})
	}
	if err == nil {
		err = d.forgetAdmin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return d, nil
}

// forgetAdmin moves admin.key away if the database has no API keys: the file belongs to a
// lost database, and the next server makes another one.
func (d *Dir) forgetAdmin(ctx context.Context) error {
	some, err := d.Store.Keys.HasKeys(ctx)
	if err != nil || some {
		return err
	}
	path := filepath.Join(d.Path, AdminFile)
	if err := os.Rename(path, path+".lost"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move %s away: %w", AdminFile, err)
	}
	return nil
}
