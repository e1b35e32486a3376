package sqlite_test

import (
	"testing"

	"haft/internal/store"
	"haft/internal/store/sqlite"
	"haft/internal/store/storetest"
)

// open opens an empty store.
func open(t testing.TB, cfg sqlite.Config) *store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *store.Store { return open(t, sqlite.Config{}) })
}
