package script_test

import (
	"encoding/json"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/script"
)

func TestNodeSmoke(t *testing.T) {
	x := setup(t, haft.KindJavaScript, script.Config{Cold: true})
	for _, src := range []string{
		"export async function f({a}: {a: number}): Promise<number> {\n  console.log('hi');\n  return a + 1;\n}\n",
		"interface X { a: number }\n\n\nexport function f(x: X) {\n  throw new TypeError('bad ' + x.a);\n}\n",
		"import os from 'node:os';\nimport {join} from 'path';\nfunction f() { return [typeof os.cpus, join('a','b'), 10n**20n, new Date(0), new Map([['a',1]]), new Set([1]), Buffer.from('hi'), undefined, NaN, -0]; }\n",
		"export default async function f() { await new Promise(()=>{}); }",
		"export function f() { process.exit(3); }",
		"export function f() { throw 'str'; }",
		"export function f() { Promise.reject(new Error('lost')); return new Promise(r => setTimeout(r, 1000)); }",
		"export function f() { return f(); }",
		"export function f( { }",
		"export const g = 1;",
		"export function f() { return require('child_process').execFileSync('/bin/sh', ['-c','ls /proc/self/fd']).toString(); }",
		"const x = await Promise.resolve(1); export function f() { return x; }",
	} {
		res := execute(t, x, executor.Request{Kind: haft.KindTypeScript, Source: src, Args: json.RawMessage(`{"a":1}`)})
		t.Logf("%s %s %+v %q %q %v", res.Status, res.Value, res.Error, res.Stdout, res.Stderr, res.Timeline)
	}
}
