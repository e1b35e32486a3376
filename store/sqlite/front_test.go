package sqlite_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"haft"
	"haft/audit"
	"haft/store"
	"haft/store/sqlite"
	"haft/store/storetest"
)

// The tables of all these stores are the same, so they are made once.
func TestStore_in_a_directory(t *testing.T) {
	made := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: made})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	storetest.Run(t, func(t *testing.T) *store.Store {
		dir := t.TempDir()
		snapshot(t, made, dir, "haft.db")
		return open(t, sqlite.Config{Dir: dir, Busy: true})
	})
}

// snapshot copies files of a directory into another.
func snapshot(t *testing.T, from, to string, names ...string) {
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

// database are the files of the database while it is open.
var database = []string{"haft.db", "haft.db-wal"}

// keepSure keeps calls that cannot clash. The first batch of an organisation goes
// into the database itself, all others into the log.
func keepSure(t *testing.T, s *store.Store, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		for _, status := range []haft.Status{haft.StatusRunning, haft.StatusSuccess} {
			b := calls(i, 1, status)
			b.Sure = true
			if err := s.Commit(t.Context(), b); err != nil {
				t.Fatalf("Commit: %v", err)
			}
		}
	}
}

// complete checks that the first n calls are there, once, with all that belongs to
// them.
func complete(t *testing.T, s *store.Store, n int) {
	t.Helper()
	ctx := t.Context()
	entries, err := s.AuditEntries(ctx, "acme", 0, store.MaxPage)
	if err != nil || len(entries) != 2*n {
		t.Fatalf("%d entries of the audit, %v, want %d", len(entries), err, 2*n)
	}
	for i, e := range entries {
		if i > 0 && (e.Prev != entries[i-1].Hash || audit.Link(entries[i-1].Head(), e).Hash != e.Hash) {
			t.Fatalf("entry %d does not follow the one before", i)
		}
	}
	cursor, _, err := s.LastEvents(ctx, nil)
	if err != nil || cursor != int64(2*n) {
		t.Errorf("the last event is %d, %v, want %d", cursor, err, 2*n)
	}
	for i := range n {
		r, err := s.Record(ctx, "acme", haft.CallID(fmt.Sprintf("call_%016d", i)))
		if err != nil || r.Status != haft.StatusSuccess {
			t.Fatalf("call %d: %+v, %v", i, r, err)
		}
	}
	sums, err := s.Usage(ctx, "acme", haft.UsageQuery{From: at.AddDate(0, 0, -1), Until: at.AddDate(0, 0, 1)})
	if err != nil || len(sums) != 1 || sums[0].Calls != int64(n) {
		t.Errorf("Usage = %+v, %v, want %d calls", sums, err, n)
	}
}

// TestStore_power_lost: the database is as it was at some moment, and the log is as
// it was when the last batch was acknowledged.
func TestStore_power_lost(t *testing.T) {
	dir, lost := t.TempDir(), t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, Busy: true})
	keepSure(t, s, 0, 10)
	if _, err := s.Record(t.Context(), "acme", "none"); haft.CodeOf(err) != haft.CodeNotFound { // everything is in the database now
		t.Fatal(err)
	}
	snapshot(t, dir, lost, database...)
	keepSure(t, s, 10, 200)
	complete(t, s, 210)
	snapshot(t, dir, lost, "redo.log")
	again, err := sqlite.Open(t.Context(), sqlite.Config{Dir: lost, Busy: true})
	if err != nil {
		t.Fatalf("Open after the power was lost: %v", err)
	}
	complete(t, again, 210)
	keepSure(t, again, 210, 20)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	complete(t, open(t, sqlite.Config{Dir: lost}), 230)
}

// TestStore_a_log_is_used_again: a log that went around many times, with the
// database as it is in the middle of it.
func TestStore_a_log_is_used_again(t *testing.T) {
	dir, lost := t.TempDir(), t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, Busy: true})
	big := bytes.Repeat([]byte("x"), 100_000)
	for i := range 300 { // 30 MB through a log of 8
		b := calls(i, 1, haft.StatusSuccess)
		b.Sure, b.Records[0].Result.Stdout = true, string(big)
		if err := s.Commit(t.Context(), b); err != nil {
			t.Fatalf("Commit %d: %v", i, err)
		}
		if i == 250 {
			if _, err := s.AuditHead(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
			snapshot(t, dir, lost, database...)
		}
		if i == 260 {
			snapshot(t, dir, lost, "redo.log")
		}
	}
	again := open(t, sqlite.Config{Dir: lost})
	for s, n := range map[*store.Store]int64{s: 300, again: 261} {
		if head, err := s.AuditHead(t.Context(), "acme"); err != nil || head.Seq != n {
			t.Errorf("the audit ends at %d, %v, want %d", head.Seq, err, n)
		}
	}
}

func TestOpen_a_log_that_is_damaged(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, Busy: true})
	keepSure(t, s, 0, 10)
	for name, tt := range map[string]struct {
		damage func([]byte)
		kept   int64 // entries of the audit; 0 means refused
	}{
		"the record that was being written": {func(b []byte) { b[18*4096+100] ^= 1 }, 19},
		"one in the middle":                 {func(b []byte) { b[7*4096+100] ^= 1 }, 0},
		"all of it":                         {func(b []byte) { clear(b) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			lost := t.TempDir()
			snapshot(t, dir, lost, append(database, "redo.log")...)
			// As if nothing of it were in the database, which has the first batch alone.
			db := raw(t, lost)
			for _, table := range []string{"calls", "events WHERE cursor > 1", "audit WHERE seq > 1", "usage_hours"} {
				if _, err := db.ExecContext(t.Context(), "DELETE FROM "+table); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := db.ExecContext(t.Context(), "UPDATE marks SET value = 0 WHERE name = 'redo'"); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(lost, "redo.log")
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tt.damage(b)
			if err := os.WriteFile(file, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if tt.kept == 0 {
				refused(t, lost, haft.CodeUnavailable, "redo.log", "damaged", "remove it")
				return
			}
			again := open(t, sqlite.Config{Dir: lost})
			head, err := again.AuditHead(t.Context(), "acme")
			if err != nil || head.Seq != tt.kept {
				t.Errorf("%d entries are kept, %v, want %d", head.Seq, err, tt.kept)
			}
		})
	}
}

// TestOpen_a_log_of_another_database: a backup that was put back, or a database that
// was removed, has nothing to do with the log that lies beside it.
func TestOpen_a_log_of_another_database(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, 3)
	backup := content(t, dir)
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Busy: true})
	if err != nil {
		t.Fatal(err)
	}
	keepSure(t, s, 0, 5)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "haft.db"), backup, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, sqlite.Config{Dir: dir, Busy: true})
	if head, err := s.AuditHead(t.Context(), "acme"); err != nil || head.Seq != 3 {
		t.Errorf("the audit ends at %d, %v, want 3", head.Seq, err)
	}
}

// TestOpen_a_log_of_another_version: what another version acknowledged is neither
// lost nor guessed at.
func TestOpen_a_log_of_another_version(t *testing.T) {
	dir, lost := t.TempDir(), t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, Busy: true})
	keepSure(t, s, 0, 1)
	if _, err := s.AuditHead(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	snapshot(t, dir, lost, database...)
	keepSure(t, s, 1, 5)
	snapshot(t, dir, lost, "redo.log")
	file := filepath.Join(lost, "redo.log")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at+4096 <= len(b) && b[at] != 0; at += 4096 { // each takes one block
		b[at+4]++
		n := binary.LittleEndian.Uint32(b[at+8:])
		table := crc32.MakeTable(crc32.Castagnoli)
		binary.LittleEndian.PutUint32(b[at+28:], crc32.Update(crc32.Checksum(b[at:at+28], table), table, b[at+32:at+32+int(n)]))
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, lost, haft.CodeConflict, "another version", "10 commits")
	// That version still finds everything.
	snapshot(t, dir, lost, "redo.log")
	complete(t, open(t, sqlite.Config{Dir: lost}), 6)
}
