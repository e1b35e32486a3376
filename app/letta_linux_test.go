package app_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"haft/app"
)

// lettaRules let administrators call every tool, and have commands of this machine
// as MCP servers.
const lettaRules = `
version: 1
roles: {admin: ["tool:*"]}
approval: {roles: [approver]}
mcp: [{orgs: ["*"], commands: [python3]}]
`

// lettaClients returns where a part of the test environment is that has Letta's own
// clients. Without it the test is skipped, or fails if HAFT_REQUIRE names letta.
func lettaClients(t *testing.T, part string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".haft", part))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "installed.txt"))
	}
	if err == nil {
		return dir
	}
	missing := "Letta's clients are not in .haft/" + part + ": run scripts/setup test"
	if slices.Contains(strings.Split(os.Getenv("HAFT_REQUIRE"), ","), "letta") {
		t.Fatalf("HAFT_REQUIRE names letta, but %s (%v)", missing, err)
	}
	t.Skipf("SKIPPED for want of letta: %s (%v)", missing, err)
	return ""
}

// Letta's own clients, of both of their lines and in both languages, work with
// nothing but their address changed.
func TestLetta_clients(t *testing.T) {
	open(t, app.Config{})
	dir := t.TempDir()
	_, url, stop := startServerWith(t, app.ServerConfig{ServiceConfig: app.ServiceConfig{Data: dir, Policy: []byte(lettaRules)}})
	defer stop()
	key, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Abs(filepath.Join("testdata", "letta"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, program, script, path string }{
		{"node_1.x", "node", "new.mjs", ""},
		{"node_0.x", "node", "old.mjs", ""},
		{"python_1.x", filepath.Join(lettaClients(t, "lettapy"), "bin", "python"), "new.py", ""},
		{"python_0.x", filepath.Join(lettaClients(t, "lettapy"), "bin", "python"), "old.py", lettaClients(t, "lettaold")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // for a machine that is busy
			defer cancel()
			cmd := exec.CommandContext(ctx, tt.program, filepath.Join(scripts, tt.script))
			cmd.Env = append(os.Environ(), "BASE="+url+"/letta", "KEY="+strings.TrimSpace(string(key)), "CLIENTS="+lettaClients(t, "lettajs"),
				"MCP="+filepath.Join(scripts, "server.py"), "PYTHONPATH="+tt.path, "LETTA_LOG=")
			if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "ok" {
				t.Errorf("%s: %v\n%s", tt.script, err, out)
			}
		})
	}
}
