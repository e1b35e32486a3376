package sqlite_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"haft"
	"haft/internal/store"
	"haft/internal/store/sqlite"
)

// No file of a data directory holds what was erased: neither the database nor its log, nor the
// log in front of it.
func TestErase_reaches_every_file(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Busy: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const name = "annabel-lee"
	for i := range 40 {
		p := haft.Principal{Org: "o", User: name}
		r := haft.Record{Call: haft.Call{ID: haft.CallID(fmt.Sprintf("c%03d", i)), Tool: "add", Principal: p},
			Status: haft.StatusSuccess, Created: time.Now(), Ended: time.Now()}
		e := haft.Event{Type: haft.EventCompleted, Time: time.Now(), Call: r.Call.ID, Tool: "add", Principal: p, Seq: 1}
		if err := s.Commit(t.Context(), store.Batch{Records: []haft.Record{r}, Events: []haft.Event{e},
			Sure: true}); err != nil {
			t.Fatal(err)
		}
	}
	if !held(t, dir, "redo.log", name) {
		t.Fatal("the log in front of the database never had it: the test shows nothing")
	}
	if err := s.Erasure.EraseUser(t.Context(), "o", name, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Scrub(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held(t, dir, "*", name) {
		t.Error("a file still holds the name of who was erased")
	}
}

// held reports whether a file that fits a pattern holds a text.
func held(t *testing.T, dir, pattern, text string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(text)) {
			return true
		}
	}
	return false
}
