package app_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"haft"
	"haft/app"
	"haft/internal/access"
	"haft/internal/auth"
	"haft/internal/auth/authtest"
	"haft/internal/store/storetest"
)

// serve opens a service without a sandbox: who may call is known without one.
func serve(t *testing.T, cfg app.ServiceConfig) *app.Service {
	t.Helper()
	cfg.Sandbox = "process"
	cfg.AllowReduced = true // what a machine gives is what is tried
	s, err := app.OpenService(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// admit says who has the key in a file.
func admit(t *testing.T, a *access.Auth, file string) (auth.Identity, error) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return a.Authenticate(t.Context(), auth.Credential{Scheme: auth.SchemeBearer,
		Token: strings.TrimSpace(string(text))})
}

// keyIDs lists the keys of an organisation.
func keyIDs(t *testing.T, s *app.Service, org string) []string {
	t.Helper()
	list, err := s.Store.Keys.Keys(t.Context(), org, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, k := range list {
		ids = append(ids, k.ID)
	}
	return ids
}

func TestOpenAuth_makes_the_first_key_once(t *testing.T) {
	dir := t.TempDir()
	admin := filepath.Join(dir, "admin.key")
	for i := range 2 {
		s := serve(t, app.ServiceConfig{Data: dir})
		a, err := s.OpenAuth(t.Context(), "acme", auth.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if made := a.First.Reveal(); (made != "") != (i == 0) ||
			made != "" && (made+"\n" != string(read(t, admin)) || a.FirstFile != admin) {
			t.Errorf("start %d says that it made %d characters in %q", i, len(made), a.FirstFile)
		}
		id, err := admit(t, a, admin)
		if err != nil || id.Principal.Org != "acme" || id.May(haft.KeysWrite) != nil {
			t.Errorf("the first key is that of %+v, %v", id, err)
		}
		if _, _, err := a.Keyring.Issue(t.Context(), id, auth.Key{User: "ann"}); err != nil {
			t.Errorf("the keyring is not that of the authenticator: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"admin.key", "auth.key"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	s := serve(t, app.ServiceConfig{Data: dir})
	if n := len(keyIDs(t, s, "acme")); n != 3 {
		t.Errorf("there are %d keys, want the first and two that it made", n)
	}
	// It is in the audit, and the secret is not.
	list, err := s.Store.Audit.AuditEntries(t.Context(), "acme", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	entries := ""
	for _, e := range list {
		entries += fmt.Sprintln(e.Kind, string(e.Body))
	}
	if strings.Count(entries, "key.create") != 1 || strings.Contains(entries, "haft_") {
		t.Errorf("the audit has\n%s", entries)
	}
	// A key that was removed is not made again while there are others, and its
	// file is not touched.
	id, _ := auth.ParseKey(strings.TrimSpace(string(read(t, admin))))
	if err := s.Store.Keys.RemoveKey(t.Context(), "acme", id); err != nil {
		t.Fatal(err)
	}
	a, err := s.OpenAuth(t.Context(), "", auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admit(t, a, admin); haft.CodeOf(err) != haft.CodeUnauthenticated {
		t.Errorf("the removed key: %v", err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A key in a file may be the only one of another store.
func TestOpenAuth_overwrites_no_key(t *testing.T) {
	ring, err := auth.NewKeyring(&authtest.Memory{}, make([]byte, 32), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, token, err := ring.NewAdminKey(t.Context(), "local")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"a key of another store": token.Reveal() + "\n",
		"something else":         "mine\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			admin := filepath.Join(dir, "admin.key")
			if err := os.WriteFile(admin, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s := serve(t, app.ServiceConfig{Data: dir})
			_, err := s.OpenAuth(t.Context(), "", auth.Config{})
			if haft.CodeOf(err) != haft.CodeConflict || strings.Contains(err.Error(), dir) {
				t.Errorf("OpenAuth: %v", err)
			}
			if got := string(read(t, admin)); got != text {
				t.Errorf("the file was changed to %q", got)
			}
			if ids := keyIDs(t, s, "local"); len(ids) > 0 {
				t.Errorf("keys that nobody has were left: %v", ids)
			}
			if err := os.Remove(admin); err != nil {
				t.Fatal(err)
			}
			if _, err := s.OpenAuth(t.Context(), "", auth.Config{}); err != nil {
				t.Errorf("after it was moved away: %v", err)
			}
		})
	}
}

func TestKeyring_needs_the_pepper_of_its_keys(t *testing.T) {
	dir := t.TempDir()
	pepper := filepath.Join(dir, "auth.key")
	s := serve(t, app.ServiceConfig{Data: dir})
	a, err := s.OpenAuth(t.Context(), "", auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admit(t, a, filepath.Join(dir, "admin.key")); err != nil {
		t.Fatal(err)
	}
	kept := read(t, pepper)
	refused := func(what string, want haft.Code) {
		t.Helper()
		if _, err := s.OpenAuth(t.Context(), "", auth.Config{}); haft.CodeOf(err) != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
	if err := os.Remove(pepper); err != nil {
		t.Fatal(err)
	}
	refused("a lost pepper", haft.CodeUnavailable)
	if _, err := os.Lstat(pepper); err == nil {
		t.Error("another one was made")
	}
	if err := os.WriteFile(pepper, kept[:31], 0o600); err != nil {
		t.Fatal(err)
	}
	refused("half of it", haft.CodeInvalid)
	if err := os.WriteFile(pepper, make([]byte, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("another one", haft.CodeConflict)
	if err := os.Chmod(pepper, 0o640); err != nil {
		t.Fatal(err)
	}
	refused("one that others can read", haft.CodeInvalid)
}

func TestOpenAuth_where_nothing_is_kept(t *testing.T) {
	s := serve(t, app.ServiceConfig{})
	a, err := s.OpenAuth(t.Context(), "", auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(t.Context(), auth.Credential{Scheme: auth.SchemeBearer,
		Token: a.First.Reveal()}); err != nil || a.FirstFile != "" {
		t.Errorf("the first key: %v, in %q", err, a.FirstFile)
	}
	if _, err := os.Lstat("admin.key"); err == nil {
		t.Error("it was written to the working directory")
	}
}

// A data directory that is not there yet is made beside a database too, for its owner
// only, and the log says what is kept there.
func TestService_makes_its_directory_beside_a_database(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "yet")
	var log bytes.Buffer
	cfg := app.ServiceConfig{Data: dir, Database: storetest.Postgres(t)}
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	if _, err := serve(t, cfg).OpenAuth(t.Context(), "", auth.Config{}); err != nil {
		t.Fatalf("OpenAuth: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory is %v, %v", info, err)
	}
	for _, want := range []string{"made the data directory", "dir=" + dir, "auth.key"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q: %s", want, log.String())
		}
	}
}

// Processes that share a directory and a database agree on the pepper and on the
// first key, whoever is first.
func TestOpenAuth_of_many_processes(t *testing.T) {
	url, dir := storetest.Postgres(t), t.TempDir()
	var all sync.WaitGroup
	found := make([]*access.Auth, 4)
	services := make([]*app.Service, len(found))
	for i := range found {
		services[i] = serve(t, app.ServiceConfig{Data: dir, Database: url})
	}
	for i := range found {
		all.Go(func() {
			var err error
			if found[i], err = services[i].OpenAuth(t.Context(), "", auth.Config{}); err != nil {
				t.Errorf("OpenAuth: %v", err)
			}
		})
	}
	all.Wait()
	for _, a := range found {
		if a == nil {
			continue
		}
		if _, err := admit(t, a, filepath.Join(dir, "admin.key")); err != nil {
			t.Errorf("the first key: %v", err)
		}
	}
	if ids := keyIDs(t, services[0], "local"); len(ids) != 1 {
		t.Errorf("the first keys are %v, want one", ids)
	}
	if _, err := serve(t, app.ServiceConfig{Database: url}).Keyring(t.Context()); haft.CodeOf(err) != haft.CodeInvalid {
		t.Errorf("a database without a directory: %v", err)
	}
}
