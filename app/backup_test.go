package app_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to change a backup

	"haft"
	"haft/internal/datadir"
)

// TestBackup_leaves_no_half: a backup that fails leaves no keys behind, and none is made
// where others could put links in its way, or of a link.
func TestBackup_leaves_no_half(t *testing.T) {
	made, _ := crashed(t)
	for name, tt := range map[string]struct {
		spoil func(data, to string) error
		want  haft.Code
	}{
		"a database is missing": {func(data, _ string) error { return os.Remove(filepath.Join(data, "haft.db")) },
			haft.CodeNotFound},
		"a link": {func(data, _ string) error {
			return os.Symlink(filepath.Join(data, "master.key"), filepath.Join(data, "audit.keys"))
		}, haft.CodeInvalid},
		"others write there": {func(_, to string) error { return os.Chmod(to, 0o777) }, haft.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			data, to := t.TempDir(), t.TempDir()
			copyFiles(t, made, data)
			must(t, tt.spoil(data, to))
			_, err := datadir.Backup(t.Context(), datadir.BackupConfig{Data: data, To: to})
			if haft.CodeOf(err) != tt.want {
				t.Errorf("Backup: %v, want %s", err, tt.want)
			}
			if list, err := os.ReadDir(to); err != nil || len(list) > 0 {
				t.Errorf("it left %v, %v", list, err)
			}
		})
	}
}

// TestPutBack_a_copy_in_use: a copy of the files of a server has its newest data elsewhere.
func TestPutBack_a_copy_in_use(t *testing.T) {
	from, _ := crashed(t)
	data := filepath.Join(t.TempDir(), "data")
	if _, err := datadir.PutBack(t.Context(), from, data,
		haft.Principal{Org: "acme"}); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("PutBack: %v", err)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("something was copied")
	}
}

// TestPutBack_a_changed_backup: what was signed must be there, also if nothing of an
// organisation is left.
func TestPutBack_a_changed_backup(t *testing.T) {
	made, _ := crashed(t)
	for name, text := range map[string]string{
		"nothing": "SELECT 1",
		"all": "DELETE FROM audit; DELETE FROM audit_heads; DELETE FROM checkpoints; DELETE FROM " +
			"audit_checkpoints",
		"an end":   "DELETE FROM audit WHERE seq > 3",
		"an entry": "UPDATE audit SET doc = (SELECT doc FROM audit WHERE seq = 3) WHERE seq = 2",
	} {
		t.Run(name, func(t *testing.T) {
			from, data, to := filepath.Join(t.TempDir(), "copy"), t.TempDir(), filepath.Join(t.TempDir(), "data")
			copyFiles(t, made, data)
			_, err := datadir.Backup(t.Context(), datadir.BackupConfig{Data: data, To: from})
			must(t, err)
			db, err := sql.Open("sqlite", filepath.Join(from, "haft.db"))
			must(t, err)
			_, err = db.ExecContext(t.Context(), text)
			must(t, err)
			must(t, db.Close())
			_, err = datadir.PutBack(t.Context(), from, to, haft.Principal{Org: "acme", User: "olga"})
			if name == "nothing" {
				must(t, err)
			} else if err == nil || !strings.Contains(haft.MessageOf(err), "acme") {
				t.Errorf("PutBack: %v", err)
			}
		})
	}
}
