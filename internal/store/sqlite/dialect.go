package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"haft"
	"haft/internal/store"
	"haft/internal/store/migrations"
)

// Dialect returns the words of SQLite. examine is asked what is wrong when the
// database says that it is damaged; nil means that nobody is.
func Dialect(examine func() error) store.Dialect {
	return store.Dialect{
		Dialect: migrations.Dialect{Name: "sqlite3", Text: "TEXT", Serial: "INTEGER", Bytes: "BLOB"},
		Error:   func(err error) *haft.Error { return explain(err, examine) },
		Again:   func(error) bool { return false },
		Unsynced: func(err error) bool {
			e, ok := errors.AsType[*sqlite.Error](err)
			return ok && (e.Code() == lib.SQLITE_IOERR_FSYNC || e.Code() == lib.SQLITE_IOERR_DIR_FSYNC)
		},
	}
}

// explain makes an error for callers of one of the driver.
func explain(err error, examine func() error) *haft.Error {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return nil
	}
	code, message := haft.CodeUnavailable, ""
	switch e.Code() & 0xff {
	case lib.SQLITE_FULL:
		message = "the disk is full: make room, and haft goes on"
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		message = "the database " + fileName +
			" in the data directory is damaged: stop haft, keep a copy, and restore a backup or run sqlite3's " +
			".recover on it"
		if examine != nil {
			err = errors.Join(err, examine())
		}
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		message = "the database " + fileName + " in the data directory cannot be written: give haft the right to"
	case lib.SQLITE_CANTOPEN:
		message = "the database " + fileName + " in the data directory cannot be opened"
	case lib.SQLITE_IOERR:
		message = "the disk of the data directory is full or gives errors"
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		message = "another program holds the database; try again"
	case lib.SQLITE_NOMEM:
		message = "there is not enough memory"
	case lib.SQLITE_INTERRUPT:
		message = "the store was not waited for"
	case lib.SQLITE_CONSTRAINT:
		code, message = haft.CodeConflict, "it clashes with what is there"
	case lib.SQLITE_TOOBIG:
		code, message = haft.CodeInvalid, "it is too large to be kept"
	default:
		return nil
	}
	return &haft.Error{Code: code, Message: message, Err: err}
}

// check asks SQLite what is damaged, for the operator. It takes a while only if
// there is much to read, and then it stops.
func check(ctx context.Context, dir string) (err error) {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, fileName)), RawQuery: "mode=ro"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	rows, err := db.QueryContext(ctx, "PRAGMA quick_check(3)")
	if err != nil {
		return fmt.Errorf("quick_check: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var found []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return fmt.Errorf("quick_check: %w", err)
		}
		found = append(found, line)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("quick_check: %w", err)
	}
	return errors.New("quick_check: " + strings.Join(found, "; "))
}
