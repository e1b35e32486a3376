package memorystore_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"haft"
	"haft/internal/memorystore"
	"haft/internal/store"
	"haft/internal/store/migrations"
	"haft/internal/store/postgres"
	"haft/internal/store/sqlite"
	"haft/internal/store/storetest"
)

// What was kept before users were in terms and passages, and bytes were counted, is found and counted afterwards.
func TestUpgrade(t *testing.T) {
	for name, to := range map[string]func(t *testing.T) (driver, where string, d migrations.Dialect,
		open func() (*store.Store, error)){
		"sqlite": func(t *testing.T) (string, string, migrations.Dialect, func() (*store.Store, error)) {
			dir := t.TempDir()
			return "sqlite", filepath.Join(dir, "haft.db"), sqlite.Dialect(nil).Dialect, func() (*store.Store, error) {
				return sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
			}
		},
		"postgres": func(t *testing.T) (string, string, migrations.Dialect, func() (*store.Store, error)) {
			url := storetest.Postgres(t)
			return "pgx", url, postgres.Dialect().Dialect, func() (*store.Store, error) {
				return postgres.Open(t.Context(), url, postgres.Config{})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			driver, where, dialect, open := to(t)
			db, err := sql.Open(driver, where)
			check(t, err)
			check(t, migrations.Run(t.Context(), db, dialect, 20))
			for _, text := range []string{
				"INSERT INTO memories (agent, org, seq, passages, removed) VALUES ('ag_A', 'acme', 1, 1, 0)",
				"INSERT INTO memories (agent, org, seq, passages, removed) VALUES ('ag_B', 'acme', 0, 0, 1)",
				"INSERT INTO messages (agent, seq, id, org, usr, turn, role, replaces, created, doc) VALUES ('ag_A', " +
					`1, 'message-1', 'acme', 'ann', 'run-1', 'user', 0, 1, '{"id":"message-1","seq":1,"text":"tea ü"}')`,
				"INSERT INTO passages (id, org, agent, body, tags, created) VALUES ('passage-1', 'acme', 'ag_A', " +
					"'tea', '[]', 1)",
				"INSERT INTO memory_terms (agent, term, item, weight) VALUES ('ag_A', 'tea', 'message-1', 1), " +
					"('ag_A', 'tea', 'passage-1', 1), ('ag_B', 'tea', 'message-gone', 1)",
			} {
				_, err := db.ExecContext(t.Context(), text)
				check(t, err)
			}
			check(t, db.Close())
			w := &world{t: t, db: opened(open())(t)}
			w.Store = memorystore.New(w.db)
			want(t, "passages", w.found(haft.PassageFilter{Query: "tea"}), "tea")
			want(t, "messages", w.saidBy("ann", a, haft.MessageFilter{Query: "tea"}), "1:tea ü")
			want(t, "of another", w.saidBy("bob", a, haft.MessageFilter{Query: "tea"}), "")
			want(t, "bytes", w.rows("memories WHERE agent = 'ag_A' AND bytes = 5 + OCTET_LENGTH("+
				`'{"id":"message-1","seq":1,"text":"tea ü"}')`), 1)
			want(t, "shares", w.rows("memory_shares WHERE agent = 'ag_A' AND usr = 'ann' AND bytes = OCTET_LENGTH("+
				`'{"id":"message-1","seq":1,"text":"tea ü"}')`), 1)
			want(t, "all shares", w.rows("memory_shares"), 1)
			check(t, w.Purge(t.Context()))
			want(t, "terms", w.rows("memory_terms"), 2)
		})
	}
}
