package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft/app"
	"haft/internal/skiptest"
)

// lettaRules let administrators call every tool, and have commands of this machine
// as MCP servers.
const lettaRules = `
version: 1
roles: {admin: ["tool:*"]}
approval: {roles: [approver]}
mcp: [{orgs: ["*"], commands: [python3]}]
`

// remote is an MCP server at an address, with one tool, for those who have the token.
func remote(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Version string `json:"protocolVersion"`
			} `json:"params"`
		}
		switch {
		case r.Header.Get("Authorization") != "Bearer token-of-the-remote":
			w.WriteHeader(http.StatusForbidden)
			return
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case json.NewDecoder(r.Body).Decode(&m) != nil:
			w.WriteHeader(http.StatusBadRequest)
			return
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result := map[string]any{}
		switch m.Method {
		case "initialize":
			result = map[string]any{"protocolVersion": m.Params.Version,
				"capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo":   map[string]any{"name": "remote", "version": "1"}}
		case "tools/list":
			result["tools"] = []any{map[string]any{"name": "ping", "description": "Answers.",
				"inputSchema": map[string]any{"type": "object", "properties": map[string]any{}}}}
		case "tools/call":
			result["content"] = []any{map[string]any{"type": "text", "text": "pong"}}
		}
		w.Header().Set("Content-Type", "application/json")
		// a client that is gone cannot be told
		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Letta's own clients, of both of their lines and in both languages, work with
// nothing but their address changed.
func TestLetta_clients(t *testing.T) {
	open(t, app.Config{})
	dir := t.TempDir()
	_, url, stop := startServerWith(t, app.ServerConfig{ServiceConfig: app.ServiceConfig{
		Data: dir, Policy: []byte(lettaRules),
		Upstream: app.UpstreamConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}})
	defer stop()
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Abs(filepath.Join("testdata", "letta"))
	if err != nil {
		t.Fatal(err)
	}
	at := remote(t)
	for _, tt := range []struct{ name, program, script, path string }{
		{"node_1.x", "node", "new.mjs", ""},
		{"node_0.x", "node", "old.mjs", ""},
		{"python_1.x", filepath.Join(skiptest.Part(t, "letta", "lettapy"), "bin", "python"), "new.py", ""},
		{"python_0.x", filepath.Join(skiptest.Part(t, "letta", "lettapy"), "bin", "python"), "old.py",
			skiptest.Part(t, "letta", "lettaold")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // for a machine that is busy
			defer cancel()
			cmd := exec.CommandContext(ctx, tt.program, filepath.Join(scripts, tt.script))
			cmd.Env = append(os.Environ(), "BASE="+url+"/letta", "KEY="+strings.TrimSpace(string(key)),
				"CLIENTS="+skiptest.Part(t, "letta", "lettajs"),
				"MCP="+filepath.Join(scripts, "server.py"), "REMOTE="+at, "PYTHONPATH="+tt.path, "LETTA_LOG=")
			if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "ok" {
				t.Errorf("%s: %v\n%s", tt.script, err, out)
			}
		})
	}
}
