package app_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"haft"
	"haft/app"
	"haft/internal/auth"
)

// nearMCP lets MCP servers be on this machine, such as the API of the server itself.
func nearMCP() app.UpstreamConfig {
	return app.UpstreamConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

// clientServer starts a server for the tests of a client, and returns the variables
// that say where it is and who asks: HAFT_KEY is an administrator's, and
// HAFT_OTHER_KEY that of an administrator of somebody else.
func clientServer(t *testing.T) []string {
	t.Helper()
	open(t, app.Config{})
	dir := t.TempDir()
	s, url, stop := startServerWith(t, app.ServerConfig{
		ServiceConfig: app.ServiceConfig{Data: dir, Upstream: nearMCP()},
		// so that each is told 401, and not 429
		Auth: auth.Config{Attempts: auth.Attempts{Failures: 1_000_000}},
	})
	t.Cleanup(stop)
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	admin := haft.Principal{Org: "other", Roles: []string{haft.RoleAdmin}}
	_, other, err := s.Auth.Keyring.Issue(t.Context(), auth.Trusted(admin),
		auth.Key{Org: "other", User: "eve", Roles: []string{haft.RoleAdmin}})
	if err != nil {
		t.Fatal(err)
	}
	return []string{"HAFT_SERVER=" + url, "HAFT_KEY=" + strings.TrimSpace(string(key)),
		"HAFT_OTHER_KEY=" + other.Reveal(), "HAFT_KEY_FILE=", "HAFT_MCP_URL=" + url + "/mcp"}
}
