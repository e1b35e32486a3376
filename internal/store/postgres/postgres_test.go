package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"haft"
	"haft/internal/audit"
	"haft/internal/event"
	"haft/internal/store"
	"haft/internal/store/migrations"
	"haft/internal/store/postgres"
	"haft/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var at = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

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

// raw opens the database itself.
func raw(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *store.Store { return open(t, storetest.Postgres(t)) })
}

// TestStore_two_processes: two stores over one database never break a chain, lose
// an event or wait for each other forever.
func TestStore_two_processes(t *testing.T) {
	url := storetest.Postgres(t)
	one, two := open(t, url), open(t, url)
	if !one.Shared() {
		t.Error("the store does not say that others write too")
	}
	storetest.Hammer(t, []*store.Store{one, two}, 4, 20)
}

// TestStore_cursors_are_seen_in_order: who reads on after the last cursor it saw
// misses nothing, whoever writes.
func TestStore_cursors_are_seen_in_order(t *testing.T) {
	url := storetest.Postgres(t)
	stores := []*store.Store{open(t, url), open(t, url)}
	const each = 60
	var writers sync.WaitGroup
	for i, s := range stores {
		for g := range 2 {
			writers.Go(func() {
				for n := range each / 2 {
					e := haft.Event{Seq: int64(n + 1), Type: haft.EventProgress, Time: at,
						Call: haft.CallID(fmt.Sprint(i, g)), Principal: haft.Principal{Org: "acme"}}
					if err := s.Commit(t.Context(), store.Batch{Events: []haft.Event{e}}); err != nil {
						t.Errorf("Commit: %v", err)
						return
					}
				}
			})
		}
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	seen, after, last := 0, int64(0), false
	for {
		list, err := storetest.Log{Store: stores[0]}.After(t.Context(), event.Filter{Org: "acme"}, after, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			seen++
			after = e.Cursor
		}
		if len(list) > 0 {
			continue
		}
		if last {
			break
		}
		select {
		case <-done:
			last = true
		default:
		}
	}
	if seen != 2*each {
		t.Errorf("%d events were seen, want %d", seen, 2*each)
	}
}

func TestOpen_many_at_once(t *testing.T) {
	url := storetest.Postgres(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := postgres.Open(t.Context(), url, postgres.Config{Conns: 1})
			if err != nil {
				t.Errorf("Open: %v", err)
				return
			}
			if err := errors.Join(s.Processes.Leave(t.Context(), "me"), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestOpen_upgrades opens a database of every version there ever was.
func TestOpen_upgrades(t *testing.T) {
	for version := range migrations.Latest() + 1 {
		t.Run(fmt.Sprint("from_", version), func(t *testing.T) {
			url := storetest.Postgres(t)
			db := raw(t, url)
			for range 2 { // again changes nothing
				if err := migrations.Run(t.Context(), db, postgres.Dialect().Dialect, version); err != nil {
					t.Fatalf("Migrate: %v", err)
				}
			}
			_, _ = open(t, url), open(t, url)
			var n int64
			if err := db.QueryRowContext(t.Context(),
				"SELECT MAX(version_id) FROM haft_version").Scan(&n); err != nil || n != migrations.Latest() {
				t.Errorf("the version is %d, %v, want %d", n, err, migrations.Latest())
			}
			if _, err := db.ExecContext(t.Context(),
				"INSERT INTO haft_version (version_id, is_applied) VALUES (9999, true)"); err != nil {
				t.Fatal(err)
			}
			_, err := postgres.Open(t.Context(), url, postgres.Config{})
			says(t, err, haft.CodeConflict, "newer haft")
		})
	}
}

func says(t *testing.T, err error, code haft.Code, words string) {
	t.Helper()
	if haft.CodeOf(err) != code || !strings.Contains(haft.MessageOf(err), words) {
		t.Errorf("%v is %s and says %q, want %s, %q", err, haft.CodeOf(err), haft.MessageOf(err), code, words)
	}
}

func TestOpen_says_what_is_wrong(t *testing.T) {
	url := storetest.Postgres(t)
	name, query, _ := strings.Cut(url, "?")
	for _, tt := range []struct {
		name, url string
		code      haft.Code
		words     string
	}{
		{"not a URL", "postgres://user:hunter2@[", haft.CodeInvalid, "address"},
		{"nobody there", "postgres://haft:hunter2@127.0.0.1:1/x?connect_timeout=1", haft.CodeUnavailable, "reached"},
		{"no such database", name + "x?" + query, haft.CodeUnavailable, "no such database"},
		{"no such user", strings.Replace(url, "haft@", "nobody:hunter2@", 1), haft.CodeUnavailable, "refuses"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), tt.url, postgres.Config{})
			says(t, err, tt.code, tt.words)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the password is told: %v", err)
			}
		})
	}
}

// TestStore_lost_connections: when the server ends them, what is under way fails
// and says so, nothing is half kept, and the store goes on.
func TestStore_lost_connections(t *testing.T) {
	url := storetest.Postgres(t)
	s, db := open(t, url), raw(t, url)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	kept := make([]int64, 4)
	for g := range kept {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := haft.CallID(fmt.Sprint(g, "-", n))
				p := haft.Principal{Org: fmt.Sprint("org", g)}
				err := s.Commit(t.Context(), store.Batch{
					Records: []haft.Record{{Call: haft.Call{ID: id, Principal: p}, Status: haft.StatusRunning,
						Created: at}},
					Audit: []audit.Entry{{Org: p.Org, Kind: "x", Call: id, Time: at}},
				})
				if err == nil {
					kept[g]++
				} else if haft.CodeOf(err) != haft.CodeUnavailable {
					t.Errorf("Commit: %v", err)
				}
			}
		})
	}
	for range 20 {
		var n int
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity "+
			"WHERE datname = current_database() AND pid <> pg_backend_pid()").Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	wg.Wait()
	if err := s.Processes.Leave(t.Context(), "me"); err != nil && haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("Leave: %v", err)
	}
	for g, n := range kept {
		head, err := s.Audit.AuditHead(t.Context(), fmt.Sprint("org", g))
		if err != nil || head.Seq < n {
			t.Errorf("the chain of %d ends at %d, %v, but %d were kept", g, head.Seq, err, n)
		}
		var calls int64
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM calls WHERE org = $1",
			fmt.Sprint("org", g)).Scan(&calls); err != nil || calls != head.Seq {
			t.Errorf("%d calls have %d entries, %v", calls, head.Seq, err)
		}
	}
}
