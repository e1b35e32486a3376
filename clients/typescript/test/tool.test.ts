import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { CallError, ConflictError, InvalidError, ReviewError, SourceError, type Json, type RemoteTool } from "../src/index.js";
import { readSource } from "../src/source.js";
import * as module from "./tools.js";
import { all, fake, real, reply, unique } from "./world.js";

/** The TypeScript file itself. The module that is imported here is what the compiler made of it. */
const source = new URL("../../test/tools.ts", import.meta.url);
const compiled = new URL("./tools.js", import.meta.url);

/** Checks types: it compiles if they are the same. */
function same<A, B>(..._: [A] extends [B] ? ([B] extends [A] ? [] : [never]) : [never]): void {}

/** Writes files for one test. */
function files(t: TestContext, texts: { [name: string]: string }): (name: string) => string {
  const dir = mkdtempSync(join(tmpdir(), "haft-client-"));
  t.after(() => rmSync(dir, { recursive: true }));
  for (const [name, text] of Object.entries(texts)) {
    mkdirSync(join(dir, name, ".."), { recursive: true });
    writeFileSync(join(dir, name), text);
  }
  return (name) => join(dir, name);
}

test("a function of this program runs in a sandbox of the server", async (t) => {
  const haft = real();
  const tools = haft.toolsFrom(source, module, { category: "of-the-tests" });

  await t.test("with the arguments and the value that it has here", async () => {
    same<typeof tools.add, RemoteTool<(a: number, b?: number) => number>>();
    const sum: number = await tools.add.remote(2, 3);
    assert.equal(sum, 5);
    assert.equal(await tools.add.remote(2), 4, "a default is that of the source");
    assert.equal(await tools.count.remote(new Set(["a", "b"])), 2);
    const greeting = await tools.greet.remote({ name: "Ann" });
    same<typeof greeting, { text: string; at: string }>();
    assert.deepEqual(greeting, { text: "hello, Ann", at: "1970-01-01T00:00:00Z" });
    same<Json<Map<string, Date | undefined>>, { [name: string]: string | null }>();
    same<Json<{ a: any; b: unknown; c?: [bigint, Set<URL>] }>, { a: any; b: unknown; c?: [number, string[]] | null }>();
    same<Json<void>, null>();
    assert.equal("answer" in tools || "Shelf" in tools, false);
    // @ts-expect-error -- the types of the function hold
    await assert.rejects(tools.add.remote("two"), (error) => error instanceof CallError && error.result.status === "validation_error" && error.misfits[0]?.pointer === "/a");
    // @ts-expect-error -- so does their number
    await assert.rejects(tools.add.remote(1, 2, 3), InvalidError);
  });

  await t.test("and its failure is an error with the result", async () => {
    await assert.rejects(tools.fail.remote(), (error) => {
      assert.ok(error instanceof CallError);
      assert.equal(error.code, "failed");
      assert.equal(error.result.status, "error");
      assert.equal(error.result.error?.type, "TypeError");
      assert.match(error.message, /it was to fail/);
      return true;
    });
    const result = await tools.fail.call();
    assert.equal(result.status, "error");
  });

  await t.test("and what Haft fills in is not sent", async () => {
    assert.equal(await tools.whose.remote("agent ", "of mine"), "agent null");
    const shown = await haft.tools.show("whose");
    assert.deepEqual(shown.version.injected, ["agent_id"]);
  });

  await t.test("from what the compiler made of it, too", async () => {
    const name = unique("add");
    const tool = haft.tool(compiled, module.add, { name });
    assert.equal(tool.name, name);
    const added = await tool.register();
    t.after(() => haft.tools.remove(name));
    assert.equal(added.created, true);
    assert.equal(added.version.kind, "typescript");
    assert.equal(added.version.function, "add");
    assert.equal((await tool.register({ again: true })).unchanged, true);
    assert.equal(await tool.with({ turn: "t_1" }).remote(1, 1), 2);
    const [last] = await all(haft.calls.list({ tool: name, limit: 1 }));
    assert.equal(last?.call.turn, "t_1");
    const started = await tool.start(20, 22);
    assert.equal((await haft.calls.wait(started.call_id)).value, 42);
  });

  await t.test("JavaScript too, by its comments", async (t) => {
    const at = files(t, { "js.mjs": "/**\n * Doubles.\n * @param {number} n What.\n * @returns {number}\n */\nexport function double(n) { return 2 * n; }\n" });
    const { double } = (await import(at("js.mjs"))) as { double: (n: number) => number };
    assert.equal(await haft.tool(at("js.mjs"), double).remote(21), 42);
  });

  await t.test("but not what a compiler left of it", async (t) => {
    const at = files(t, { "bare.js": "export function add(a, b) { return a + b; }\n" });
    await assert.rejects(haft.tool(at("bare.js"), module.add).register(), (error) => error instanceof InvalidError && /no type/.test(error.message) && /source map/.test(error.message));
  });

  await t.test("and what the server refuses is told", async (t) => {
    const at = files(t, { "bad.ts": "/** Hides. */\nfunction hidden(): number { return 1 }\nexport const x = hidden;\n" });
    function hidden(): number {
      return 1;
    }
    await assert.rejects(haft.tool(at("bad.ts"), hidden).remote(), (error) => error instanceof InvalidError && /not exported/.test(error.message));
  });
});

test("making a tool reads and sends nothing, and calls that come at once register once", async (t) => {
  const server = await fake(t, (request, response) => {
    if (request.url === "/v1/tools") reply(response, 201, { name: "add", version: { pass: [{ name: "a" }, { name: "b" }] } });
    else reply(response, 200, { status: "success", value: 3 });
  });
  const tool = server.client().tool("/nowhere/at/all.ts", module.add);
  assert.equal(tool.name, "add");
  await assert.rejects(tool.remote(1, 2), SourceError);
  assert.equal(server.asked.length, 0);
  const tools = server.client().toolsFrom(source, module);
  assert.deepEqual(await Promise.all([tools.add.remote(1, 2), tools.add.remote(1, 2), tools.add.with({}).remote(1, 2)]), [3, 3, 3]);
  assert.equal(server.asked.filter((one) => one.url === "/v1/tools").length, 1);
  assert.deepEqual((JSON.parse(server.asked[1]?.body ?? "") as { args: unknown }).args, { a: 1, b: 2 });
});

test("a registration that fails is tried again", async (t) => {
  const server = await fake(t, (request, response, count) => {
    if (count === 1) reply(response, 503, { code: "unavailable", detail: "away" });
    else if (request.url === "/v1/tools") reply(response, 200, { name: "add", version: {} });
    else reply(response, 200, { status: "success", value: 3 });
  });
  const tool = server.client().tool(source, module.add);
  await assert.rejects(tool.remote(1, 2), { code: "unavailable" });
  await assert.rejects(tool.remote(1, 2), { code: "invalid", message: /one object/ });
});

test("a version that waits for review is not mistaken for the one that runs", async (t) => {
  const server = await fake(t, (_, response) => reply(response, 201, { name: "add", waiting: 2, version: {} }));
  await assert.rejects(server.client().tool(source, module.add).remote(1, 2), (error) => error instanceof ReviewError && error instanceof ConflictError);
});

test("what cannot be had is told", async (t) => {
  const map = (sources: string[], sourcesContent?: string[]): string => JSON.stringify({ version: 3, sources, sourcesContent, mappings: "" });
  const inline = Buffer.from(map(["x.ts"], ["export function f() {}"])).toString("base64");
  const at = files(t, {
    "bundle.js": "function f(){}\n//# sourceMappingURL=bundle.js.map\n",
    "bundle.js.map": map(["a.ts", "b.ts"]),
    "none.js": "//# sourceMappingURL=none.js.map",
    "none.js.map": map([]),
    "lost.js": "//# sourceMappingURL=lost.js.map",
    "broken.js": "//# sourceMappingURL=broken.js.map",
    "broken.js.map": "{",
    "gone.js": "//# sourceMappingURL=gone.js.map",
    "gone.js.map": map(["../src/gone.ts"]),
    "dist/built.js": "//# sourceMappingURL=built.js.map",
    "dist/built.js.map": map(["../src/built.ts"]),
    "src/built.ts": "export function built() {}",
    "inline.js": `//# sourceMappingURL=data:application/json;base64,${inline}`,
    "relative.ts": 'import { x } from "./x.ts";\nexport function f() {}',
    "several.ts": 'import {\n  a,\n  b,\n} from "../x.js";\nexport function f() {}',
    "again.ts": 'export { x } from "./x.ts";',
    "effect.ts": 'import "./x.ts";',
    "own.ts": 'import { Haft } from "@haft/client";\nexport function f() {}',
    "fine.ts": 'import type { X } from "./x.ts";\nimport { readFileSync } from "node:fs";\nimport { z } from "zod";\nconst s = "import x from \'./x.ts\'";\nexport function f() {}',
    "large.ts": `export function f() {}\n${"//".padEnd(1 << 19, "x")}`,
    "view.tsx": "export function f() {}",
    "notes.txt": "f",
  });
  const faults: { [name: string]: [string | URL, RegExp] } = {
    "a bundle": [at("bundle.js"), /made of 2 files/],
    "a map without sources": [at("none.js"), /names no source/],
    "a map that is not there": [at("lost.js"), /cannot be read/],
    "a map that is none": [at("broken.js"), /cannot be read/],
    "a source that is not there": [at("gone.js"), /gone\.ts cannot be read/],
    "a relative import": [at("relative.ts"), /imports \.\/x\.ts/],
    "a relative import over several lines": [at("several.ts"), /imports \.\.\/x\.js/],
    "an export of another file": [at("again.ts"), /imports \.\/x\.ts/],
    "an import for its effect": [at("effect.ts"), /imports \.\/x\.ts/],
    "an import of the client": [at("own.ts"), /@haft\/client/],
    "a file that is too large": [at("large.ts"), /more than/],
    "JSX": [at("view.tsx"), /JSX/],
    "another language": [at("notes.txt"), /neither/],
    "an address of a web server": ["https://example.com/tools.ts", /not from https:/],
    "a module of a loader": [new URL("data:text/javascript,"), /not from data:/],
  };
  for (const [name, [file, message]] of Object.entries(faults)) {
    await t.test(name, () => assert.rejects(readSource(file), (error) => error instanceof SourceError && message.test(error.message)));
  }
  assert.equal((await readSource(at("fine.ts"))).kind, "typescript");
  assert.equal((await readSource(at("inline.js"))).text, "export function f() {}");
  assert.deepEqual(await readSource(at("dist/built.js")), { file: "built.ts", kind: "typescript", text: "export function built() {}" });

  const server = await fake(t, (_, response) => reply(response, 500, {}));
  const client = server.client();
  const elsewhere = { renamed: (n: number): number => n };
  await t.test("a function of another file", () => assert.rejects(client.tool(source, elsewhere.renamed).register(), (error) => error instanceof SourceError && /does not speak of renamed/.test(error.message)));
  await t.test("a function without a name", () => assert.throws(() => client.tool(source, (() => () => 1)()), SourceError));
  await t.test("a bound function", () => assert.throws(() => client.tool(source, module.add.bind(null)), SourceError));
  await t.test("no function", () => assert.throws(() => client.tool(source, 7 as unknown as () => void), InvalidError));
  await t.test("a module without functions", () => assert.throws(() => client.toolsFrom(source, { answer: 42 }), SourceError));
  assert.equal(server.asked.length, 0);
});
