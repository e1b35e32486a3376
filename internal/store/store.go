package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"haft"
	"haft/internal/store/migrations"
)

// MaxPage is the longest list that is given at once; a limit of 0 means this too.
const MaxPage = 1000

// A Dialect is what differs between databases. An opener has one.
type Dialect struct {
	migrations.Dialect
	// Shared says that other processes may write too. Then the heads of chains
	// are locked in the database; else the store keeps them in memory.
	Shared bool
	// Numbered says that placeholders in long lists are written $1, $2; else they
	// are written ?, which costs less to bind.
	Numbered bool
	// ForUpdate locks the rows of a query, and ForShare keeps them from being removed.
	ForUpdate, ForShare string
	// Now is the time by the clock of the database, in microseconds since 1970. Empty
	// where that is the clock of this process.
	Now string
	// Error makes an [*haft.Error] of an error of the driver, with the code that
	// fits and a plain message. It returns nil if it does not know it.
	Error func(error) *haft.Error
	// Again reports whether the transaction may succeed if it is tried again.
	Again func(error) bool
	// Dir is a directory of this process in which a log may stand in front of the
	// database, see package redo. Empty means that there is none.
	Dir string
	// Sync brings to the disk what was committed while the store was relaxed, if
	// there is a log.
	Sync func() error
	// Relaxed and Strict are what a connection is told, outside of a transaction,
	// so that a commit does not or does wait for the disk.
	Relaxed, Strict string
	// Due reports whether Checkpoint should be run, which brings what was committed to
	// its place, and Unsynced whether an error is that of an fsync.
	Due        func() bool
	Checkpoint string
	Unsynced   func(error) bool
	// Close is called by [Store.Close] last, if it is set.
	Close func() error
}

// Config has the settings of a store. The zero value is good.
type Config struct {
	// Busy says that many calls will come: a log stands in front of the database
	// from the beginning, and not only after a few commits.
	Busy bool
	// NoLog has no log made. One that an earlier process left is still taken up.
	NoLog bool
	// AcceptLoss goes on without what is missing in a log that an earlier process left,
	// after the entry that it returns was added to the audit. Nil refuses.
	AcceptLoss AcceptLoss
	// Logger hears what an operator could act on. Nil discards.
	Logger *slog.Logger
}

// A Store keeps everything in a database. It is safe for concurrent use.
//
// Lifecycle: an opener or [New], then any method, then Close.
type Store struct {
	Tools      Tools
	Agents     Agents
	Policies   Policies
	Sandboxes  Sandboxes
	MCPServers MCPServers
	Calls      Calls
	Chains     Chains
	Approvals  Approvals
	Processes  Processes
	Events     Events
	Audit      Audit
	Erasure    Erasure
	Keys       Keys
	Secrets    Secrets
	Webhooks   Webhooks
	Settings   Settings
	Limits     Limits
	Cache      Cache

	db      *sql.DB // writes
	read    *sql.DB
	dialect Dialect
	cfg     Config

	// turn holds one token: whoever took it writes. Only a store that is not
	// shared has it, and with it one connection whose statements are prepared.
	turn   chan struct{}
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt // guarded by turn
	begin  *sql.Stmt
	commit *sql.Stmt
	undo   *sql.Stmt
	heads  heads // guarded by turn, and if there is a front by its order
	front  *front
	keyed  keyCache
	// last is the cursor of the last event, if it is known: 0 means that the
	// database has to be asked.
	last atomic.Int64

	readers  sync.Map // query text to *sql.Stmt
	prepared atomic.Int64
	asked    atomic.Int64 // queries for reading
	texts    sync.Map     // insert and power to text
	closing  sync.Once
	ended    atomic.Bool
	closed   error
}

// New returns a store over a database that it brings up to date first. db is for
// writing and read for reading; they may be the same. The store closes both.
//
// A database of a newer version is refused: nothing in it is touched.
func New(ctx context.Context, db, read *sql.DB, d Dialect, cfg Config) (*Store, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{db: db, read: read, dialect: d, cfg: cfg}
	s.group()
	if d.Dir != "" {
		if err := s.readable(ctx); err != nil {
			return nil, err
		}
	}
	if err := migrations.Run(ctx, db, d.Dialect, migrations.Latest()); err != nil {
		return nil, fmt.Errorf("bring the database up to date: %w", s.explain(err))
	}
	if d.Shared {
		return s, nil
	}
	if err := s.own(ctx); err != nil {
		return nil, fmt.Errorf("prepare the database: %w", s.explain(err))
	}
	if d.Dir == "" {
		return s, nil
	}
	if err := s.openFront(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("take up what was acknowledged: %w", s.explain(err)), s.conn.Close())
	}
	return s, nil
}

// own takes the one connection that writes.
func (s *Store) own(ctx context.Context) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	s.conn, s.stmts, s.turn = conn, make(map[string]*sql.Stmt), make(chan struct{}, 1)
	for _, p := range []struct {
		to   **sql.Stmt
		text string
	}{{&s.begin, "BEGIN IMMEDIATE"}, {&s.commit, "COMMIT"}, {&s.undo, "ROLLBACK"}} {
		if *p.to, err = conn.PrepareContext(ctx, p.text); err != nil {
			return errors.Join(err, conn.Close())
		}
	}
	s.turn <- struct{}{}
	return nil
}

// Asked returns how many queries for reading were made. Whoever must not tell by its
// time what there is makes as many where there is nothing.
func (s *Store) Asked() int64 { return s.asked.Load() }

// Shared reports whether other processes may write too.
func (s *Store) Shared() bool { return s.dialect.Shared }

// Close waits for what is being written and closes the database. Closing again
// changes nothing.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.ended.Store(true)
		if s.front != nil {
			s.closed = s.front.close() // and nobody gets its order any more
		}
		if s.turn != nil {
			<-s.turn // and never give it back
			s.closed = errors.Join(s.closed, s.begin.Close(), s.commit.Close(), s.undo.Close())
			for _, stmt := range s.stmts {
				s.closed = errors.Join(s.closed, stmt.Close())
			}
			s.closed = errors.Join(s.closed, s.conn.Close())
			close(s.turn)
		}
		s.closed = errors.Join(s.closed, s.read.Close())
		if s.db != s.read {
			s.closed = errors.Join(s.closed, s.db.Close())
		}
		if s.dialect.Close != nil {
			s.closed = errors.Join(s.closed, s.dialect.Close())
		}
	})
	return s.closed
}

// errClosed is what a closed store says.
func errClosed() error {
	return &haft.Error{Code: haft.CodeUnavailable, Message: "the store is closed"}
}

// explain gives an error of the driver a code and a message for callers.
func (s *Store) explain(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*haft.Error](err); ok {
		return err
	}
	switch {
	case s.ended.Load():
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the store is closed", Err: err}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &haft.Error{Code: haft.CodeUnavailable, Message: "the store was not waited for", Err: err}
	}
	if e := s.dialect.Error(err); e != nil {
		return e
	}
	return err
}

// A tx is a transaction that writes.
type tx struct {
	s  *Store
	tx *sql.Tx // of a shared store
}

// exec runs a statement and returns how many rows it changed.
func (t *tx) exec(ctx context.Context, text string, args ...any) (int64, error) {
	var res sql.Result
	var err error
	if t.tx != nil {
		res, err = t.tx.ExecContext(ctx, text, args...)
	} else {
		var stmt *sql.Stmt
		if stmt, err = t.stmt(ctx, text); err == nil {
			res, err = stmt.ExecContext(ctx, args...)
		}
	}
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// execOr runs a statement, and returns none if it changes no row.
func (t *tx) execOr(ctx context.Context, none error, text string, args ...any) error {
	n, err := t.exec(ctx, text, args...)
	if err == nil && n == 0 {
		err = none
	}
	return err
}

// explain implements source: whoever began the transaction explains.
func (t *tx) explain(err error) error { return err }

// ask implements source. What is acknowledged is in the database already.
func (t *tx) ask(ctx context.Context, q query, args []any) (*sql.Rows, error) {
	text, own, _ := q.sql()
	args = append(own, args...)
	if t.tx != nil {
		return t.tx.QueryContext(ctx, text, args...)
	}
	stmt, err := t.stmt(ctx, text)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// maxStatements bounds the statements that are kept prepared.
const maxStatements = 256

// stmt returns a statement of the one connection, prepared. Precondition: the
// turn is taken.
func (t *tx) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt := t.s.stmts[text]; stmt != nil {
		return stmt, nil
	}
	if len(t.s.stmts) >= maxStatements {
		for _, stmt := range t.s.stmts {
			if err := stmt.Close(); err != nil {
				return nil, err
			}
		}
		clear(t.s.stmts)
	}
	stmt, err := t.s.conn.PrepareContext(ctx, text)
	if err == nil {
		t.s.stmts[text] = stmt
	}
	return stmt, err
}

// write runs f in a transaction: all that f does is kept and on the disk when
// write returns nil, and else nothing of it. f may be run more than once. doing says in
// errors what for.
func (s *Store) write(ctx context.Context, doing string, f func(context.Context, *tx) error) error {
	var err error
	if s.dialect.Shared {
		err = s.writeShared(ctx, f)
	} else {
		err = s.owned(ctx, func(ctx context.Context) error { return s.writeOwned(ctx, f) })
	}
	return s.failed(doing, err)
}

// writeApart is write for tables that have nothing to do with the log: what waits there need not be in the database
// first, so that a call and a message that are written in turn do not wait for each other's pages.
func (s *Store) writeApart(ctx context.Context, doing string, f func(context.Context, *tx) error) error {
	if s.dialect.Shared {
		return s.write(ctx, doing, f)
	}
	err := take(ctx, s.turn)
	if err == nil {
		defer func() { s.turn <- struct{}{} }()
		ctx = context.WithoutCancel(ctx) // see owned
		if err = s.front.relax(ctx, false); err == nil {
			err = s.transact(ctx, f)
		}
	}
	return s.failed(doing, err)
}

// failed explains why something could not be done, if there is an error.
func (s *Store) failed(doing string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", doing, s.explain(err))
	}
	return err
}

// exec runs one statement in a transaction of its own, and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, doing, text string, args ...any) (n int64, err error) {
	err = s.write(ctx, doing, func(ctx context.Context, t *tx) error {
		n, err = t.exec(ctx, text, args...)
		return err
	})
	return n, err
}

// owned runs f with the order of the front and the turn taken, and with everything that was
// acknowledged before in the database.
func (s *Store) owned(ctx context.Context, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.front != nil {
		if err := take(ctx, s.front.order); err != nil {
			return err
		}
		defer func() { s.front.order <- struct{}{} }()
	}
	if err := take(ctx, s.turn); err != nil {
		return err
	}
	defer func() { s.turn <- struct{}{} }()
	// From here on the end of ctx stops nothing. A statement that cannot be
	// stopped is also cheaper: the driver needs no goroutine to watch ctx.
	ctx = context.WithoutCancel(ctx)
	if s.front != nil {
		if err := s.front.settleTurn(ctx, true); err != nil {
			return err
		}
	}
	return f(ctx)
}

// take takes a token, unless ctx ends or the store is closed.
func take(ctx context.Context, token <-chan struct{}) error {
	select {
	case _, ok := <-token:
		if !ok {
			return errClosed()
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writeOwned runs f on the one connection. Precondition: the turn is taken, and the
// order of the front.
func (s *Store) writeOwned(ctx context.Context, f func(context.Context, *tx) error) (err error) {
	done := false
	defer func() { // also if f panics
		if !done {
			s.heads = heads{} // look again
			s.last.Store(0)
		}
	}()
	err = s.transact(ctx, func(ctx context.Context, t *tx) error {
		// The database names no log that has failed: everything acknowledged is in it.
		if s.front != nil && s.front.logInvalid {
			if err := t.putEpoch(ctx, 0); err != nil {
				return err
			}
		}
		return f(ctx, t)
	})
	if err != nil {
		return err
	}
	done = true
	if s.front != nil {
		s.front.logInvalid = false
	}
	if s.heads.known {
		s.last.Store(s.heads.cursor)
	}
	return nil
}

// transact runs f in a transaction of the one connection. Precondition: the turn is
// taken.
func (s *Store) transact(ctx context.Context, f func(context.Context, *tx) error) (err error) {
	if _, err := s.begin.ExecContext(ctx); err != nil {
		return s.front.checkSync(err)
	}
	done := false
	defer func() { // also if f panics
		if !done {
			// SQLite ends the transaction itself after some errors, a full disk among
			// them: that there is none to undo is then no error.
			_, _ = s.undo.ExecContext(ctx)
		}
	}()
	if err := f(ctx, &tx{s: s}); err != nil {
		return s.front.checkSync(err)
	}
	if _, err := s.commit.ExecContext(ctx); err != nil {
		return s.front.checkSync(err)
	}
	done = true
	s.front.checkpoint(ctx)
	return nil
}

// maxTries is how often a transaction is begun that others are in the way of.
const maxTries = 8

// writeShared runs f until nobody is in its way.
func (s *Store) writeShared(ctx context.Context, f func(context.Context, *tx) error) error {
	for try := 1; ; try++ {
		err := s.writeOnce(ctx, f)
		if err == nil || try == maxTries || !s.dialect.Again(err) {
			return err
		}
		wait := time.NewTimer(rand.N(time.Millisecond << min(try, 8)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return errors.Join(ctx.Err(), err)
		}
	}
}

func (s *Store) writeOnce(ctx context.Context, f func(context.Context, *tx) error) error {
	inner, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = inner.Rollback() }() // says only that it is done, if it is
	if err := f(ctx, &tx{s: s, tx: inner}); err != nil {
		return err
	}
	return inner.Commit()
}

// ask implements source.
func (s *Store) ask(ctx context.Context, q query, args []any) (*sql.Rows, error) {
	if _, _, logged := q.sql(); logged {
		if err := s.front.settle(ctx); err != nil {
			return nil, err
		}
	}
	return inDatabase{s}.ask(ctx, q, args)
}

// inDatabase is the source of what is in the database, with or without what was acknowledged last.
type inDatabase struct{ *Store }

// ask implements source. The query is prepared if it is one of the first so many: the
// texts are made of constants, but filters make many of them.
func (s inDatabase) ask(ctx context.Context, q query, args []any) (*sql.Rows, error) {
	s.asked.Add(1)
	text, own, _ := q.sql()
	args = append(own, args...)
	known, ok := s.readers.Load(text)
	if !ok && s.prepared.Load() < maxStatements {
		made, err := s.read.PrepareContext(ctx, text)
		if err != nil {
			return nil, err
		}
		var raced bool
		if known, raced = s.readers.LoadOrStore(text, made); !raced {
			s.prepared.Add(1)
		} else if err := made.Close(); err != nil {
			return nil, err
		}
	}
	if known == nil {
		return s.read.QueryContext(ctx, text, args...)
	}
	return known.(*sql.Stmt).QueryContext(ctx, args...)
}
