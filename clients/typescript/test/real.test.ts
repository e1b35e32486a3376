import assert from "node:assert/strict";
import { before, test } from "node:test";

import { CallError, ConflictError, DeniedError, Haft, InvalidError, NotFoundError, TimeoutError, type ToolsetOptions, UnauthenticatedError, type Result } from "../src/index.js";
import * as module from "./tools.js";
import { all, cutting, otherKey, real, unique } from "./world.js";

const haft = real();
const tools = haft.toolsFrom(new URL("../../test/tools.ts", import.meta.url), module);

before(async () => {
  for (const tool of Object.values(tools)) await tool.register();
});

test("tools", async (t) => {
  const name = unique("tool");
  const source = (n: number): string => `/**\n * Gives ${n}.\n */\nexport function ${name}(): number { return ${n} }\n`;
  const put = (n: number) => haft.tools.put({ source_code: source(n), source_type: "typescript", tags: ["mine", name] });

  const first = await put(1);
  assert.equal(first.created, true);
  assert.equal((await put(1)).unchanged, true);
  await put(2);
  assert.equal(await haft.calls.value(name), 2);
  await assert.rejects(haft.tools.put({ source_code: source(3), source_type: "typescript", new: true }), ConflictError);
  await assert.rejects(haft.tools.put({ source_code: "export function f(", source_type: "typescript" }), InvalidError);

  await t.test("are shown and listed", async () => {
    assert.equal((await haft.tools.show(name)).version.number, 2);
    assert.equal((await haft.tools.show(first.id)).name, name);
    assert.deepEqual((await all(haft.tools.list({ tag: name }))).map((tool) => tool.name), [name]);
    assert.ok((await all(haft.tools.list({ pageSize: 3 }))).length > 3);
    assert.equal((await all(haft.tools.list({ pageSize: 2, limit: 3 }))).length, 3);
    assert.ok((await all(haft.tools.list({ search: name }))).some((tool) => tool.name === name));
    await assert.rejects(haft.tools.show(unique("none")), NotFoundError);
  });
  await t.test("have versions", async () => {
    assert.deepEqual((await all(haft.tools.versions(name, { pageSize: 1 }))).map((version) => version.number), [2, 1]);
    assert.match((await haft.tools.version(name, 1)).source_code ?? "", /Gives 1/);
    assert.equal((await haft.tools.set(name, { version: 1 })).version.number, 1);
    assert.equal(await haft.calls.value(name), 1);
  });
  await t.test("are disabled and enabled", async () => {
    assert.equal((await haft.tools.disable(name)).disabled, true);
    await assert.rejects(haft.calls.value(name));
    assert.deepEqual(await all(haft.tools.list({ tag: name })), []);
    assert.equal((await all(haft.tools.list({ tag: name, disabled: true }))).length, 1);
    assert.equal((await haft.tools.enable(name)).disabled ?? false, false);
  });
  await t.test("are given to models", async () => {
    const openai = await haft.tools.schemas("openai", { tag: name, strict: true });
    assert.deepEqual((openai.tools as { function: { name: string } }[]).map((tool) => tool.function.name), [name]);
    const anthropic = await haft.tools.schemas("anthropic", { tag: name });
    assert.equal((anthropic.tools as { name: string }[])[0]?.name, name);
    assert.deepEqual((await all(haft.tools.list({ name: ["add", name] }))).map((tool) => tool.name).sort(), ["add", name].sort());
    assert.equal(((await tools.add.schema("openai", { strict: true })) as { function: { name: string } }).function.name, "add");
    assert.deepEqual(Object.keys(((await tools.add.schema()) as { properties: object }).properties), ["a", "b"]);
    const gemini = await haft.tools.schemas("gemini", { builtins: true });
    assert.ok((gemini.tools[0] as { functionDeclarations: unknown[] }).functionDeclarations.length > 5);
    assert.ok(Array.isArray(gemini.skipped));
  });
  await t.test("are removed", async () => {
    await haft.tools.remove(name);
    await assert.rejects(haft.tools.show(name), NotFoundError);
    await assert.rejects(haft.tools.review("add", { accept: true }), ConflictError);
  });
});

test("calls", async (t) => {
  await t.test("give results, also of failures", async () => {
    const result: Result<number> = await haft.calls.run<number>("add", { a: 1, b: 2 });
    assert.equal(result.status, "success");
    assert.equal(result.value, 3);
    assert.ok(result.usage.wall_ms > 0 && result.sandbox.provider !== "");
    assert.equal((await haft.calls.run("fail")).status, "error");
    const misfit = await haft.calls.run("add", { a: "x" });
    assert.equal(misfit.status, "validation_error");
    assert.equal(misfit.error?.misfits?.[0]?.pointer, "/a");
    await assert.rejects(haft.calls.value("add", {}), CallError);
    await assert.rejects(haft.calls.run(unique("none")), NotFoundError);
  });
  await t.test("with one idempotency key run once", async () => {
    const idempotency_key = unique("key");
    const [one, two] = [await haft.calls.run("add", { a: 1 }, { idempotency_key }), await haft.calls.run("add", { a: 1 }, { idempotency_key })];
    assert.equal(one.call_id, two.call_id);
    await assert.rejects(haft.calls.run("add", { a: 2 }, { idempotency_key }), ConflictError);
  });
  await t.test("are started, waited for, shown and listed", async () => {
    const turn = unique("turn");
    const started = await haft.calls.start("add", { a: 1, b: 1 }, { turn });
    assert.ok(started.call_id);
    const result = await haft.calls.wait<number>(started.call_id);
    assert.equal(result.value, 2);
    const record = await haft.calls.show(started.call_id);
    assert.deepEqual(record.call.args, { a: 1, b: 1 });
    const listed = await all(haft.calls.list({ turn, status: ["success", "error"], since: new Date(Date.now() - 3_600_000) }));
    assert.deepEqual(listed.map((one) => one.call.id), [started.call_id]);
    assert.equal((await all(haft.calls.list({ limit: 2, pageSize: 1, sort: "created" }))).length, 2);
    assert.equal((await haft.calls.replay(started.call_id)).value, 2);
    await assert.rejects(haft.calls.show("c_none"), NotFoundError);
  });
  await t.test("are cancelled", async () => {
    const started = await tools.sleep.start();
    await assert.rejects(haft.calls.wait(started.call_id, { timeoutMs: 50 }), TimeoutError);
    await haft.calls.cancel(started.call_id);
    assert.equal((await haft.calls.wait(started.call_id)).status, "cancelled");
    await haft.calls.cancel(started.call_id);
    assert.equal(await haft.calls.cancelAll({ user: unique("nobody") }), 0);
  });
  await t.test("end when their caller leaves", async () => {
    const control = new AbortController();
    const turn = unique("turn");
    const running = haft.calls.run("sleep", {}, { signal: control.signal, turn });
    for await (const event of haft.events.watch({ tool: "sleep", type: ["tool_executing"] }, { after: 0 })) {
      const record = await haft.calls.show(event.call_id);
      if (record.call.turn === turn) break;
    }
    control.abort(new Error("enough"));
    await assert.rejects(running, /enough/);
    const [record] = await all(haft.calls.list({ turn }));
    assert.equal((await haft.calls.wait(record?.call.id ?? "")).status, "cancelled");
  });
  await t.test("come in batches", async () => {
    const results = await haft.calls.batch([{ tool: "add", args: { a: 1, b: 1 } }, { tool: "fail" }, { tool: "add", args: { a: 2, b: 2 } }]);
    assert.deepEqual(results.map((one) => [one.status, one.value]), [["success", 2], ["error", null], ["success", 4]]);
    assert.deepEqual(await haft.calls.batch([]), []);
  });
  await t.test("tell what they print", async () => {
    const started = await tools.print.start(3);
    let text = "";
    for await (const piece of haft.calls.output(started.call_id)) text += piece.text;
    assert.equal(text, "line 1\nline 2\nline 3\n");
    const events = await all(haft.calls.events(started.call_id));
    assert.equal(events[0]?.type, "tool_queued");
    assert.equal(events.at(-1)?.type, "tool_completed");
    assert.deepEqual(events.map((one) => one.seq), events.map((_, at) => at + 1));
    const rest = await all(haft.calls.events(started.call_id, { after: events[1]?.cursor }));
    assert.deepEqual(rest.map((one) => one.seq), events.slice(2).map((one) => one.seq));
  });
});

test("a watch over a connection that is cut again and again loses and repeats nothing", async (t) => {
  const proxy = await cutting(t, 3000);
  const turn = unique("turn");
  const ids: string[] = [];
  const { cursor } = (await all(haft.calls.events((await haft.calls.run("add", { a: 1 })).call_id))).at(-1) ?? { cursor: 0 };
  for (let at = 0; at < 6; at++) ids.push((await haft.calls.run("print", { count: 3 }, { turn })).call_id);
  const seen = new Map<string, number[]>(ids.map((id) => [id, []]));
  let ended = 0;
  for await (const event of real({ server: proxy.url }).events.watch({ tool: "print" }, { after: cursor })) {
    seen.get(event.call_id)?.push(event.seq);
    if (seen.has(event.call_id) && event.type === "tool_completed" && ++ended === ids.length) break;
  }
  for (const id of ids) assert.deepEqual(seen.get(id), (await all(haft.calls.events(id))).map((event) => event.seq), id);
  assert.ok(proxy.cuts() > 0, "it was cut");
});

test("chains", async () => {
  const steps = [
    { id: "one", tool: "add", args: { a: { $from: "input/a" }, b: 1 } },
    { id: "two", tool: "add", args: { a: { $from: "one.value" }, b: 1 } },
  ];
  const chain = await haft.chains.run({ input: { a: 1 }, steps });
  assert.equal(chain.status, "success");
  assert.equal(chain.steps?.[1]?.result?.value, 3);
  const started = await haft.chains.run({ input: { a: 2 }, steps, background: true });
  assert.equal((await haft.chains.wait(started.id)).steps?.[1]?.result?.value, 4);
  await assert.rejects(haft.chains.show("ch_none"), NotFoundError);
});

test("what a model returned is run, and answered in the form of its vendor", async () => {
  const openai = await haft.toolCalls<{ role: string; tool_call_id: string; content: string }[]>({
    role: "assistant",
    tool_calls: [
      { id: "call_1", type: "function", function: { name: "add", arguments: '{"a":1,"b":2}' } },
      { id: "call_2", type: "function", function: { name: "add", arguments: "{" } },
    ],
  });
  assert.deepEqual(openai.map((one) => one.tool_call_id), ["call_1", "call_2"]);
  assert.equal(openai[0]?.content, "3");
  const anthropic = await haft.toolCalls<{ role: string; content: { tool_use_id: string }[] }>(
    { role: "assistant", content: [{ type: "tool_use", id: "tu_1", name: "add", input: { a: 1, b: 2 } }] },
    { format: "anthropic", turn: unique("turn") },
  );
  assert.equal(anthropic.content[0]?.tool_use_id, "tu_1");
  await assert.rejects(haft.toolCalls({ nothing: true }), InvalidError);
});

test("what a model returned is run with one answer for every vendor", async () => {
  const answers = [
    { role: "assistant", tool_calls: [{ id: "c1", type: "function", function: { name: "add", arguments: '{"a":1,"b":2}' } }] },
    { output: [{ type: "function_call", call_id: "c1", name: "add", arguments: '{"a":1,"b":2}' }] },
    { role: "assistant", content: [{ type: "tool_use", id: "c1", name: "add", input: { a: 1, b: 2 } }] },
    { candidates: [{ content: { role: "model", parts: [{ functionCall: { id: "c1", name: "add", args: { a: 1, b: 2 } } }] } }] },
  ];
  const formats: string[] = [];
  for (const answer of answers) {
    const { format, messages, calls } = await haft.runTools(answer);
    formats.push(format);
    assert.equal(messages.length, 1);
    assert.deepEqual(calls.map(({ id, name, result }) => [id, name, result.value]), [["c1", "add", 3]]);
  }
  assert.deepEqual(formats, ["openai", "openai-responses", "anthropic", "gemini"]);
});

test("toolsets", async (t) => {
  await t.test("have no built-in tools unless they are asked for", async () => {
    const builtin = (await all(haft.tools.list({ kind: "builtin" }))).map(({ name }) => name);
    const names = async (options: ToolsetOptions): Promise<string[]> => [...(await haft.toolset([], options))].map(({ name }) => name);
    assert.ok((await names({})).includes("add") && !(await names({})).some((name) => builtin.includes(name)));
    assert.ok((await names({ builtins: true })).includes("run_code"));
    for (const format of ["openai", "openai-responses", "anthropic", "gemini", "mcp"] as const) {
      const texts = await Promise.all([{}, { builtins: true }, { name: ["run_code"] }].map(async (options) => JSON.stringify(await haft.tools.schemas(format, options))));
      assert.deepEqual(texts.map((text) => text.includes('"run_code"')), [false, true, true]);
      assert.deepEqual(texts.map((text) => text.includes('"add"')), [true, true, false]);
    }
    const agent = unique("agent");
    await haft.agents.put(agent, { tools: ["add", "run_code"] });
    assert.deepEqual([...(await haft.as(agent).toolset())].map(({ name }) => name).sort(), ["add", "run_code"]);
    assert.deepEqual((await names({ agent })).sort(), ["add", "run_code"]);
  });
  await t.test("call tools, and say what went wrong", async () => {
    const [add, fail] = await haft.toolset([tools.add, "fail"]);
    assert.equal((await add?.call({ a: 1, b: 2 }))?.text, "3");
    assert.equal(add?.parallel, true);
    const failed = await fail?.call({});
    assert.ok(failed?.failed && /Error \(exception\): .*it was to fail/.test(failed.text));
    await assert.rejects(haft.toolset([unique("none")]), NotFoundError);
    const off = unique("off");
    await haft.tool(new URL("../../test/tools.ts", import.meta.url), module.add, { name: off }).register();
    await haft.tools.disable(off);
    await assert.rejects(haft.toolset([off]), /disabled/);
  });
});

test("approvals", async (t) => {
  const name = unique("careful");
  await haft.tool(new URL("../../test/tools.ts", import.meta.url), module.add, { name, settings: { requires_approval: true } }).register();
  const bob = new Haft({ key: (await haft.keys.issue({ name, user: "bob", roles: ["admin", "approver"] })).secret });
  const ask = async (): Promise<Result> => {
    const result = await haft.calls.run(name, { a: 1, b: 2 });
    assert.equal(result.status, "pending_approval");
    return result;
  };
  await t.test("are given", async () => {
    const result = await ask();
    const id = result.approval_id ?? "";
    assert.deepEqual((await all(bob.approvals.list({ state: "pending", tool: name }))).map((one) => one.id), [id]);
    assert.deepEqual((await bob.approvals.show(id)).args, { a: 1, b: 2 });
    await assert.rejects(haft.approvals.approve(id), DeniedError, "never by the one who asked");
    const waiting = haft.calls.wait(result.call_id, { approval: true });
    assert.equal((await haft.calls.wait(result.call_id)).status, "pending_approval");
    assert.equal((await bob.approvals.approve(id, { reason: "fine", args: { a: 2, b: 2 } })).edited, true);
    assert.equal((await waiting).value, 4);
    await assert.rejects(bob.approvals.approve(id), ConflictError);
  });
  await t.test("are denied", async () => {
    const result = await ask();
    assert.equal((await bob.approvals.deny(result.approval_id ?? "", { reason: "not today" })).state, "denied");
    assert.equal((await haft.calls.wait(result.call_id, { approval: true })).status, "denied_by_approver");
  });
});

test("agents", async () => {
  const name = unique("agent");
  const made = await haft.agents.add({ name, tools: ["add"], env: { TS_SECRET: "of the agent" } });
  await assert.rejects(haft.agents.add({ name }), ConflictError);
  assert.deepEqual((await haft.agents.show(name)).tools, ["add"]);
  assert.notEqual((await haft.agents.show(made.id)).env?.["TS_SECRET"] ?? "", "of the agent", "values are never shown");
  assert.deepEqual((await all(haft.agents.list({ prefix: name }))).map((one) => one.id), [made.id]);
  await haft.agents.attach(name, "variable");
  // The tool had it, and nobody else gets to see it.
  assert.equal(await haft.calls.value("variable", {}, { agent: name }), "[redacted:TS_SECRET]");
  assert.equal(await tools.variable.with({ agent: name }).remote(), "[redacted:TS_SECRET]");
  await haft.agents.set(name, { env: { TS_SECRET: null, OTHER: "x" } });
  assert.deepEqual(Object.keys((await haft.agents.show(name)).env ?? {}), ["OTHER"]);
  const mine = haft.as(name);
  assert.deepEqual((await all(mine.tools.list())).map((one) => one.name), ["add", "variable"]);
  assert.equal(await mine.calls.value("variable"), "undefined");
  assert.deepEqual((await haft.agents.detach(name, "variable")).tools, ["add"]);
  assert.equal((await haft.agents.put(name, { disabled: true })).disabled, true);
  await haft.agents.remove(name);
  await assert.rejects(haft.agents.show(name), NotFoundError);
});

test("secrets are written and never read", async () => {
  const value = unique("value");
  await haft.secrets.put("TS_SECRET", value);
  assert.equal(await tools.variable.remote(), "[redacted:TS_SECRET]");
  const listed = await all(haft.secrets.list());
  assert.ok(listed.some((one) => one.name === "TS_SECRET" && one.fingerprint !== ""));
  assert.ok(!JSON.stringify(listed).includes(value));
  await haft.secrets.remove("TS_SECRET");
  assert.equal(await tools.variable.remote(), "undefined");
  await assert.rejects(haft.secrets.put("TS_SECRET", ""), (error) => error instanceof InvalidError && error.misfits[0]?.pointer === "/value" && error.requestId !== undefined);
});

test("keys", async () => {
  const issued = await haft.keys.issue({ name: "of a test", user: "ann", scope: ["calls:write", "tool:add"], roles: ["admin"] });
  const ann = new Haft({ key: issued.secret });
  assert.equal((await ann.whoami()).principal.user, "ann");
  assert.equal(await ann.calls.value("add", { a: 1 }), 3);
  await assert.rejects(ann.tools.put({ source_code: "x" }), DeniedError);
  await assert.rejects(ann.keys.issue({}), DeniedError);
  const signs = new Haft({ key: issued.secret, sign: true });
  assert.equal(await signs.calls.value("add", { a: 1, b: 4 }), 5, "a signed request");
  assert.equal((await signs.whoami()).principal.user, "ann");
  const rotated = await haft.keys.rotate(issued.id);
  await assert.rejects(ann.whoami(), UnauthenticatedError);
  assert.equal((await new Haft({ key: rotated.secret }).whoami()).principal.user, "ann");
  assert.equal((await haft.keys.set(issued.id, { disabled: true })).disabled, true);
  assert.ok((await all(haft.keys.list())).some((one) => one.id === issued.id));
  assert.equal((await haft.keys.show(issued.id)).name, "of a test");
  await haft.keys.remove(issued.id);
  await assert.rejects(haft.keys.show(issued.id), NotFoundError);
});

test("webhooks", async () => {
  const made = await haft.webhooks.add({ url: "https://example.com/in", types: ["approval_decided"], disabled: true });
  assert.match(made.secret, /^whsec_/);
  assert.ok(!("secret" in (await haft.webhooks.show(made.id))));
  assert.ok((await all(haft.webhooks.list())).some((one) => one.id === made.id));
  assert.equal((await haft.webhooks.put(made.id, { url: "https://example.com/other", disabled: true })).url, "https://example.com/other");
  assert.deepEqual(await all(haft.webhooks.deadLetters(made.id)), []);
  await haft.webhooks.remove(made.id);
  await assert.rejects(haft.webhooks.show(made.id), NotFoundError);
});

test("policies", { skip: otherKey === undefined && "HAFT_OTHER_KEY is not set" }, async () => {
  const eve = new Haft({ key: otherKey ?? "" });
  const first = await eve.policies.put('version: 1\nroles: {admin: ["tool:*"]}\n');
  assert.deepEqual(await eve.policies.show(), first);
  const text = `${first.text}rules:\n  - {id: no-pages, effect: deny, tools: ["tool:fetch_webpage"], reason: not here}\n`;
  await assert.rejects(eve.policies.put(text, { new: true }), ConflictError);
  const second = await eve.policies.put(text, { ifRevision: first.revision });
  assert.ok(second.revision !== "" && second.revision !== first.revision);
  await assert.rejects(eve.policies.put(text, { ifRevision: first.revision }), ConflictError);
  await assert.rejects(eve.policies.put("version: 7\n"), InvalidError);
  assert.equal((await eve.policies.show()).text, text);
  const decision = await eve.policies.explain({ tool: "fetch_webpage", args: { url: "https://example.com" } });
  assert.deepEqual([decision.effect, decision.rule], ["deny", "org/no-pages"]);
  assert.ok(decision.considered?.some((one) => one.rule === "org/no-pages" && one.matched));
  await assert.rejects(eve.policies.explain({ tool: unique("none") }), NotFoundError);
  await assert.rejects(eve.policies.show("server"), DeniedError);
});

test("sandbox configurations", async (t) => {
  const made = await haft.sandboxConfigs.add({ type: "local", limits: { wall_ms: 9000 }, network: ["api.example.com"] });
  t.after(async () => await haft.sandboxConfigs.remove("local").catch(() => undefined));
  assert.equal(made.limits?.wall_ms, 9000);
  await assert.rejects(haft.sandboxConfigs.add({ type: "local" }), ConflictError);
  const put = await haft.sandboxConfigs.put("local", { description: "ours" });
  assert.deepEqual([put.id, put.description, put.network], [made.id, "ours", undefined]);
  assert.deepEqual(await haft.sandboxConfigs.show(made.id), put);
  assert.deepEqual((await all(haft.sandboxConfigs.list())).map((one) => one.type), ["local"]);
  await haft.sandboxConfigs.remove(made.id);
  await assert.rejects(haft.sandboxConfigs.show("local"), NotFoundError);
});

test("MCP servers", async (t) => {
  const name = unique("mcp");
  const put = await haft.mcpServers.put(name, { url: "https://mcp.example.com", headers: { "X-Key": "hunter4" }, disabled: true });
  assert.deepEqual([put.server.name, put.server.transport, put.server.disabled], [name, "http", true]);
  assert.ok(!JSON.stringify(put).includes("hunter4"));
  assert.equal((await haft.mcpServers.show(put.server.id)).name, name);
  assert.ok((await all(haft.mcpServers.list())).some((one) => one.name === name));
  await assert.rejects(haft.mcpServers.refresh(name), DeniedError);
  await assert.rejects(haft.mcpServers.put(name, { url: "file:///etc/passwd" }), InvalidError);
  await haft.mcpServers.remove(name);
  await assert.rejects(haft.mcpServers.show(name), NotFoundError);

  const url = process.env["HAFT_MCP_URL"];
  await t.test("have tools", { skip: url === undefined && "HAFT_MCP_URL is not set" }, async () => {
    const change = await haft.mcpServers.put(name, { url: url ?? "", headers: { Authorization: `Bearer ${process.env["HAFT_KEY"]}` } });
    assert.equal(change.server.state?.error, undefined);
    assert.ok(change.added?.includes(`${name}__add`));
    assert.equal((await haft.mcpServers.refresh(name, { accept: true })).server.id, change.server.id);
    assert.equal((await haft.calls.run(`${name}__add`, { a: 40 })).status, "success");
    assert.equal(await haft.mcpServers.login(name, { redirect_uri: "http://127.0.0.1:1/back" }), "");
    await assert.rejects(haft.mcpServers.finishLogin(name, { state: "none such", code: "x" }));
    await haft.mcpServers.remove(name);
    await assert.rejects(haft.tools.show(`${name}__add`), NotFoundError);
  });
});

test("usage, audit and the rest", async () => {
  await tools.add.remote(1, 1);
  const sums = await haft.usage({ by: ["tool", "day"], from: new Date(Date.now() - 86_400_000) });
  assert.ok(sums.some((sum) => sum.tool === "add" && sum.calls > 0 && (sum.by_status["success"] ?? 0) > 0));
  const entries = await haft.audit.entries({ limit: 5 });
  assert.equal(entries.length, 5);
  assert.match(await haft.audit.keys(), /BEGIN/);
  let text = "";
  for await (const piece of haft.audit.export()) text += Buffer.from(piece).toString("utf8");
  assert.ok(text.trim().split("\n").length > 10);
  const health = await haft.request<{ status: string }>("GET", "/readyz");
  assert.equal(health.status, 200);
  const shown = await haft.request("GET", "/v1/tools/add");
  assert.match(shown.headers.get("ETag") ?? "", /^"/);
  await assert.rejects(haft.request("PATCH", "/v1/tools/add", { body: { tags: ["x"] }, headers: { "If-Match": '"other"' } }), ConflictError);
  const yaml = { "Content-Type": "application/yaml" };
  const policy = 'version: 1\nroles: {admin: ["tool:*"]}\napproval: {roles: [approver]}\n';
  await haft.request("PUT", "/v1/policies/organisation", { body: Buffer.from(policy), headers: yaml });
  assert.equal((await haft.request("GET", "/v1/policies/organisation")).body, policy);
  await assert.rejects(haft.request("PUT", "/v1/policies/organisation", { body: Buffer.from("version: 7"), headers: yaml }), InvalidError);
  for (const path of ["v1/tools", "//example.com/v1/tools", "/v1/tools?x=1"]) await assert.rejects(haft.request("GET", path), InvalidError);
});

test("who has no key, or that of somebody else, learns nothing", async (t) => {
  const wrong = "haft_aaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbntejriy";
  for (const key of [wrong, "nonsense", ""]) {
    // An argument that is empty does not make the environment's key of it.
    await assert.rejects(new Haft({ key }).tools.show("add"), (error) => error instanceof UnauthenticatedError && error.requestId !== undefined);
    await assert.rejects(all(new Haft({ key }).events.watch()), UnauthenticatedError);
    await assert.rejects(new Haft({ key }).calls.run("add", { a: 1 }), UnauthenticatedError);
  }
  await t.test("of another organisation: there is no such thing", { skip: otherKey === undefined && "HAFT_OTHER_KEY is not set" }, async () => {
    const eve = new Haft({ key: otherKey ?? "" });
    const { call_id } = await haft.calls.run("add", { a: 1 });
    const agent = await haft.agents.add({ name: unique("hidden") });
    for (const look of [
      () => eve.tools.show("add"),
      () => eve.calls.run("add", { a: 1 }),
      () => eve.calls.show(call_id),
      () => eve.calls.replay(call_id),
      () => eve.agents.show(agent.id),
      () => eve.agents.remove(agent.name),
      () => all(eve.calls.events(call_id)),
      () => eve.tools.remove("add"),
    ]) {
      await assert.rejects(look(), (error) => error instanceof NotFoundError && !error.message.includes(call_id));
    }
    assert.deepEqual(await all(eve.tools.list({ kind: "typescript" })), []);
    assert.ok((await all(eve.calls.list())).every((one) => one.call.principal.user === "eve"), "her own, which were refused");
    assert.equal((await haft.tools.show("add")).name, "add");
  });
});
