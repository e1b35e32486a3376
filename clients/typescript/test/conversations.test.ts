import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { test } from "node:test";

import { DeniedError, NotFoundError, type TurnEvent, UnavailableError } from "../src/index.js";
import { all, fake, reply } from "./world.js";

const message = (seq: number, text: string): object => ({ message: { id: `message-${seq}`, agent_id: "ag_1", turn_id: "run-1", seq, role: "user", text } });
const turn = (status: string): object => ({ turn: { id: "run-1", agent_id: "ag_1", status, model: "m" } });

/** Writes events, and ends the answer. */
function send(response: ServerResponse, events: readonly object[], rest = ""): void {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  response.end(`retry: 1000\n\n: heartbeat\n\n${events.map((event) => `event: x\ndata: ${JSON.stringify(event)}\n\n`).join("")}${rest}`);
}

/** What there is to see of events. */
async function seen(events: AsyncIterable<TurnEvent>): Promise<unknown[]> {
  return (await all(events)).map((event) => event.message?.seq ?? event.turn?.status ?? event.delta);
}

test("blocks and passages are asked for", async (t) => {
  const server = await fake(t, (request, response) => {
    if (request.method === "DELETE" || request.method === "PUT") return response.writeHead(204).end();
    return reply(response, 200, { id: "block-1", data: ["x"] });
  });
  const { blocks, passages } = server.client();
  assert.equal((await blocks.add({ label: "l", value: "v" })).id, "block-1");
  await blocks.show("block-1");
  await blocks.set("block-1", { value: "w", version: 1 });
  await all(blocks.list({ agent: "smith", label: "l" }));
  assert.deepEqual(await blocks.agents("block-1"), ["x"]);
  await blocks.attach("smith", "block-1");
  await blocks.detach("smith", "block-1");
  await blocks.remove("block-1");
  await passages.add("smith", "t", { tags: ["a"] });
  await all(passages.list("smith", { query: "q", tags: ["a", "b"], all_tags: true, newest: true, since: new Date(0), limit: 5 }));
  assert.deepEqual(await passages.tags("smith"), ["x"]);
  await passages.remove("smith", "passage-1");
  assert.deepEqual(server.asked.map(({ method, url }) => `${method} ${url}`), [
    "POST /v1/blocks",
    "GET /v1/blocks/block-1",
    "PATCH /v1/blocks/block-1",
    "GET /v1/blocks?agent=smith&label=l&limit=100",
    "GET /v1/blocks/block-1/agents",
    "PUT /v1/agents/smith/blocks/block-1",
    "DELETE /v1/agents/smith/blocks/block-1",
    "DELETE /v1/blocks/block-1",
    "POST /v1/agents/smith/passages",
    "GET /v1/agents/smith/passages?query=q&tags=a%2Cb&all_tags=true&newest=true&since=1970-01-01T00%3A00%3A00.000Z&limit=5",
    "GET /v1/agents/smith/passages/tags",
    "DELETE /v1/agents/smith/passages/passage-1",
  ]);
  assert.deepEqual(JSON.parse(server.asked[2]?.body ?? ""), { value: "w", version: 1 });
  assert.deepEqual(JSON.parse(server.asked[8]?.body ?? ""), { text: "t", tags: ["a"] });
});

test("a message is answered, and turns are asked for", async (t) => {
  const server = await fake(t, (request, response) => {
    if (request.url?.endsWith("/cancel")) return response.writeHead(204).end();
    return reply(response, 200, { ...turn("completed"), messages: [], data: [{ name: "m" }] });
  });
  const client = server.client();
  assert.equal((await client.messages.send("smith", "hi", { model: "m", budget: { max_steps: 3 } })).turn.status, "completed");
  await all(client.messages.list("smith", { roles: ["user", "tool"], after: 3 }));
  await all(client.turns.list("smith", { after: "run-0" }));
  await client.turns.show("run-1");
  await client.turns.cancel("run-1");
  assert.equal((await client.models())[0]?.name, "m");
  assert.deepEqual(server.asked.map(({ method, url }) => `${method} ${url}`), [
    "POST /v1/agents/smith/messages",
    "GET /v1/agents/smith/messages?roles=user%2Ctool&after=3&limit=100",
    "GET /v1/agents/smith/turns?after=run-0&limit=100",
    "GET /v1/turns/run-1",
    "POST /v1/turns/run-1/cancel",
    "GET /v1/models",
  ]);
  assert.deepEqual(JSON.parse(server.asked[0]?.body ?? ""), { text: "hi", model: "m", budget: { max_steps: 3 } });
  assert.match(server.asked[0]?.headers.accept ?? "", /^application\/json/);
});

test("a stream of a turn that is cut goes on after the last message", async (t) => {
  const server = await fake(t, (_, response, count) => {
    if (count === 1) send(response, [message(1, "hi"), { delta: "h" }]);
    else if (count === 2) send(response, [turn("running")], `event: error\ndata: {"code":"unavailable","message":"later"}\n\n`);
    else send(response, [message(1, "hi"), message(2, "ho"), turn("completed"), { delta: "more" }]);
  });
  assert.deepEqual(await seen(server.client().messages.stream("smith", "hi")), [1, "h", "running", 2, "completed"]);
  assert.deepEqual(server.asked.map(({ method, url, headers }) => `${method} ${url} ${headers.accept}`), [
    "POST /v1/agents/smith/messages text/event-stream",
    "GET /v1/turns/run-1/events?after=1 text/event-stream",
    "GET /v1/turns/run-1/events?after=1 text/event-stream",
  ]);
});

test("a message is sent once, or again with its key", async (t) => {
  const server = await fake(t, (_, response, count) => send(response, count < 3 ? [] : [message(1, "hi"), turn("waiting")]));
  const { messages } = server.client();
  await assert.rejects(seen(messages.stream("smith", "hi")), UnavailableError);
  assert.equal(server.asked.length, 1);
  assert.deepEqual(await seen(messages.stream("smith", "hi", { idempotency_key: "k" })), [1, "waiting"]);
  assert.equal(server.asked.length, 3);
});

test("a turn is watched until it ends", async (t) => {
  const server = await fake(t, (request, response) => {
    if (request.url?.includes("run-2")) send(response, [turn("running")]);
    else if (request.url?.includes("run-3")) send(response, [message(1, "hi")], `event: error\ndata: {"code":"denied","message":"no"}\n\n`);
    else if (request.url?.includes("run-4")) send(response, [{ message: 1 }]);
    else send(response, [turn("waiting"), message(2, "ho"), turn("failed")]);
  });
  const { turns } = server.client();
  assert.deepEqual(await seen(turns.watch("run-1", { after: 0 })), ["waiting", 2, "failed"]);
  assert.equal(server.asked[0]?.url, "/v1/turns/run-1/events?after=0");
  await assert.rejects(seen(turns.watch("run-2")), UnavailableError); // where it goes on is not known
  await assert.rejects(seen(turns.watch("run-3")), DeniedError);
  await assert.rejects(seen(turns.watch("run-4")), /cannot be read/);
});

test("a name of something that agents have is no path", async (t) => {
  const server = await fake(t, (_, response) => reply(response, 200, {}));
  const client = server.client();
  for (const name of ["", ".", ".."]) {
    await assert.rejects(client.blocks.remove(name), NotFoundError);
    await assert.rejects(client.blocks.detach("smith", name), NotFoundError);
    await assert.rejects(client.passages.remove("smith", name), NotFoundError);
    await assert.rejects(client.messages.send(name, "hi"), NotFoundError);
    await assert.rejects(client.turns.cancel(name), NotFoundError);
  }
  assert.equal(server.asked.length, 0);
});
