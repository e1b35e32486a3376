// Letta's client for JavaScript before 1.0 talks to an agent; see talk.py.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const { LettaClient } = createRequire(process.env.CLIENTS + "/")("letta-old");
const client = new LettaClient({ baseUrl: process.env.BASE, token: process.env.KEY });
const boss = new LettaClient({ baseUrl: process.env.BASE, token: process.env.BOSS });
const kinds = (messages) => messages.map((m) => m.messageType);

const sourceCode = `
def js_roll_old(a: int) -> int:
    """Rolls a die.

    Args:
        a (int): how many sides it has
    """
    return a
`;
const tool = await client.tools.upsert({ sourceCode, defaultRequiresApproval: true });
const agent = await client.agents.create({
  name: "JS talker of old",
  system: "You play dice.",
  model: process.env.MODEL,
  memoryBlocks: [{ label: "human", value: "Ann" }],
  toolIds: [tool.id],
  includeBaseTools: false,
});
assert.equal(agent.memory.blocks[0].value, "Ann");
assert.equal((await client.agents.blocks.modify(agent.id, "human", { value: "Bob" })).value, "Bob");
assert.equal((await client.agents.passages.create(agent.id, { text: "Ann likes the number six" })).length, 1);
assert.equal((await client.agents.passages.search(agent.id, { query: "six" })).count, 1);

const said = await client.agents.messages.create(agent.id, { messages: [{ role: "user", content: "hi there" }] });
assert.deepEqual(kinds(said.messages), ["assistant_message"]);
const asked = await client.agents.messages.create(agent.id, { messages: [{ role: "user", content: "old roll" }] });
assert.equal(asked.stopReason.stopReason, "requires_approval");
const request = asked.messages.at(-1);
assert.deepEqual([request.messageType, request.toolCall.name], ["approval_request_message", "js_roll_old"]);
const done = [];
for await (const m of await boss.agents.messages.createStream(agent.id, {
  messages: [{ type: "approval", approve: true, approvalRequestId: request.id }],
})) if (m.messageType !== "ping") done.push(m);
assert.deepEqual([done[0].messageType, done[0].status], ["tool_return_message", "success"]);
assert.deepEqual(kinds(done).slice(-3), ["assistant_message", "stop_reason", "usage_statistics"]);

const history = await client.agents.messages.list(agent.id, { limit: 100 });
assert.equal(history.at(-1).content, "hi there");
const found = await client.agents.messages.search({ query: "there" });
assert.equal(found[0].message.content[0].text, "hi there");
assert.equal((await client.runs.retrieve(said.usage.runIds[0])).status, "completed");
await client.agents.delete(agent.id);
console.log("ok");
