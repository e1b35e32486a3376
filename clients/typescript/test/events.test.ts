import assert from "node:assert/strict";
import { test } from "node:test";

import { ConflictError, UnavailableError, type CallEvent } from "../src/index.js";
import { messages } from "../src/events.js";
import { all, fake, reply } from "./world.js";

/** An event as the stream has it. */
function event(cursor: number, type = "tool_output"): string {
  return `id: ${cursor}\nevent: ${type}\ndata: ${JSON.stringify({ cursor, seq: cursor, type, call_id: "c_1", data: { stream: "stdout", text: `${cursor}` } })}\n\n`;
}

test("a stream that is cut goes on after the last event", async (t) => {
  const server = await fake(t, (_, response, count) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    // An event that we have already comes again, and one is cut in the middle.
    if (count === 1) response.write(event(1) + event(2) + event(3).slice(0, 20), () => response.destroy());
    else if (count === 2) response.write(`id: 7\n\n`, () => response.destroy());
    else response.end(event(2) + event(8) + event(9, "tool_completed") + event(10));
  });
  const got = await all(server.client().calls.events("c_1"));
  assert.deepEqual(got.map((one: CallEvent) => one.cursor), [1, 2, 8, 9]);
  assert.deepEqual(
    server.asked.map((one) => new URL(one.url, "http://x").searchParams.get("after")),
    ["0", "2", "7"],
  );
});

test("output is that of the events", async (t) => {
  const server = await fake(t, (_, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.end(event(1, "tool_executing") + event(2) + event(3, "tool_completed"));
  });
  assert.deepEqual(await all(server.client().calls.output("c_1")), [{ stream: "stdout", text: "2" }]);
});

test("a stream that says that events are lost ends with that", async (t) => {
  const server = await fake(t, (_, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.end(`${event(1)}event: error\ndata: {"code":"conflict","message":"no longer kept"}\n\n`);
  });
  await assert.rejects(all(server.client().events.watch({}, { after: 0 })), ConflictError);
  assert.equal(server.asked.length, 1);
});

test("a server that stays away ends a watch when patience does", async (t) => {
  const server = await fake(t, (_, response) => reply(response, 503, { code: "unavailable", detail: "away" }));
  await assert.rejects(all(server.client({ tries: 1 }).events.watch({}, { patienceMs: 0 })), UnavailableError);
});

test("an answer that is no stream is none", async (t) => {
  const server = await fake(t, (_, response) => reply(response, 200, {}));
  await assert.rejects(all(server.client({ tries: 1 }).events.watch({}, { patienceMs: 0 })), UnavailableError);
});

test("a watch ends when its loop is left, and when its signal is aborted", async (t) => {
  let closed = 0;
  let told: () => void;
  const both = new Promise<void>((done) => (told = done));
  const server = await fake(t, (request, response) => {
    request.socket.on("close", () => ++closed === 2 && told());
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(event(1));
  });
  for await (const one of server.client().events.watch({ type: ["tool_output", "tool_completed"] })) {
    assert.equal(one.cursor, 1);
    break;
  }
  const control = new AbortController();
  const reason = new Error("enough");
  await assert.rejects(async () => {
    for await (const _ of server.client().events.watch({}, { signal: control.signal })) control.abort(reason);
  }, reason);
  await both;
  assert.equal(server.asked[0]?.url, "/v1/events?type=tool_output%2Ctool_completed");
});

test("messages are the same however they are cut", async () => {
  const text = ": comment\n\nid: 1\r\nevent: x\ndata: one\ndata:two\ndata\n\ndata: ünï\n\n";
  const want = [
    { id: "", event: "", data: "" },
    { id: "1", event: "x", data: "one\ntwo\n" },
    { id: "", event: "", data: "ünï" },
  ];
  const bytes = new TextEncoder().encode(text);
  for (let size = 1; size <= bytes.length; size++) {
    const chunks: Uint8Array[] = [];
    for (let at = 0; at < bytes.length; at += size) chunks.push(bytes.slice(at, at + size));
    async function* stream(): AsyncGenerator<Uint8Array> {
      yield* chunks;
    }
    assert.deepEqual(await all(messages(stream())), want, `in pieces of ${size}`);
  }
});

test("a message without an end is not kept for ever", async () => {
  let given = 0;
  async function* stream(): AsyncGenerator<Uint8Array> {
    for (;;) {
      given++;
      yield new Uint8Array(1 << 20).fill(0x61);
    }
  }
  await assert.rejects(all(messages(stream())), { code: "internal" });
  assert.ok(given < 20);
});
