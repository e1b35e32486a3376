package letta_test

import (
	"bytes"
	"mime/multipart"
	"strings"
	"testing"

	"haft/compat/letta"
)

// bring imports a file, with fields of the form.
func (w *world) bring(who, file string, fields ...string) answer {
	w.t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	part, err := form.CreateFormFile("file", "../../etc/agent.af")
	if err == nil {
		_, err = part.Write([]byte(file))
	}
	for i := 0; err == nil && i+1 < len(fields); i += 2 {
		err = form.WriteField(fields[i], fields[i+1])
	}
	if err != nil || form.Close() != nil {
		w.t.Fatal(err)
	}
	return w.ask(who, "POST", "/agents/import", b.String(), "Content-Type", form.FormDataContentType())
}

const agentFile = `{"agents":[{"id":"agent-0","name":"Poet","system":"Rhyme.","tags":["art"],"agent_type":"letta_v1_agent",
	"llm_config":{"model":"gpt","handle":"vendor/gpt","context_window":9},"block_ids":["block-0"],"tool_ids":["tool-0","tool-1"],
	"tool_rules":[{"type":"exit_loop","tool_name":"rhyme"}],"messages":[{"role":"user","content":[]}]}],
	"blocks":[{"id":"block-0","label":"human","value":"Ann","limit":50}],"groups":[],"files":[],"sources":[],"mcp_servers":[],
	"tools":[{"id":"tool-0","name":"rhyme","tool_type":"custom","source_code":"def rhyme(a): pass","source_type":"python",
	"json_schema":{"name":"rhyme","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}},"metadata_":{}},
	{"id":"tool-1","name":"memory_insert","tool_type":"letta_sleeptime_core","source_code":null}],"metadata":{},"created_at":null}`

const oldAgentFile = `{"agent_type":"memgpt_agent","name":"Old","system":"Hm.","core_memory":[{"label":"persona","value":"I"}],
	"tags":[{"tag":"art"}],"llm_config":{"model":"gpt"},"tool_rules":[],"version":"0.6",
	"tools":[{"name":"rhyme","tool_type":"custom","source_code":"def rhyme(a): pass"}],"messages":[]}`

func TestImport(t *testing.T) {
	t.Parallel()
	w := setup(t)
	r := w.bring(admin, agentFile, "secrets", `{"TOKEN":"`+canary+`"}`)
	if r.status != 200 || !strings.Contains(r.body, `{"agent_ids":["agent-`) {
		t.Fatalf("imported: %+v", r)
	}
	list := must[[]agent](w, 200, "GET", "/agents/?name=Poet_copy", "")
	if len(list) != 1 || list[0].System != "Rhyme." || list[0].Model != "vendor/gpt" ||
		labels(list[0].Blocks) != "human" ||
		namesOf(list[0].Tools) != "memory_insert rhyme" || len(list[0].Rules) != 1 || len(list[0].Secrets) != 1 ||
		strings.Join(list[0].Tags, "") != "art" {
		t.Errorf("agent: %+v", list)
	}
	// Tools that are there already are used, if they are the same.
	if r := w.bring(admin, agentFile, "append_copy_suffix", "false", "model", "other"); r.status != 200 {
		t.Errorf("again: %+v", r)
	}
	if r := w.bring(admin, oldAgentFile, "override_name", "older"); r.status != 200 {
		t.Errorf("an older file: %+v", r)
	}
	list = must[[]agent](w, 200, "GET", "/agents/?tags=art", "")
	if len(list) != 3 || list[0].Name != "older" || labels(list[0].Blocks) != "persona" || list[1].Model != "other" {
		t.Errorf("agents: %+v", list)
	}
	other := strings.ReplaceAll(agentFile, "(a): pass", "(a): return 1")
	if r := w.bring(admin, other, "name", "x"); r.status != 409 {
		t.Errorf("another source: %+v", r)
	}
	if r := w.bring(admin, other, "name", "x", "override_existing_tools", "false"); r.status != 200 {
		t.Errorf("the tool that is there: %+v", r)
	}
}

// A file that cannot be imported as a whole leaves nothing.
func TestImport_refuses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.add("theirs")
	change := func(old, new string) string {
		if !strings.Contains(agentFile, old) {
			t.Fatalf("the file has no %s", old)
		}
		return strings.Replace(agentFile, old, new, 1)
	}
	many := func(n int, one string) string { return strings.Repeat(one+",", n) }
	for name, file := range map[string]string{
		"no JSON":            "PK\x03\x04",
		"nothing":            `{}`,
		"no object":          `[1]`,
		"two agents":         change(`"agents":[`, `"agents":[{},`),
		"too deep":           change(`"messages":[`, `"messages":[`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+","),
		"too many values":    change(`"messages":[`, `"messages":[`+many(100_001, "1")),
		"too many tools":     change(`"tools":[`, `"tools":[`+many(101, "{}")),
		"too many blocks":    change(`"blocks":[`, `"blocks":[`+many(101, "{}")),
		"a large source":     change(`pass"`, strings.Repeat("x", 1<<20)+`"`),
		"a server":           change(`"mcp_servers":[`, `"mcp_servers":[{}`),
		"a tool of one":      change(`"custom"`, `"external_mcp"`),
		"an unknown kind":    change(`"custom"`, `"`+canary+`"`),
		"no such built-in":   change(`"memory_insert"`, `"open_files"`),
		"a built-in name":    change(`"name":"rhyme","tool_type"`, `"name":"run_code","tool_type"`),
		"a path for a name":  change(`"name":"rhyme","tool_type"`, `"name":"../../`+canary+`","tool_type"`),
		"another function":   change("def rhyme", "def theirs"),
		"another's name":     change(`{"name":"rhyme","par`, `{"name":"theirs","par`),
		"a path for a label": change(`"label":"human"`, `"label":"../x"`),
		"no such block":      change(`["block-0"]`, `["block-1"]`),
		"no such tool":       change(`"tool-0","tool-1"]`, `"tool-0","tool-2"]`),
		"a bad rule":         change(`"exit_loop"`, `"magic"`),
		"a large block":      change(`"limit":50`, `"limit":2`),
	} {
		if r := w.bring(admin, file); r.status < 400 || r.status >= 500 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
		if got := namesOf(w.walk("/tools/?tool_types=custom")); got != "theirs" {
			t.Errorf("%s: there are tools %s", name, got)
		}
		if n := must[int](w, 200, "GET", "/blocks/count", ""); n != 0 {
			t.Errorf("%s: there are %d blocks", name, n)
		}
		if list := must[[]agent](w, 200, "GET", "/agents/", ""); len(list) != 0 {
			t.Errorf("%s: there are %d agents", name, len(list))
		}
	}
	for name, r := range map[string]answer{
		"no form":     w.ask(admin, "POST", "/agents/import", agentFile),
		"no boundary": w.ask(admin, "POST", "/agents/import", agentFile, "Content-Type", "multipart/form-data"),
		"no file": w.ask(admin, "POST", "/agents/import", "--x--\r\n", "Content-Type",
			"multipart/form-data; boundary=x"),
		"many parts": w.ask(admin, "POST", "/agents/import", strings.Repeat("--x\r\n\r\n\r\n", 50)+"--x--\r\n",
			"Content-Type", "multipart/form-data; boundary=x"),
		"bad secrets": w.bring(admin, agentFile, "secrets", canary),
	} {
		if r.status != 422 {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if r := w.bring(reader, agentFile); r.status != 403 {
		t.Errorf("a reader: %+v", r)
	}
}

// Whatever a file is, what is read of it is within the bounds.
func FuzzImport(f *testing.F) {
	f.Add([]byte(agentFile))
	f.Add([]byte(oldAgentFile))
	f.Fuzz(func(t *testing.T, file []byte) {
		tools, blocks, err := letta.ReadAgentFile(file)
		if err == nil && (tools > 100 || blocks > 100) {
			t.Errorf("%d tools and %d blocks", tools, blocks)
		}
	})
}

// What is exported can be imported, here and elsewhere.
func TestExport_is_imported(t *testing.T) {
	t.Parallel()
	w := setup(t)
	one := must[tool](w, 200, "POST", "/tools/", `{"source_code":"def one(a): pass","default_requires_approval":true,
		"return_char_limit":70,"tags":["x"]}`)
	gone := w.add("gone")
	a := must[agent](w, 200, "POST", "/agents/", `{"name":"My poet","system":"Rhyme.","description":"Writes.",
		"model":"openai/gpt-4.1","tags":["art"],"metadata":{"team":"a"},"timezone":"UTC","secrets":{"TOKEN":"`+canary+`"},
		"memory_blocks":[{"label":"human","value":"Ann","limit":50,"read_only":true}],"tools":["memory_insert"],
		"tool_ids":["`+one.ID+`","`+gone.ID+`"],"include_base_tools":false,
		"tool_rules":[{"type":"max_count_per_step","tool_name":"one","max_count_limit":3},
		{"type":"exit_loop","tool_name":"gone"}]}`)
	must[any](w, 200, "DELETE", "/tools/"+gone.ID, "")
	r := w.ask(admin, "GET", "/agents/"+a.ID+"/export", "")
	if r.status != 200 || strings.Contains(r.body, canary) {
		t.Fatalf("exported: %+v", r)
	}
	if s := w.ask(stranger, "GET", "/agents/"+a.ID+"/export", ""); s.status != 404 {
		t.Errorf("a stranger: %+v", s)
	}
	const agentsOnly = "acme/cat/admin//agents:read"
	if s := w.ask(agentsOnly, "GET", "/agents/"+a.ID+"/export", ""); s.status != 403 {
		t.Errorf("a credential that is not for tools: %+v", s)
	}
	if s := w.ask(agentsOnly, "GET", "/agents/"+a.ID, ""); s.status != 200 || strings.Contains(s.body, "def one") {
		t.Errorf("a credential that is not for tools reads a source: %+v", s)
	}
	other := setup(t)
	for name, at := range map[string]*world{"here": w, "elsewhere": other} {
		if got := at.bring(admin, r.body, "append_copy_suffix", "false"); got.status != 200 {
			t.Fatalf("%s: %+v", name, got)
		}
		list := must[[]struct {
			agent
			Metadata map[string]any `json:"metadata"`
			Timezone string         `json:"timezone"`
		}](at, 200, "GET", "/agents/?name=My%20poet&limit=1", "")
		if len(list) != 1 {
			t.Fatalf("%s: %d agents", name, len(list))
		}
		got := list[0]
		if got.ID == a.ID || got.System != "Rhyme." || got.Desc != "Writes." || got.Model != "openai/gpt-4.1" ||
			got.Timezone != "UTC" || got.Metadata["team"] != "a" || strings.Join(got.Tags, "") != "art" ||
			namesOf(got.Tools) != "memory_insert one" || labels(got.Blocks) != "human" || len(got.Secrets) != 0 ||
			!got.Tools[1].Approval || got.Tools[1].Limit != 70 || len(got.Rules) != 2 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
