package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"haft"
	"haft/internal/store/sqlite"
)

// TestBackup: the copy has all that was acknowledged before, and needs no log, whether or
// not somebody uses the database.
func TestBackup(t *testing.T) {
	dir := t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, Busy: true})
	keepSure(t, s, 0, 20)
	dirs := map[string]string{"used": dir, "left in a crash": behind(t)}
	for name, want := range map[string]int{"used": 20, "left in a crash": 10} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			file := filepath.Join(to, "haft.db")
			if err := sqlite.Backup(t.Context(), dirs[name], file); err != nil {
				t.Fatalf("Backup: %v", err)
			}
			if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
				t.Errorf("the copy has mode %v, %v", info.Mode(), err)
			}
			complete(t, open(t, sqlite.Config{Dir: to}), want)
			if err := sqlite.Backup(t.Context(), dirs[name], file); err == nil {
				t.Error("a file is overwritten")
			}
		})
	}
}

// TestBackup_waits_for_any_log: a server of an earlier version writes no head, and one that
// is being written may be read half. The records alone say what the database lacks.
func TestBackup_waits_for_any_log(t *testing.T) {
	dir := behind(t)
	log, err := os.OpenFile(filepath.Join(dir, "redo.log"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = log.WriteAt(make([]byte, 4096), 0)
	server, open := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err := errors.Join(err, log.Close(), open); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if err := syscall.Flock(int(server.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := sqlite.Backup(ctx, dir, filepath.Join(t.TempDir(), "haft.db")); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("Backup without what the log has: %v", err)
	}
}

// TestBackup_put_back_alone: the log of the server that it was made of is not its own.
func TestBackup_put_back_alone(t *testing.T) {
	dir, lost := t.TempDir(), t.TempDir()
	s := open(t, sqlite.Config{Dir: dir, Busy: true})
	keepSure(t, s, 0, 5)
	if err := sqlite.Backup(t.Context(), dir, filepath.Join(lost, "haft.db")); err != nil {
		t.Fatal(err)
	}
	keepSure(t, s, 5, 5)
	snapshot(t, dir, lost, "redo.log")
	refused(t, lost, haft.CodeUnavailable, "redo.log", "later moment", "haft restore --accept-loss")
}
