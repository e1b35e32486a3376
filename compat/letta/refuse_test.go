package letta_test

import (
	"fmt"
	"strings"
	"testing"
)

// every is each thing that can be asked for, with what belongs to acme in its
// address.
func every(t, a string) map[string]string {
	return map[string]string{
		"GET /tools/":                                "",
		"POST /tools/":                               `{"source_code":"def f(a): pass"}`,
		"PUT /tools/":                                `{"source_code":"def f(a): pass"}`,
		"GET /tools/count":                           "",
		"GET /tools/" + t:                            "",
		"PATCH /tools/" + t:                          `{"description":"x"}`,
		"DELETE /tools/" + t:                         "",
		"POST /tools/add-base-tools":                 "",
		"POST /tools/search":                         `{"query":"x"}`,
		"POST /tools/run":                            `{"source_code":"def f(a): pass","args":{}}`,
		"POST /tools/generate-schema":                `{"code":"def f(a): pass"}`,
		"GET /agents/":                               "",
		"POST /agents/":                              `{"name":"x"}`,
		"GET /agents/" + a:                           "",
		"PATCH /agents/" + a:                         `{"tool_ids":[]}`,
		"DELETE /agents/" + a:                        "",
		"GET /agents/" + a + "/tools":                "",
		"PATCH /agents/" + a + "/tools/attach/" + t:  "",
		"PATCH /agents/" + a + "/tools/detach/" + t:  "",
		"PATCH /agents/" + a + "/tools/approval/one": `{"requires_approval":true}`,
		"POST /agents/" + a + "/tools/one/run":       `{"args":{"a":1}}`,
		"GET /blocks/":                               "",
		"POST /blocks/":                              `{"label":"x","value":"x"}`,
		"GET /agents/" + a + "/core-memory/blocks":   "",
		"GET /agents/" + a + "/archival-memory":      "",
		"POST /agents/" + a + "/messages":            `{"input":"x"}`,
		"POST /agents/" + a + "/messages/stream":     `{"input":"x"}`,
		"GET /agents/" + a + "/messages":             "",
		"GET /runs?agent_id=" + a:                    "",
		"POST /messages/search":                      `{"query":"x","agent_id":"` + a + `"}`,
		"POST /agents/" + a + "/archival-memory":     `{"text":"x"}`,
		"GET /mcp-servers/":                          "",
		"POST /mcp-servers/":                         `{"server_name":"x","config":{"mcp_server_type":"stdio","command":"x","args":[]}}`,
		"GET /tools/mcp/servers":                     "",
		"GET /health/":                               "",
	}
}

func TestRefuses_those_whom_nobody_knows(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.add("one")
	a := w.hire("helper", one.ID)
	for what, body := range every(one.ID, a.ID) {
		method, path, _ := strings.Cut(what, " ")
		if r := w.ask(nobody, method, path, body); r.status != 401 {
			t.Errorf("%s without a key: %d %s", what, r.status, r.body)
		}
		if r := w.ask("wrong", method, path, body); r.status != 401 {
			t.Errorf("%s with a wrong key: %d %s", what, r.status, r.body)
		}
	}
}

// An administrator of another organisation learns nothing: what is acme's is as if
// it had never been.
func TestRefuses_strangers(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.add("one")
	a := w.hire("helper", one.ID)
	never := "tool-00000000-0000-4000-8000-000000000000"
	for what, body := range every(one.ID, a.ID) {
		method, path, _ := strings.Cut(what, " ")
		if !strings.Contains(path, one.ID) && !strings.Contains(path, a.ID) {
			continue
		}
		r := w.ask(stranger, method, path, body)
		if r.status != 404 || strings.Contains(r.body, "one") && !strings.Contains(path, "/one") {
			t.Errorf("%s by a stranger: %d %s", what, r.status, r.body)
		}
		if !strings.Contains(path, a.ID) {
			if other := w.ask(stranger, method, strings.Replace(path, one.ID, never, 1), body); other.body != r.body ||
				other.status != r.status {
				t.Errorf("%s by a stranger: %s, and for what never was: %s", what, r.body, other.body)
			}
		}
	}
	for path, want := range map[string]string{"/tools/?tool_types=custom": "[]\n", "/agents/": "[]\n",
		"/tools/count?exclude_letta_tools=true": "0\n"} {
		if r := w.ask(stranger, "GET", path, ""); r.status != 200 || r.body != want {
			t.Errorf("GET %s by a stranger: %d %s", path, r.status, r.body)
		}
	}
	// Nor does the place of another's tool tell anything.
	if r := w.ask(stranger, "GET", "/tools/?after="+one.ID, ""); r.status != 404 {
		t.Errorf("after the tool of another: %d %s", r.status, r.body)
	}
	if r := w.ask(stranger, "POST", "/agents/", `{"name":"spy","tool_ids":["`+one.ID+`"]}`); r.status != 404 {
		t.Errorf("an agent with the tool of another: %d %s", r.status, r.body)
	}
	if got := must[agent](w, 200, "GET", "/agents/"+a.ID, ""); namesOf(got.Tools) != "one" {
		t.Errorf("the agent is now %+v", got)
	}
}

// A credential is good for what it was made for, whatever its owner may do.
func TestRefuses_what_a_key_is_not_for(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.add("one")
	a := w.hire("helper", one.ID)
	read := []string{"GET /tools/", "POST /tools/add-base-tools", "POST /tools/search", "POST /tools/generate-schema",
		"GET /health/"}
	for what, body := range every(one.ID, a.ID) {
		method, path, _ := strings.Cut(what, " ")
		want := 403
		for _, p := range read {
			if what == p || strings.HasPrefix(what, "GET /tools/") && !strings.Contains(what, "mcp") {
				want = 200
			}
		}
		if r := w.ask(confined, method, path, body); r.status != want {
			t.Errorf("%s with a key for reading tools: %d %s, want %d", what, r.status, r.body, want)
		}
	}
}

// Somebody without the role changes nothing and calls only what a policy allows.
func TestRefuses_what_policy_does_not_allow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.add("one")
	a := w.hire("helper", one.ID)
	for what, body := range every(one.ID, a.ID) {
		method, path, _ := strings.Cut(what, " ")
		if method == "GET" || what == "POST /tools/add-base-tools" || what == "POST /tools/search" ||
			what == "POST /messages/search" || what == "POST /tools/generate-schema" {
			continue
		}
		if r := w.ask(reader, method, path, body); r.status != 403 {
			t.Errorf("%s by a reader: %d %s", what, r.status, r.body)
		}
	}
}

func TestRefuses_bad_requests(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.add("one")
	a := w.hire("helper", one.ID)
	deep := strings.Repeat("[", 20000) + strings.Repeat("]", 20000)
	for _, tt := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/tools/", ``, 422},
		{"POST", "/tools/", `{`, 422},
		{"POST", "/tools/", `[]`, 422},
		{"POST", "/tools/", `"` + canary + `"`, 422},
		{"POST", "/tools/", `{}`, 422},
		{"POST", "/tools/", `{"source_code":"  "}`, 422},
		{"POST", "/tools/", `{"source_code":7}`, 422},
		{"POST", "/tools/", `{"source_code":"def f(): pass","` + canary + `-":1}`, 422},
		{"POST", "/tools/", `{"source_code":"def f(): pass","name":"g"}`, 422},
		{"POST", "/tools/", `{"source_code":"def f(): pass"} {}`, 422},
		{"POST", "/tools/", `{"source_code":"def f(): pass","return_char_limit":0}`, 422},
		{"POST", "/tools/", `{"source_code":"def f(): pass","return_char_limit":1000001}`, 422},
		{"POST", "/tools/", `{"source_code":"def f(): pass","json_schema":"` + canary + `"}`, 422},
		{"POST", "/tools/", `{"source_code":"def f(): pass","json_schema":` + deep + `}`, 422},
		{"POST", "/tools/", `{"source_code":"def f(): pass","json_schema":{"name":"g","parameters":{}}}`, 400},
		{"POST", "/tools/", `{"source_code":"def f(): pass","json_schema":{"name":"f","parameters":{"type":"array"}}}`,
			400},
		{"POST", "/tools/", `{"source_code":"def f(): pass","source_type":"` + canary + `"}`, 400},
		{"POST", "/tools/", `{"source_code":"def f(): pass","pip_requirements":[{"name":"--index-url=http://x"}]}`,
			400},
		{"POST", "/tools/",
			`{"source_code":"def f(): pass","pip_requirements":[{"name":"x","version":"1; import os"}]}`, 422},
		{"POST", "/tools/", `{"source_code":"x = 1"}`, 400},
		{"POST", "/tools/", `{"source_code":"def run_code(): pass"}`, 409},
		{"PATCH", "/tools/" + one.ID, `{"json_schema":{"name":"two","parameters":{}}}`, 400},
		{"PATCH", "/tools/" + one.ID, `{"json_schema":{"name":"one"},"args_json_schema":{"type":"object"}}`, 400},
		{"PATCH", "/tools/" + one.ID, `{"source_code":"def other(a): pass"}`, 400},
		{"PATCH", "/tools/" + one.ID, `{"metadata_":{"mine":"` + strings.Repeat("x", 65<<10) + `"}}`, 400},
		{"PATCH", "/tools/" + one.ID, `[`, 422},
		{"GET", "/tools/" + canary, ``, 422},
		{"GET", "/tools/tool-c5d331a4-dcb5-1bfe-8aa4-0067f4d88454", ``, 422},
		{"GET", "/tools/tool-c5d331a4-dcb5-4bfe-8aa4-0067f4d88454", ``, 404},
		{"GET", "/tools/one", ``, 422},
		{"GET", "/tools/?limit=0", ``, 422},
		{"GET", "/tools/?limit=x", ``, 422},
		{"GET", "/tools/?order=" + canary, ``, 422},
		{"GET", "/tools/?order_by=name", ``, 422},
		{"GET", "/tools/?after=" + one.ID + "&before=" + one.ID, ``, 422},
		{"GET", "/tools/?after=" + canary, ``, 422},
		{"GET", "/tools/?tool_types=" + canary, ``, 400},
		{"GET", "/tools/?return_only_letta_tools=" + canary, ``, 422},
		{"POST", "/tools/search", `{"search_mode":"` + canary + `"}`, 422},
		{"POST", "/tools/search", `{"limit":101}`, 422},
		{"POST", "/tools/run", `{"source_code":"def f(): pass"}`, 422},
		{"POST", "/tools/run", `{"args":{}}`, 422},
		{"POST", "/tools/run", `{"source_code":"x","args":{},"source_type":"ruby"}`, 400},
		{"POST", "/tools/generate-schema", `{}`, 422},
		{"POST", "/agents/", `{"name":"x","` + canary + `-":1}`, 422},
		{"POST", "/agents/", `{"name":"x","tool_ids":["one"]}`, 422},
		{"POST", "/agents/", `{"name":"x","tools":["none"]}`, 404},
		{"POST", "/agents/", `{"name":"x","tool_rules":[{"type":"magic","tool_name":"one"}]}`, 422},
		{"POST", "/agents/", `{"name":"x","tool_rules":[{"type":"exit_loop","tool_name":"one"}]}`, 400},
		{"POST", "/agents/", `{"name":"x","secrets":{"bad-name":"` + canary + `"}}`, 400},
		{"POST", "/agents/", `{"name":"x","secrets":{"LD_PRELOAD":"` + canary + `"}}`, 400},
		{"PATCH", "/agents/" + a.ID + "/tools/approval/one", `{}`, 422},
		{"PATCH", "/agents/" + a.ID + "/tools/approval/two", `{"requires_approval":true}`, 404},
		{"POST", "/agents/" + a.ID + "/tools/one/run", `{"args":`, 422},
		{"POST", "/agents/" + a.ID + "/tools/one/run", `{"args":{},"env":{}}`, 422},
		{"GET", "/agents/" + one.ID, ``, 422},
		{"POST", "/agents/" + a.ID + "/messages", `{}`, 422},
		{"POST", "/agents/" + a.ID + "/messages", `{"input":"x"}`, 404}, // it has no model
		{"POST", "/agents/" + a.ID + "/messages", `{"input":"x","messages":[{"role":"user","content":"x"}]}`, 422},
		{"POST", "/agents/" + a.ID + "/messages", `{"input":[{"type":"image","source":{}}]}`, 501},
		{"POST", "/agents/" + a.ID + "/messages", `{"input":{"` + canary + `":1}}`, 422},
		{"POST", "/agents/" + a.ID + "/messages", `{"input":"x","override_system":"` + canary + `"}`, 501},
		{"POST", "/agents/" + a.ID + "/messages", `{"input":"x","max_steps":0}`, 422},
		{"POST", "/agents/" + a.ID + "/messages", `{"messages":[{"role":"system","content":"x"}]}`, 501},
		{"POST", "/agents/" + a.ID + "/messages", `{"messages":[{"role":"` + canary + `","content":"x"}]}`, 422},
		{"POST", "/agents/" + a.ID + "/messages", `{"messages":[{"type":"` + canary + `","role":"user"}]}`, 422},
		{"POST", "/agents/" + a.ID + "/messages/cancel", `{"run_ids":["run-` + canary + `"]}`, 404},
		{"GET", "/agents/" + a.ID + "/messages?after=" + canary, ``, 422},
		{"GET", "/agents/" + a.ID + "/messages?after=message-" + canary, ``, 422},
		{"GET", "/agents/" + a.ID + "/messages?after=message-0660860a62cb33e", ``, 404},
		{"GET", "/agents/" + a.ID + "/messages?use_assistant_message=maybe", ``, 422},
		{"GET", "/runs/run-" + canary, ``, 404},
		{"GET", "/runs?after=run-" + canary, ``, 404},
		{"GET", "/runs?agent_ids=" + strings.Repeat("x,", 30), ``, 422},
		{"POST", "/messages/search", `{"query":" "}`, 422},
		{"POST", "/messages/search", `{"query":"x","limit":101}`, 422},
		{"POST", "/messages/search", `{"query":"x","start_date":"` + canary + `"}`, 422},
		{"GET", "/agents/" + a.ID + "/export?use_legacy_format=true", ``, 501},
		{"DELETE", "/tools/", ``, 405},
		{"POST", "/blocks/", `{"label":"x"}`, 422},
		{"POST", "/blocks/", `{"label":"../x","value":"` + canary + `"}`, 400},
		{"POST", "/blocks/", `{"label":"x","value":"` + canary + `","limit":3}`, 400},
		{"GET", "/blocks/?order=" + canary, ``, 422},
		{"GET", "/blocks/block-" + canary, ``, 404},
		{"GET", "/agents/" + a.ID + "/core-memory/blocks/" + canary, ``, 404},
		{"PATCH", "/agents/" + a.ID + "/core-memory/blocks/attach/block-" + canary, ``, 404},
		{"POST", "/agents/" + a.ID + "/archival-memory", `{"tags":[]}`, 422},
		{"POST", "/agents/" + a.ID + "/archival-memory", `{"text":" "}`, 400},
		{"POST", "/agents/" + a.ID + "/archival-memory", `{"text":"x","created_at":"` + canary + `"}`, 501},
		{"GET", "/agents/" + a.ID + "/archival-memory/search", ``, 422},
		{"GET", "/agents/" + a.ID + "/archival-memory/search?query=x&top_k=0", ``, 422},
		{"GET", "/agents/" + a.ID + "/archival-memory/search?query=x&start_datetime=" + canary, ``, 422},
		{"DELETE", "/agents/" + a.ID + "/archival-memory/passage-" + canary, ``, 404},
		{"POST", "/agents/", `{"name":"x","memory_blocks":[{"label":"human"}]}`, 422},
		{"POST", "/agents/", `{"name":"x","block_ids":["block-` + canary + `"]}`, 404},
		{"GET", "/agents/?match_all_tags=maybe", ``, 422},
		{"GET", "/tools/%2e%2e%2fagents", ``, 422},
	} {
		if r := w.ask(admin, tt.method, tt.path, tt.body); r.status != tt.want {
			t.Errorf("%s %s %.80s: %d %s, want %d", tt.method, tt.path, tt.body, r.status, r.body, tt.want)
		}
	}
	if got := namesOf(w.walk("/tools/?tool_types=custom")); got != "one" {
		t.Errorf("after bad requests there is %s", got)
	}
}

// An agent that is called like the id of another is not that one.
func TestAgent_cannot_be_called_like_another(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := w.add("one")
	a := w.hire("helper", one.ID)
	var own string
	kept, err := w.engine.Agent(t.Context(), haftAdmin(), "helper")
	if err != nil {
		t.Fatal(err)
	}
	own = string(kept.ID)
	must[agent](w, 200, "POST", "/agents/", fmt.Sprintf(`{"name":%q}`, own))
	if kept, err = w.engine.Agent(t.Context(), haftAdmin(), own); err != nil || kept.Name != "helper" {
		t.Errorf("an agent called like the id of another: %+v, %v", kept, err)
	}
	if got := must[agent](w, 200, "GET", "/agents/"+a.ID, ""); got.Name != "helper" {
		t.Errorf("the id is now that of %+v", got)
	}
}
