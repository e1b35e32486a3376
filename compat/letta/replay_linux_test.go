package letta_test

// object is a JSON Schema of an object with these properties.
func object(properties body, required ...string) body {
	return body{"type": "object", "properties": properties, "required": append([]string{}, required...)}
}

// text is the JSON Schema of a text.
func text() body { return body{"type": "string", "description": "d"} }

func optionalWithoutDefault(r *replay) {
	for _, source := range []string{
		"from typing import Optional\ndef f(x: Optional[int]):\n    return x",
		"from typing import Union\ndef f(x: Union[int, None]):\n    return x",
		"from typing import Union\ndef f(x: Union[None, int, str]):\n    return x",
		"def f(x: int | None):\n    return x",
		"def f(x: None | int):\n    return x",
		"def f(x: 'int | None'):\n    return x",
		"from __future__ import annotations\nfrom typing import Optional\ndef f(x: Optional[int]):\n    return x",
		"from typing import Optional, List\ndef f(x: Optional[List[int]]):\n    return x",
		"from typing import Annotated, Optional\ndef f(x: Annotated[Optional[int], 'it']):\n    return x",
		"import typing as t\ndef f(*, x: t.Optional[int]):\n    return x",
		"from typing import Optional\nN = Optional[int]\ndef f(x: N):\n    return x",
		"from typing import Optional\ndef f(x: Optional[int], y: int = 1):\n    return x",
		"def f(x: Optional[int]):\n    return x",
	} {
		r.run(source, body{"x": nil}, "None")
		r.run(source, body{}, "None")
	}
	tool, agent := r.put(body{"source_code": "from typing import Optional\n" +
		"def one(x: Optional[int]):\n    \"\"\"One.\n\n    Args:\n        x: it\n    \"\"\"\n    return x"})
	r.call(tool, agent, body{"x": nil}, "null")
	r.call(tool, agent, body{}, "null")
	r.call(tool, agent, body{"x": 5}, "5")
}

func typescriptWithSchema(r *replay) {
	person := object(body{"firstName": text(), "lastName": text()}, "firstName", "lastName")
	john := body{"firstName": "John", "lastName": "Doe"}
	for _, tt := range []struct {
		name, source string
		parameters   body
		args         body
		want         string
	}{
		{"an interface", "interface Person { firstName: string; lastName: string }\n" +
			"export function get_name(person: Person): string { return `${person.firstName} ${person.lastName}`; }",
			object(body{"person": person}, "person"), body{"person": john}, `"John Doe"`},
		{"a literal type", "export function get_literal(person: {firstName: string, lastName: string}): string " +
			"{ return `${person.firstName} ${person.lastName}`; }",
			object(body{"person": person}, "person"), body{"person": john}, `"John Doe"`},
		{"another name", "export function get_other(p: {firstName: string, lastName: string}): string " +
			"{ return `${p.firstName} ${p.lastName}`; }",
			object(body{"person": person}, "person"), body{"person": john}, `"John Doe"`},
		{"a destructured parameter", "export function get_parts({firstName, lastName}: " +
			"{firstName: string, lastName: string}): string { return `${firstName} ${lastName}`; }",
			object(body{"person": person}, "person"), body{"person": john}, `"John Doe"`},
		{"all arguments as one object", "export function get_whole(person: {firstName: string, lastName: string}): " +
			"string { return `${person.firstName} ${person.lastName}`; }", person, john, `"John Doe"`},
		{"a type that is not there", "export function get_unknown(person: Elsewhere): string " +
			"{ return `${person.firstName} ${person.lastName}`; }",
			object(body{"person": person}, "person"), body{"person": john}, `"John Doe"`},
		{"no type", "export function get_any(person: any): string { return `${person.firstName} ${person.lastName}`; }",
			object(body{"person": person}, "person"), body{"person": john}, `"John Doe"`},
		{"no type and all arguments", "export function get_all(args: any): string " +
			"{ return `${args.firstName} ${args.lastName}`; }", person, john, `"John Doe"`},
		{"by position", "export function get_both(a: string, b: string): string { return `${a} ${b}`; }",
			person, john, `"John Doe"`},
		{"by name in another order", "export function get_swapped(lastName: string, firstName: string): string " +
			"{ return `${firstName} ${lastName}`; }", person, john, `"John Doe"`},
	} {
		name := tt.source[len("export function "):]
		if tt.name == "an interface" {
			name = "get_name("
		}
		for i := range name {
			if name[i] == '(' {
				name = name[:i]
				break
			}
		}
		schema := body{"name": name, "description": "d", "parameters": tt.parameters}
		tool, agent := r.put(body{"source_code": tt.source, "source_type": "typescript", "json_schema": schema})
		r.call(tool, agent, tt.args, tt.want)
		r.run(tt.source, tt.args, "John Doe", body{"source_type": "typescript", "json_schema": schema})
	}
	// What would see undefined is refused when it is registered.
	r.refused("PUT", "/tools/", body{"source_type": "typescript",
		"source_code": "export function get_bad(a: string, b: string): string { return `${a} ${b}`; }",
		"json_schema": body{"name": "get_bad", "description": "d", "parameters": object(body{"a": text()}, "a")}},
		400, "parameter b of the function")
}

func otherValue(r *replay) {
	for source, want := range map[string]string{
		"def f() -> str:\n    return None":                                     "None",
		"def f() -> str:\n    return {'a': 1}":                                 "{'a': 1}",
		"def f() -> str:\n    return 5":                                        "5",
		"def f() -> int:\n    return 'five'":                                   "five",
		"def f() -> list[int]:\n    return {'a': [1]}":                         "{'a': [1]}",
		"import os\ndef f() -> str:\n    return os.environ.get('NOT_SET_YET')": "None",
	} {
		r.run(source, body{}, want)
	}
	tool, agent := r.put(body{"source_code": "def get_env() -> str:\n    \"\"\"Env.\"\"\"\n    return None"})
	r.call(tool, agent, body{}, "null")
	tool = r.get("PATCH", "/tools/"+tool["id"].(string),
		body{"source_code": "def get_env() -> str:\n    \"\"\"Env.\"\"\"\n    return {'a': 1}"})
	r.call(tool, agent, body{}, `{"a":1}`)
}

func missingImports(r *replay) {
	const source = "def f(x: Optional[int] = None, y: List[Dict[str, Any]] = []) -> Union[str, None]:\n    return x"
	r.run(source, body{"x": 7}, "7")
	r.run(source, body{}, "None")
	tool, agent := r.put(body{"source_code": "def from_function(x: Optional[int]) -> Optional[int]:\n" +
		"    \"\"\"One.\n\n    Args:\n        x: it\n    \"\"\"\n    return x"})
	r.call(tool, agent, body{"x": 3}, "3")
	r.call(tool, agent, body{}, "null")
	r.run("N = 1\ndef f(x: Optional[int] = N):\n    return x", body{}, "1")
	// A name that the function uses is missing, as ever, and nothing runs twice.
	got := r.get("POST", "/tools/run", body{"args": body{"x": 1}, "args_json_schema": object(body{"x": body{}}, "x"),
		"source_code": "print('once')\ndef f(x: Elsewhere):\n    return x"})
	if out, _ := got["stdout"].([]any); got["status"] != "error" || len(out) != 1 || out[0] != "once\n" {
		r.t.Errorf("a name that is missing: %v", got)
	}
}

func argsSchema(r *replay) {
	entry := object(body{"sku": text(), "count": body{"type": "integer", "description": "d"}}, "sku", "count")
	schema := object(body{"entry": body{"$ref": "#/$defs/Entry"}, "n": body{"type": "integer", "description": "d"}},
		"entry", "n")
	schema["$defs"] = body{"Entry": entry}
	args := body{"entry": body{"sku": "a1", "count": 2}, "n": 3}
	for _, source := range []string{
		"def order(entry, n):\n    \"\"\"Order.\"\"\"\n    return f'{entry.sku} {entry.count * n}'",
		"def order(entry: Entry, n: int) -> str:\n    \"\"\"Order.\"\"\"\n    return f'{entry.sku} {entry.count * n}'",
		"def order(entry: 'Entry', n):\n    \"\"\"Order.\"\"\"\n    return f\"{entry['sku']} {entry['count'] * n}\"",
	} {
		tool := r.get("PUT", "/tools/", body{"source_code": source, "args_json_schema": schema})
		r.run(source, args, "a1 6", body{"args_json_schema": schema})
		if tool["name"] != "order" {
			r.t.Errorf("%s is called %v", source, tool["name"])
		}
		// A person has to agree, and that stays when the same is sent again.
		r.get("PATCH", "/tools/"+tool["id"].(string), body{"default_requires_approval": true})
		again := r.get("PUT", "/tools/", body{"source_code": source + "\n# again", "args_json_schema": schema})
		if again["default_requires_approval"] != true || again["id"] != tool["id"] {
			r.t.Errorf("%s lost its approval: %v", source, again["default_requires_approval"])
		}
		r.get("PATCH", "/tools/"+tool["id"].(string), body{"default_requires_approval": false})
	}
	tool, agent := r.put(body{"source_code": "def order(entry, n):\n    \"\"\"Order.\"\"\"\n    return entry.sku",
		"args_json_schema": schema})
	r.call(tool, agent, args, `"a1"`)
}

func coercions(r *replay) {
	const source = "def f(s: str = '', l: list = [], b: bool = False, d: dict = {}):\n    return [s, l, b, d]"
	for _, tt := range []struct {
		args body
		want string
	}{
		{body{"s": 123}, "['123', [], False, {}]"},
		{body{"s": 1.5}, "['1.5', [], False, {}]"},
		{body{"s": true}, "['True', [], False, {}]"},
		{body{"l": "[1, {'a': 5}]"}, "['', [1, {'a': 5}], False, {}]"},
		{body{"l": "(1, 'it\\'s', True, None,)"}, `['', [1, "it's", True, None], False, {}]`},
		{body{"b": 1}, "['', [], True, {}]"},
		{body{"b": 0}, "['', [], False, {}]"},
		{body{"d": "{'a': (1, 2)}"}, "['', [], False, {'a': [1, 2]}]"},
	} {
		r.run(source, tt.args, tt.want)
	}
	tool, agent := r.put(body{"source_code": "def coerced(s: str):\n    \"\"\"One.\n\n    Args:\n        s: it\n" +
		"    \"\"\"\n    return s"})
	r.call(tool, agent, body{"s": 12}, `"12"`)
	// What Python would not convert either is refused before anything runs.
	for _, args := range []body{{"l": "[1, open('x')]"}, {"l": "5"}, {"b": 2}, {"b": "yes"}, {"s": []int{1}}} {
		got := r.get("POST", "/tools/run", body{"source_code": source, "args": args})
		if got["status"] != "error" {
			r.t.Errorf("%v: %v %v", args, got["status"], got["tool_return"])
		}
	}
}

func danglingReference(r *replay) {
	r.refused("PUT", "/tools/", body{"source_code": "def dangling(x):\n    \"\"\"One.\"\"\"\n    return 1",
		"json_schema": body{"name": "dangling", "description": "d",
			"parameters": object(body{"x": body{"$ref": "#/$defs/None"}}, "x")}}, 400, "$ref")
}

func noData(r *replay) {
	for source, want := range map[string]string{
		"def f():\n    return ValueError('bad')":                                            "bad",
		"def f():\n    return complex(1, 2)":                                                "(1+2j)",
		"class A:\n    def __str__(self):\n        return 'an A'\ndef f():\n    return A()": "an A",
		"def f():\n    return {'e': [KeyError('k')]}":                                       `{'e': ["'k'"]}`,
		"def f():\n    return b'abc'":                                                       "b'abc'",
		"def f():\n    return float('nan')":                                                 "nan",
		"def f():\n    return [float('inf'), -float('inf')]":                                "[inf, -inf]",
	} {
		r.run(source, body{}, want)
	}
	tool, agent := r.put(body{"source_code": "def no_data():\n    \"\"\"One.\"\"\"\n" +
		"    return [ValueError('bad'), b'abc', float('nan')]"})
	r.call(tool, agent, body{}, `["bad","abc","nan"]`)
}

func otherPackages(r *replay) {
	tool, agent := r.put(body{"source_code": "def other():\n    \"\"\"One.\"\"\"\n    return 1",
		"npm_requirements": []any{body{"name": "zod"}}})
	r.call(tool, agent, body{}, "1")
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
