package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"haft"
	"haft/internal/audit"
	"haft/internal/limit"
	"haft/internal/store"
	"haft/internal/store/sqlite"
)

var someTime = time.UnixMicro(1_800_000_000_000_000).UTC()

// opened opens a store in a directory, with a log from the beginning.
func opened(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Busy: true})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// keepCalls keeps calls that cannot clash, each with an entry of the audit.
func keepCalls(t *testing.T, s *store.Store, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		if err := s.Commit(t.Context(), sureCall(fmt.Sprint("c", i))); err != nil {
			t.Fatalf("Commit %d: %v", i, err)
		}
	}
}

// sureCall is a call that cannot clash.
func sureCall(id string) store.Batch {
	p := haft.Principal{Org: "acme", User: "ann"}
	return store.Batch{Sure: true,
		Records: []haft.Record{{Call: haft.Call{ID: haft.CallID(id), Tool: "add", Principal: p},
			Status: haft.StatusSuccess, Created: someTime}},
		Audit: []audit.Entry{{Org: "acme", Kind: "call.ended", Actor: p, Call: haft.CallID(id), Time: someTime}}}
}

// copied copies files of a directory into another, as a crash leaves them.
func copied(t *testing.T, from, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// ends checks where the audit ends.
func ends(t *testing.T, s *store.Store, want int64) {
	t.Helper()
	if head, err := s.Audit.AuditHead(t.Context(), "acme"); err != nil || head.Seq != want {
		t.Errorf("the audit ends at %d, %v, want %d", head.Seq, err, want)
	}
}

// failLog has the log take a call that the store does not hear of, and fail.
func failLog(t *testing.T, s *store.Store) {
	t.Helper()
	ghost := haft.Record{Call: haft.Call{ID: "ghost", Tool: "add", Principal: haft.Principal{Org: "acme"}},
		Status: haft.StatusSuccess, Created: someTime}
	if err := s.FailLog(store.Batch{Records: []haft.Record{ghost}}); err != nil {
		t.Fatal(err)
	}
}

// noGhost checks that what was never acknowledged is not there.
func noGhost(t *testing.T, s *store.Store) {
	t.Helper()
	if _, err := s.Calls.Record(t.Context(), "acme", "ghost"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("what was never acknowledged: %v", err)
	}
}

// TestStore_a_log_that_fails: what the log does not take the database does, and the
// record that may or may not be in the log is not taken from there again.
func TestStore_a_log_that_fails(t *testing.T) {
	dir, lost := t.TempDir(), t.TempDir()
	s := opened(t, dir)
	keepCalls(t, s, 0, 5)
	ends(t, s, 5) // nothing waits
	failLog(t, s)
	keepCalls(t, s, 5, 3)
	copied(t, dir, lost, "haft.db", "haft.db-wal", "redo.log")
	for _, s := range []*store.Store{s, opened(t, lost)} {
		ends(t, s, 8)
		noGhost(t, s)
	}
}

// TestStore_a_log_that_fails_before_the_end: nobody writes any more after the log
// failed, but for one who is refused.
func TestStore_a_log_that_fails_before_the_end(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	keepCalls(t, s, 0, 5)
	ends(t, s, 5)
	failLog(t, s)
	again := sureCall("c0")
	again.Records[0].Status = haft.StatusRunning
	if err := s.Commit(t.Context(), again); haft.CodeOf(err) != haft.CodeConflict {
		t.Fatalf("a call that has ended is opened again: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = opened(t, dir)
	ends(t, s, 5)
	noGhost(t, s)
}

// TestStore_a_database_that_is_not_brought_to_the_disk: what the log holds stays
// there, also if the kernel says afterwards that all is well.
func TestStore_a_database_that_is_not_brought_to_the_disk(t *testing.T) {
	dir, lost := t.TempDir(), t.TempDir()
	s := opened(t, dir)
	keepCalls(t, s, 0, 1)
	copied(t, dir, lost, "haft.db", "haft.db-wal") // all that the disk has of it
	s.FailSync()
	keepCalls(t, s, 1, 20)
	for range 2 {
		if err := s.FreeLog(t.Context()); err == nil {
			t.Error("the room of the log is free, and the database is not on the disk")
		}
	}
	keepCalls(t, s, 21, 20) // over what was free
	copied(t, dir, lost, "redo.log")
	ends(t, opened(t, lost), 41)
}

// TestStore_a_database_of_another_moment: a copy of the database alone, put back
// beside the log of the same process, lacks what went past the log.
func TestStore_a_database_of_another_moment(t *testing.T) {
	dir, back := t.TempDir(), t.TempDir()
	s := opened(t, dir)
	keepCalls(t, s, 0, 5)
	ends(t, s, 5)
	copied(t, dir, back, "haft.db", "haft.db-wal")
	past := sureCall("past")
	past.Sure = false
	if err := s.Commit(t.Context(), past); err != nil {
		t.Fatal(err)
	}
	keepCalls(t, s, 5, 5)
	copied(t, dir, back, "redo.log")
	_, err := sqlite.Open(t.Context(), sqlite.Config{Dir: back})
	if haft.CodeOf(err) != haft.CodeUnavailable {
		t.Fatalf("Open: %v", err)
	}
	accepted(t, back, 5+1)
}

// accepted goes on without what the log lost, and checks where the audit ends then.
func accepted(t *testing.T, dir string, want int64) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, AcceptLoss: func(l *store.LogLoss) audit.Entry {
		return audit.Entry{Org: "acme", Kind: "audit.restored", Actor: haft.Principal{Org: "acme"}, Time: someTime,
			Body: fmt.Appendf(nil, "%q", l.Why)}
	}})
	if err != nil {
		t.Fatalf("Open with an accepted loss: %v", err)
	}
	ends(t, s, want)
	list, err := s.Audit.AuditEntries(t.Context(), "acme", want-1, 1)
	if err != nil || len(list) != 1 || list[0].Kind != "audit.restored" {
		t.Errorf("the last entry of the audit is %+v, %v", list, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ends(t, opened(t, dir), want) // nothing is missing any more
}

// TestStore_a_database_of_another_moment_within_the_log: what went past the log may also
// stand between two of its records, the first of which follow the database.
func TestStore_a_database_of_another_moment_within_the_log(t *testing.T) {
	dir, back := t.TempDir(), t.TempDir()
	s := opened(t, dir)
	keepCalls(t, s, 0, 5)
	ends(t, s, 5)
	copied(t, dir, back, "haft.db", "haft.db-wal")
	keepCalls(t, s, 5, 3)
	past := sureCall("past")
	past.Sure = false
	if err := s.Commit(t.Context(), past); err != nil {
		t.Fatal(err)
	}
	keepCalls(t, s, 8, 5)
	copied(t, dir, back, "redo.log")
	if _, err := sqlite.Open(t.Context(), sqlite.Config{Dir: back}); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Fatalf("Open: %v", err)
	}
}

// TestStore_settles_what_came_meanwhile: a batch that comes while others go into the
// database gets there too, without anybody who asks or writes.
func TestStore_settles_what_came_meanwhile(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	keepCalls(t, s, 0, 1)
	db, err := sql.Open("sqlite", filepath.Join(dir, "haft.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil { // the database is another's now
		t.Fatal(err)
	}
	keepCalls(t, s, 1, 1)
	for !s.Writing() { // until it waits for us, with what it has
		runtime.Gosched()
		if ctx.Err() != nil {
			t.Fatal("nobody brings anything into the database")
		}
	}
	keepCalls(t, s, 2, 1)
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 3; {
		if err := conn.QueryRowContext(ctx, "SELECT COUNT(*) FROM calls").Scan(&n); err != nil {
			t.Fatalf("%d of 3 calls get into the database: %v", n, err)
		}
	}
}

// TestScrub_the_log: what was removed is not in the log either.
func TestScrub_the_log(t *testing.T) {
	for _, busy := range []bool{true, false} {
		t.Run(fmt.Sprint("open_", busy), func(t *testing.T) {
			dir := t.TempDir()
			s := opened(t, dir)
			keepCalls(t, s, 0, 1)
			b := sureCall("c1")
			b.Records[0].Status, b.Records[0].Sealed = haft.StatusRunning, []byte(`"in the clear"`)
			if err := s.Commit(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			replaced, err := s.Calls.Reseal(t.Context(), store.SealedCall{ID: "c1", Sealed: b.Records[0].Sealed},
				[]byte(`"sealed"`))
			if err != nil || !replaced {
				t.Fatalf("Reseal = %v, %v", replaced, err)
			}
			if !busy { // a process that has no log finds one
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if s, err = sqlite.Open(t.Context(), sqlite.Config{Dir: dir}); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
			}
			if err := s.Scrub(t.Context()); err != nil {
				t.Fatalf("Scrub: %v", err)
			}
			for _, name := range []string{"haft.db", "haft.db-wal", "redo.log"} {
				raw, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil || bytes.Contains(raw, []byte("in the clear")) {
					t.Errorf("%s still holds what was replaced, %v", name, err)
				}
			}
			keepCalls(t, s, 2, 20)
			lost := t.TempDir()
			copied(t, dir, lost, "haft.db", "haft.db-wal", "redo.log")
			ends(t, opened(t, lost), 22)
		})
	}
}

// TestScrub_while_somebody_reads: what cannot be removed is not said to be.
func TestScrub_while_somebody_reads(t *testing.T) {
	dir := t.TempDir()
	s := opened(t, dir)
	keepCalls(t, s, 0, 5)
	db, err := sql.Open("sqlite", filepath.Join(dir, "haft.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM calls").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if err := s.Scrub(t.Context()); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("Scrub while the old pages are read: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := s.Scrub(t.Context()); err != nil {
		t.Errorf("Scrub: %v", err)
	}
}

// TestStore_a_log_changes_nothing: whatever batches come, the tables hold the same
// with a log and without.
func TestStore_a_log_changes_nothing(t *testing.T) {
	for seed := range uint64(2) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		dirs := map[bool]string{true: t.TempDir(), false: t.TempDir()}
		with, without := opened(t, dirs[true]), opened(t, dirs[false])
		states := map[int]int{}
		for i := range 120 {
			b := someBatch(rnd, i, states)
			plain := b
			plain.Sure, plain.Events = false, append([]haft.Event(nil), b.Events...)
			for _, c := range []struct {
				s *store.Store
				b store.Batch
			}{{with, b}, {without, plain}} {
				if err := c.s.Commit(t.Context(), c.b); err != nil {
					t.Fatalf("seed %d: Commit: %v", seed, err)
				}
			}
			if rnd.IntN(20) == 0 { // else many wait together
				if _, err := with.Limits.Limits(t.Context(), []string{"k0"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := with.Close(); err != nil {
			t.Fatal(err)
		}
		if err := without.Close(); err != nil {
			t.Fatal(err)
		}
		for _, table := range []string{"calls", "events", "audit", "limits", "usage_hours"} {
			if diff := cmp.Diff(dump(t, dirs[false], table), dump(t, dirs[true], table)); diff != "" {
				t.Errorf("seed %d: %s (-without +with):\n%.3000s", seed, table, diff)
			}
		}
	}
}

// someBatch is a batch of calls that go on, and what belongs to them.
func someBatch(rnd *rand.Rand, i int, states map[int]int) store.Batch {
	b := store.Batch{Sure: true}
	for range 1 + rnd.IntN(3) {
		n := rnd.IntN(40)
		if states[n] > 2 {
			continue // it has ended
		}
		p := haft.Principal{Org: fmt.Sprint("o", n%3), User: fmt.Sprint("u", n%2)}
		id := haft.CallID(fmt.Sprint("c", n))
		r := haft.Record{Call: haft.Call{ID: id, Tool: "add", Principal: p}, ToolID: "t", Status: haft.StatusRunning,
			Created: someTime, Owner: "p"}
		if states[n] += 1 + rnd.IntN(2); states[n] > 2 {
			r.Status, r.Ended = haft.StatusSuccess, someTime.Add(time.Duration(rnd.IntN(3))*time.Hour)
		} else if rnd.IntN(2) == 0 {
			r.Sealed = fmt.Appendf(nil, "%d", i)
		}
		b.Records = append(b.Records, r)
		b.Events = append(b.Events, haft.Event{Seq: int64(i + 1), Type: haft.EventExecuting, Time: someTime, Call: id,
			Tool: "add", Principal: p})
		b.Audit = append(b.Audit, audit.Entry{Org: p.Org, Kind: "k", Actor: p, Call: id, Time: someTime})
		b.Limits = append(b.Limits, limit.State{Key: fmt.Sprint("k", n%5), Tokens: float64(200 - i),
			Used: int64(i), At: someTime.Add(time.Duration(rnd.IntN(3)) * time.Second)})
	}
	return b
}

// dump reads all rows of a table.
func dump(t *testing.T, dir, table string) [][]any {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "haft.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT * FROM "+table+" ORDER BY 1, 2, 3, 4")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var all [][]any
	for rows.Next() {
		row, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			to[i] = &row[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestStore_a_log_that_fails_is_logged: once, and not for each call.
func TestStore_a_log_that_fails_is_logged(t *testing.T) {
	var said bytes.Buffer
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: t.TempDir(), Busy: true,
		Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	keepCalls(t, s, 0, 5)
	failLog(t, s)
	keepCalls(t, s, 5, 5) // less than it takes until a new one is made
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if text := said.String(); strings.Count(text, "failed to write to the log") != 1 ||
		strings.Count(text, "level=ERROR") != 1 {
		t.Errorf("the log says:\n%s", text)
	}
}

// TestStore_ids_that_were_chosen: a call whose id somebody chose is kept if nothing is kept of it: not in the log, in
// the database or in a log that a crash left, and of whichever organisation.
func TestStore_ids_that_were_chosen(t *testing.T) {
	dir, back := t.TempDir(), t.TempDir()
	s := opened(t, dir)
	chosen := func(id string) store.Batch {
		b := sureCall(id)
		b.Chosen = []haft.CallID{haft.CallID(id)}
		return b
	}
	used := func(s *store.Store, when string, b store.Batch) {
		t.Helper()
		b.Records[0].Created = someTime.Add(time.Hour) // of another call
		err := s.Commit(t.Context(), b)
		if stale, ok := errors.AsType[*store.Stale](err); !ok || len(stale.Calls) != 1 {
			t.Errorf("%s: Commit: %v", when, err)
		}
		if kept, err := s.Calls.Kept(t.Context(), b.Chosen[0]); err != nil || !kept {
			t.Errorf("%s: Kept: %t, %v", when, kept, err)
		}
	}
	keepCalls(t, s, 0, 1) // whose organisation the log knows then
	if kept, err := s.Calls.Kept(t.Context(), "mine"); err != nil || kept {
		t.Fatalf("Kept: %t, %v", kept, err)
	}
	if err := s.Commit(t.Context(), chosen("mine")); err != nil {
		t.Fatal(err)
	}
	copied(t, dir, back, "haft.db", "haft.db-wal", "redo.log")
	used(s, "in the log", chosen("mine"))
	used(s, "in the database", chosen("mine"))
	other := chosen("mine")
	other.Records[0].Call.Principal.Org = "other"
	used(s, "of another organisation", other)
	used(opened(t, back), "after a crash", chosen("mine"))
}
