// Letta's client for JavaScript from 1.0 on talks to an agent; see talk.py.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const { Letta, ConflictError } = createRequire(process.env.CLIENTS + "/")("letta-new");
const of = (apiKey) => new Letta({ baseURL: process.env.BASE, apiKey, maxRetries: 0 });
const client = of(process.env.KEY), boss = of(process.env.BOSS);
const kinds = (messages) => messages.map((m) => m.message_type);
const all = async (list) => {
  const items = [];
  for await (const one of await list) if (one.message_type !== "ping") items.push(one);
  return items;
};

const source = `
def js_roll(a: int) -> int:
    """Rolls a die.

    Args:
        a (int): how many sides it has
    """
    return a
`;
const tool = await client.tools.upsert({ source_code: source, default_requires_approval: true });
const shared = await client.blocks.create({ label: "js_rules", value: "Be fair.", limit: 1000 });
const agent = await client.agents.create({
  name: "JS talker",
  system: "You play dice.",
  model: process.env.MODEL,
  tags: ["js"],
  metadata: { team: "games" },
  memory_blocks: [{ label: "human", value: "Ann", description: "who plays" }],
  block_ids: [shared.id],
  tool_ids: [tool.id],
  include_base_tools: false,
});
assert.deepEqual([agent.name, agent.model, agent.metadata.team], ["JS talker", process.env.MODEL, "games"]);
assert.deepEqual(agent.blocks.map((b) => b.label).sort(), ["human", "js_rules"]);
assert.deepEqual((await all(client.agents.list({ tags: ["js"] }))).map((a) => a.id), [agent.id]);
assert.ok((await client.models.list()).some((m) => m.handle === process.env.MODEL));

// Blocks and the archive.
assert.equal((await client.agents.blocks.retrieve("human", { agent_id: agent.id })).value, "Ann");
assert.equal((await client.agents.blocks.update("human", { agent_id: agent.id, value: "Bob" })).value, "Bob");
await client.agents.blocks.detach(shared.id, { agent_id: agent.id });
assert.equal((await client.agents.blocks.attach(shared.id, { agent_id: agent.id })).blocks.length, 2);
const passage = (await client.agents.passages.create(agent.id, { text: "Ann likes the number six", tags: ["taste"] }))[0];
assert.equal((await client.agents.passages.search(agent.id, { query: "number" })).count, 1);
await client.agents.passages.delete(passage.id, { agent_id: agent.id });

// A message, a call that waits for a person, and the answer.
const said = await client.agents.messages.create(agent.id, { input: "hi there" });
assert.equal(said.messages.at(-1).content, "Hello.");
const asked = await client.agents.messages.create(agent.id, { messages: [{ role: "user", content: "please roll" }] });
assert.equal(asked.stop_reason.stop_reason, "requires_approval");
assert.equal(asked.messages.at(-1).tool_call.name, "js_roll");
await assert.rejects(client.agents.messages.create(agent.id, { input: "hello?" }), ConflictError);
const answer = (id, approve) => ({ type: "approval", approvals: [{ type: "approval", tool_call_id: id, approve }] });
const call = asked.messages.at(-1).tool_calls[0].tool_call_id;
const done = await boss.agents.messages.create(agent.id, { messages: [answer(call, true)] });
assert.deepEqual(kinds(done.messages), ["tool_return_message", "reasoning_message", "assistant_message"]);
assert.deepEqual([done.messages[0].status, done.messages[0].tool_return], ["success", "6"]);
assert.equal(done.messages.at(-1).content, "You rolled 6.");

// The same as a stream, refused.
let stream = await all(client.agents.messages.stream(agent.id, { input: "roll again", include_pings: true }));
assert.deepEqual(kinds(stream), ["approval_request_message", "stop_reason", "usage_statistics"]);
const refusal = answer(stream[0].tool_calls[0].tool_call_id, false);
stream = await all(boss.agents.messages.create(agent.id, { messages: [refusal], streaming: true, stream_tokens: true }));
assert.deepEqual([stream[0].message_type, stream[0].status], ["tool_return_message", "error"]);
assert.deepEqual(kinds(stream).slice(-3), ["assistant_message", "stop_reason", "usage_statistics"]);

// History and runs.
const history = await all(client.agents.messages.list(agent.id, { limit: 2, order: "asc" }));
assert.deepEqual(history.slice(0, 2).map((m) => m.content), ["hi there", "Hello."]);
const found = await client.messages.search({ query: "there", agent_id: agent.id });
assert.ok(found.some((m) => m.content === "hi there"), JSON.stringify(found));
const runs = await all(client.runs.list({ agent_id: agent.id, limit: 1 }));
assert.deepEqual(runs.map((r) => r.status), ["completed", "completed", "completed"]);
assert.equal((await client.runs.usage.retrieve(runs.at(-1).id)).total_tokens, said.usage.total_tokens);
assert.deepEqual(kinds(await all(client.runs.messages.list(runs.at(-1).id))), ["user_message", "assistant_message"]);
const waiting = (await client.agents.messages.create(agent.id, { input: "roll" })).usage.run_ids[0];
assert.deepEqual(await client.agents.messages.cancel(agent.id), { [waiting]: "cancelled" });

// A file of the agent can be read again.
const file = await client.agents.exportFile(agent.id);
const text = typeof file === "string" ? file : JSON.stringify(file);
const made = await client.agents.importFile({ file: new File([text], "a.af"), append_copy_suffix: false });
const copy = await client.agents.retrieve(made.agent_ids[0]);
assert.deepEqual([copy.name, copy.system, copy.metadata.team], ["JS talker", "You play dice.", "games"]);
assert.deepEqual(copy.blocks.map((b) => b.value).sort(), ["Be fair.", "Bob"]);
assert.deepEqual(copy.tools.map((t) => t.id), [tool.id]);

await client.agents.update(agent.id, { name: "Another name", tags: [] });
assert.deepEqual((await all(client.agents.list({ query_text: "another n" }))).map((a) => a.id), [agent.id]);
for (const id of [made.agent_ids[0], agent.id]) await client.agents.delete(id);
await client.blocks.delete(shared.id);
console.log("ok");
