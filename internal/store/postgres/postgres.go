// Package postgres opens a store in a Postgres database, which many processes may
// share.
package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"haft"
	"haft/internal/store"
	"haft/internal/store/migrations"
)

// Config has the settings of the connections. The zero value is good.
type Config struct {
	// Conns is how many connections there may be at once; 0 means 16.
	Conns int
	// Connect is how long a new connection may take if the URL does not say; 0
	// means 10 seconds.
	Connect time.Duration
}

// Open opens the store in the database at url, and makes its tables there if they
// are not. Several processes may do so at once.
func Open(ctx context.Context, url string, cfg Config) (*store.Store, error) {
	pg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: "the address of the database cannot be understood",
			Err: err}
	}
	if cfg.Conns <= 0 {
		cfg.Conns = 16
	}
	if cfg.Connect <= 0 {
		cfg.Connect = 10 * time.Second
	}
	if pg.ConnectTimeout == 0 {
		pg.ConnectTimeout = cfg.Connect
	}
	if pg.RuntimeParams["application_name"] == "" {
		pg.RuntimeParams["application_name"] = "haft"
	}
	db := sql.OpenDB(stdlib.GetConnector(*pg, stdlib.OptionAfterConnect(settings)))
	// Two at least: while one holds the lock of the migrations another makes them.
	db.SetMaxOpenConns(max(cfg.Conns, 2))
	db.SetMaxIdleConns(max(cfg.Conns, 2))
	db.SetConnMaxIdleTime(5 * time.Minute)
	s, err := store.New(ctx, db, db, Dialect(), store.Config{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the store: %w", err), db.Close())
	}
	return s, nil
}

// settings makes commits wait for the disk also where the server's default is not to, and
// has the server end a transaction whose process does not go on with it: one that is
// stopped, or whose machine is gone, must not hold its locks for ever.
func settings(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx,
		`SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
		UNION ALL SELECT set_config('idle_in_transaction_session_timeout', '10s', false) WHERE current_setting('idle_in_transaction_session_timeout') = '0'`)
	return err
}

// lockID is the advisory lock of the migrations: "haft" in ASCII.
const lockID = "1751213684"

// Dialect returns the words of Postgres.
func Dialect() store.Dialect {
	return store.Dialect{
		Dialect: migrations.Dialect{Name: "postgres", Text: `TEXT COLLATE "C"`, Serial: "BIGINT", Bytes: "BYTEA",
			Lock: "SELECT pg_advisory_lock(" + lockID + ")", Unlock: "SELECT pg_advisory_unlock(" + lockID + ")"},
		Shared: true, Numbered: true,
		ForUpdate: " FOR UPDATE", ForShare: " FOR KEY SHARE",
		Now:   "(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT",
		Error: explain, Again: again,
	}
}

// again reports whether others were in the way: a conflict of transactions, or
// somebody who added the same row at the same time.
func again(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "40001" || e.Code == "40P01" || e.Code == "23505")
}

// explain makes an error for callers of one of the driver. The codes are those of
// Appendix A of the Postgres manual.
func explain(err error) *haft.Error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		if !away(err) {
			return nil
		}
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the database cannot be reached; try again", Err: err}
	}
	for _, c := range codes {
		if strings.HasPrefix(e.Code, c.state) {
			return &haft.Error{Code: c.code, Message: c.message, Err: err}
		}
	}
	return nil
}

// away reports whether the connection failed and not what was said over it.
func away(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) || pgconn.SafeToRetry(err)
}

// codes says what states mean, the first that fits.
var codes = []struct {
	state   string
	code    haft.Code
	message string
}{
	{"40", haft.CodeUnavailable, "others are changing the same; try again"},
	{"23", haft.CodeConflict, "it clashes with what is there"},
	{"22", haft.CodeInvalid, "it holds what the database cannot keep"},
	{"54", haft.CodeInvalid, "it is too large to be kept"},
	{"25P03", haft.CodeUnavailable, "the database has ended a transaction that stood still; try again"},
	{"25006", haft.CodeUnavailable, "the database is read-only"},
	{"53100", haft.CodeUnavailable, "the disk of the database is full"},
	{"53", haft.CodeUnavailable, "the database has too much to do; try again"},
	{"57014", haft.CodeUnavailable, "the store was not waited for"},
	{"57", haft.CodeUnavailable, "the database is shutting down; try again"},
	{"08", haft.CodeUnavailable, "the database cannot be reached; try again"},
	{"55P03", haft.CodeUnavailable, "others are changing the same; try again"},
	{"28", haft.CodeUnavailable, "the database refuses the name or the password"},
	{"3D000", haft.CodeUnavailable, "there is no such database on the server"},
	{"42501", haft.CodeUnavailable, "the database refuses: its user needs the right to make and use tables"},
	{"XX001", haft.CodeUnavailable, "the database is damaged"},
	{"XX002", haft.CodeUnavailable, "the database is damaged"},
	{"58", haft.CodeUnavailable, "the disk of the database gives errors"},
}
