package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"haft"
	"haft/internal/store"
	"haft/internal/store/redo"
)

// settleWait is how long a backup waits until a running server has brought into the
// database what it had acknowledged before.
const settleWait = 30 * time.Second

// Backup writes a copy of the database in dir to a new file, while another process uses it
// or not. The copy has everything that was acknowledged before, needs no log, and is of one
// moment. It is made by a reader of the database, which is in nobody's way.
func Backup(ctx context.Context, dir, file string) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Join(dir, fileName)); err != nil || info.Size() == 0 {
		return &haft.Error{Code: haft.CodeNotFound,
			Message: "there is no database " + fileName + " in the data directory", Err: err}
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, fileName)),
		RawQuery: "mode=ro&_pragma=busy_timeout(5000)"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var epoch int64
	if err := db.QueryRowContext(ctx, "SELECT COALESCE(SUM(value), 0) FROM marks WHERE name = 'redo_epoch'").Scan(
		&epoch); err != nil {
		return fmt.Errorf("read the database: %w", explained(err))
	}
	if epoch != 0 { // a server has it, or crashed
		if err := takeUp(ctx, dir); err != nil {
			return err
		}
		if err := settled(ctx, db, dir, epoch); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return cause(err)
	}
	if err := f.Close(); err != nil {
		return cause(err)
	}
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", file); err != nil {
		return fmt.Errorf("copy the database: %w", explained(err))
	}
	return complete(ctx, file)
}

// takeUp brings into the database what a server left in its log that crashed. If one is
// running, that does so.
func takeUp(ctx context.Context, dir string) error {
	lock, err := lockDir(ctx, dir, 0)
	if haft.CodeOf(err) == haft.CodeConflict {
		return nil
	}
	if err = errors.Join(err, lock.Close()); err != nil {
		return err
	}
	s, err := Open(ctx, Config{Dir: dir, NoLog: true})
	if err != nil {
		return err
	}
	return s.Close()
}

// explained is an error of the driver in plain words, if there are some.
func explained(err error) error {
	if e := explain(err, nil); e != nil {
		return e
	}
	return err
}

// settled waits until the database has what was acknowledged in the log of an epoch before.
func settled(ctx context.Context, db *sql.DB, dir string, epoch int64) error {
	last, err := logEnd(dir, epoch)
	if err != nil {
		return err
	}
	until := time.Now().Add(settleWait)
	for {
		var waiting bool
		const behind = `SELECT COUNT(*) = 2 FROM marks WHERE name = 'redo_epoch' AND value = ? OR name = 'redo' AND value < ?`
		if err := db.QueryRowContext(ctx, behind, epoch, last).Scan(&waiting); err != nil {
			return fmt.Errorf("read how far the database is: %w", explained(err))
		}
		if !waiting {
			return nil
		}
		if time.Now().After(until) {
			return &haft.Error{Code: haft.CodeUnavailable,
				Message: "the server does not bring what it acknowledged into the database: look at its log"}
		}
		timer := time.NewTimer(poll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// logEnd returns the number of the last record of an epoch in the log of a directory, which
// a server may be writing; 0 means that there is none. It does not rely on the head: that
// may be half written, and a server of an earlier version writes none.
func logEnd(dir string, epoch int64) (last int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, fmt.Errorf("open the directory of the log: %w", err)
	}
	c, err := redo.Read(root, store.LogName, uint64(epoch), 0)
	if c.Head != nil && c.Head.Epoch == uint64(epoch) {
		c.Last = max(c.Last, c.Head.Last)
	}
	return int64(c.Last), errors.Join(err, root.Close())
}

// complete has a copy of the database name no log, and know none, so that one beside which
// it is put alone is noticed, and brings it to the disk.
func complete(ctx context.Context, file string) (err error) {
	db, err := sql.Open("sqlite",
		(&url.URL{Scheme: "file", Path: filepath.ToSlash(file), RawQuery: "_pragma=synchronous(FULL)"}).String())
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, "UPDATE marks SET value = 0 WHERE name IN ('redo_epoch', 'redo_checked')")
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("complete the copy of the database: %w", explained(err))
	}
	return syncFile(file)
}
