//go:build linux

package letta_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"haft/compat/letta"
)

// TestReplay_api has a case for each behaviour of the API that differed here once in Letta's own tests, in the order of
// the table in docs/letta.md.
func TestReplay_api(t *testing.T) {
	t.Parallel()
	w := openReplay(t, letta.Settings{})
	for _, tt := range []struct {
		name string
		run  func(r *replay)
	}{
		{"row 9: variables of MCP servers and tools", serverEnv},
		{"row 10: headers of the protocol", protocolHeaders},
		{"row 11: a command with a file of the host", hostFile},
		{"row 12: rename", rename},
		{"row 13: run of a tool of an MCP server", runServerTool},
		{"row 14: update of a tool of an MCP server", updateServerTool},
		{"row 16: tags, description and metadata of agents", agentTexts},
		{"row 17: lists of agents by project, creator and others", agentFilters},
		{"row 18: agents whose name has a part", agentSearch},
		{"row 19: two agents of one name", sameName},
		{"row 20: rules about absent tools", absentTools},
		{"row 21: approval turned off for one agent", approvalOff},
		{"row 23: requirements", requirements},
		{"row 24: creator", creator},
		{"row 25: description", description},
		{"row 27: sandbox configuration", sandboxConfig},
		{"row 28: network", network},
		{"below the table: methods, fields and statuses", belowTable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(w.with(t))
		})
	}
}

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

func serverEnv(r *replay) {
	r.get("POST", "/mcp-servers/", stdio("env", body{"NODE_ENV": "test", "PYTHONUNBUFFERED": "1"}))
	for _, name := range []string{"PYTHONPATH", "NODE_OPTIONS", "LD_PRELOAD"} {
		r.refused("POST", "/mcp-servers/", stdio("bad", body{name: "/x"}), 400, "--mcp-variable")
	}
	allows := openReplay(r.t, letta.Settings{}, "PYTHONPATH")
	allows.get("POST", "/mcp-servers/", stdio("path", body{"PYTHONPATH": "/x"}))
	allows.refused("POST", "/mcp-servers/", stdio("other", body{"NODE_OPTIONS": "/x"}), 400, "--mcp-variable")
	// The variables of tools.
	const source = "import os\ndef env_of():\n    \"\"\"One.\"\"\"\n    return os.environ['NODE_ENV'] == 'test'"
	r.run(source, body{}, "True", body{"env_vars": body{"NODE_ENV": "test"}})
	tool, agent := r.put(body{"source_code": source})
	r.get("PATCH", "/agents/"+agent, body{"secrets": body{"NODE_ENV": "test"}})
	r.call(tool, agent, body{}, "true")
	r.refused("PATCH", "/agents/"+agent, body{"secrets": body{"LD_PRELOAD": "/x"}}, 400, "reserved")
}

func protocolHeaders(r *replay) {
	s := r.get("POST", "/mcp-servers/", body{"server_name": "headers", "config": body{
		"mcp_server_type": "streamable_http", "server_url": "http://127.0.0.1:9/mcp",
		"custom_headers": body{"Accept": "application/json", "X-Own": "1"}}})
	if h, _ := s["custom_headers"].(body); len(h) != 1 || h["X-Own"] != "" {
		r.t.Errorf("the headers are %v", s["custom_headers"])
	}
}

func hostFile(r *replay) {
	s := r.get("POST", "/mcp-servers/", body{"server_name": "file", "config": body{"mcp_server_type": "stdio",
		"command": "python3", "args": []string{"server.py"}}})
	meta, _ := s["metadata_"].(body)
	own, _ := meta["haft"].(body)
	if text := fmt.Sprint(own["error"]); own["tools"] != 0.0 || !strings.Contains(text, "haft mcp-server add --mount") {
		r.t.Errorf("a command without its file: %v", own)
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
	a := r.hire("Old name", nil)
	if got = r.get("PATCH", "/agents/"+a["id"].(string), body{"name": "New name"}); got["name"] != "New name" ||
		got["id"] != a["id"] || r.names("/agents/?name=New%20name") != "New name" ||
		r.names("/agents/?name=Old%20name") != "" {
		r.t.Errorf("the agent is called %v", got["name"])
	}
	// Policies, approvals and calls know tools and servers by their names.
	server := r.get("POST", "/mcp-servers/", stdio("renamed", nil))["id"].(string)
	r.refused("PATCH", "/mcp-servers/"+server, body{"server_name": "other", "config": body{}}, 400, "keeps its name")
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

// hire adds an agent and returns it.
func (r *replay) hire(name string, more body) body {
	r.t.Helper()
	b := body{"name": name, "include_base_tools": false}
	for k, v := range more {
		b[k] = v
	}
	return r.get("POST", "/agents/", b)
}

// names lists the names of what a query finds.
func (r *replay) names(path string) string {
	r.t.Helper()
	status, text := r.send("GET", path, nil)
	if status != 200 {
		r.t.Fatalf("%s: %d %s", path, status, text)
	}
	names := []string{}
	for _, one := range decode[[]body](r.t, text) {
		names = append(names, one["name"].(string))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func agentTexts(r *replay) {
	a := r.hire("Texts", body{"tags": []string{"t1"}, "description": "Helps.", "timezone": "Europe/Oslo",
		"metadata": body{"team": "a", "level": 3, "haft": body{"id": "x"}}})
	path := "/agents/" + a["id"].(string)
	r.get("PATCH", path, body{"system": "Be brief."})
	a = r.get("GET", path, nil)
	meta := a["metadata"].(body)
	if a["description"] != "Helps." || fmt.Sprint(a["tags"]) != "[t1]" || meta["team"] != "a" || meta["level"] != 3.0 ||
		a["timezone"] != "Europe/Oslo" || meta["haft"].(body)["id"] == "x" {
		r.t.Errorf("the agent is %v", a)
	}
	a = r.get("PATCH", path, body{"metadata": body{"team": "b"}, "tags": []string{}})
	if meta = a["metadata"].(body); meta["team"] != "b" || meta["level"] != nil || a["timezone"] != "Europe/Oslo" ||
		len(a["tags"].([]any)) != 0 {
		r.t.Errorf("changed: %v", a)
	}
	r.refused("PATCH", path, body{"metadata": body{"big": strings.Repeat("x", 70_000)}}, 400, "metadata")
}

func agentFilters(r *replay) {
	mine := r.hire("Filter one", body{"project_id": "p1", "template_id": "t1", "base_template_id": "b1"})
	r.with(r.t).as("filters").hire("Filter two", body{"project_id": "p2"})
	for query, want := range map[string]string{
		"project_id=p1": "Filter one", "project_id=p2": "Filter two", "project_id=p3": "",
		"template_id=t1":      "Filter one",
		"base_template_id=b1": "Filter one", "base_template_id=t1": "", "identity_id=identity-1": "",
		"identifier_keys=k": "", "created_by_id=" + mine["created_by_id"].(string): "Filter one",
		"created_by_id=user-0": "",
		"order_by=updated_at":  "Filter one, Filter two",
	} {
		if got := r.names("/agents/?query_text=filter&" + query); got != want {
			r.t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	r.refused("GET", "/agents/?last_stop_reason=error", nil, 501, "list the runs with that stop_reason")
}

func agentSearch(r *replay) {
	r.hire("Search Agent One", nil)
	r.hire("Other", nil)
	if got := r.names("/agents/?query_text=search%20agent"); got != "Search Agent One" {
		r.t.Errorf("found %s", got)
	}
	if got := r.names("/agents/?name=Search%20Agent%20One"); got != "Search Agent One" {
		r.t.Errorf("of the name: %s", got)
	}
}

func sameName(r *replay) {
	one, two := r.hire("Twin", body{"system": "1"}), r.hire("Twin", body{"system": "2"})
	if one["id"] == two["id"] || r.names("/agents/?name=Twin") != "Twin, Twin" {
		r.t.Errorf("the agents are %v and %v", one["id"], two["id"])
	}
	if got := r.get("GET", "/agents/"+one["id"].(string), nil); got["system"] != "1" {
		r.t.Errorf("the first one became %v", got["system"])
	}
}

func absentTools(r *replay) {
	tool := r.get("PUT", "/tools/", body{"source_code": "def ruled():\n    \"\"\"One.\"\"\"\n    return 1"})
	b := body{"name": "ruled", "tool_ids": []any{tool["id"]},
		"tool_rules": []any{body{"type": "requires_approval", "tool_name": "rulled"}}}
	r.refused("POST", "/agents/", b, 400, "there is no tool rulled")
	b["tool_rules"] = []any{body{"type": "conditional", "tool_name": "ruled", "default_child": "ruled",
		"child_output_mapping": body{"1": "ruled"}, "require_output_mapping": true}}
	if a := r.get("POST", "/agents/", b); len(a["tool_rules"].([]any)) != 1 {
		r.t.Errorf("the rules are %v", a["tool_rules"])
	}
}

func approvalOff(r *replay) {
	tool, agent := r.put(body{"source_code": "def agreed():\n    \"\"\"One.\"\"\"\n    return 1",
		"default_requires_approval": true})
	path := "/agents/" + agent + "/tools/approval/agreed"
	r.refused("PATCH", path, body{"requires_approval": false}, 403, "default_requires_approval of the tool")
	// What the answer says is possible, and then as in Letta.
	r.get("PATCH", "/tools/"+tool["id"].(string), body{"default_requires_approval": false})
	for _, needs := range []bool{true, false} {
		if status, text := r.send("PATCH", path, body{"requires_approval": needs}); status != 200 {
			r.t.Errorf("%v: %d %s", needs, status, text)
		}
	}
	r.call(tool, agent, body{}, "1")
}

func requirements(r *replay) {
	tool := r.get("PUT", "/tools/", body{"source_code": "def bare():\n    \"\"\"One.\"\"\"\n    return 1",
		"pip_requirements": []any{}})
	if got := tool["pip_requirements"]; got != nil && len(got.([]any)) != 0 {
		r.t.Errorf("no requirements became %v", got)
	}
}

func creator(r *replay) {
	tool := r.get("PUT", "/tools/", body{"source_code": "def made():\n    \"\"\"One.\"\"\"\n    return 1"})
	next := r.as("bob").get("PATCH", "/tools/"+tool["id"].(string), body{"description": "Two."})
	if tool["created_by_id"] != next["created_by_id"] || next["created_by_id"] == nil ||
		next["last_updated_by_id"] == next["created_by_id"] {
		r.t.Errorf("the creator was %v and is %v; changed by %v", tool["created_by_id"], next["created_by_id"],
			next["last_updated_by_id"])
	}
}

func description(r *replay) {
	id := r.get("PUT", "/tools/", body{"source_code": "def told():\n    \"\"\"One.\"\"\"\n    return 1"})["id"].(string)
	r.get("PATCH", "/tools/"+id, body{"description": "My own."})
	got := r.get("PATCH", "/tools/"+id, body{"source_code": "def told():\n    \"\"\"Two.\"\"\"\n    return 2"})
	if got["description"] != "My own." {
		r.t.Errorf("the description became %v", got["description"])
	}
	other := r.get("PUT", "/tools/", body{"source_code": "def untold():\n    \"\"\"One.\"\"\"\n    return 1"})
	id = other["id"].(string)
	got = r.get("PATCH", "/tools/"+id, body{"source_code": "def untold():\n    \"\"\"Two.\"\"\"\n    return 2"})
	if got["description"] != "Two." {
		r.t.Errorf("the description of the source became %v", got["description"])
	}
}

func sandboxConfig(r *replay) {
	r.refused("POST", "/sandbox-config/", body{"config": body{"sandbox_dir": "/home/me"}}, 400, "sandbox_dir")
	r.refused("POST", "/sandbox-config/", body{"config": body{"template": "base"}}, 400, "template")
	if got := r.get("POST", "/sandbox-config/local", body{"use_venv": false}); got["type"] != "local" {
		r.t.Errorf("the configuration is %v", got)
	}
}

func network(r *replay) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("pong")) // a client that is gone needs none
	}))
	defer web.Close()
	_, at, _ := strings.Cut(web.URL, "://")
	source := "import urllib.request\ndef ping():\n    \"\"\"One.\"\"\"\n    return urllib.request.urlopen('" +
		web.URL + "', timeout=20).read().decode()"
	open := openReplay(r.t, letta.Settings{Network: []string{at}})
	tool, agent := open.put(body{"source_code": source})
	open.call(tool, agent, body{}, `"pong"`)
	// Without the setting there is no network, and the answer says what to set.
	_, agent = r.put(body{"source_code": source})
	got := r.get("POST", "/agents/"+agent+"/tools/ping/run", body{"args": body{}})
	if text := fmt.Sprint(got["stderr"]); got["status"] != "error" || !strings.Contains(text, "--letta-network") {
		r.t.Errorf("without a network: %v", got)
	}
}

func belowTable(r *replay) {
	tool := r.get("PUT", "/tools/", body{"source_code": "def below():\n    \"\"\"One.\"\"\"\n    return 1"})
	path := "/tools/" + tool["id"].(string)
	mine := body{"a": 1.0, "b": body{"c": "d"}, "haft": body{"digest": "forged"}}
	for range 2 { // what the API shows can be sent back
		mine, _ = r.get("PATCH", path, body{"metadata_": mine})["metadata_"].(body)
	}
	own, _ := mine["haft"].(body)
	if mine["a"] != 1.0 || fmt.Sprint(mine["b"]) != "map[c:d]" || own["digest"] == "forged" {
		r.t.Errorf("metadata_ is %v", mine)
	}
	r.refused("GET", "/tools/?after=tool-00000000-0000-4000-8000-000000000000", nil, 404, "no tool with that id")
	a := r.hire("Below", body{"tool_ids": []any{tool["id"]}, "tags": []string{"below"}})
	for _, key := range strings.Fields(`created_by_id last_updated_by_id project_id template_id base_template_id
		deployment_id entity_id timezone embedding model_settings response_format compaction_settings enable_sleeptime
		last_run_completion last_run_duration_ms last_stop_reason managed_group multi_agent_group pending_approval
		max_files_open per_file_view_window_char_limit hidden identity_ids`) {
		if _, ok := a[key]; !ok {
			r.t.Errorf("an agent has no %s", key)
		}
	}
	if status, text := r.send("GET", "/tags/?name=BELOW", nil); status != 200 || strings.TrimSpace(text) != `["below"]` {
		r.t.Errorf("tags: %d %s", status, text)
	}
	r.refused("POST", "/agents/", body{"tool_ids": []any{"tool-00000000-0000-4000-8000-000000000000"}}, 404,
		"no tool with that id")
	r.send("DELETE", path, nil)
	r.refused("DELETE", path, nil, 404, "no tool with that id")
	for _, path := range []string{"/folders/", "/groups/", "/identities/", "/steps/", "/conversations/",
		"/models/embedding",
		"/agents/" + a["id"].(string) + "/context"} {
		r.refused("GET", path, nil, 501, "not supported here: ")
	}
	for _, path := range []string{"/tools/mcp/servers/test", "/tools/mcp/servers/connect"} {
		r.refused("POST", path, stdio("x", nil)["config"], 501, "add the server")
	}
	if got := r.get("POST", "/tools/run", body{"source_code": "def f(:", "args": body{}}); got["status"] != "error" {
		r.t.Errorf("a source that cannot be read: %v", got)
	}
	// The models are those of the operator, of which this server has none.
	r.refused("GET", "/models/", nil, 501, "haft serve --models")
}
