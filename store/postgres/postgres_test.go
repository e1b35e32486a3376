package postgres_test

import (
	"testing"

	"haft/store"
	"haft/store/postgres"
	"haft/store/storetest"
)

// open opens the store at url.
func open(t testing.TB, url string) *store.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), url, postgres.Config{})
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
	_ = open(t, storetest.Postgres(t))
	storetest.Run(t, func(t *testing.T) *store.Store { return open(t, storetest.Postgres(t)) })
}
