// Package sqlite opens a store in a directory of this machine.
//
// The directory belongs to one process at a time, see [Open]. That is what makes
// the store cheap: it writes with one connection and keeps in memory what nobody
// else can change.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // the driver, under the name sqlite

	"haft"
	"haft/store"
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
	// Readers is how many queries may read at once; 0 means twice the processors,
	// and at least 4.
	Readers int
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
	if err := prepare(dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if cfg.Readers <= 0 {
		cfg.Readers = max(4, 2*runtime.NumCPU())
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
	keep(read, cfg.Readers)
	d := Dialect(sync.OnceValue(func() error { return check(ctx, dir) })) // it takes a while
	d.Close = func() error { return errors.Join(lock.Close(), remove()) }
	if cfg.Dir != "" {
		d.Dir, d.Strict, d.Relaxed = dir, "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"
		d.Sync = func() error { return syncFile(filepath.Join(dir, fileName+"-wal")) }
	}
	s, err := store.New(ctx, db, read, d, store.Config{Busy: cfg.Busy})
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

// prepare makes the file of the database, so that it is nobody else's to read:
// SQLite would make it for all, and gives its other files the same mode.
func prepare(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return cause(err)
	}
	defer root.Close()
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
// that: 4,000 pages make it rare. No memory is mapped: a file that somebody cuts
// short would kill the process.
func writing(durable bool) []string {
	sync := "synchronous(FULL)"
	if !durable {
		sync = "synchronous(OFF)"
	}
	return append(always(), "journal_mode(WAL)", sync, "wal_autocheckpoint(4000)", "journal_size_limit(67108864)", "cache_size(-4096)")
}

// reading are the settings of connections that read.
func reading() []string { return append(always(), "cache_size(-4096)", "query_only(1)") }

// always are the settings of all connections.
func always() []string {
	return []string{"busy_timeout(5000)", "foreign_keys(1)", "temp_store(MEMORY)", "trusted_schema(0)"}
}

// lockDir takes the lock of a directory and writes our pid into its file.
func lockDir(ctx context.Context, dir string, wait time.Duration) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, cause(err)
	}
	defer root.Close()
	f, err := root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, cause(err)
	}
	if err := flock(ctx, f, wait); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	// Who reads the pid is told it as a hint. The lock does not depend on it.
	if err := errors.Join(f.Truncate(0), writeAt(f, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return nil, errors.Join(cause(err), f.Close())
	}
	return f, nil
}

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

// poll is how often a lock is asked for that another process has.
const poll = 25 * time.Millisecond

// flock waits for the lock of f.
func flock(ctx context.Context, f *os.File, wait time.Duration) error {
	until := time.Now().Add(wait)
	for {
		err := tryLock(f)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return &haft.Error{Code: haft.CodeUnavailable, Message: "the data directory cannot be locked; put it on a file system of this machine", Err: err}
		case !time.Now().Before(until):
			return &haft.Error{Code: haft.CodeConflict, Message: "another haft" + pidOf(f) + " is using this directory: stop it, or use another directory"}
		}
		timer := time.NewTimer(min(poll, time.Until(until)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &haft.Error{Code: haft.CodeUnavailable, Message: "the lock of the data directory was not waited for", Err: ctx.Err()}
		}
	}
}

// pidOf reads who has the lock, for the message.
func pidOf(f *os.File) string {
	var b [16]byte
	n, _ := f.ReadAt(b[:], 0) // short: the file is
	digits := 0
	for digits < n && b[digits] >= '0' && b[digits] <= '9' {
		digits++
	}
	if digits == 0 {
		return ""
	}
	return " (pid " + string(b[:digits]) + ")"
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
