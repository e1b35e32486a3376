package letta_test

import (
	"fmt"
	"strings"
	"testing"

	"haft"
)

// config is what the tests look at of a sandbox configuration.
type config struct {
	ID     string         `json:"id"`
	Type   string         `json:"type"`
	Config map[string]any `json:"config"`
}

// variable is what the tests look at of one.
type variable struct {
	ID    string `json:"id"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

func TestSandboxConfigs(t *testing.T) {
	t.Parallel()
	w := setup(t, haft.SandboxLocal, haft.SandboxE2B, haft.SandboxModal)
	local := must[config](w, 200, "POST", "/sandbox-config/local/default", "")
	if again := must[config](w, 200, "POST", "/sandbox-config/local/default", ""); again.ID != local.ID ||
		local.Type != "local" {
		t.Errorf("default: %+v, again %+v", local, again)
	}
	put := must[config](w, 200, "POST", "/sandbox-config/",
		`{"config":{"sandbox_dir":null,"use_venv":true,"pip_requirements":[{"name":"numpy","version":"2.3.1"}]}}`)
	if put.ID != local.ID || fmt.Sprint(put.Config["pip_requirements"]) != "[map[name:numpy version:2.3.1]]" {
		t.Errorf("there is one of a type: %+v", put)
	}
	e2b := must[config](w, 200, "POST", "/sandbox-config/", `{"config":{"timeout":60,"pip_requirements":["six"]}}`)
	if e2b.Type != "e2b" || e2b.Config["timeout"] != 60.0 {
		t.Errorf("e2b: %+v", e2b)
	}
	if got := must[config](w, 200, "PATCH", "/sandbox-config/"+e2b.ID,
		`{"config":{"timeout":90}}`); got.Config["timeout"] != 90.0 ||
		fmt.Sprint(got.Config["pip_requirements"]) != "[six]" {
		t.Errorf("patched: %+v", got)
	}
	if r := w.ask(admin, "PATCH", "/sandbox-config/"+e2b.ID, `{"config":{"use_venv":true}}`); r.status != 400 ||
		!strings.Contains(r.body, "Mismatched type") {
		t.Errorf("another type: %+v", r)
	}
	if got := must[[]config](w, 200, "GET", "/sandbox-config/?limit=1&order=asc", ""); len(got) != 1 ||
		got[0].ID != local.ID {
		t.Errorf("a page: %+v", got)
	}
	if got := must[[]config](w, 200, "GET", "/sandbox-config/?order=asc&after="+local.ID, ""); len(got) != 1 ||
		got[0].ID != e2b.ID {
		t.Errorf("the next page: %+v", got)
	}
	if got := must[[]config](w, 200, "GET", "/sandbox-config/?sandbox_type=modal", ""); len(got) != 0 {
		t.Errorf("of another type: %+v", got)
	}
	if r := w.ask(admin, "DELETE", "/sandbox-config/"+e2b.ID, ""); r.status != 204 || r.body != "" {
		t.Errorf("delete: %+v", r)
	}
	for what, want := range map[string]int{
		`POST /sandbox-config/ {"config":{"sandbox_dir":"/etc"}}`: 400,
		`POST /sandbox-config/ {"config":{"template":"x"}}`:       400,
		`POST /sandbox-config/ {"config":{"timeout":0}}`:          422,
		`POST /sandbox-config/ {"config":{"pip_requirements":{"` + canary +
			`":1}}}`: 422,
		`POST /sandbox-config/ {"config":{"pip_requirements":["--index-url=http://evil"]}}`: 400,
		`POST /sandbox-config/ {}`: 422,
		`PATCH /sandbox-config/` + e2b.ID +
			` {"config":{}}`: 404,
		`PATCH /sandbox-config/` + canary +
			` {"config":{}}`: 422,
		`GET /sandbox-config/?sandbox_type=` + canary +
			` `: 422,
		`DELETE /sandbox-config/environment-variable/` + strings.Replace(local.ID, "sandbox-", "sandbox-env-", 1) +
			` `: 404,
	} {
		parts := strings.SplitN(what, " ", 3)
		if r := w.ask(admin, parts[0], parts[1], parts[2]); r.status != want {
			t.Errorf("%s: %d %s, want %d", what, r.status, r.body, want)
		}
	}
	if r := w.ask(stranger, "DELETE", "/sandbox-config/"+local.ID, ""); r.status != 404 {
		t.Errorf("by a stranger: %+v", r)
	}
	if r := w.ask(confined, "GET", "/sandbox-config/", ""); r.status != 403 {
		t.Errorf("with a key for tools: %+v", r)
	}
}

func TestSandboxVariables(t *testing.T) {
	t.Parallel()
	w := setup(t)
	local := must[config](w, 200, "POST", "/sandbox-config/local/default", "")
	path := "/sandbox-config/" + local.ID + "/environment-variable"
	a := must[variable](w, 200, "POST", path, `{"key":"TOKEN","value":"`+canary+`","description":"x"}`)
	if a.Key != "TOKEN" || a.Value != "" || !strings.HasPrefix(a.ID, "sandbox-env-") {
		t.Errorf("made: %+v", a)
	}
	if b := must[variable](w, 200, "POST", path, `{"key":"TOKEN","value":"other"}`); b.ID != a.ID {
		t.Errorf("the same key again: %+v", b)
	}
	must[variable](w, 200, "POST", path, `{"key":"OTHER","value":"x"}`)
	first := must[[]variable](w, 200, "GET", path+"?limit=1", "")
	rest := must[[]variable](w, 200, "GET", path+"?after="+first[0].ID, "")
	if len(first) != 1 || len(rest) != 1 || first[0].Key == rest[0].Key {
		t.Errorf("pages: %+v, %+v", first, rest)
	}
	if end := must[[]variable](w, 200, "GET", path+"?after="+rest[0].ID, ""); len(end) != 0 {
		t.Errorf("the end: %+v", end)
	}
	one := "/sandbox-config/environment-variable/" + a.ID
	if got := must[variable](w, 200, "PATCH", one, `{"value":"new"}`); got.Key != "TOKEN" {
		t.Errorf("changed: %+v", got)
	}
	if r := w.ask(admin, "PATCH", one, `{"key":"RENAMED"}`); r.status != 400 {
		t.Errorf("renamed without its value: %+v", r)
	}
	renamed := must[variable](w, 200, "PATCH", one, `{"key":"RENAMED","value":"x"}`)
	if r := w.ask(admin, "DELETE", one, ""); renamed.Key != "RENAMED" || r.status != 404 {
		t.Errorf("renamed: %+v, and the old name: %+v", renamed, r)
	}
	one = "/sandbox-config/environment-variable/" + renamed.ID
	for _, method := range []string{"PATCH", "DELETE"} {
		if r := w.ask(stranger, method, one, `{"value":"x"}`); r.status != 404 {
			t.Errorf("%s by a stranger: %+v", method, r)
		}
	}
	if r := w.ask(admin, "DELETE", one, ""); r.status != 204 {
		t.Errorf("delete: %+v", r)
	}
	if r := w.ask(admin, "DELETE", one, ""); r.status != 404 {
		t.Errorf("delete again: %+v", r)
	}
}

// A server that has no rented machines says so, and keeps no configuration by which
// somebody would think that tools run there.
func TestSandboxConfigs_of_what_is_not_there(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for call, body := range map[string]string{
		"/sandbox-config/":            `{"config":{"timeout":60,"pip_requirements":["six"]}}`,
		"/sandbox-config":             `{"config":{"language":"python","npm_requirements":["x"]}}`,
		"/sandbox-config/e2b/default": ``,
	} {
		r := w.ask(admin, "POST", call, body)
		if r.status != 400 || !strings.Contains(r.body, "is not available on this server; it has local") {
			t.Errorf("%s: %d %s", call, r.status, r.body)
		}
	}
	if got := must[[]config](w, 200, "GET", "/sandbox-config/", ""); len(got) != 0 {
		t.Errorf("there are configurations: %+v", got)
	}
}

func TestBodies_are_bounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	many := func(n int, one string) string { return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]" }
	for name, c := range map[string]struct{ method, path, body, want string }{
		"tools of an agent": {"POST", "/agents/", `{"name":"a","tool_ids":` + many(1001, `"tool-1"`) + `}`,
			"/tool_ids: expected array length <= 1000"},
		"rules of an agent": {"POST", "/agents/", `{"name":"a","tool_rules":` + many(101, `{}`) + `}`,
			"/tool_rules: expected array length <= 100"},
		"values in all": {"POST", "/agents/", `{"metadata":` + many(100_001, `{}`) + `}`,
			"more than 100000 values in all"},
		"nesting": {"POST", "/agents/",
			`{"memory_blocks":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, "levels of nesting"},
		"packages": {"POST", "/sandbox-config/",
			`{"config":{"use_venv":true,"pip_requirements":` + many(101, `{"name":"a"}`) + `}}`,
			"/config/pip_requirements: expected array length <= 100"},
		"blocks of an agent": {"POST", "/agents/", `{"memory_blocks":` + many(101, `{}`) + `}`,
			"/memory_blocks: expected array length <= 100"},
		"text": {"POST", "/tools/", `{"source_code":"` + strings.Repeat("a", 1<<20+1) + `"}`,
			"/source_code: expected length <= 1048576"},
		"headers": {"POST", "/mcp-servers/",
			`{"server_name":"a","config":{"custom_headers":{"a":"` + strings.Repeat("a", 20_000) + `"}}}`,
			"/config/custom_headers/a: expected length <= 16384"},
		"arguments of tools": {"POST", "/tools/run",
			`{"source_code":"def f(): pass","args":{"x":` + many(100_001, `1`) + `}}`,
			"more than 100000 values in all"},
	} {
		r := w.ask(admin, c.method, c.path, c.body)
		if r.status != 422 || !strings.Contains(r.body, c.want) {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
}
