package sqlite_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"haft"
	"haft/internal/audit"
	"haft/internal/store"
	"haft/internal/store/migrations"
	"haft/internal/store/sqlite"
)

var at = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// batch is a small thing to keep.
func batch(id string) store.Batch {
	p := haft.Principal{Org: "acme", User: "ann"}
	return store.Batch{
		Records: []haft.Record{{Call: haft.Call{ID: haft.CallID(id), Tool: "add", Principal: p},
			Status: haft.StatusRunning, Created: at}},
		Audit: []audit.Entry{{Org: "acme", Kind: "call.started", Actor: p, Call: haft.CallID(id), Time: at}},
	}
}

// keep keeps batches in a directory and closes the store.
func keep(t *testing.T, dir string, n int) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	for i := range n {
		if err := s.Commit(t.Context(), batch(fmt.Sprint("c", i))); err != nil {
			t.Fatalf("Commit: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// refused opens a store and checks that it says what it should, in words without a
// path.
func refused(t *testing.T, dir string, code haft.Code, words ...string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err == nil {
		t.Fatalf("Open succeeds: %v", s.Close())
	}
	says(t, err, dir, code, words...)
}

func says(t *testing.T, err error, dir string, code haft.Code, words ...string) {
	t.Helper()
	if haft.CodeOf(err) != code {
		t.Errorf("%v is %s, want %s", err, haft.CodeOf(err), code)
	}
	message := haft.MessageOf(err)
	if strings.Contains(message, dir) {
		t.Errorf("the message names the path: %s", message)
	}
	for _, word := range words {
		if !strings.Contains(message, word) {
			t.Errorf("the message is %q, want %q in it", message, word)
		}
	}
}

func TestOpen_keeps_what_was_kept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c#d%20", "é")
	keep(t, dir, 3)
	s := open(t, sqlite.Config{Dir: dir})
	if r, err := s.Calls.Record(t.Context(), "acme", "c2"); err != nil || r.Status != haft.StatusRunning {
		t.Errorf("Record = %+v, %v", r, err)
	}
	if err := s.Commit(t.Context(), batch("c3")); err != nil {
		t.Errorf("Commit: %v", err)
	}
	if head, err := s.Audit.AuditHead(t.Context(), "acme"); err != nil || head.Seq != 4 {
		t.Errorf("AuditHead = %+v, %v", head, err)
	}
	if s.Shared() {
		t.Error("a store in a directory says that others write too")
	}
}

func TestOpen_files_are_nobody_elses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, sqlite.Config{Dir: dir})
	if err := s.Commit(t.Context(), batch("c1")); err != nil {
		t.Fatal(err)
	}
	want := map[string]fs.FileMode{".": fs.ModeDir | 0o700, "haft.db": 0o600, "haft.db-wal": 0o600,
		"haft.db-shm": 0o600, "lock": 0o600}
	for name, mode := range want {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s has mode %v, %v, want %v", name, info.Mode(), err, mode)
		}
	}
}

func TestOpen_without_a_directory_leaves_nothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	s, err := sqlite.Open(t.Context(), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Commit(t.Context(), batch("c1")), s.Close()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// hold has a second process open dir.
func hold(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // killed or not
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "held\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return cmd
}

func TestOpen_one_process_at_a_time(t *testing.T) {
	dir := t.TempDir()
	other := hold(t, dir)
	refused(t, dir, haft.CodeConflict, "another haft", fmt.Sprintf("pid %d", other.Process.Pid))
	got := make(chan error, 1)
	go func() {
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Wait: time.Minute})
		if err == nil {
			err = s.Close()
		}
		got <- err
	}()
	if err := other.Process.Kill(); err != nil { // it cannot clean up
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("after the other was killed: %v", err)
	}
	keep(t, dir, 1)
}

// TestOpen_one_process_without_its_file: somebody removed the file that is locked, as one
// does who takes it for a leftover.
func TestOpen_one_process_without_its_file(t *testing.T) {
	dir := t.TempDir()
	other := hold(t, dir)
	if err := os.Remove(filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		refused(t, dir, haft.CodeConflict, "another haft")
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // killed
	keep(t, dir, 1)
}

// TestStore_killed: what was acknowledged is there, whenever the process is killed.
func TestStore_killed(t *testing.T) {
	for name, busy := range map[string]string{"database": "", "log": "1"} {
		t.Run(name, func(t *testing.T) { killed(t, busy) })
	}
}

// killed kills processes that write to the database or to the log, in one directory.
func killed(t *testing.T, busy string) {
	dir := t.TempDir()
	total := int64(0)
	for round := range 3 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), holdEnv+"="+dir, writeEnv+"=1", busyEnv+"="+busy)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acknowledged := int64(0)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if lines.Text() == "held" {
				continue
			}
			if acknowledged++; acknowledged == int64(20*(round+1)) {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // killed
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
		if err != nil {
			t.Fatalf("Open after a kill: %v", err)
		}
		head, err := s.Audit.AuditHead(t.Context(), "acme")
		cursor, _, err2 := s.Events.LastEvents(t.Context(), nil)
		if err := errors.Join(err, err2, s.Close()); err != nil || head.Seq < total+acknowledged ||
			head.Seq > total+acknowledged+1 || cursor != head.Seq {
			t.Errorf("round %d: %d entries and cursor %d are kept of %d, %v", round, head.Seq, cursor,
				total+acknowledged, err)
		}
		total = head.Seq
	}
}

func TestOpen_a_pid_that_was_left_behind_does_not_matter(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keep(t, dir, 1)
}

func TestOpen_many_at_once_take_turns(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Wait: time.Minute})
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			if err := errors.Join(s.Commit(t.Context(), batch(fmt.Sprint("c", i))), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := open(t, sqlite.Config{Dir: dir})
	if head, err := s.Audit.AuditHead(t.Context(), "acme"); err != nil || head.Seq != 4 {
		t.Errorf("AuditHead = %+v, %v", head, err)
	}
}

// raw opens the database itself.
func raw(t *testing.T, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, "haft.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// TestOpen_upgrades opens a database of every version there ever was.
func TestOpen_upgrades(t *testing.T) {
	for version := range migrations.Latest() + 1 {
		t.Run(fmt.Sprint("from_", version), func(t *testing.T) {
			dir := t.TempDir()
			db := raw(t, dir)
			for range 2 { // again changes nothing
				if err := migrations.Run(t.Context(), db, sqlite.Dialect(nil).Dialect, version); err != nil {
					t.Fatalf("Migrate: %v", err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			keep(t, dir, 1)
			keep(t, dir, 1)
			var n int64
			if err := raw(t, dir).QueryRowContext(t.Context(),
				"SELECT MAX(version_id) FROM haft_version").Scan(&n); err != nil || n != migrations.Latest() {
				t.Errorf("the version is %d, %v, want %d", n, err, migrations.Latest())
			}
		})
	}
}

func TestOpen_refuses_a_newer_database(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, 1)
	db := raw(t, dir)
	if _, err := db.ExecContext(t.Context(),
		"INSERT INTO haft_version (version_id, is_applied) VALUES (9999, 1)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before := content(t, dir)
	refused(t, dir, haft.CodeConflict, "newer haft", "9999")
	if !bytes.Equal(before, content(t, dir)) {
		t.Error("the database was changed")
	}
}

func content(t *testing.T, dir string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "haft.db"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOpen_refuses_what_is_damaged_and_leaves_it(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"another file":    func([]byte) []byte { return bytes.Repeat([]byte("not a database "), 1000) },
		"the first page":  func(b []byte) []byte { copy(b[100:], bytes.Repeat([]byte{0xff}, 3000)); return b },
		"cut in half":     func(b []byte) []byte { return b[:len(b)/2] },
		"all other pages": func(b []byte) []byte { copy(b[4096:], bytes.Repeat([]byte{0xab}, len(b)-4096)); return b },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			keep(t, dir, 20)
			damaged := damage(content(t, dir))
			if err := os.WriteFile(filepath.Join(dir, "haft.db"), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
			if err == nil { // it is noticed when it is read
				_, err = s.Calls.Records(t.Context(), haft.CallFilter{Org: "acme"})
				err = errors.Join(err, s.Commit(t.Context(), batch("new")))
				defer s.Close()
			}
			says(t, err, dir, haft.CodeUnavailable, "haft.db", "damaged", "restore")
			if !strings.Contains(err.Error(), "quick_check") {
				t.Errorf("the operator is not told what is wrong: %v", err)
			}
			if !bytes.Equal(damaged, content(t, dir)) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestOpen_refuses_a_file_for_a_directory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, file, haft.CodeUnavailable, "directory")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "haft.db"), 0o700); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, haft.CodeUnavailable, "directory")
}
