package storetest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"haft/internal/store"
	"haft/internal/store/sqlite"
)

// A jury notes what the conformance suite complains about.
type jury struct {
	testing.TB
	mu         sync.Mutex
	complaints []string
}

func (j *jury) Helper() {}

func (j *jury) Errorf(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.complaints = append(j.complaints, fmt.Sprintf(format, args...))
}

func (j *jury) Error(args ...any) { j.Errorf("%s", fmt.Sprint(args...)) }

func (j *jury) Fatalf(format string, args ...any) {
	j.Errorf(format, args...)
	runtime.Goexit()
}

func (j *jury) Fatal(args ...any) { j.Fatalf("%s", fmt.Sprint(args...)) }

// complaintsOf runs one case against a store and returns the complaints.
func complaintsOf(t *testing.T, name string, s *store.Store) []string {
	t.Helper()
	for _, l := range cases() {
		if l.name != name {
			continue
		}
		j := &jury{TB: t}
		var wg sync.WaitGroup
		wg.Go(func() { l.check(j, s) })
		wg.Wait()
		return j.complaints
	}
	t.Fatalf("there is no case %q", name)
	return nil
}

// lie opens a store that lies: its texts are of another type, or triggers undo
// what it does.
func lie(t *testing.T, text, trigger string) *store.Store {
	t.Helper()
	// One connection for all would wait for itself: the store keeps one.
	name := "file:" + filepath.Join(t.TempDir(), "lie.db") +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)"
	var dbs []*sql.DB
	for range 2 {
		db, err := sql.Open("sqlite", name)
		if err != nil {
			t.Fatal(err)
		}
		dbs = append(dbs, db)
	}
	d := sqlite.Dialect(nil)
	if text != "" {
		d.Text = text
	}
	s, err := store.New(t.Context(), dbs[0], dbs[1], d, store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if trigger != "" {
		if _, err := dbs[0].ExecContext(t.Context(), "CREATE TRIGGER lie "+trigger); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestContract_convicts_liars: the conformance suite can fail. Each lie is one that a plausible
// mistake would tell.
func TestContract_convicts_liars(t *testing.T) {
	for _, tt := range []struct{ name, text, trigger string }{
		{"organisations_are_apart", "TEXT COLLATE NOCASE", ""},
		{"organisations_are_apart", "TEXT COLLATE RTRIM", ""},
		{"tools_are_paged_and_filtered", "TEXT COLLATE NOCASE", ""},
		{"commit_keeps_every_field", "", "AFTER INSERT ON calls BEGIN UPDATE calls SET sealed = NULL; END"},
		{"commit_seals_until_the_end", "", "AFTER UPDATE ON calls WHEN NEW.final = 1 BEGIN UPDATE calls SET sealed " +
			"= OLD.sealed WHERE id = NEW.id; END"},
		{"commit_never_reopens_a_call", "",
			"BEFORE INSERT ON calls BEGIN UPDATE calls SET final = 0 WHERE id = NEW.id; END"},
		{"commit_takes_any_number_of_rows", "",
			"AFTER INSERT ON calls WHEN NEW.id LIKE '%7' BEGIN DELETE FROM calls WHERE id = NEW.id; END"},
		{"audit_verifies", "", "AFTER INSERT ON audit WHEN NEW.seq % 10 = 3 BEGIN DELETE FROM audit WHERE org = " +
			"NEW.org AND seq = NEW.seq; END"},
		{"audit_verifies", "", "AFTER INSERT ON audit WHEN NEW.seq = 5 BEGIN UPDATE audit SET at = at + 1 WHERE org " +
			"= NEW.org AND seq = NEW.seq; END"},
		{"audit_chains_are_apart", "",
			"AFTER INSERT ON audit_heads BEGIN DELETE FROM audit_heads WHERE org = 'other'; END"},
		{"keys_have_one_winner", "", "AFTER INSERT ON claims BEGIN DELETE FROM claims; END"},
		{"keys_belong_to_a_scope", "", "AFTER INSERT ON claims BEGIN UPDATE claims SET digest = 'x'; END"},
		{"approvals_are_moved_once", "", "AFTER UPDATE ON approvals BEGIN UPDATE approvals SET state = 'pending'; END"},
		{"calls_of_nobody_are_adopted_once", "", "AFTER UPDATE OF owner ON calls WHEN NEW.id LIKE '%7' BEGIN UPDATE " +
			"calls SET owner = OLD.owner WHERE id = NEW.id; END"},
		{"events_are_pruned", "",
			"AFTER UPDATE ON marks BEGIN UPDATE marks SET value = 0 WHERE name = 'events_lost'; END"},
		{"tools_have_versions", "", "AFTER INSERT ON versions BEGIN UPDATE versions SET digest = 'x'; END"},
		{"tools_are_found_by_words", "", "AFTER INSERT ON tool_words WHEN NEW.weight = 8 BEGIN UPDATE tool_words " +
			"SET weight = 1 WHERE word = NEW.word; END"},
		{"cache_expires", "", "AFTER INSERT ON cached BEGIN UPDATE cached SET expires = expires + 3600000000; END"},
		{"processes_are_given_up", "",
			"AFTER DELETE ON processes BEGIN INSERT INTO processes VALUES (OLD.owner, OLD.beat); END"},
	} {
		t.Run(strings.ReplaceAll(tt.name+"/"+tt.text+tt.trigger, " ", "_"), func(t *testing.T) {
			if complaints := complaintsOf(t, tt.name, lie(t, tt.text, tt.trigger)); len(complaints) == 0 {
				t.Errorf("the case believes the liar")
			} else {
				t.Logf("%.200s", complaints[0])
			}
			if complaints := complaintsOf(t, tt.name, lie(t, "", "")); len(complaints) != 0 {
				t.Errorf("the case does not believe the honest: %v", complaints)
			}
		})
	}
}
