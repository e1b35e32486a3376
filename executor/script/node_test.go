package script_test

import (
	"encoding/json"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/script"
)

// nodeCases are tools in TypeScript and JavaScript.
var nodeCases = []toolCase{
	{name: "named_export", source: "export function f({a}: {a: number}): number {\n  console.log('hi');\n  return a " +
		"+ 1;\n}", args: `{"a":1}`, want: `2`, stdout: "hi\n"},
	{name: "default_export", source: "export default async function f(x: any) { return x.a }", args: `{"a":1}`,
		want: `1`},
	{name: "arrow", source: "export const f = async ({a}) => [a];", args: `{"a":1}`, want: `[1]`},
	{name: "not_exported", source: "function f() { return 1 }", want: `1`},
	{name: "commonjs", source: "module.exports = { f: () => 1 };", want: `1`},
	{name: "commonjs_function", source: "module.exports = function f() { return 1 };", want: `1`},
	{name: "imports_of_builtins", source: "import os from 'node:os';\nimport { join } from 'path';\nimport * as fs " +
		"from 'fs/promises';\nexport async function f() { return [typeof os.cpus, join('a', 'b'), typeof " +
		"fs.readFile, typeof (await import('node:url')).URL] }", want: `["function","a/b","function","function"]`},
	{name: "types", source: "enum C { A = 'a' }\ninterface X { n?: number }\ntype Y = X & { c: C };\nexport " +
		"function f(y: Y): string { const z = y as unknown as X; return C.A + (z.n ?? 0) }", want: `"a0"`},
	{name: "values", source: "export function f() { return [undefined, null, true, 1.5, -0, 1e21, 10n ** 20n, 'ü', " +
		"new Date(0), new Date(500), new Map<any, any>([['a', 1], [2, new Set([3])]]), Buffer.from('hi'), new " +
		"Uint8Array([104, 105]), new Float32Array([1]), NaN, -Infinity, new URL('http://x/'), { u: undefined, a: 1 " +
		"}, [, 1], { toJSON() { return { j: 1n } } }, new (class P { x = 1 })()] }",
		want: `[null,null,true,1.5,-0,1e+21,100000000000000000000,"ü","1970-01-01T00:00:00Z","1970-01-01T00:00:00.5Z",{"a":1,"2":[3]},{"$type":"bytes","base64":"aGk="},{"$type":"bytes","base64":"aGk="},[1],{"$type":"float","value":"NaN"},{"$type":"float","value":"-Infinity"},"http://x/",{"a":1},[null,1],{"j":1},{"x":1}]`},
	{name: "function_value", source: "export function f() { return { a: [f] } }", kind: haft.FailValue,
		says: []string{"value.a[0]: a function is not data"}},
	{name: "promise_inside", source: "export function f() { return [Promise.resolve(1)] }", kind: haft.FailValue,
		says: []string{"await it first"}},
	{name: "cycle", source: "export function f() { const a: any = {}; a.b = [a]; return a }", kind: haft.FailValue,
		says: []string{"value.b[0]: it contains itself"}},
	{name: "deep", source: "export function f() { let a: any = 1; for (let i = 0; i < 200; i++) a = [a]; return a }",
		kind: haft.FailValue, says: []string{"nested more than 100 deep"}},
	{name: "too_long", source: "export function f() { return 'x'.repeat(5 << 20) }", kind: haft.FailResult,
		status: haft.StatusLimit},
	{name: "half_a_surrogate_pair", source: "export function f() { return '\\ud800' }", kind: haft.FailValue,
		says: []string{"half a surrogate pair"}},
	{name: "throws", source: "interface X { a: number }\n\n\nexport function f(x: X) {\n  return " +
		"g(x.a);\n}\nfunction g(n: number): never {\n  throw new TypeError('bad');\n}", kind: haft.FailException,
		says: []string{"TypeError\nbad", "at g (tool.ts:8:9)", "at f (tool.ts:5:10)"}},
	{name: "throws_async", source: "export async function f() {\n  await null;\n  throw new Error('late');\n}",
		kind: haft.FailException, says: []string{"late", "tool.ts:3:9"}},
	{name: "throws_a_string", source: "export function f() { throw 'str' }", kind: haft.FailException,
		says: []string{"no Error: str"}},
	{name: "throws_nothing", source: "export function f() { throw undefined }", kind: haft.FailException},
	{name: "rejects_elsewhere", source: "export function f() { Promise.reject(new Error('lost')); return new " +
		"Promise(r => setTimeout(r, 5000)) }", kind: haft.FailException, says: []string{"lost"}},
	{name: "throws_in_a_timer", source: "export function f() { setTimeout(() => { throw new Error('timer') }, 1); " +
		"return new Promise(r => setTimeout(r, 5000)) }", kind: haft.FailException, says: []string{"timer"}},
	{name: "never_settles", source: "export function f() { return new Promise(() => {}) }", kind: haft.FailException,
		says: []string{"never settles"}},
	{name: "exits", source: "export function f() { process.exit(3) }", kind: haft.FailExit, says: []string{"status 3"}},
	{name: "exits_0", source: "export function f() { process.exit(0) }", kind: haft.FailExit,
		says: []string{"status 0"}},
	{name: "aborts", source: "export function f() { process.abort() }", kind: haft.FailSignal,
		says: []string{"signal 6"}},
	{name: "recursion", source: "export function f() { return f() }", kind: haft.FailRecursion},
	{name: "syntax", source: "export function f() {\n  return (1;\n}", kind: haft.FailSource, says: []string{"line "}},
	{name: "await_at_the_top", source: "import { join } from 'node:path';\nconst x: string = await " +
		"Promise.resolve(join('a', 'b'));\nexport async function f() { return x }", want: `"a/b"`},
	{name: "await_at_the_top_not_exported", source: "const x = await 1;\nfunction f() { return x }", want: `1`},
	{name: "await_at_the_top_and_throw", source: "const x = await 1;\n\nexport function f() {\n  throw new " +
		"Error('e');\n}", kind: haft.FailException, says: []string{"at f (tool.ts:4:9)"}, hides: []string{"data:"}},
	{name: "await_at_the_top_that_fails", source: "await Promise.reject(new Error('early'));\nexport function f() {}",
		kind: haft.FailException, says: []string{"early"}},
	{name: "many_functions_inside_each_other", source: "export function f() { return 1 }\n" +
		strings.Repeat("function g(){let y;", 250) + strings.Repeat("}", 250), want: `1`},
	{name: "a_million_brackets", source: "export const f = " + strings.Repeat("(", 1_000_000), kind: haft.FailSource},
	{name: "a_million_operators", source: "export const f = " + strings.Repeat("!", 1_000_000) + "1",
		kind: haft.FailSource},
	{name: "arrows_without_end", source: "export const f = " + strings.Repeat("a?(b):c=>", 1000) + "1",
		kind: haft.FailSource},
	{name: "no_such_function", source: "export const g = 1", kind: haft.FailSource,
		says: []string{"there is no function f"}},
	{name: "throws_at_import", source: "\nthrow new Error('early');\nexport function f() {}", kind: haft.FailException,
		says: []string{"early", "tool.ts:2:"}},
	{name: "timer_left_behind", source: "export function f() { setInterval(() => {}, 1000); return 1 }", want: `1`},
	{name: "patches_everything", source: "export function f() {\n  (JSON as any).stringify = (Array as any).isArray " +
		"= (Object as any).keys = (Buffer as any).from = null;\n  Array.prototype.push = Array.prototype.join = " +
		"null as any; Map.prototype.forEach = null as any; RegExp.prototype.test = null as any;\n  return { a: [new " +
		"Map([['b', 'c']])] } }", want: `{"a":[{"b":"c"}]}`},
	{name: "closes_the_channel", source: "import fs from 'fs';\nexport function f() { fs.closeSync(3); return 1 }",
		kind: haft.FailProtocol},
	{name: "corrupts_the_channel", source: "import fs from 'fs';\nexport function f() { fs.writeSync(3, 'garbage'); " +
		"return 1 }", kind: haft.FailProtocol},
	{name: "two_results", source: "import fs from 'fs';\nexport function f() { const b = Buffer.from('    " +
		"{\"type\":\"result\",\"value\":1}'); b.writeUInt32BE(b.length - 4); fs.writeSync(3, b); return 2 }",
		kind: haft.FailProtocol},
}

func TestNode(t *testing.T) {
	x := setup(t, haft.KindJavaScript, script.Config{})
	for _, c := range nodeCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, x, haft.KindTypeScript) })
	}
}

func TestNode_passes_arguments_by_position(t *testing.T) {
	x := setup(t, haft.KindJavaScript, script.Config{})
	res := execute(t, x, executor.Request{
		Kind: haft.KindJavaScript, Source: "export function f(a, b = 5, o, id) { return [a, b, o, id] }",
		Args:   json.RawMessage(`{"a":1,"x":2}`),
		Inject: map[string]json.RawMessage{"agent_id": json.RawMessage(`"A"`), "more": json.RawMessage(`true`)},
		Pass:   []executor.Argument{{Name: "a"}, {Name: "b"}, {Whole: true}, {Name: "agent_id"}},
	})
	if want := `[1,5,{"a":1,"x":2,"more":true},"A"]`; string(res.Value) != want {
		t.Errorf("got %s %+v, want %s", res.Value, res.Error, want)
	}
}
