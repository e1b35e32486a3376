package server_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"haft"
	"haft/server"
	"haft/server/agentapi"
)

// A route is one operation of the document, and what each kind of caller gets.
type route struct {
	op   string // METHOD path of the document
	path string // with the values of the world; "" means that of op
	body string
	who  string // who may
	ok   int
	// of another organisation, and of somebody without the role; 0 means ok too
	foreign, low int
	bad          string // a body that does not fit; "" means that there is none
	badStatus    int    // 0 means 422
	any          bool   // every credential is for it
}

const draftF = `{"source_code":"def g(): pass","source_type":"python","function":"g","description":"A tool.","parameters":{"type":"object"},"name":"g"}`

// routes are all operations. $TOOL, $CALL, $DONE, $APPROVAL, $CHAIN and $AGENT are
// of acme.
func routes() []route {
	return append(slices.Concat(agentRoutes(), toolRoutes(), workspaceRoutes()),
		route{op: "GET /v1/sessions", who: user, ok: 200},
		route{op: "POST /v1/sessions", body: `{"name":"n"}`, who: user, ok: 404, bad: `{"owner":"` + canary + `"}`},
		route{op: "PATCH /v1/sessions/{id}", path: "/v1/sessions/x", body: `{"timeout_seconds":9}`, who: user, ok: 404,
			bad: `{"timeout_seconds":-1}`},
		route{op: "DELETE /v1/sessions/{id}", path: "/v1/sessions/x", who: user, ok: 404},
		route{op: "GET /v1/sessions/{id}/contexts", path: "/v1/sessions/x/contexts", who: user, ok: 404},
		route{op: "DELETE /v1/sessions/{id}/contexts/{name}", path: "/v1/sessions/x/contexts/y", who: user, ok: 404},
		route{op: "GET /v1/sessions/{id}/files", path: "/v1/sessions/x/files", who: user, ok: 404},
		route{op: "DELETE /v1/sessions/{id}/files", path: "/v1/sessions/x/files?path=y", who: user, ok: 404},
		route{op: "GET /v1/sessions/{id}/files/content", path: "/v1/sessions/x/files/content", who: user, ok: 404},
		route{op: "PUT /v1/sessions/{id}/files/content", path: "/v1/sessions/x/files/content", body: "x", who: user,
			ok: 404},
		route{op: "PUT /v1/sessions/{id}/files/directory", path: "/v1/sessions/x/files/directory", who: user, ok: 404},
		route{op: "POST /v1/sessions/{id}/files/move", path: "/v1/sessions/x/files/move", body: `{"from":"a","to":"b"}`,
			who: user, ok: 404, bad: `{"from":"a"}`},
		route{op: "GET /v1/sessions/{id}/files/watch", path: "/v1/sessions/x/files/watch", who: user, ok: 404},
		route{op: "POST /v1/calls/{id}/input", path: "/v1/calls/$DONE/input", body: `{"text":"x"}`, who: user, ok: 409,
			foreign: 404, low: 404, bad: `{"text":1}`})
}

// toolRoutes are those without sessions and workspaces.
func toolRoutes() []route {
	return []route{
		{op: "POST /v1/tools", body: draftF, who: admin, ok: 201, low: 403, foreign: 201,
			bad: `{"source":"` + canary + `"}`},
		{op: "GET /v1/tools", who: user, ok: 200},
		{op: "GET /v1/tools/{ref}", path: "/v1/tools/f", who: user, ok: 200, foreign: 404},
		{op: "PATCH /v1/tools/{ref}", path: "/v1/tools/f", body: `{"category":"c"}`, who: admin, ok: 200, foreign: 404,
			low: 403, bad: `{"version":"` + canary + `"}`},
		{op: "DELETE /v1/tools/{ref}", path: "/v1/tools/old", who: admin, ok: 204, foreign: 404, low: 403},
		{op: "GET /v1/tools/{ref}/versions", path: "/v1/tools/f/versions", who: user, ok: 200, foreign: 404},
		{op: "GET /v1/tools/{ref}/versions/{number}", path: "/v1/tools/f/versions/1", who: user, ok: 200, foreign: 404},
		{op: "POST /v1/calls", body: `{"tool":"f","args":{"x":1}}`, who: user, ok: 200, foreign: 404,
			bad: `{"tool":"f","principal":{"org":"` + canary + `"}}`},
		{op: "GET /v1/calls", who: user, ok: 200},
		{op: "POST /v1/calls/batch", body: `{"calls":[{"tool":"f"}]}`, who: user, ok: 200, bad: `{"calls":[]}`},
		{op: "GET /v1/calls/{id}", path: "/v1/calls/$DONE", who: user, ok: 200, foreign: 404, low: 404},
		{op: "POST /v1/calls/{id}/cancel", path: "/v1/calls/$DONE/cancel", who: user, ok: 204, foreign: 404, low: 404},
		{op: "POST /v1/calls/{id}/replay", path: "/v1/calls/$DONE/replay", who: user, ok: 200, foreign: 404, low: 404},
		{op: "GET /v1/calls/{id}/artifacts/{name}", path: "/v1/calls/$DONE/artifacts/none", who: user, ok: 404,
			foreign: 404, low: 404},
		{op: "POST /v1/files", path: "/v1/files?name=f.txt", body: "content", who: user, ok: 201},
		{op: "GET /v1/files", who: user, ok: 200},
		{op: "GET /v1/files/{id}", path: "/v1/files/$FILE", who: user, ok: 200, foreign: 404, low: 404},
		{op: "PATCH /v1/files/{id}", path: "/v1/files/$FILE?offset=3", body: "x", who: user, ok: 409,
			foreign: 404, low: 404},
		{op: "GET /v1/files/{id}/content", path: "/v1/files/$FILE/content", who: user, ok: 200, foreign: 404, low: 404},
		{op: "DELETE /v1/files/{id}", path: "/v1/files/$FILE", who: user, ok: 204, foreign: 404, low: 404},
		{op: "POST /v1/tool_calls", body: `{"choices":[]}`, who: user, ok: 200, bad: `{"choices`, badStatus: 400},
		{op: "POST /v1/chains", body: `{"steps":[{"id":"a","tool":"f"}]}`, who: user, ok: 200,
			bad: `{"steps":[{"id":"a"}]}`},
		{op: "GET /v1/chains/{id}", path: "/v1/chains/$CHAIN", who: user, ok: 200, foreign: 404, low: 404},
		{op: "GET /v1/approvals", who: boss, ok: 200},
		{op: "GET /v1/approvals/{id}", path: "/v1/approvals/$APPROVAL", who: boss, ok: 200, foreign: 404, low: 404},
		{op: "POST /v1/approvals/{id}/deny", path: "/v1/approvals/$APPROVAL2/deny", body: `{"reason":"no"}`, who: boss,
			ok: 200, foreign: 404, low: 404, bad: `{"args":{}}`},
		{op: "POST /v1/approvals/{id}/approve", path: "/v1/approvals/$APPROVAL/approve", who: boss, ok: 200,
			foreign: 404, low: 404, bad: `{"reason":1}`},
		{op: "GET /v1/agents", who: user, ok: 200},
		{op: "POST /v1/agents", body: `{"name":"neo"}`, who: admin, ok: 201, foreign: 201, low: 403,
			bad: `{"tools":[1]}`},
		{op: "GET /v1/agents/{agent}", path: "/v1/agents/smith", who: user, ok: 200, foreign: 404},
		{op: "PUT /v1/agents/{agent}", path: "/v1/agents/smith", body: `{"tools":["f"]}`, who: admin, ok: 200,
			foreign: 404, low: 403, bad: `{"org":"` + canary + `"}`},
		{op: "PATCH /v1/agents/{agent}", path: "/v1/agents/smith", body: `{"env":{"A":"b"}}`, who: admin, ok: 200,
			foreign: 404, low: 403, bad: `{"env":{"A":1}}`},
		{op: "PUT /v1/agents/{agent}/tools/{ref}", path: "/v1/agents/smith/tools/ask", who: admin, ok: 200,
			foreign: 404, low: 403},
		{op: "DELETE /v1/agents/{agent}/tools/{ref}", path: "/v1/agents/smith/tools/ask", who: admin, ok: 200,
			foreign: 404, low: 403},
		{op: "DELETE /v1/agents/{agent}", path: "/v1/agents/smith", who: admin, ok: 204, foreign: 404, low: 403},
		{op: "PUT /v1/policies/{of}", path: "/v1/policies/organisation", body: "version: 1\n", who: admin, ok: 204,
			foreign: 204, low: 403, bad: canary + `: [`},
		{op: "GET /v1/policies/{of}", path: "/v1/policies/organisation", who: admin, ok: 200, foreign: 200, low: 403},
		{op: "PUT /v1/retention", body: `{"calls_ms":7200000}`, who: admin, ok: 200, foreign: 200, low: 403,
			bad: `{"calls_ms":"` + canary + `"}`},
		{op: "GET /v1/export", who: admin, ok: 200, foreign: 200, low: 403},
		{op: "POST /v1/erase", body: `{"org":"acme","user":"nobody"}`, who: admin, ok: 200, foreign: 403, low: 403,
			bad: `{"org":["` + canary + `"]}`},
		{op: "GET /v1/retention", who: admin, ok: 200, foreign: 200, low: 403},
		{op: "POST /v1/policies/explain", body: `{"tool":"f","args":{}}`, who: admin, ok: 200, foreign: 404,
			bad: `{"args":{}}`},
		{op: "POST /v1/stop", body: `{"reason":"fire"}`, who: operator, ok: 204, foreign: 403, low: 403,
			bad: `{"kill":"` + canary + `"}`},
		{op: "POST /v1/resume", who: operator, ok: 204, foreign: 403, low: 403},
		{op: "GET /v1/audit", who: admin, ok: 200, low: 403},
		{op: "GET /v1/audit/entries", path: "/v1/audit/entries?limit=3", who: admin, ok: 200, low: 403},
		{op: "GET /v1/audit/keys", who: admin, ok: 200, low: 403},
		{op: "GET /v1/whoami", who: user, ok: 200, any: true},
		{op: "GET /v1/calls/{id}/events", path: "/v1/calls/$DONE/events", who: user, ok: 200, foreign: 404, low: 404},
		{op: "POST /v1/sandbox_configs", body: `{"type":"e2b"}`, who: admin, ok: 201, foreign: 201, low: 403,
			bad: `{"type":"` + canary + `"}`},
		{op: "GET /v1/sandbox_configs", who: admin, ok: 200},
		{op: "GET /v1/sandbox_configs/{ref}", path: "/v1/sandbox_configs/local", who: admin, ok: 200, foreign: 404},
		{op: "PUT /v1/sandbox_configs/{ref}", path: "/v1/sandbox_configs/local", body: `{"network":["a.test"]}`,
			who: admin, ok: 200, foreign: 201, low: 403, bad: `{"limits":{"wall_ms":"` + canary + `"}}`},
		{op: "DELETE /v1/sandbox_configs/{ref}", path: "/v1/sandbox_configs/$SANDBOX", who: admin, ok: 204,
			foreign: 404, low: 403},
		{op: "PUT /v1/secrets/{name}", path: "/v1/secrets/TOKEN", body: `{"value":"` + canary + `"}`, who: admin,
			ok: 204, foreign: 204, low: 403, bad: `{"value":""}`},
		{op: "GET /v1/secrets", who: admin, ok: 200, low: 403},
		{op: "DELETE /v1/secrets/{name}", path: "/v1/secrets/ONCE", who: admin, ok: 204, foreign: 404, low: 403},
		{op: "POST /v1/keys", body: `{"name":"ci","user":"ann","scope":["calls:read"]}`, who: admin, ok: 201,
			foreign: 201, low: 403, bad: `{"org":"` + canary + `"}`},
		{op: "GET /v1/keys", who: admin, ok: 200, low: 403},
		{op: "GET /v1/keys/{id}", path: "/v1/keys/$KEY", who: admin, ok: 200, foreign: 404, low: 403},
		{op: "PATCH /v1/keys/{id}", path: "/v1/keys/$KEY", body: `{"name":"other"}`, who: admin, ok: 200, foreign: 404,
			low: 403, bad: `{"disabled":"` + canary + `"}`},
		{op: "POST /v1/keys/{id}/rotate", path: "/v1/keys/$KEY/rotate", body: `{"overlap_ms":1000}`, who: admin,
			ok: 200, foreign: 404, low: 403, bad: `{"overlap_ms":-1}`},
		{op: "DELETE /v1/keys/{id}", path: "/v1/keys/$KEY", who: admin, ok: 204, foreign: 404, low: 403},
		{op: "POST /v1/webhooks", body: `{"url":"https://example.com/in"}`, who: admin, ok: 201, foreign: 201, low: 403,
			bad: `{"url":"ftp://` + canary + `"}`},
		{op: "GET /v1/webhooks", who: admin, ok: 200, low: 403},
		{op: "GET /v1/webhooks/{id}", path: "/v1/webhooks/$HOOK", who: admin, ok: 200, foreign: 404, low: 403},
		{op: "PUT /v1/webhooks/{id}", path: "/v1/webhooks/$HOOK", body: `{"url":"https://example.com/other"}`,
			who: admin, ok: 200, foreign: 404, low: 403,
			bad: `{"url":"https://example.com","types":["` + canary + `"]}`},
		{op: "GET /v1/webhooks/{id}/dead_letters", path: "/v1/webhooks/$HOOK/dead_letters", who: admin, ok: 200,
			foreign: 404, low: 403},
		{op: "POST /v1/webhooks/{id}/redeliver", path: "/v1/webhooks/$HOOK/redeliver", who: admin, ok: 200,
			foreign: 404, low: 403, bad: `{"letter":1}`},
		{op: "DELETE /v1/webhooks/{id}", path: "/v1/webhooks/$HOOK", who: admin, ok: 204, foreign: 404, low: 403},
		{op: "GET /v1/usage", path: "/v1/usage?by=tool,day", who: admin, ok: 200},
		// No MCP server is reached from this world.
		{op: "GET /v1/mcp_servers", who: user, ok: 200},
		{op: "GET /v1/mcp_servers/{server}", path: "/v1/mcp_servers/none", who: admin, ok: 404, foreign: 404, low: 404},
		{op: "PUT /v1/mcp_servers/{server}", path: "/v1/mcp_servers/none", body: `{"url":"https://example.com/mcp"}`,
			who: admin, ok: 503, foreign: 503, low: 403, bad: `{"command":"` + canary + `"}`},
		{op: "POST /v1/mcp_servers/{server}/refresh", path: "/v1/mcp_servers/none/refresh", body: `{}`, who: admin,
			ok: 404, foreign: 404, low: 403},
		{op: "POST /v1/mcp_servers/{server}/login", path: "/v1/mcp_servers/none/login",
			body: `{"redirect_uri":"http://127.0.0.1/"}`, who: admin, ok: 503, foreign: 503, low: 503},
		{op: "POST /v1/mcp_servers/{server}/login/finish", path: "/v1/mcp_servers/none/login/finish",
			body: `{"code":"x","state":"y"}`, who: admin, ok: 503, foreign: 503, low: 503},
		{op: "DELETE /v1/mcp_servers/{server}", path: "/v1/mcp_servers/none", who: admin, ok: 404, foreign: 404,
			low: 403},
		{op: "POST /v1/calls/cancel", body: `{}`, who: user, ok: 200, bad: `{"org":"acme"}`},
		{op: "GET /v1/events", path: "/v1/events?after=0", who: "acme/brief/user", ok: 200, foreign: -1, low: -1},
	}
}

// agentRoutes are those on memory and conversations. The agent is smith; $BLOCK and $PASSAGE are of acme, and $TURN is
// of root.
func agentRoutes() []route {
	const of = "/v1/agents/smith"
	return []route{
		{op: "GET /v1/models", who: user, ok: 200},
		{op: "GET /v1/blocks", who: user, ok: 200},
		{op: "POST /v1/blocks", body: `{"label":"human","value":"Ann"}`, who: admin, ok: 201, foreign: 201, low: 403,
			bad: `{"label":"human","org":"` + canary + `"}`},
		{op: "GET /v1/blocks/{id}", path: "/v1/blocks/$BLOCK", who: user, ok: 200, foreign: 404},
		{op: "PATCH /v1/blocks/{id}", path: "/v1/blocks/$BLOCK", body: `{"value":"x"}`, who: admin, ok: 200,
			foreign: 404, low: 403, bad: `{"value":["` + canary + `"]}`},
		{op: "GET /v1/blocks/{id}/agents", path: "/v1/blocks/$BLOCK/agents", who: user, ok: 200, foreign: 404},
		{op: "GET /v1/agents/{agent}/blocks", path: of + "/blocks", who: user, ok: 200, foreign: 404},
		{op: "PUT /v1/agents/{agent}/blocks/{id}", path: of + "/blocks/$BLOCK", who: admin, ok: 204, foreign: 404,
			low: 403},
		{op: "DELETE /v1/agents/{agent}/blocks/{id}", path: of + "/blocks/$BLOCK", who: admin, ok: 204, foreign: 404,
			low: 403},
		{op: "DELETE /v1/blocks/{id}", path: "/v1/blocks/$BLOCK", who: admin, ok: 204, foreign: 404, low: 403},
		{op: "GET /v1/agents/{agent}/passages", path: of + "/passages", who: user, ok: 200, foreign: 404},
		{op: "POST /v1/agents/{agent}/passages", path: of + "/passages", body: `{"text":"t","tags":["a"]}`, who: admin,
			ok: 201, foreign: 404, low: 403, bad: `{"text":"t","agent_id":"` + canary + `"}`},
		{op: "GET /v1/agents/{agent}/passages/tags", path: of + "/passages/tags", who: user, ok: 200, foreign: 404},
		{op: "DELETE /v1/agents/{agent}/passages/{id}", path: of + "/passages/$PASSAGE", who: admin, ok: 204,
			foreign: 404, low: 403},
		{op: "POST /v1/agents/{agent}/messages", path: of + "/messages", body: `{"text":"hi"}`, who: "acme/root/user",
			ok: 200, foreign: 404, low: 403, bad: `{"text":"hi","from":"` + canary + `"}`},
		{op: "GET /v1/agents/{agent}/messages", path: of + "/messages", who: user, ok: 200, foreign: 404},
		{op: "GET /v1/agents/{agent}/turns", path: of + "/turns", who: user, ok: 200, foreign: 404},
		{op: "GET /v1/turns/{id}", path: "/v1/turns/$TURN", who: "acme/root/user", ok: 200, foreign: 404, low: 404},
		{op: "GET /v1/turns/{id}/events", path: "/v1/turns/$TURN/events?after=0", who: "acme/root/user", ok: 200,
			foreign: 404, low: 404},
		{op: "POST /v1/turns/{id}/cancel", path: "/v1/turns/$TURN/cancel", who: "acme/root/user", ok: 204,
			foreign: 404, low: 404},
	}
}

// workspaceRoutes are the operations on workspaces, of which w is of acme.
func workspaceRoutes() []route {
	return []route{
		{op: "GET /v1/workspaces", who: user, ok: 200},
		{op: "POST /v1/workspaces", body: `{"name":"NOT A NAME"}`, who: user, ok: 422, bad: `{"name":3}`},
		{op: "GET /v1/workspaces/{name}", path: "/v1/workspaces/w",
			who: user, ok: 200, foreign: 404, low: 404},
		{op: "GET /v1/workspaces/{name}/files", path: "/v1/workspaces/w/files",
			who: user, ok: 200, foreign: 404, low: 404},
		{op: "GET /v1/workspaces/{name}/files/content", path: "/v1/workspaces/w/files/content?path=f",
			who: user, ok: 200, foreign: 404, low: 404},
		{op: "PUT /v1/workspaces/{name}/files", path: "/v1/workspaces/w/files?path=g",
			body: `x`, who: user, ok: 204, foreign: 404, low: 404},
		{op: "DELETE /v1/workspaces/{name}/files", path: "/v1/workspaces/w/files?path=none",
			who: user, ok: 404, foreign: 404, low: 404},
		{op: "GET /v1/workspaces/{name}/diff", path: "/v1/workspaces/w@s1/diff?to=w",
			who: user, ok: 200, foreign: 404, low: 404},
		{op: "POST /v1/workspaces/{name}/restore", path: "/v1/workspaces/w/restore", body: `{"from":"w@s1"}`,
			who: user, ok: 204, foreign: 404, low: 404},
		{op: "DELETE /v1/workspaces/{name}", path: "/v1/workspaces/w",
			who: user, ok: 204, foreign: 404, low: 404},
	}
}

// fill makes what the routes refer to, and returns the values.
func fill(w *world) *strings.Replacer {
	w.tool("f", "")
	w.tool("old", "")
	w.tool("ask", `,"settings":{"requires_approval":true}`)
	w.must(201, admin, "POST", "/v1/agents", `{"name":"smith","tools":["f"]}`)
	var smith haft.Agent
	w.must(200, admin, "GET", "/v1/agents/smith", "").into(w.t, &smith)
	done := w.call(user, `{"tool":"f","args":{"x":1}}`)
	var pending, second haft.Result
	w.must(202, user, "POST", "/v1/calls", `{"tool":"ask"}`).into(w.t, &pending)
	w.must(202, user, "POST", "/v1/calls", `{"tool":"ask"}`).into(w.t, &second)
	var chain haft.Chain
	w.must(200, user, "POST", "/v1/chains", `{"steps":[{"id":"a","tool":"f"}]}`).into(w.t, &chain)
	w.must(201, admin, "POST", "/v1/sandbox_configs", `{"type":"local"}`)
	var gone haft.SandboxConfig
	w.must(201, admin, "POST", "/v1/sandbox_configs", `{"type":"modal"}`).into(w.t, &gone)
	w.must(204, admin, "PUT", "/v1/secrets/ONCE", `{"value":"x"}`)
	var key, hook, file struct{ ID string }
	w.must(201, user, "POST", "/v1/files?name=f.json", `{"a":1}`).into(w.t, &file)
	w.must(201, user, "POST", "/v1/workspaces", `{"name":"w"}`)
	w.must(204, user, "PUT", "/v1/workspaces/w/files?path=f", "content")
	w.must(201, user, "POST", "/v1/workspaces", `{"name":"w@s1"}`)
	w.must(201, admin, "POST", "/v1/keys", `{"user":"ann"}`).into(w.t, &key)
	w.must(201, admin, "POST", "/v1/webhooks", `{"url":"https://example.com/","disabled":true}`).into(w.t, &hook)
	var block, passage struct{ ID string }
	w.must(201, admin, "POST", "/v1/blocks", `{"label":"persona","value":"kind"}`).into(w.t, &block)
	w.must(201, admin, "POST", "/v1/agents/smith/passages", `{"text":"it rains","tags":["weather"]}`).
		into(w.t, &passage)
	var said agentapi.Replied
	w.must(200, "acme/root/user", "POST", "/v1/agents/smith/messages", `{"text":"hello"}`).into(w.t, &said)
	return strings.NewReplacer("$BLOCK", block.ID, "$PASSAGE", passage.ID, "$TURN", string(said.Turn.ID),
		"$AGENT", string(smith.ID), "$SANDBOX", string(gone.ID), "$KEY", key.ID, "$HOOK",
		hook.ID, "$DONE", string(done.Call), "$APPROVAL2", string(second.Approval), "$APPROVAL",
		string(pending.Approval), "$CHAIN", string(chain.ID), "$FILE", file.ID)
}

// tryScopes tries a route with every scope but its own, and as an agent, and returns
// who may with its own scope only.
func tryScopes(t *testing.T, w *world, r route, agent string, send func(who, body string) answer) string {
	t.Helper()
	i := slices.IndexFunc(w.server.Routes(), func(x server.Route) bool { return x.Method+" "+x.Path == r.op })
	if i < 0 {
		t.Fatal("no such route")
	}
	action := w.server.Routes()[i].Action
	if r.any {
		return r.who
	}
	if !slices.Contains(haft.Actions(), action) {
		t.Errorf("the action %q is none", action)
	}
	others := ""
	for _, a := range haft.Actions() {
		if a != action {
			others += string(a) + "+"
		}
	}
	if a := send(r.who+"//"+others, r.body); a.status != 403 {
		t.Errorf("with every scope but %s: %d %s", action, a.status, a.body)
	}
	if action.Managed() {
		if a := send("acme/root/admin/"+agent, r.body); a.status != 403 {
			t.Errorf("by an agent of an administrator: %d %s", a.status, a.body)
		}
	}
	if action == haft.KeysWrite {
		return r.who // the key to be made would be more than its maker
	}
	return r.who + "//" + string(action)
}

func TestRoutes(t *testing.T) {
	w := setup(t, nil)
	values := fill(w)
	doc := open(t, w.server.OpenAPI())
	smith := values.Replace("$AGENT")
	for _, r := range routes() {
		method, path, _ := strings.Cut(r.op, " ")
		if r.path != "" {
			path = values.Replace(r.path)
		}
		t.Run(strings.ReplaceAll(r.op, "/", "_"), func(t *testing.T) {
			send := func(who, body string) answer {
				a := w.ask(who, method, path, body)
				doc.fits(t, r.op, a)
				return a
			}
			// Those who may not come first: they must change nothing.
			if a := send(nobody, r.body); a.status != 401 || problemOf(t, a).Code != haft.CodeUnauthenticated ||
				a.header.Get("WWW-Authenticate") == "" {
				t.Errorf("without a credential: %d %s", a.status, a.body)
			}
			if a := send("acme/root/admin//nothing", r.body); !r.any &&
				(a.status != 403 || problemOf(t, a).Code != haft.CodeDenied) {
				t.Errorf("with a credential for nothing: %d %s", a.status, a.body)
			}
			if r.bad != "" {
				want := r.badStatus
				if want == 0 {
					want = 422
				}
				if a := send(r.who, r.bad); a.status != want || problemOf(t, a).Code != haft.CodeInvalid {
					t.Errorf("with a bad body: %d %s, want %d", a.status, a.body, want)
				}
			}
			if r.low > 0 {
				if a := send(other, r.body); a.status != r.low {
					t.Errorf("without the role: %d %s, want %d", a.status, a.body, r.low)
				}
			}
			if r.foreign > 0 {
				if a := send(stranger, r.body); a.status != r.foreign {
					t.Errorf("of another organisation: %d %s, want %d", a.status, a.body, r.foreign)
				}
			}
			r.who = tryScopes(t, w, r, smith, send)
			a := send(r.who, r.body)
			if a.status != r.ok {
				t.Errorf("by who may: %d %s, want %d", a.status, a.body, r.ok)
			}
			if a.header.Get("X-Request-Id") == "" || a.header.Get("Access-Control-Allow-Origin") != "" ||
				a.header.Get("Set-Cookie") != "" {
				t.Errorf("headers: %v", a.header)
			}
		})
	}
	if t.Failed() {
		t.Log(w.log)
	}
	if strings.Contains(w.log.String(), canary) {
		t.Error("the log has a value that was sent")
	}
}

func TestRoutes_every_operation_of_the_document_is_tested(t *testing.T) {
	w := setup(t, nil)
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		}
	}
	if err := json.Unmarshal(w.server.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	tested, ids := map[string]bool{}, map[string]bool{}
	for _, r := range routes() {
		tested[r.op] = true
	}
	for path, item := range doc.Paths {
		for method, op := range item {
			if name := strings.ToUpper(method) + " " + path; !tested[name] {
				t.Errorf("%s is not in the table", name)
			}
			if op.OperationID == "" || ids[op.OperationID] {
				t.Errorf("%s %s has no id of its own: %q", method, path, op.OperationID)
			}
			ids[op.OperationID] = true
		}
	}
}

func TestRoutes_other_tenants_learn_nothing(t *testing.T) {
	w := setup(t, nil)
	values := fill(w)
	for _, r := range routes() {
		if r.foreign != http.StatusNotFound || !strings.Contains(r.op, "{") ||
			strings.Contains(r.op, "PUT /v1/agents/{agent}") {
			continue
		}
		method, _, _ := strings.Cut(r.op, " ")
		path := values.Replace(r.path)
		foreign := path
		there := w.ask(stranger, method, path, r.body)
		// The same address with an id that never was.
		for old, never := range map[string]string{"/tools/f": "/tools/q", "/old": "/qqq", "/smith": "/qqqqq"} {
			path = strings.Replace(path, old, never, 1)
		}
		kind := strings.Index(path[len("/v1/"):], "/") + len("/v1/")
		if i := strings.Index(path[kind:], "_") + kind; i > kind && strings.Contains(r.path, "$") {
			path = path[:i+1] + strings.Repeat("Q", 26) + path[i+27:]
		}
		never := w.ask(stranger, method, path, r.body)
		if there.status != 404 || never.status != 404 {
			t.Errorf("%s: %d of another, %d that never was", r.op, there.status, never.status)
			continue
		}
		a, b := problemOf(t, there), problemOf(t, never)
		if a.Detail != b.Detail || a.Code != b.Code {
			t.Errorf("%s tells what exists: %q and %q", r.op, a.Detail, b.Detail)
		}
		// Nor do they take other steps. What else goes on may ask the store too: one
		// pair that is alike shows that the requests are.
		alike := false
		var one, other int64
		for try := 0; try < 5 && !alike; try++ {
			one, other = w.asked(method, foreign, r.body), w.asked(method, path, r.body)
			alike = one == other
		}
		if !alike {
			t.Errorf("%s asks the store %d times for what is another's, and %d times for what never was", r.op, one,
				other)
		}
	}
}

// asked returns how often the store is asked for a request of a stranger.
func (w *world) asked(method, path, body string) int64 {
	before := w.store.Asked()
	w.ask(stranger, method, path, body)
	return w.store.Asked() - before
}
