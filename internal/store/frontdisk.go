package store

import (
	"context"
	"errors"
	"fmt"

	"haft/internal/store/redo"
)

// errUnsafe: see trim.
var errUnsafe = errors.New("the database could not be brought to the disk")

// trim frees the room of what is in the database. It fails for good once the disk
// did: Linux reports a page that it could not write to one fsync and then takes it for
// written, so that the next one says that all is well. A log that is full for good is
// one that everything goes past.
func (f *front) trim(log *redo.Log, applied uint64) error {
	if f.unsafe.Load() {
		return errUnsafe
	}
	if err := f.s.dialect.Sync(); err != nil {
		f.unsafe.Store(true)
		f.report(partSync, err)
		return fmt.Errorf("%w: %w", errUnsafe, err)
	}
	log.Trim(applied)
	return nil
}

// checkSync returns err, and notes if it says that an fsync of the database failed: the
// log keeps its records from then on, see trim.
func (f *front) checkSync(err error) error {
	if f != nil && err != nil && f.s.dialect.Unsynced(err) {
		f.unsafe.Store(true)
		f.report(partSync, err)
	}
	return err
}

// checkpoint moves the pages that SQLite has in its own log to their places, when there
// are many. SQLite would do so by itself, but tells nobody when the disk fails meanwhile.
// Precondition: the turn is taken, and no transaction is open.
func (f *front) checkpoint(ctx context.Context) {
	if f == nil {
		return
	}
	if f.commits++; f.commits%checkEvery != 0 || !f.s.dialect.Due() {
		return
	}
	var busy, frames, moved int64
	err := f.s.conn.QueryRowContext(ctx, f.s.dialect.Checkpoint).Scan(&busy, &frames, &moved)
	f.report(partCheckpoint, f.checkSync(err)) // the next commit tries again
}

// The parts of the front that can fail while calls go on, and what is logged of them.
const (
	partOpen = iota
	partWrite
	partApply
	partSync
	partCheckpoint
)

// report logs that a part of the front fails, or works again, when that changes.
func (f *front) report(part int, err error) {
	bit := uint32(1) << part
	if (err != nil) == (f.failing.Load()&bit != 0) {
		return
	}
	texts := [...]string{
		partOpen:  "open the log in front of the database: without it calls are only slower",
		partWrite: "write to the log in front of the database: calls go to the database itself",
		partApply: "bring calls from the log into the database: they are safe in the log, and others are " +
			"refused meanwhile",
		partSync: "bring the database to the disk: the log keeps what it has; look at the disk, and start " +
			"haft again",
		partCheckpoint: "move pages of the database to their places: haft.db-wal grows",
	}
	if err == nil {
		f.failing.And(^bit)
		f.s.cfg.Logger.Info("store: it works again: " + texts[part])
		return
	}
	f.failing.Or(bit)
	f.s.cfg.Logger.Error("store: failed to "+texts[part], "file", LogName, "error", err)
}

// erase overwrites what the log still holds of what is in the database.
// Precondition: the order and the turn are taken, and everything acknowledged is in
// the database.
func (f *front) erase() error {
	if f.log != nil {
		if err := f.trim(f.log, f.applied); err != nil {
			return err
		}
	}
	return redo.Erase(f.root, LogName)
}
