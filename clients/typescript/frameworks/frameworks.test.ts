// The agents of frameworks run their tools on the server: real frameworks, a model that follows a script.

import assert from "node:assert/strict";
import { before, test, type TestContext } from "node:test";

import { createOpenAI } from "@ai-sdk/openai";
import { ChatOpenAI } from "@langchain/openai";
import * as ai from "ai";
import * as langchain from "langchain";

import { Haft, type Result, type ToolLike, type ToolsetOptions } from "../src/index.js";
import * as functions from "../test/tools.js";
import { all, real, unique } from "../test/world.js";
import { type Model, calls, serve } from "./model.js";

const haft = real();
const tools = haft.toolsFrom(new URL("../../test/tools.ts", import.meta.url), functions);
const alone = haft.tool(new URL("../../test/tools.ts", import.meta.url), functions.sleep, { name: "sleep_alone", settings: { parallel: false } });
const guarded = haft.tool(new URL("../../test/tools.ts", import.meta.url), functions.add, { name: "add_guarded", settings: { requires_approval: true } });
const key = process.env["HAFT_KEY"] ?? "";

before(async () => {
  for (const tool of [...Object.values(tools), alone, guarded]) await tool.register();
});

/** Runs an agent with tools of a client, against a model, and gives its last words. */
type Agent = (model: Model, client: Haft, tools: readonly ToolLike[], options?: ToolsetOptions, signal?: AbortSignal) => Promise<string>;

const agents: { [name: string]: Agent } = {
  "AI SDK": async (model, client, wanted, options, signal) => {
    const vendor = createOpenAI({ baseURL: model.url, apiKey: "k" });
    const set: ai.ToolSet = await client.toAISDK(ai, wanted, options); // which has to fit the type of the SDK
    const { text } = await ai.generateText({ model: vendor.chat("scripted"), prompt: "Go.", tools: set, stopWhen: ai.stepCountIs(5), maxRetries: 0, ...(signal ? { abortSignal: signal } : {}) });
    return text;
  },
  LangChain: async (model, client, wanted, options, signal) => {
    const vendor = new ChatOpenAI({ model: "scripted", apiKey: "k", configuration: { baseURL: model.url }, maxRetries: 0 });
    const agent = langchain.createAgent({ model: vendor, tools: await client.toLangChain(langchain, wanted, options) });
    const { messages } = await agent.invoke({ messages: [{ role: "user", content: "Go." }] }, signal ? { signal } : {});
    return String(messages.at(-1)?.content);
  },
};

for (const [name, agent] of Object.entries(agents)) {
  test(name, async (t) => {
    await t.test("runs its tools on the server", async (t: TestContext) => {
      const model = await serve(t, calls(["add", { a: 20, b: 22 }], ["greet", { name: "Ann" }]));
      const results: Result[] = [];
      assert.equal(await agent(model, haft, [tools.add, "greet"], { onResult: (result) => results.push(result) }), "Done.");
      assert.deepEqual(model.requests[0]?.tools?.map((tool) => tool.function.name), ["add", "greet"]);
      assert.match(model.results()[0] ?? "", /^42$/);
      assert.match(model.results()[1] ?? "", /hello, Ann/);
      assert.ok(results.length === 2 && results.every(({ sandbox }) => sandbox.provider !== ""));
    });
    await t.test("reads what went wrong", async (t: TestContext) => {
      const model = await serve(t, calls(["fail", {}], ["add", { a: "x" }]));
      assert.equal(await agent(model, haft, [tools.fail, tools.add]), "Done.");
      const [failed, misfit] = model.results();
      assert.match(failed ?? "", /Error \(exception\): .*it was to fail/);
      assert.match(misfit ?? "", name === "LangChain" ? /did not match expected schema/ : /\/a/); // it looks at schemas itself
      assert.ok(!JSON.stringify(model.requests).includes(key));
    });
    await t.test("is not ended by a server that is away", async (t: TestContext) => {
      const away = new Haft({ server: "http://127.0.0.1:1", key, tries: 1 });
      Object.defineProperty(away, "tools", { value: haft.tools }); // it was there a moment ago
      const model = await serve(t, calls(["add", { a: 1 }]));
      assert.equal(await agent(model, away, ["add"]), "Done.");
      assert.match(model.results()[0] ?? "", /unavailable/);
      assert.ok(!JSON.stringify(model.requests).includes(key));
    });
    for (const [tool, beside] of [["sleep", 2], ["sleep_alone", 1]] as const) {
      await t.test(`runs ${beside} calls of ${tool} beside each other`, async (t: TestContext) => {
        const turn = unique("turn");
        const model = await serve(t, calls([tool, {}], [tool, {}]));
        let done = false;
        const words = agent(model, haft, [tool], { turn }).finally(() => (done = true));
        while (!done) {
          const running = await all(haft.calls.list({ turn, status: ["running"] }));
          if (running.length >= beside) for (const { call } of running) await haft.calls.cancel(call.id ?? "");
        }
        assert.equal(await words, "Done.");
        const [one, two] = await all(haft.calls.list({ turn, sort: "created" }));
        assert.equal(Date.parse(two?.started_at ?? "") < Date.parse(one?.ended_at ?? ""), beside === 2);
      });
    }
    await t.test("says that a person has to agree, or waits for one", async (t: TestContext) => {
      const { secret } = await haft.keys.issue({ name: "approver", user: "bob", roles: ["admin", "approver"] });
      const approver = new Haft({ key: secret });
      const first = await serve(t, calls(["add_guarded", { a: 1 }]));
      assert.equal(await agent(first, haft, [guarded]), "Done.");
      assert.match(first.results()[0] ?? "", /a person has to agree/);
      const second = await serve(t, calls(["add_guarded", { a: 40 }]));
      const events: string[] = [];
      await agent(second, haft, [guarded], {
        approvalTimeoutMs: 60_000,
        onEvent: ({ type, call_id }) => {
          events.push(type);
          if (type !== "approval_requested") return;
          void all(approver.approvals.list({ state: "pending" })).then((list) => Promise.all(list.filter((one) => one.call_id === call_id).map((one) => approver.approvals.approve(one.id))));
        },
      });
      assert.equal(second.results()[0], "42");
      assert.ok(events.includes("tool_completed"));
    });
    await t.test("works in a session", async (t: TestContext) => {
      const session = await haft.sessions.create({ idle_seconds: 60 });
      t.after(() => session.close());
      await session.runCode("x = 41");
      const model = await serve(t, calls(["run_code", { language: "python", code: "x + 1" }]));
      await agent(model, haft, ["run_code"], { session });
      assert.match(model.results()[0] ?? "", /42/);
      assert.ok(!JSON.stringify(model.requests[0]?.tools).includes('"session"'));
    });
    for (const watched of [false, true]) {
      await t.test(`ends its calls when it is aborted${watched ? ", also those that are watched" : ""}`, async (t: TestContext) => {
        const turn = unique("turn");
        const control = new AbortController();
        const model = await serve(t, calls(["sleep", {}]));
        const words = agent(model, haft, ["sleep"], { turn, ...(watched ? { onEvent: () => {} } : {}) }, control.signal);
        const failed = assert.rejects(words);
        let running: { call: { id?: string } }[] = [];
        while (running.length === 0) running = await all(haft.calls.list({ turn, status: ["running"] }));
        control.abort();
        await failed;
        assert.equal((await haft.calls.wait(running[0]?.call.id ?? "")).status, "cancelled");
      });
    }
  });
}
