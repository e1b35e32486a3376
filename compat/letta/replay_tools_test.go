//go:build linux

package letta_test

import (
	"fmt"
	"strings"
	"testing"

	"haft/compat/letta"
	"haft/internal/layer"
	"haft/internal/layer/layertest"
	"haft/internal/supply"
)

// TestReplayTools has a case for each row of the table in docs/letta.md that is about how tools run.
func TestReplayTools(t *testing.T) {
	wheels := t.TempDir()
	layertest.Wheel(t, wheels, "letta_client", "1.0", "class Letta:\n    def __init__(self, api_key, base_url=None):\n"+
		"        self.key, self.url = api_key, base_url\n")
	layertest.Wheel(t, wheels, "haftneeds", "1.0", "", "haftsource")
	layertest.Wheel(t, wheels, "haftneeds", "1.1", "", "haftsource")
	packages := supply.Config{Index: layer.Index{Wheels: []string{wheels}, Offline: true}, Installer: "pip"}
	plain := openReplayWith(t, packages, letta.Settings{})
	open := openReplay(t, letta.Settings{Programs: []string{"echo"}}, "BASE")
	for _, tt := range []struct {
		name string
		run  func(plain, open *replay)
	}{
		{"row 1: Optional without a default", func(r, _ *replay) { optionalWithoutDefault(r) }},
		{"row 2: a schema of objects for TypeScript", func(r, _ *replay) { typescriptWithSchema(r) }},
		{"row 2: names that do not fit", func(r, _ *replay) { namesThatDoNotFit(r) }},
		{"row 3: a value that is not as annotated", func(r, _ *replay) { otherValue(r) }},
		{"row 4: names of typing without an import", func(r, _ *replay) { missingImports(r) }},
		{"row 4: names that Letta imports", func(r, _ *replay) { importedNames(r) }},
		{"row 5: args_json_schema of untyped parameters", func(r, _ *replay) { argsSchema(r) }},
		{"row 5: models that are not in the source", func(r, _ *replay) { missingModels(r) }},
		{"row 6: client", func(r, _ *replay) { clientOfTool(r) }},
		{"row 7: agent_state", func(r, _ *replay) { stateOfAgent(r) }},
		{"row 8: agent_id", func(r, _ *replay) { idOfAgent(r) }},
		{"row 15: conversions", func(r, _ *replay) { coercions(r) }},
		{"row 22: packages without a wheel", func(r, _ *replay) { noWheel(r) }},
		{"row 26: a dangling $ref", func(r, _ *replay) { danglingReference(r) }},
		{"row 29: programs", programs},
		{"row 30: values that are no data", func(r, _ *replay) { noData(r); noDataOfTypeScript(r) }},
		{"row 31: variables that are no secrets", publicVariables},
		{"row 32: languages of run_code", func(r, _ *replay) { codeLanguages(r) }},
		{"row 33: packages of another language", func(r, _ *replay) { otherPackages(r) }},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.run(plain.with(t), open.with(t)) })
	}
}

// namesThatDoNotFit: no parameter is ever undefined because the schema calls it otherwise.
func namesThatDoNotFit(r *replay) {
	put := func(name, source string, parameters body) body {
		return body{"source_type": "typescript", "source_code": source,
			"json_schema": body{"name": name, "description": "d", "parameters": parameters}}
	}
	person := object(body{"person": object(body{"first": text()}, "first")}, "person")
	for i, tt := range []struct {
		source     string // of a function f
		parameters body
		args       body
		want       string
	}{
		{"f<T extends {first: string}>(person: T) { return person.first; }", person,
			body{"person": body{"first": "Ann"}}, `"Ann"`},
		{"f({first}: Elsewhere) { return first; }", person, body{"person": body{"first": "Ann"}}, `"Ann"`},
		{"f({first}: {first: string}, n: number) { return first + n; }",
			object(body{"who": body{"type": "object", "description": "d"}, "n": body{"type": "integer",
				"description": "d"}}, "who", "n"), body{"who": body{"first": "Ann"}, "n": 1}, `"Ann1"`},
		{"f(query: string, most = 3) { return query + most; }", object(body{"query": text(),
			"a_limit": body{"type": "integer", "description": "d"}}, "query"), body{"query": "q", "a_limit": 5}, `"q5"`},
		{"f(x: string, y?: string) { return x + y; }", object(body{"a": text(), "b": text()}, "b"),
			body{"a": "A", "b": "B"}, `"BA"`}, // what is required comes first, as in Letta
	} {
		name := fmt.Sprintf("fits_%d", i)
		tool, agent := r.put(put(name, "export function "+strings.Replace(tt.source, "f", name, 1), tt.parameters))
		r.call(tool, agent, tt.args, tt.want)
	}
	for source, words := range map[string]string{
		"bad(a, b) { return a + b; }":                     "parameter b",
		"bad(args: {a: string, b: string}) { return 1; }": "parameter b",
		"bad(...all: string[]) { return all[0]; }":        "rest parameter",
		"bad(z: string, y: string) { return z; }":         "parameter y",
	} {
		r.refused("PUT", "/tools/", put("bad", "export function "+source, object(body{"a": text()}, "a")), 400, words)
		r.refused("PUT", "/tools/", put("bad", "export function "+source, object(body{})), 400, "")
	}
	// Python says which argument is missing, or not wanted.
	for _, source := range []string{"def f(b):\n    return b", "def f():\n    return 1"} {
		got := r.get("POST", "/tools/run", body{"source_code": source, "args": body{"a": "x"},
			"args_json_schema": object(body{"a": text()}, "a")})
		if got["status"] != "error" || !strings.Contains(fmt.Sprint(got["tool_return"]), "argument") {
			r.t.Errorf("%s: %v", source, got)
		}
	}
}

// importedNames: Letta's generated program has imports before the source.
func importedNames(r *replay) {
	r.run("def f():\n    return base64.b64encode(hashlib.md5(b'').digest()[:1]).decode(), os.sep, "+
		"sys.version_info[0], len(struct.pack('>I', 1)), pickle.loads(pickle.dumps(3)), cast(int, 4)", body{},
		"['1A==', '/', 3, 4, 3, 4]")
	r.run("async def f():\n    await asyncio.sleep(0)\n    return 1", body{}, "1")
	r.run("os = 7\ndef f():\n    return os", body{}, "7")
}

func missingModels(r *replay) {
	entry := object(body{"sku": text(), "items": body{"type": "array", "description": "d",
		"items": body{"type": "string"}}, "note": text()}, "sku", "items")
	schema := object(body{"list": body{"type": "array", "description": "d",
		"items": body{"$ref": "#/$defs/Entry"}}}, "list")
	schema["$defs"] = body{"Entry": entry}
	tool, agent := r.put(body{"args_json_schema": schema, "source_code": "def models(list: List[Entry]):\n" +
		"    \"\"\"One.\"\"\"\n    e = list[0]\n    return [e.sku, e.items, e.model_dump()['sku'], e.dict() == e, e]"})
	r.call(tool, agent, body{"list": []any{body{"sku": "a", "items": []string{"x"}}}},
		`["a",["x"],"a",true,{"items":["x"],"sku":"a"}]`)
}

// clientOfTool: a client acts with a key that its owner has given to the tool, and no tool gets one by itself.
func clientOfTool(r *replay) {
	r.run("def f():\n    return client is None and Letta is None", body{}, "True")
	r.run("export function f() { return client === null; }", body{}, "True", body{"source_type": "typescript"})
	for source, more := range map[string]body{
		"def f():\n    return client.tools.list()":            {},
		"export function f() { return client.agents.list() }": {"source_type": "typescript"},
	} {
		more["source_code"], more["args"] = source, body{}
		if got := r.get("POST", "/tools/run", more); got["status"] != "error" ||
			!strings.Contains(fmt.Sprint(got["tool_return"]), "LETTA_API_KEY") {
			r.t.Errorf("without a client: %v", got)
		}
	}
	r.run("def f():\n    return type(client) is Letta and client.key == 'the-key-of-ann', "+
		"client.url == 'http://haft.example/letta'", body{}, "[True, True]", body{
		"pip_requirements": []any{body{"name": "letta-client"}},
		"env_vars":         body{"LETTA_API_KEY": "the-key-of-ann", "LETTA_BASE_URL": "http://haft.example/letta"}})
}

func stateOfAgent(r *replay) {
	tool := r.get("PUT", "/tools/", body{"source_code": "def note(agent_state: 'AgentState', text: str):\n" +
		"    \"\"\"Note.\n\n    Args:\n        text: it\n    \"\"\"\n    m = agent_state.memory\n" +
		"    m.update_block_value(label='human', value=m.get_block('human').value + text)\n" +
		"    return [agent_state.id, agent_state.name, agent_state.system, agent_state.description, " +
		"agent_state.tags, [t.name for t in agent_state.tools], m.list_block_labels(), m.get_block('human').limit]"})
	agent := r.get("POST", "/agents/", body{"name": "noting", "tool_ids": []any{tool["id"]}, "system": "Rhyme.",
		"include_base_tools": false, "memory_blocks": []any{body{"label": "human", "value": "Ann", "limit": 99}}})
	id := agent["id"].(string)
	r.call(tool, id, body{"text": "!"}, `["`+id+`","noting","Rhyme.","",[],["note"],["human"],99]`)
	if b := r.get("GET", "/agents/"+id+"/core-memory/blocks/human", nil); b["value"] != "Ann!" {
		r.t.Errorf("the block is %v", b["value"])
	}
}

func idOfAgent(r *replay) {
	tool, id := r.put(body{"source_code": "def who(agent_id: str):\n    \"\"\"One.\"\"\"\n" +
		"    return [agent_id, os.environ['LETTA_AGENT_ID'], os.environ['LETTA_TOOL_ID']]"})
	r.call(tool, id, body{}, fmt.Sprintf("[%q,%q,%q]", id, id, tool["id"]))
	script := r.get("PUT", "/tools/", body{"source_type": "typescript",
		"source_code": "/** One. */\nexport function env() { return process.env.LETTA_AGENT_ID; }"})
	r.send("PATCH", "/agents/"+id+"/tools/attach/"+script["id"].(string), nil)
	r.call(script, id, body{}, fmt.Sprintf("%q", id))
	// Haft's own form is known here, too.
	own := r.get("GET", "/agents/"+id, nil)["metadata"].(body)["haft"].(body)["id"].(string)
	if got := r.get("GET", "/agents/"+own, nil); got["id"] != id {
		r.t.Errorf("%s is %v, want %s", own, got["id"], id)
	}
}

func noWheel(r *replay) {
	for _, name := range []string{"haftsource", "haftneeds"} { // the latter needs the former
		r.refused("PUT", "/tools/", body{"source_code": "def built():\n    \"\"\"One.\"\"\"\n    return 1",
			"pip_requirements": []any{body{"name": name}}}, 400, "haftsource")
		r.refused("PUT", "/tools/", body{"source_code": "def built():\n    \"\"\"One.\"\"\"\n    return 1",
			"pip_requirements": []any{body{"name": name}}}, 400, "--build-from-source")
	}
}

func programs(plain, open *replay) {
	const source = "import subprocess\ndef started():\n    \"\"\"One.\"\"\"\n" +
		"    return subprocess.run(['echo', 'hi'], capture_output=True, text=True).stdout.strip()"
	tool, agent := open.put(body{"source_code": source})
	open.call(tool, agent, body{}, `"hi"`)
	_, agent = plain.put(body{"source_code": source})
	got := plain.get("POST", "/agents/"+agent+"/tools/started/run", body{"args": body{}})
	if text := fmt.Sprint(got["stderr"]); got["status"] != "error" || !strings.Contains(text, "--letta-program") {
		plain.t.Errorf("a program of the host: %v", got)
	}
}

func noDataOfTypeScript(r *replay) {
	for source, want := range map[string]string{
		"return new Error('bad')": "Error: bad", "return /x/": "/x/", "return Symbol('s')": "Symbol(s)",
		"return undefined": "None", "return NaN": "nan",
		"const a: any = {}; a.a = a; return a": "<ref *1> { a: [Circular *1] }",
	} {
		r.run("export function f() { "+source+"; }", body{}, want, body{"source_type": "typescript"})
	}
	r.run("def f():\n    a = []\n    a.append(a)\n    return a", body{}, "[[...]]")
	r.run("def f():\n    return {(1, 2): 3}", body{}, "{(1, 2): 3}")
}

func publicVariables(plain, open *replay) {
	const source = "import os\ndef f():\n    return os.environ['BASE'] + '/v1'"
	env := body{"env_vars": body{"BASE": "https://api.example.com"}}
	open.run(source, body{}, "https://api.example.com/v1", env)
	plain.run(source, body{}, "[redacted:BASE]/v1", env)
	got := plain.get("POST", "/tools/run", body{"source_code": source, "args": body{}, "env_vars": env["env_vars"]})
	if !strings.Contains(fmt.Sprint(got["stderr"]), "--public-variable BASE") {
		plain.t.Errorf("nothing says what to set: %v", got)
	}
}
