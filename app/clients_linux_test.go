package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/app"
	"haft/auth"
)

// clientTools returns where a part of the test environment is that has what the tests
// of our own clients need. Without it the test is skipped, or fails if HAFT_REQUIRE
// names clients.
func clientTools(t *testing.T, part string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".haft", part))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "installed.txt"))
	}
	if err == nil {
		return dir
	}
	missing := "what tests them is not in .haft/" + part + ": run scripts/setup test"
	if slices.Contains(strings.Split(os.Getenv("HAFT_REQUIRE"), ","), "clients") {
		t.Fatalf("HAFT_REQUIRE names clients, but %s (%v)", missing, err)
	}
	t.Skipf("SKIPPED for want of clients: %s (%v)", missing, err)
	return ""
}

// clientServer starts a server for the tests of a client, and returns the variables
// that say where it is and who asks: HAFT_KEY is an administrator's, and
// HAFT_OTHER_KEY that of an administrator of somebody else.
func clientServer(t *testing.T) []string {
	t.Helper()
	open(t, app.Config{})
	dir := t.TempDir()
	s, url, stop := startServerWith(t, app.ServerConfig{
		ServiceConfig: app.ServiceConfig{Data: dir},
		Auth:          auth.Config{Attempts: auth.Attempts{Failures: 1_000_000}}, // so that each is told 401, and not 429
	})
	t.Cleanup(stop)
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	admin := haft.Principal{Org: "other", Roles: []string{haft.RoleAdmin}}
	_, other, err := s.Auth.Keyring.Issue(t.Context(), auth.Trusted(admin), auth.Key{Org: "other", User: "eve", Roles: []string{haft.RoleAdmin}})
	if err != nil {
		t.Fatal(err)
	}
	return []string{"HAFT_SERVER=" + url, "HAFT_KEY=" + strings.TrimSpace(string(key)), "HAFT_OTHER_KEY=" + other.Reveal(), "HAFT_KEY_FILE="}
}
