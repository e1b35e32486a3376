// Package sqlite opens a store in a directory of this machine.
//
// The directory belongs to one process at a time, see [Open]. That is what makes
// the store cheap: it writes with one connection and keeps in memory what nobody
// else can change.
package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver, under the name sqlite

	"haft"
	"haft/internal/store"
)

// The files of the directory. SQLite adds two that begin like the first.
const (
	fileName = "haft.db"
	lockName = "lock"
)

// Config says where the store is. The zero value is a store that nobody finds
// again, for tests.
type Config struct {
	// Dir is the directory, which is made if it is not there. Empty means a new
	// one that is removed when the store is closed, and where nothing waits for
	// the disk.
	Dir string
	// Wait is how long to wait for another process that uses Dir; 0 means not at
	// all.
	Wait time.Duration
	// Busy says that many calls will come, see [store.Config].
	Busy bool
	// NoLog, AcceptLoss and Logger are those of [store.Config].
	NoLog      bool
	AcceptLoss store.AcceptLoss
	Logger     *slog.Logger
	// Siblings are names of files that stand in Dir only beside a database: with one of
	// them no new database is made, but for AcceptLoss.
	Siblings []string
}

// Open opens the store in a directory and locks it: a second process is told who
// has it, with [haft.CodeConflict]. The kernel ends the lock with the process,
// whatever becomes of it.
//
// Nothing is ever repaired or replaced: a database that is damaged, of a newer
// version or not writable is left as it is, and the error says what can be done.
func Open(ctx context.Context, cfg Config) (*store.Store, error) {
	dir := cfg.Dir
	remove := func() error { return nil }
	if dir == "" {
		made, err := os.MkdirTemp("", "haft-store-")
		if err != nil {
			return nil, fmt.Errorf("make a directory for the store: %w", cause(err))
		}
		dir, remove = made, func() error { return os.RemoveAll(made) }
		if err := copyEmpty(ctx, dir); err != nil {
			return nil, errors.Join(fmt.Errorf("open the store: %w", err), remove())
		}
	}
	s, err := open(ctx, dir, cfg, remove)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the store: %w", err), remove())
	}
	return s, nil
}

// empty is the file of a store that keeps nothing yet. It is made once: tests open
// hundreds of stores that nobody finds again, and most of their time was for making
// the same tables.
var empty = sync.OnceValues(func() (file []byte, err error) {
	dir, err := os.MkdirTemp("", "haft-store-")
	if err != nil {
		return nil, cause(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := open(context.Background(), dir, Config{}, func() error { return nil }) // for all who come
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil { // which brings all of it into the one file
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, fileName))
})

// copyEmpty puts a copy of it into dir. Whoever is not waited for gets none.
func copyEmpty(ctx context.Context, dir string) error {
	if ctx.Err() != nil {
		return nil // opening will say so
	}
	file, err := empty()
	if err != nil {
		return err
	}
	return cause(os.WriteFile(filepath.Join(dir, fileName), file, 0o600))
}

// open locks dir and opens the database in it.
func open(ctx context.Context, dir string, cfg Config, remove func() error) (*store.Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, cause(err)
	}
	lock, err := lockDir(ctx, dir, cfg.Wait)
	if err != nil {
		return nil, err
	}
	if err := prepare(dir, cfg); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	db, err := sql.Open("sqlite", dsn(dir, writing(cfg.Dir != "")))
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	read, err := sql.Open("sqlite", dsn(dir, reading()))
	if err != nil {
		return nil, errors.Join(err, db.Close(), lock.Close())
	}
	keep(db, 1)
	keep(read, max(4, 2*runtime.NumCPU()))                                // so many queries may read at once
	d := Dialect(sync.OnceValue(func() error { return check(ctx, dir) })) // it takes a while
	d.Close = func() error { return errors.Join(lock.Close(), remove()) }
	if cfg.Dir != "" {
		d.Dir, d.Strict, d.Relaxed = dir, "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"
		wal := filepath.Join(dir, fileName+"-wal")
		d.Sync = func() error { return syncFile(wal) }
		d.Due, d.Checkpoint = func() bool { return longWAL(wal) }, "PRAGMA wal_checkpoint(PASSIVE)"
	}
	s, err := store.New(ctx, db, read, d, store.Config{
		Busy: cfg.Busy, NoLog: cfg.NoLog, AcceptLoss: cfg.AcceptLoss, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, read.Close(), db.Close(), lock.Close())
	}
	return s, nil
}

// syncFile brings a file to the disk. One that is not there is in the database
// already, which SQLite brought to the disk before it removed the file.
func syncFile(name string) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return cause(err)
	}
	return cause(errors.Join(f.Sync(), f.Close()))
}

// keep makes a pool of n connections that stay: a new one would have to prepare
// every statement again.
func keep(db *sql.DB, n int) {
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
}

// maxFrames is how many pages SQLite's own log holds before they are moved to their
// places in the database.
const maxFrames = 4000

// longWAL reports whether SQLite's log has more than maxFrames pages. Its file does not
// get shorter when it is begun anew, but then has other salts: a frame counts if its salts
// are those of the header. See https://www.sqlite.org/fileformat2.html#the_write_ahead_log.
func longWAL(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false // there is none
	}
	defer f.Close()
	var head, frame [24]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return false
	}
	page := int64(binary.BigEndian.Uint32(head[8:]))
	if _, err := f.ReadAt(frame[:], 32+maxFrames*(24+page)); err != nil {
		return false // it is shorter
	}
	return bytes.Equal(head[16:24], frame[8:16])
}

// A NoDatabase says that there is no database where files are that belong to one.
type NoDatabase struct{ Sibling string }

// Error implements error.
func (n *NoDatabase) Error() string { return fileName + " is missing beside " + n.Sibling }

// present reports a [*NoDatabase] if the database is missing or empty, and a file is
// there that it belongs to. SQLite would make a new one, and remove its log.
func present(root *os.Root, siblings []string) error {
	info, err := root.Stat(fileName)
	if err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cause(err)
	}
	for _, name := range append([]string{fileName + "-wal", store.LogName}, siblings...) {
		if info, err := root.Stat(name); err == nil && info.Size() > 0 {
			return &haft.Error{Code: haft.CodeConflict, Err: &NoDatabase{name}, Message: "the database " + fileName +
				" in the data directory is missing or empty, and " + name +
				" is there: put the database back; if it is in a Postgres," +
				" name that with --database; to begin with an empty one, run: haft restore --accept-loss"}
		}
	}
	return nil
}

// prepare makes the file of the database, so that it is nobody else's to read:
// SQLite would make it for all, and gives its other files the same mode.
func prepare(dir string, cfg Config) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return cause(err)
	}
	defer root.Close()
	if err := present(root, cfg.Siblings); err != nil {
		if _, none := errors.AsType[*NoDatabase](err); !none || cfg.AcceptLoss == nil {
			return err
		}
		// SQLite would remove its log; it may be of use to somebody.
		if err := root.Rename(fileName+"-wal", fileName+"-wal.lost"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cause(err)
		}
	}
	f, err := root.OpenFile(fileName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return cause(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return cause(err)
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return cause(f.Chmod(0o600))
}

// dsn names the database and the settings of each connection.
func dsn(dir string, pragmas []string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, fileName))}
	u.RawQuery = url.Values{"_pragma": pragmas}.Encode()
	return u.String()
}

// writing are the settings of the connection that writes. With synchronous=FULL a
// commit is on the disk when it returns, also if the machine loses power; with
// NORMAL, WAL would only keep the database whole. A checkpoint waits for twice
// that: 4,000 pages make it rare. SQLite tells nobody of an fsync that fails in a
// checkpoint of its own, so the store makes them. No memory is mapped: a file that
// somebody cuts short would kill the process.
func writing(durable bool) []string {
	sync, auto := "synchronous(FULL)", 0
	if !durable {
		sync, auto = "synchronous(OFF)", maxFrames
	}
	return append(always(), "journal_mode(WAL)", sync, fmt.Sprintf("wal_autocheckpoint(%d)", auto),
		"journal_size_limit(67108864)", "cache_size(-4096)")
}

// reading are the settings of connections that read.
func reading() []string { return append(always(), "cache_size(-4096)", "query_only(1)") }

// always are the settings of all connections.
func always() []string {
	return []string{"busy_timeout(5000)", "foreign_keys(1)", "temp_store(MEMORY)", "trusted_schema(0)"}
}

// cause says in plain words why a file cannot be had.
func cause(err error) error {
	message := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EROFS):
		message = "the data directory is on a read-only file system"
	case errors.Is(err, fs.ErrPermission):
		message = "the data directory cannot be written: give haft the right to, or use another directory"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		message = "the disk is full"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR):
		message = "the data directory is not one, or holds something else under the name of a file of haft"
	default:
		message = "the data directory cannot be used"
	}
	return &haft.Error{Code: haft.CodeUnavailable, Message: message, Err: err}
}
