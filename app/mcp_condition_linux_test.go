package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"haft"
	"haft/app"
	"haft/client"
	"haft/internal/secret/keeper"
)

// Of many who replace the same revision of an MCP server over HTTP one does, with
// its credentials; and a removal removes what it is about, or nothing of it.
func TestMCP_conditions(t *testing.T) {
	open(t, app.Config{}) // skips where there is no sandbox
	seen := make(chan [2]string, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case seen <- [2]string{r.URL.Path, r.Header.Get("X-Key")}:
		default:
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	s, url, stop := startServerWith(t,
		app.ServerConfig{ServiceConfig: app.ServiceConfig{Data: dir,
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	t.Cleanup(stop)
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	must(t, err)
	c, err := client.New(client.Config{URL: url, Key: strings.TrimSpace(string(key))})
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	var none haft.Principal
	server := func(n, condition string) haft.MCPServer {
		return haft.MCPServer{Name: "far", URL: srv.URL + "/" + n, Headers: map[string]string{"X-Key": "key-of-" + n},
			Disabled: true, If: condition}
	}
	first, err := c.MCPServers.PutMCPServer(t.Context(), none, server("first", haft.IfNone))
	must(t, err)
	if _, err := c.MCPServers.PutMCPServer(t.Context(), none,
		server("second", haft.IfNone)); haft.CodeOf(err) != haft.CodeConflict {
		t.Errorf("PutMCPServer where one is = %v", err)
	}
	revision := first.Server.Revision()
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() { _, errs[i] = c.MCPServers.PutMCPServer(t.Context(), none, server(fmt.Sprint(i), revision)) })
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won < 0:
			won = i
		case haft.CodeOf(err) != haft.CodeConflict:
			t.Errorf("writer %d beside %d: %v", i, won, err)
		}
	}
	now, err := c.MCPServers.MCPServer(t.Context(), none, "far")
	must(t, err)
	if want := srv.URL + "/" + fmt.Sprint(won); now.URL != want {
		t.Errorf("the server is at %s, want %s", now.URL, want)
	}
	again := haft.MCPServer{Name: "far", URL: now.URL, Headers: map[string]string{"X-Key": ""}, If: now.Revision()}
	change, err := c.MCPServers.PutMCPServer(t.Context(), none, again)
	must(t, err)
	if got, want := <-seen, [2]string{fmt.Sprintf("/%d", won), fmt.Sprintf("key-of-%d", won)}; got != want {
		t.Errorf("the server was asked for %q, want %q", got, want)
	}
	for _, old := range []string{revision, now.Revision(), "none-such"} {
		if err := c.MCPServers.RemoveMCPServer(t.Context(), none, "far", old); haft.CodeOf(err) != haft.CodeConflict {
			t.Errorf("RemoveMCPServer of %q = %v", old, err)
		}
	}
	stored := keeper.Scope{Org: "local", Kind: "mcp", ID: now.ID}
	if v, err := s.Store.Secrets.Secret(t.Context(), stored, "VALUE"); err != nil || len(v.Data) == 0 {
		t.Errorf("the credentials of a server that was not removed: %v", err)
	}
	must(t, c.MCPServers.RemoveMCPServer(t.Context(), none, "far", change.Server.Revision()))
	if _, err := s.Store.Secrets.Secret(t.Context(), stored, "VALUE"); haft.CodeOf(err) != haft.CodeNotFound {
		t.Errorf("the credentials of a server that was removed: %v", err)
	}
}
