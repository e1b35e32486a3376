package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"haft"
	"haft/app"
	"haft/internal/agents"
	"haft/internal/modelfile"
	"haft/internal/modeltest"
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

// dice is the model of the scripts with which Letta's clients talk to agents: it rolls where it is told to, and says
// what the tool returned.
func dice(req modeltest.Request) modeltest.Step {
	last := req.Messages[len(req.Messages)-1]
	switch {
	case last.Role == haft.RoleTool:
		return modeltest.Step{Reasoning: "hm", Text: "You rolled " + last.Text + "."}
	case strings.Contains(last.Text, "roll"):
		return modeltest.Step{Calls: []haft.ToolCall{{ID: fmt.Sprintf("call_%d", len(req.Messages)),
			Tool: req.Tools[0], Args: json.RawMessage(`{"a":6}`)}}}
	}
	return modeltest.Step{Text: "Hello."}
}

// lettaServer starts a server with Letta's API and a model. It returns the address, and the keys of an administrator
// and of somebody else who may agree to calls.
func lettaServer(t *testing.T) (url, key, boss string) {
	t.Helper()
	open(t, app.Config{}) // skips where there is no sandbox
	models := modeltest.Start(t)
	models.Otherwise(dice)
	file, err := modelfile.Parse("models.toml", fmt.Sprintf("default = \"m\"\n[models.m]\nformat = \"openai\"\n"+
		"model = \"gpt-4.1\"\nurl = %q\n", models.URL))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	_, url, stop := startServerWith(t, app.ServerConfig{ServiceConfig: app.ServiceConfig{
		Data: dir, Policy: []byte(lettaRules), Agents: agents.Config{Models: file},
		Upstream: app.UpstreamConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	}})
	t.Cleanup(stop)
	text, err := os.ReadFile(filepath.Join(dir, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	key = strings.TrimSpace(string(text))
	status, answer := request(t, key, http.MethodPost, url+"/v1/keys", `{"user":"boss","roles":["admin","approver"]}`)
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(answer), &made); err != nil || status != http.StatusCreated {
		t.Fatalf("make a key: %d, %v", status, err)
	}
	return url, key, made.Secret
}

// Letta's own clients, of both of their lines and in both languages, work with nothing but their address changed. With
// the talk scripts, which compat/letta has too, they talk to agents whose tools run in the sandbox.
func TestLetta_clients(t *testing.T) {
	url, key, boss := lettaServer(t)
	python := filepath.Join(skiptest.Part(t, "letta", "lettapy"), "bin", "python")
	before := skiptest.Part(t, "letta", "lettaold")
	const tools, talks = "testdata/letta", "../compat/letta/testdata"
	mcp, err := filepath.Abs(filepath.Join(tools, "server.py"))
	if err != nil {
		t.Fatal(err)
	}
	at := remote(t)
	for _, tt := range []struct{ name, program, dir, script, path, tool string }{
		{"node_1.x", "node", tools, "new.mjs", "", ""},
		{"node_0.x", "node", tools, "old.mjs", "", ""},
		{"python_1.x", python, tools, "new.py", "", ""},
		{"python_0.x", python, tools, "old.py", before, ""},
		{"node_1.x_talks", "node", talks, "talk.mjs", "", "js_roll"},
		{"node_0.x_talks", "node", talks, "talk_old.mjs", "", "js_roll_old"},
		{"python_1.x_talks", python, talks, "talk.py", "", "py_roll"},
		{"python_0.x_talks", python, talks, "talk_old.py", before, "py_roll_old"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // for a machine that is busy
			defer cancel()
			cmd := exec.CommandContext(ctx, tt.program, filepath.Join(tt.dir, tt.script))
			cmd.Env = append(os.Environ(), "BASE="+url+"/letta", "KEY="+key, "BOSS="+boss, "MODEL=openai/gpt-4.1",
				"CLIENTS="+skiptest.Part(t, "letta", "lettajs"), "MCP="+mcp, "REMOTE="+at, "PYTHONPATH="+tt.path,
				"PYTHONWARNINGS=ignore", "LETTA_LOG=")
			if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "ok" {
				t.Errorf("%s: %v\n%s", tt.script, err, out)
			}
			if tt.tool == "" {
				return
			}
			if n := sandboxed(t, key, url, tt.tool); n != 1 { // others were refused, or cancelled
				t.Errorf("%d calls of %s ran in a sandbox", n, tt.tool)
			}
		})
	}
}

// sandboxed counts the calls of a tool that succeeded in a sandbox.
func sandboxed(t *testing.T, key, url, tool string) (n int) {
	t.Helper()
	status, answer := request(t, key, http.MethodGet, url+"/v1/calls?tool="+tool, "")
	var list struct{ Data []haft.Record }
	if err := json.Unmarshal([]byte(answer), &list); err != nil || status != http.StatusOK {
		t.Fatalf("list calls: %d, %v", status, err)
	}
	for _, r := range list.Data {
		if r.Status == haft.StatusSuccess && string(r.Result.Value) == "6" && r.Result.Sandbox.Provider == "local" {
			n++
		}
	}
	return n
}
