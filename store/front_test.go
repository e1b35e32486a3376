package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"haft"
	"haft/audit"
	"haft/store"
	"haft/store/sqlite"
)

// TestStore_a_log_that_fails: what the log does not take the database does, and the
// record that may or may not be in the log is not taken from there again.
func TestStore_a_log_that_fails(t *testing.T) {
	dir, lost := t.TempDir(), t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Busy: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	keep := func(from, n int) {
		t.Helper()
		for i := from; i < from+n; i++ {
			p := haft.Principal{Org: "acme", User: "ann"}
			id := haft.CallID(fmt.Sprint("c", i))
			err := s.Commit(t.Context(), store.Batch{Sure: true,
				Records: []haft.Record{{Call: haft.Call{ID: id, Tool: "add", Principal: p}, Status: haft.StatusSuccess, Created: time.Now()}},
				Audit:   []audit.Entry{{Org: "acme", Kind: "call.ended", Actor: p, Call: id, Time: time.Now()}}})
			if err != nil {
				t.Fatalf("Commit %d: %v", i, err)
			}
		}
	}
	keep(0, 5)
	if _, err := s.AuditHead(t.Context(), "acme"); err != nil { // nothing waits
		t.Fatal(err)
	}
	ghost := haft.Record{Call: haft.Call{ID: "ghost", Tool: "add", Principal: haft.Principal{Org: "acme"}}, Status: haft.StatusSuccess, Created: time.Now()}
	if err := s.FailLog(store.Batch{Records: []haft.Record{ghost}}); err != nil {
		t.Fatal(err)
	}
	keep(5, 3)
	for _, name := range []string{"haft.db", "haft.db-wal", "redo.log"} { // as after a crash
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(lost, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again, err := sqlite.Open(t.Context(), sqlite.Config{Dir: lost})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer again.Close()
	for _, s := range []*store.Store{s, again} {
		if head, err := s.AuditHead(t.Context(), "acme"); err != nil || head.Seq != 8 {
			t.Errorf("the audit ends at %d, %v, want 8", head.Seq, err)
		}
		if _, err := s.Record(t.Context(), "acme", "ghost"); haft.CodeOf(err) != haft.CodeNotFound {
			t.Errorf("what was never acknowledged: %v", err)
		}
	}
}
