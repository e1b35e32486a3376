package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"haft/store/sqlite"
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
