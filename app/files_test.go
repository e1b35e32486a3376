package app_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/executor/builtin"
	"haft/internal/auth"
	"haft/internal/datadir"
	"haft/internal/secret"
	"haft/internal/store/storetest"
)

// crashed makes a data directory with every file that there can be, as a server leaves it
// that is killed, and one as it was some calls before.
func crashed(t *testing.T) (dir, older string) {
	t.Helper()
	live := t.TempDir()
	dir, older = t.TempDir(), t.TempDir()
	s := serve(t, app.ServiceConfig{Data: live, Busy: true, Builtins: func(set *builtin.Set) error {
		return builtin.Add(set, builtin.Def{Name: "same", Description: "Returns what it is given."},
			func(_ context.Context, _ builtin.Call, in struct {
				Text string `json:"text"`
			}) (string, error) {
				return in.Text, nil
			})
	}})
	a, err := s.OpenAuth(t.Context(), "acme", auth.Config{})
	must(t, err)
	id, err := admit(t, a, filepath.Join(live, "admin.key"))
	must(t, err)
	must(t, s.PutSecret(t.Context(), id.Principal, "", "KEY", secret.New("value")))
	for _, to := range []string{older, dir} {
		for range 5 {
			res, err := s.Call(t.Context(), haft.Call{Tool: "same", Args: json.RawMessage(`{"text":"x"}`),
				Principal: id.Principal})
			if err != nil || res.Status != haft.StatusSuccess {
				t.Fatal(res, err)
			}
		}
		must(t, s.SignAudit(t.Context()))
		copyFiles(t, live, to)
	}
	return dir, older
}

// TestOpen_files_that_belong_together is the table of docs/service.md.
func TestOpen_files_that_belong_together(t *testing.T) {
	made, older := crashed(t)
	other, _ := crashed(t)
	// What a refusal says is beside it; "" means that it opens. A * in front says that
	// nobody can go on without the right file.
	for file, tt := range map[string]struct{ missing, empty, short, old, foreign string }{
		"haft.db":     {"put the database back", "put the database back", "-", "audit", "*another database"},
		"haft.db-wal": {"redo.log", "redo.log", "redo.log", "audit", "*redo.log"},
		"redo.log": {"redo.log in the data directory is missing", "is cut off", "is cut off", "earlier moment",
			"another database"},
		"audit.head": {"audit.head is missing", "cannot be believed", "cannot be believed", "", "cannot be believed"},
		"audit.key":  {"*audit.key in the data directory is missing", "*key", "*key", "", "*cannot be believed"},
		"digest.key": {"digest.key in the data directory is missing", "not a key", "not a key", "",
			"not the one that this database"},
		"auth.key": {"auth.key in the data directory is missing", "not a key", "not a key", "",
			"not the one that this database"},
		"master.key":  {"*master.key in the data directory is missing", "*", "*", "", "*another master key"},
		"admin.key":   {"", "", "", "", ""},
		"lock":        {"", "", "", "", ""},
		"haft.db-shm": {"", "", "", "", ""},
	} {
		for how, want := range map[string]string{"missing": tt.missing, "empty": tt.empty, "short": tt.short,
			"older": tt.old, "foreign": tt.foreign} {
			if want == "-" {
				continue // see the tests of the store: damage, and what redo.log knows of the rest
			}
			t.Run(file+" "+how, func(t *testing.T) {
				dir := t.TempDir()
				copyFiles(t, made, dir)
				swap(t, filepath.Join(dir, file), how, map[string]string{"older": older, "foreign": other}[how])
				err := openAll(t, dir)
				if want == "" {
					must(t, err)
					return
				}
				words, final := strings.CutPrefix(want, "*")
				if err == nil || !slices.ContainsFunc(strings.Split(words, "|"),
					func(w string) bool { return strings.Contains(haft.MessageOf(err), w) }) {
					t.Fatalf("Open: %v, want %q", err, words)
				}
				if strings.Contains(haft.MessageOf(err), dir) {
					t.Errorf("the message names the path: %v", err)
				}
				restored(t, dir, final)
			})
		}
	}
}

// TestRestore_a_lost_audit_key: with its public key the database can still be believed.
func TestRestore_a_lost_audit_key(t *testing.T) {
	dir, _ := crashed(t)
	s, err := app.OpenEvidence(t.Context(), app.ServiceConfig{Data: dir})
	must(t, err)
	pem, err := s.Keys.PEM()
	must(t, err)
	must(t, s.Close())
	must(t, os.WriteFile(filepath.Join(dir, "audit.keys"), pem, 0o600))
	must(t, os.Remove(filepath.Join(dir, "audit.key")))
	if err := openAll(t, dir); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("Open without audit.key: %v", err)
	}
	restored(t, dir, false)
}

// swap changes a file, or puts that of another directory in its place.
func swap(t *testing.T, path, how, from string) {
	t.Helper()
	b := read(t, path)
	switch how {
	case "missing":
		must(t, os.Remove(path))
		return
	case "empty":
		b = nil
	case "short":
		b = b[:len(b)/2]
	default:
		b = read(t, filepath.Join(from, filepath.Base(path)))
	}
	must(t, os.WriteFile(path, b, 0o600))
	if wal := path + "-wal"; from != "" && filepath.Base(path) == "haft.db" {
		must(t, os.WriteFile(wal, read(t, filepath.Join(from, filepath.Base(wal))), 0o600)) // which is a part of it
	}
}

// copyFiles copies the files of a directory, as a crash leaves them.
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	list, err := os.ReadDir(from)
	must(t, err)
	for _, e := range list {
		if e.Type().IsRegular() {
			must(t, os.WriteFile(filepath.Join(to, e.Name()), read(t, filepath.Join(from, e.Name())), 0o600))
		}
	}
}

// openAll opens all of a data directory, and closes it.
func openAll(t *testing.T, dir string) error {
	t.Helper()
	s, err := app.OpenService(t.Context(), app.ServiceConfig{Config: app.Config{Sandbox: "process"}, Data: dir})
	if err != nil {
		return err
	}
	defer func() { must(t, s.Close()) }()
	_, err = s.OpenAuth(t.Context(), "", auth.Config{})
	return err
}

// restored accepts the loss, and checks that the audit says so and that the directory
// opens; or, if the file is needed whatever is accepted, that it does not.
func restored(t *testing.T, dir string, final bool) {
	t.Helper()
	p := haft.Principal{Org: "acme", User: "olga", Roles: []string{haft.RoleAdmin}}
	asked := 0
	err := app.Restore(t.Context(), app.ServiceConfig{Data: dir}, p,
		func(datadir.Loss) (bool, error) { asked++; return true, nil })
	if final {
		if openAll(t, dir) == nil {
			t.Error("it opens though the file is not the right one")
		}
		return
	}
	if err != nil || asked == 0 {
		t.Fatalf("Restore: %v, asked %d times", err, asked)
	}
	must(t, openAll(t, dir))
	s, err := app.OpenEvidence(t.Context(), app.ServiceConfig{Data: dir})
	must(t, err)
	defer func() { must(t, s.Close()) }()
	rep, err := s.VerifyAudit(t.Context(), p, nil)
	if err != nil || !rep.Sound() {
		t.Errorf("VerifyAudit: %+v, %v", rep.Problems, err)
	}
	found := false
	for e, err := range s.FindAudit(t.Context(), p, haft.AuditFilter{Kind: "audit.restored"}) {
		must(t, err)
		found = found || e.Actor.User == "olga"
	}
	if !found {
		t.Error("the audit does not say that something was lost")
	}
}

// TestOpenServer_keys_beside_a_database: servers that share a database need the same
// master.key and auth.key, also if nothing is encrypted yet.
func TestOpenServer_keys_beside_a_database(t *testing.T) {
	url, dir := storetest.Postgres(t), t.TempDir()
	start := func(dir string) error {
		var cfg app.ServerConfig
		cfg.Data, cfg.Database, cfg.Sandbox = dir, url, "process"
		s, err := app.OpenServer(t.Context(), cfg)
		if err != nil {
			return err
		}
		return s.Close()
	}
	must(t, start(dir))
	other := t.TempDir()
	for _, name := range []string{"master.key", "auth.key"} {
		must(t, os.WriteFile(filepath.Join(other, name), []byte(strings.Repeat("k", 32)), 0o600))
	}
	for _, tt := range []struct{ master, auth, want string }{
		{"", "", "master.key in the data directory is missing; put it back (with --database: copy it from another " +
			"server)"},
		{other, dir, "another master key"},
		{dir, "", "auth.key in the data directory is missing"},
		{dir, other, "auth.key in the data directory is not the one"},
		{dir, dir, ""},
	} {
		fresh := t.TempDir()
		for name, from := range map[string]string{"audit.key": dir, "audit.head": dir, "digest.key": dir,
			"master.key": tt.master, "auth.key": tt.auth} {
			if from != "" {
				must(t, os.WriteFile(filepath.Join(fresh, name), read(t, filepath.Join(from, name)), 0o600))
			}
		}
		if err := start(fresh); tt.want == "" && err != nil ||
			tt.want != "" && !strings.Contains(haft.MessageOf(err), tt.want) {
			t.Errorf("OpenServer: %v, want %q", err, tt.want)
		}
	}
}

// A restore is refused while a server uses the database.
func TestRestore_beside_a_server(t *testing.T) {
	var cfg app.ServerConfig
	cfg.Data, cfg.Database, cfg.Sandbox = t.TempDir(), storetest.Postgres(t), "process"
	cfg.Engine.Beat = 50 * time.Millisecond
	s, err := app.OpenServer(t.Context(), cfg)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	err = app.Restore(t.Context(), cfg.ServiceConfig, haft.Principal{Org: "local"},
		func(datadir.Loss) (bool, error) { return true, nil })
	if haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("Restore beside a server: %v, want a conflict", err)
	}
}
