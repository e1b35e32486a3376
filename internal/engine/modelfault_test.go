package engine_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"haft"
	"haft/internal/store"
	"haft/internal/store/postgres"
)

// faults stand between one server of a model and its database.
type faults struct {
	mu     sync.Mutex
	resume chan struct{} // not nil while the server is paused
	cut    bool          // the database cannot be reached
	lose   int           // answers to so many commits get lost
}

// pass waits while the server is paused, and fails while the database is away.
func (f *faults) pass() error {
	f.mu.Lock()
	wait := f.resume
	f.mu.Unlock()
	if wait != nil {
		<-wait
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cut {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// pause stops the server until the function that it returns is called.
func (f *faults) pause() (resume func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := make(chan struct{})
	f.resume = c
	return sync.OnceFunc(func() {
		f.mu.Lock()
		f.resume = nil
		f.mu.Unlock()
		close(c)
	})
}

// set changes whether the database is away, and how many commits lose their answer.
func (f *faults) set(cut bool, lose int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut, f.lose = cut, lose
}

// openFaulty opens a store whose database can be taken away.
func openFaulty(t testing.TB, url string, f *faults) *store.Store {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.RuntimeParams["idle_in_transaction_session_timeout"] = "200" // ms; see postgres.Open
	db := sql.OpenDB(connector{stdlib.GetConnector(*cfg), f})
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	s, err := store.New(t.Context(), db, db, postgres.Dialect(), store.Config{})
	for try := 0; try < 5 && haft.CodeOf(err) == haft.CodeUnavailable; try++ { // the machine was slow
		s, err = store.New(t.Context(), db, db, postgres.Dialect(), store.Config{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// connector makes connections that may fail.
type connector struct {
	driver.Connector
	f *faults
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := c.f.pass(); err != nil {
		return nil, err
	}
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyConn{inner.(pgConn), c.f}, nil
}

// pgConn is what the driver of Postgres gives.
type pgConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.SessionResetter
}

type faultyConn struct {
	pgConn
	f *faults
}

func (c *faultyConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if err := c.f.pass(); err != nil {
		return nil, err
	}
	tx, err := c.pgConn.BeginTx(ctx, opts)
	return faultyTx{tx, c.f}, err
}

func (c *faultyConn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	if err := c.f.pass(); err != nil {
		return nil, err
	}
	s, err := c.pgConn.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return faultyStmt{s.(pgStmt), c.f}, nil
}

func (c *faultyConn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.f.pass(); err != nil {
		return nil, err
	}
	return c.pgConn.ExecContext(ctx, text, args)
}

func (c *faultyConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.f.pass(); err != nil {
		return nil, err
	}
	return c.pgConn.QueryContext(ctx, text, args)
}

// pgStmt is a statement of the driver.
type pgStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type faultyStmt struct {
	pgStmt
	f *faults
}

func (s faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := s.f.pass(); err != nil {
		return nil, err
	}
	return s.pgStmt.ExecContext(ctx, args)
}

func (s faultyStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := s.f.pass(); err != nil {
		return nil, err
	}
	return s.pgStmt.QueryContext(ctx, args)
}

// A faultyTx is rolled back also when the database cannot be reached: it then does so
// itself.
type faultyTx struct {
	driver.Tx
	f *faults
}

func (t faultyTx) Commit() error {
	if err := t.f.pass(); err != nil {
		_ = t.Tx.Rollback() // as the database does when the connection is gone
		return err
	}
	err := t.Tx.Commit()
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	if err == nil && t.f.lose > 0 {
		t.f.lose--
		return io.ErrUnexpectedEOF
	}
	return err
}
