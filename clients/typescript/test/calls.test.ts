import assert from "node:assert/strict";
import { test } from "node:test";

import { Haft, TimeoutError, type HaftOptions } from "../src/index.js";
import { fake, reply } from "./world.js";

test("a call that may take longer than fetch waits is waited for piece by piece", async (t) => {
  const server = await fake(t, (request, response, count) => {
    if (request.method === "POST") reply(response, 202, { call_id: "c_1", status: "running" });
    else if (count < 4) reply(response, 200, { status: "running" });
    else reply(response, 200, { status: "success", result: { status: "success", value: 7 } });
  });
  for (const options of [{ callTimeoutMs: 900_000 }, { callTimeoutMs: 0 }] as HaftOptions[]) {
    server.asked.length = 0;
    assert.equal(await server.client(options).calls.value("slow"), 7);
    assert.deepEqual(server.asked.map((one) => `${one.method} ${one.url}`), ["POST /v1/calls", "GET /v1/calls/c_1?wait=50", "GET /v1/calls/c_1?wait=50", "GET /v1/calls/c_1?wait=50"]);
    assert.equal((JSON.parse(server.asked[0]?.body ?? "") as { wait: unknown }).wait, 240);
  }
});

test("and is cancelled when nobody waits any more", async (t) => {
  const control = new AbortController();
  const reason = new Error("enough");
  const server = await fake(t, (request, response) => {
    if (request.url === "/v1/calls/c_1/cancel") response.writeHead(204).end();
    else if (request.method === "POST") reply(response, 202, { call_id: "c_1", status: "queued" });
    else control.abort(reason);
  });
  await assert.rejects(server.client().calls.run("slow", {}, { timeoutMs: 0, signal: control.signal }), reason);
  assert.equal(server.asked.at(-1)?.url, "/v1/calls/c_1/cancel");
});

test("fetch that gives up by itself is a timeout, and not asked again", async () => {
  let asked = 0;
  const fetch = async (): Promise<Response> => {
    asked++;
    throw new TypeError("fetch failed", { cause: Object.assign(new Error("Headers Timeout Error"), { code: "UND_ERR_HEADERS_TIMEOUT" }) });
  };
  await assert.rejects(new Haft({ server: "http://127.0.0.1:7717", key: "k", fetch }).calls.run("slow"), TimeoutError);
  assert.equal(asked, 1);
});
