package letta_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"haft/compat/letta"
)

// echoServer is an MCP server on its standard streams, whose tool answers as those of FastMCP do.
const echoServer = `
import json, os, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m:
        continue
    r = {}
    if m["method"] == "initialize":
        r = {"protocolVersion": m["params"]["protocolVersion"], "capabilities": {"tools": {}},
             "serverInfo": {"name": "echo", "version": "1"}}
    elif m["method"] == "tools/list":
        r = {"tools": [{"name": "echo", "description": "Echoes.", "inputSchema": {"type": "object",
             "properties": {"text": {"type": "string", "description": "it"}}, "required": ["text"]},
             "outputSchema": {"type": "object", "properties": {"result": {"type": "string"}}, "required": ["result"]}}]}
    elif m["method"] == "tools/call":
        text = "Echo: " + m["params"]["arguments"]["text"] + os.environ.get("NODE_ENV", "")
        r = {"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
`

// stdio is a server that runs the program above.
func stdio(name string, env body) body {
	return body{"server_name": name, "config": body{"mcp_server_type": "stdio", "command": "python3",
		"args": []string{"-c", echoServer}, "env": env}}
}

// TestReplay_servers has the cases of MCP servers and sandbox configurations.
func TestReplay_servers(t *testing.T) {
	w := openReplay(t, letta.Settings{})
	for _, tt := range []struct {
		name string
		run  func(r *replay)
	}{
		{"row_09_environment_of_a_server", serverEnv},
		{"row_10_headers_of_the_protocol", protocolHeaders},
		{"row_12_rename", rename},
		{"row_13_run_of_a_server_tool", runServerTool},
		{"row_14_update_of_a_server_tool", updateServerTool},
		{"row_27_sandbox_configuration", sandboxConfig},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(w.with(t)) })
	}
}

func serverEnv(r *replay) {
	r.get("POST", "/mcp-servers/", stdio("env", body{"NODE_ENV": "test", "PYTHONUNBUFFERED": "1"}))
	for _, name := range []string{"PYTHONPATH", "NODE_OPTIONS", "LD_PRELOAD"} {
		r.refused("POST", "/mcp-servers/", stdio("bad", body{name: "/x"}), 400, "--mcp-variable")
	}
	r.run("import os\ndef f():\n    return os.environ['NODE_ENV']", body{}, "x",
		body{"env_vars": body{"NODE_ENV": "x"}})
}

func protocolHeaders(r *replay) {
	s := r.get("POST", "/mcp-servers/", body{"server_name": "headers", "config": body{
		"mcp_server_type": "streamable_http", "server_url": "http://127.0.0.1:9/mcp",
		"custom_headers": body{"Accept": "application/json", "X-Own": "1"}}})
	if h, _ := s["custom_headers"].(body); len(h) != 1 || h["X-Own"] != "" {
		r.t.Errorf("the headers are %v", s["custom_headers"])
	}
}

func rename(r *replay) {
	config := r.get("POST", "/sandbox-config/local/default", nil)["id"].(string)
	v := r.get("POST", "/sandbox-config/"+config+"/environment-variable", body{"key": "OLD_NAME", "value": "one"})
	path := "/sandbox-config/environment-variable/"
	got := r.get("PATCH", path+v["id"].(string), body{"key": "NEW_NAME", "value": "two"})
	r.run("import os\ndef f():\n    return 'OLD_NAME' in os.environ, os.environ['NEW_NAME'] == 'two'", body{},
		"[False, True]")
	r.send("DELETE", path+got["id"].(string), nil)
	// Policies, approvals and calls know tools and servers by their names.
	tool := r.get("PUT", "/tools/", body{"source_code": "def named():\n    \"\"\"One.\"\"\"\n    return 1"})
	r.refused("PATCH", "/tools/"+tool["id"].(string), body{"name": "other"}, 400, "create one of the other name")
}

// echo returns the path of a server and its one tool.
func (r *replay) echo(name string) (string, body) {
	r.t.Helper()
	path := "/mcp-servers/" + r.get("POST", "/mcp-servers/", stdio(name, nil))["id"].(string)
	_, list := r.send("GET", path+"/tools", nil)
	tools := decode[[]body](r.t, list)
	if len(tools) != 1 {
		r.t.Fatalf("the tools of the server: %s", list)
	}
	return path, tools[0]
}

func runServerTool(r *replay) {
	path, tool := r.echo("echo")
	got := r.get("POST", path+"/tools/"+tool["id"].(string)+"/run", body{"args": body{"text": "hi"}})
	if got["func_return"] != "Echo: hi" || got["status"] != "success" {
		r.t.Errorf("the run returned %v", got)
	}
	got = r.get("POST", "/tools/mcp/servers/echo/tools/echo/execute", body{"args": body{"text": "hi"}})
	if got["result"] != "Echo: hi" || got["success"] != true {
		r.t.Errorf("the run of an old client returned %v", got)
	}
	meta, _ := tool["metadata_"].(body)
	if mcp, _ := meta["mcp"].(body); mcp["server_name"] != "echo" || meta["mcp:SCHEMA_STATUS"] == nil {
		r.t.Errorf("the metadata of the tool: %v", meta)
	}
}

func updateServerTool(r *replay) {
	_, tool := r.echo("tagged")
	path := "/tools/" + tool["id"].(string)
	if got := r.get("PATCH", path, body{"tags": []string{"mine"}}); len(got["tags"].([]any)) != 1 {
		r.t.Errorf("the tags are %v", got["tags"])
	}
	r.refused("PATCH", path, body{"description": "Harmless."}, 403, "only the tags")
}

func sandboxConfig(r *replay) {
	r.refused("POST", "/sandbox-config/", body{"config": body{"sandbox_dir": "/home/me"}}, 400, "sandbox_dir")
	r.refused("POST", "/sandbox-config/", body{"config": body{"template": "base"}}, 400, "template")
	if got := r.get("POST", "/sandbox-config/local", body{"use_venv": false}); got["type"] != "local" {
		r.t.Errorf("the configuration is %v", got)
	}
}

func codeLanguages(r *replay) {
	_, list := r.send("GET", "/tools/?name=run_code", nil)
	tools := decode[[]body](r.t, list)
	if len(tools) != 1 {
		r.t.Fatalf("the tools: %s", list)
	}
	agent := r.get("POST", "/agents/", body{"name": "coder", "tool_ids": []any{tools[0]["id"]}})["id"].(string)
	for language, code := range map[string]string{"js": "console.log(1 + 1)",
		"ts": "const n: number = 2; console.log(n)", "python": "print(2)", "": "print(2)"} {
		args := body{"code": code}
		if language != "" {
			args["language"] = language
		}
		got := r.get("POST", "/agents/"+agent+"/tools/run_code/run", body{"args": args})
		if out, _ := got["func_return"].(body); got["status"] != "success" || out["stdout"] != "2\n" {
			r.t.Errorf("%q: %v", language, got)
		}
	}
	got := r.get("POST", "/agents/"+agent+"/tools/run_code/run", body{"args": body{"code": "1", "language": "r"}})
	if got["status"] != "error" {
		r.t.Errorf("a language that is not here: %v", got)
	}
}

// TestReplay_settings has the cases that an operator decides.
func TestReplay_settings(t *testing.T) {
	t.Run("row_09_reserved_variables", func(t *testing.T) {
		r := openReplay(t, letta.Settings{}, "PYTHONPATH")
		r.get("POST", "/mcp-servers/", stdio("path", body{"PYTHONPATH": "/x"}))
		r.refused("POST", "/mcp-servers/", stdio("other", body{"NODE_OPTIONS": "/x"}), 400, "--mcp-variable")
	})
	t.Run("row_28_network", func(t *testing.T) {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("pong")) // a client that is gone needs none
		}))
		t.Cleanup(web.Close)
		_, at, _ := strings.Cut(web.URL, "://")
		source := "import urllib.request\ndef ping():\n    \"\"\"One.\"\"\"\n    return urllib.request.urlopen('" +
			web.URL + "', timeout=20).read().decode()"
		r := openReplay(t, letta.Settings{Network: []string{at}})
		tool, agent := r.put(body{"source_code": source})
		r.call(tool, agent, body{}, `"pong"`)
		// Without the setting there is no network, and the answer says what to set.
		r = openReplay(t, letta.Settings{})
		tool, agent = r.put(body{"source_code": source})
		got := r.get("POST", "/agents/"+agent+"/tools/ping/run", body{"args": body{}})
		if text := fmt.Sprint(got["stderr"]); got["status"] != "error" || !strings.Contains(text, "--letta-network") {
			t.Errorf("without a network: %v", got)
		}
	})
}
