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
	"haft/internal/audit"
	"haft/internal/store"
	"haft/internal/store/sqlite"
	"haft/internal/store/storetest"
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
	entries, err := s.Audit.AuditEntries(ctx, "acme", 0, store.MaxPage)
	if err != nil || len(entries) != 2*n {
		t.Fatalf("%d entries of the audit, %v, want %d", len(entries), err, 2*n)
	}
	for i, e := range entries {
		if i > 0 && (e.Prev != entries[i-1].Hash || audit.Link(entries[i-1].Head(), e).Hash != e.Hash) {
			t.Fatalf("entry %d does not follow the one before", i)
		}
	}
	cursor, _, err := s.Events.LastEvents(ctx, nil)
	if err != nil || cursor != int64(2*n) {
		t.Errorf("the last event is %d, %v, want %d", cursor, err, 2*n)
	}
	for i := range n {
		r, err := s.Calls.Record(ctx, "acme", haft.CallID(fmt.Sprintf("call_%016d", i)))
		if err != nil || r.Status != haft.StatusSuccess {
			t.Fatalf("call %d: %+v, %v", i, r, err)
		}
	}
	sums, err := s.Calls.Usage(ctx, "acme", haft.UsageQuery{From: at.AddDate(0, 0, -1), Until: at.AddDate(0, 0, 1)})
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
	// everything is in the database now
	if _, err := s.Calls.Record(t.Context(), "acme", "none"); haft.CodeOf(err) != haft.CodeNotFound {
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
			if _, err := s.Audit.AuditHead(t.Context(), "acme"); err != nil {
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
		if head, err := s.Audit.AuditHead(t.Context(), "acme"); err != nil || head.Seq != n {
			t.Errorf("the audit ends at %d, %v, want %d", head.Seq, err, n)
		}
	}
}

// behind makes a directory as a loss of power leaves it: the database has the first batch
// alone, and the log the other 19.
func behind(t *testing.T) string {
	t.Helper()
	dir, lost := t.TempDir(), t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, Busy: true})
	keepSure(t, s, 0, 10)
	snapshot(t, dir, lost, append(database, "redo.log")...)
	change(t, lost, "DELETE FROM calls", "DELETE FROM events WHERE cursor > 1", "DELETE FROM audit WHERE seq > 1",
		"DELETE FROM usage_hours", "UPDATE marks SET value = 0 WHERE name = 'redo'")
	return lost
}

// change changes the database itself.
func change(t *testing.T, dir string, statements ...string) {
	t.Helper()
	db := raw(t, dir)
	for _, text := range statements {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOpen_a_log_after_a_crash: what was acknowledged and is not there is noticed, and
// what never was does not matter.
func TestOpen_a_log_after_a_crash(t *testing.T) {
	made, other := behind(t), behind(t)
	block := func(b []byte, n int) []byte { return b[n*4096 : (n+1)*4096] }
	for name, tt := range map[string]struct {
		damage func(t *testing.T, dir string, b []byte) []byte
		kept   int64  // entries of the audit; 0 means refused
		word   string // of the refusal
		taken  int64  // entries that are there if the loss is accepted
	}{
		"whole": {func(_ *testing.T, _ string, b []byte) []byte { return b }, 20, "", 0},
		"the record that was being written": {func(_ *testing.T, _ string, b []byte) []byte {
			copy(block(b, 20), block(b, 19))
			b[20*4096+20]++ // its checksum is wrong
			return b
		}, 20, "", 0},
		"one in the middle": {func(_ *testing.T, _ string, b []byte) []byte { b[7*4096+100] ^= 1; return b }, 0,
			"damaged", 7},
		"the last is overwritten": {func(_ *testing.T, _ string, b []byte) []byte { clear(block(b, 19)); return b },
			0, "last records", 19},
		"the last ones are cut off": {func(_ *testing.T, _ string, b []byte) []byte { return b[:15*4096] }, 0,
			"cut off", 15},
		"empty": {func(_ *testing.T, _ string, _ []byte) []byte { return []byte{} }, 0, "cut off",
			1},
		"all of it": {func(_ *testing.T, _ string, b []byte) []byte { clear(b); return b }, 0,
			"overwritten", 1},
		"missing": {func(*testing.T, string, []byte) []byte { return nil }, 0, "missing", 1},
		"of another database": {func(t *testing.T, _ string, _ []byte) []byte {
			b, err := os.ReadFile(filepath.Join(other, "redo.log"))
			if err != nil {
				t.Fatal(err)
			}
			return b
		}, 0, "another database", 1},
		"of an earlier moment": {func(t *testing.T, dir string, b []byte) []byte {
			change(t, dir, "UPDATE marks SET value = 30 WHERE name = 'redo'")
			return b
		}, 0, "earlier moment", 1},
		"missing, of an earlier version": {func(t *testing.T, dir string, _ []byte) []byte {
			change(t, dir, "DELETE FROM marks WHERE name = 'redo_checked'")
			return nil
		}, 1, "", 0},
		"of an earlier version": {func(t *testing.T, dir string, b []byte) []byte {
			change(t, dir, "DELETE FROM marks WHERE name = 'redo_checked'")
			return append(b[4096:], make([]byte, 4096)...) // which had no head
		}, 20, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			snapshot(t, made, dir, "haft.db", "redo.log")
			file := filepath.Join(dir, "redo.log")
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if b = tt.damage(t, dir, b); b != nil {
				err = os.WriteFile(file, b, 0o600)
			} else {
				err = os.Remove(file)
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.kept > 0 {
				entries(t, dir, nil, tt.kept)
				entries(t, dir, nil, tt.kept)
				return
			}
			for range 2 { // it stays so
				refused(t, dir, haft.CodeUnavailable, "redo.log", tt.word, "put back", "haft restore --accept-loss")
			}
			entries(t, dir, func(*store.LogLoss) audit.Entry {
				return audit.Entry{Org: "acme", Kind: "audit.restored", Actor: haft.Principal{Org: "acme"}, Time: at}
			}, tt.taken+1)
			entries(t, dir, nil, tt.taken+1)
		})
	}
}

// entries opens a store, checks how many entries the audit has, and closes it.
func entries(t *testing.T, dir string, accept func(*store.LogLoss) audit.Entry, want int64) {
	t.Helper()
	s := open(t, sqlite.Config{Dir: dir, AcceptLoss: accept, Busy: true})
	if head, err := s.Audit.AuditHead(t.Context(), "acme"); err != nil || head.Seq != want {
		t.Errorf("%d entries are kept, %v, want %d", head.Seq, err, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestOpen_any_order_of_pages: a loss of power keeps the record that was being written, a
// part of it or nothing, and any earlier head, for which nobody waits. All that was
// acknowledged is there, and nothing is refused.
func TestOpen_any_order_of_pages(t *testing.T) {
	made := behind(t)
	whole, err := os.ReadFile(filepath.Join(made, "redo.log"))
	if err != nil {
		t.Fatal(err)
	}
	const block, sector, last = 4096, 512, 19
	try := func(name string, log []byte, want int64) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			snapshot(t, made, dir, "haft.db")
			if err := os.WriteFile(filepath.Join(dir, "redo.log"), log, 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, sqlite.Config{Dir: dir, NoLog: true})
			if head, err := s.Audit.AuditHead(t.Context(), "acme"); err != nil || head.Seq != want {
				t.Errorf("%d entries are kept, %v, want %d", head.Seq, err, want)
			}
		})
	}
	for acknowledged := range uint64(last + 1) {
		b := bytes.Clone(whole)
		binary.LittleEndian.PutUint64(b[12:], acknowledged)
		binary.LittleEndian.PutUint32(b[28:], crc32.Checksum(b[:28], crc32.MakeTable(crc32.Castagnoli)))
		try(fmt.Sprintf("head %d", acknowledged), b, last+1)
		if acknowledged == last {
			continue
		}
		// Its payload takes at least two sectors. What was there before are zeros, or a record
		// that was trimmed.
		for _, kept := range []string{"none", "first", "rest"} {
			torn := bytes.Clone(b)
			record, before := torn[last*block:(last+1)*block], bytes.Clone(torn[block:2*block])
			switch kept {
			case "none":
				clear(record)
			case "first":
				copy(record[sector:], before[sector:])
			case "rest":
				copy(record[:sector], before)
			}
			if kept != "none" && bytes.Equal(record, whole[last*block:(last+1)*block]) {
				t.Fatal("nothing is torn")
			}
			try(fmt.Sprintf("head %d, %s of the last record", acknowledged, kept), torn, last)
		}
	}
}

// TestOpen_a_log_that_was_being_made: the process ended before the database named the log.
func TestOpen_a_log_that_was_being_made(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, Busy: true})
	keepSure(t, s, 0, 5)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "redo.log")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fresh := bytes.Clone(whole) // the head of the next log, before the records of the last one
	binary.LittleEndian.PutUint64(fresh[4:], 42)
	binary.LittleEndian.PutUint64(fresh[12:], 0)
	binary.LittleEndian.PutUint32(fresh[28:], crc32.Checksum(fresh[:28], crc32.MakeTable(crc32.Castagnoli)))
	for name, log := range map[string][]byte{"begun": fresh, "empty": {}, "short": make([]byte, 5000),
		"zeros": make([]byte, len(whole)), "cut": whole[:1<<20]} {
		if err := os.WriteFile(file, log, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		complete(t, s, 5)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpen_a_log_that_was_closed: after a clean end nobody needs the log.
func TestOpen_a_log_that_was_closed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, Busy: true})
	keepSure(t, s, 0, 5)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "redo.log")); err != nil {
		t.Fatal(err)
	}
	complete(t, open(t, sqlite.Config{Dir: dir}), 5)
}

// TestOpen_a_log_of_another_database: a database that was restored without its log, closed as it
// was, never heard of the log that lies beside it.
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
	refused(t, dir, haft.CodeUnavailable, "redo.log", "later moment", "haft restore --accept-loss")
}

// TestOpen_a_damaged_WAL: SQLite ignores what follows a frame with a wrong checksum, so the
// database is of an earlier moment. What the log has must not be added to that.
func TestOpen_a_damaged_WAL(t *testing.T) {
	dir, lost := t.TempDir(), t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, Busy: true})
	keepSure(t, s, 0, 3)
	wal := filepath.Join(dir, "haft.db-wal")
	direct := func(id string) int64 {
		if err := s.Commit(t.Context(), batch(id)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(wal)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	from := direct("past")
	to := direct("past again")
	keepSure(t, s, 3, 3)
	snapshot(t, dir, lost, append(database, "redo.log")...)
	b, err := os.ReadFile(filepath.Join(lost, "haft.db-wal"))
	if err != nil {
		t.Fatal(err)
	}
	b[(from+to)/2] ^= 1
	if err := os.WriteFile(filepath.Join(lost, "haft.db-wal"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, lost, haft.CodeUnavailable, "redo.log", "later moment")
}

// TestOpen_without_a_log: it is not made, and what an earlier process left is taken up.
func TestOpen_without_a_log(t *testing.T) {
	dir := behind(t)
	s := open(t, sqlite.Config{Dir: dir, Busy: true, NoLog: true})
	complete(t, s, 10)
	if err := os.Remove(filepath.Join(dir, "redo.log")); err != nil {
		t.Fatal(err)
	}
	keepSure(t, s, 10, 20)
	if _, err := os.Stat(filepath.Join(dir, "redo.log")); err == nil {
		t.Error("a log was made")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	complete(t, open(t, sqlite.Config{Dir: dir}), 30)
}

// TestOpen_no_database: nothing is made where a database is missing.
func TestOpen_no_database(t *testing.T) {
	for _, sibling := range []string{"redo.log", "haft.db-wal", "audit.head"} {
		for name, take := range map[string]func(string) error{
			"missing": os.Remove, "empty": func(name string) error { return os.Truncate(name, 0) },
		} {
			t.Run(name+" beside "+sibling, func(t *testing.T) {
				dir := t.TempDir()
				keep(t, dir, 1)
				if err := os.WriteFile(filepath.Join(dir, sibling), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := take(filepath.Join(dir, "haft.db")); err != nil {
					t.Fatal(err)
				}
				cfg := sqlite.Config{Dir: dir, Siblings: []string{"audit.head"}}
				for range 2 {
					_, err := sqlite.Open(t.Context(), cfg)
					says(t, err, dir, haft.CodeConflict, "haft.db", sibling, "put the database back",
						"haft restore --accept-loss")
				}
				if _, err := os.Stat(filepath.Join(dir, sibling)); err != nil {
					t.Errorf("the file beside it is gone: %v", err)
				}
			})
		}
	}
}

// TestOpen_a_log_of_another_version: what another version acknowledged is neither
// lost nor guessed at.
func TestOpen_a_log_of_another_version(t *testing.T) {
	dir, lost := t.TempDir(), t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, Busy: true})
	keepSure(t, s, 0, 1)
	if _, err := s.Audit.AuditHead(t.Context(), "acme"); err != nil {
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
	for at := 4096; at+4096 <= len(b) && b[at] != 0; at += 4096 { // behind the head, each takes one block
		b[at+4]++
		n := binary.LittleEndian.Uint32(b[at+8:])
		table := crc32.MakeTable(crc32.Castagnoli)
		binary.LittleEndian.PutUint32(b[at+28:], crc32.Update(crc32.Checksum(b[at:at+28], table), table,
			b[at+32:at+32+int(n)]))
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, lost, haft.CodeConflict, "another version", "10 commits")
	// That version still finds everything.
	snapshot(t, dir, lost, "redo.log")
	complete(t, open(t, sqlite.Config{Dir: lost}), 6)
}
