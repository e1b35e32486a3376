import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";
import { gzipSync } from "node:zlib";

import { ConflictError, Haft, HaftError, InvalidError, NotFoundError, RateLimitedError, TimeoutError, UnauthenticatedError, UnavailableError } from "../src/index.js";
import { sign } from "../src/sign.js";
import { all, fake, reply } from "./world.js";

const self = { principal: { org: "local" }, actions: [], version: "1" };

/** An address where nobody answers. */
async function nobody(): Promise<string> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return `http://127.0.0.1:${port}`;
}

test("configuration", async (t) => {
  const saved = { ...process.env };
  t.afterEach(() => {
    for (const name of ["HAFT_SERVER", "HAFT_KEY", "HAFT_KEY_FILE"]) {
      if (saved[name] === undefined) delete process.env[name];
      else process.env[name] = saved[name];
    }
  });

  await t.test("comes from the environment, and arguments win", async (t) => {
    const server = await fake(t, (_, response) => reply(response, 200, self));
    process.env["HAFT_SERVER"] = server.url;
    process.env["HAFT_KEY"] = "from-the-environment";
    await new Haft().whoami();
    await new Haft({ key: "from-the-argument" }).whoami();
    delete process.env["HAFT_KEY"];
    const dir = mkdtempSync(join(tmpdir(), "haft-client-"));
    t.after(() => rmSync(dir, { recursive: true }));
    writeFileSync(join(dir, "key"), "from-the-file\n");
    process.env["HAFT_KEY_FILE"] = join(dir, "key");
    await new Haft().whoami();
    assert.deepEqual(
      server.asked.map((one) => one.headers.authorization),
      ["Bearer from-the-environment", "Bearer from-the-argument", "Bearer from-the-file"],
    );
  });

  await t.test("a server that is none is not repeated", () => {
    for (const server of ["localhost:80", "ftp://example.com", "https://ann:pass@example.com", "https://example.com/?q=pass", "https://example.com/#pass"]) {
      assert.throws(() => new Haft({ server, key: "k" }), (error) => error instanceof InvalidError && !error.message.includes("pass"));
    }
  });

  await t.test("a key that no key is, is not repeated", () => {
    for (const key of ["se\ncret", "se cret", "secr\u00e9t"]) {
      assert.throws(() => new Haft({ server: "https://example.com", key }), (error) => error instanceof InvalidError && !inspect(error).includes("cret"));
    }
    process.env["HAFT_KEY"] = "";
    process.env["HAFT_KEY_FILE"] = "/nowhere/at/all";
    assert.throws(() => new Haft({ server: "https://example.com" }), { name: "InvalidError", message: "the file with the key cannot be read" });
  });

  await t.test("a token is not sent where others can read it", () => {
    assert.throws(() => new Haft({ server: "http://example.com", key: "token" }), { name: "InvalidError", message: /over https/ });
    new Haft({ server: "http://example.com", key: "haft_aaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbntejriy" });
  });
});

test("a key is shown by no printer and no serialiser", async (t) => {
  // Some servers echo what they were sent.
  const server = await fake(t, (request, response) => {
    const echo = request.headers.authorization ?? "";
    reply(response, 401, { code: "unauthenticated", detail: echo, title: echo, misfits: [{ pointer: echo, message: echo }], request_id: echo }, { "X-Request-Id": echo });
  });
  const client = server.client().as("planner");
  const error: unknown = await client.whoami().catch((error: unknown) => error);
  for (const one of [client, client.tools, client.calls, error, server.client({ server: await nobody(), tries: 1 })]) {
    const shown = inspect(one, { depth: 20, showHidden: true, getters: true }) + JSON.stringify(one) + String(one);
    assert.ok(!shown.includes("secret-key"), shown);
  }
  const away: unknown = await server.client({ server: await nobody(), tries: 1 }).whoami().catch((error: unknown) => error);
  assert.ok(!inspect(away, { depth: 20, showHidden: true }).includes("secret-key"));
  assert.equal(server.asked[0]?.url, "/v1/whoami?as=planner");
  assert.equal(server.asked[0]?.headers.authorization, "Bearer secret-key");
});

test("signatures are those of the server", () => {
  const key = "haft_aaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbntejriy";
  const body = new TextEncoder().encode('{"tool":"add"}');
  assert.equal(
    sign(key, { method: "POST", target: "/v1/calls?wait=1", body }, 1700000000, "0123456789abcdef"),
    "HAFT-HMAC-SHA256 key=aaaaaaaaaaaa,time=1700000000,nonce=0123456789abcdef,body=c39ab5ee1d647999c74315b1028c80e02531dcaf3f4947f57f6c09c9be40fbac,signature=5d5495e079a4ede07d0fd33ef23aa01e6138c906b6d5016f8db9d11ffbebf845",
  );
});

test("refusals become errors of their code", async (t) => {
  const server = await fake(t, (request, response) => {
    const misfits = [{ pointer: "/a", message: "must be a number" }, null, { pointer: 7 }];
    const problem = { type: "urn:haft:error:x", title: "x", status: 422, code: decodeURIComponent((request.url ?? "").split("/").at(-1) ?? ""), detail: "it does not fit", misfits, request_id: "r_1" };
    reply(response, 422, problem);
  });
  const client = server.client({ tries: 1 });
  for (const [code, kind] of Object.entries({ invalid: InvalidError, unauthenticated: UnauthenticatedError, not_found: NotFoundError, conflict: ConflictError, rate_limited: RateLimitedError })) {
    await assert.rejects(client.tools.show(code), (error) => {
      assert.ok(error instanceof kind && error instanceof HaftError);
      assert.equal(error.code, code);
      assert.equal(error.message, "it does not fit: /a must be a number; (all) ; (all) ");
      assert.equal(error.requestId, "r_1");
      assert.equal(error.status, 422);
      assert.deepEqual(error.misfits[0], { pointer: "/a", message: "must be a number" });
      assert.equal(error.misfits.length, 3);
      return true;
    });
  }
  await assert.rejects(client.tools.show("constructor"), { code: "invalid", message: /not one of a Haft server/ });
});

test("requests are tried again only where that does no harm", async (t) => {
  const busy = { code: "unavailable", detail: "away", retry_after_ms: 1 };
  await t.test("a request that only looks", async (t) => {
    const server = await fake(t, (_, response, count) => (count < 3 ? reply(response, count === 1 ? 503 : 429, busy) : reply(response, 200, self)));
    assert.deepEqual(await server.client().whoami(), self);
    assert.equal(server.asked.length, 3);
  });
  await t.test("a call, with the same idempotency key", async (t) => {
    const server = await fake(t, (_, response, count) => (count === 1 ? response.destroy() : reply(response, 200, { status: "success", value: 1 })));
    assert.equal(await server.client().calls.value("add"), 1);
    const keys = server.asked.map((one) => (JSON.parse(one.body) as { idempotency_key: string }).idempotency_key);
    assert.equal(keys.length, 2);
    assert.ok(keys[0] && keys[0] === keys[1]);
  });
  await t.test("a call that came too early, whose result is there in the end", async (t) => {
    const server = await fake(t, (_, response) => reply(response, 429, { call_id: "c", status: "rate_limited" }, { "Content-Type": "application/json", "Retry-After": "0" }));
    const client = server.client();
    assert.equal((await client.calls.run("add")).status, "rate_limited");
    assert.equal(server.asked.length, 3);
    assert.equal((await client.calls.replay("c")).status, "rate_limited");
    assert.equal(server.asked.length, 4);
    await assert.rejects(client.whoami(), RateLimitedError);
  });
  await t.test("not a call that is denied, which has a result", async (t) => {
    const server = await fake(t, (_, response) => reply(response, 403, { call_id: "c", status: "permission_denied" }, { "Content-Type": "application/json" }));
    const client = server.client();
    assert.equal((await client.calls.run("add")).status, "permission_denied");
    assert.equal(server.asked.length, 1);
    await assert.rejects(client.whoami());
  });
  await t.test("not for ever", async (t) => {
    const server = await fake(t, (_, response) => reply(response, 503, busy));
    await assert.rejects(server.client().whoami(), UnavailableError);
    assert.equal(server.asked.length, 3);
  });
  await t.test("not when the server asks to wait longer than we do", async (t) => {
    const server = await fake(t, (_, response) => reply(response, 429, { code: "rate_limited", detail: "slow down" }, { "Retry-After": "3600" }));
    await assert.rejects(server.client().whoami(), (error) => error instanceof RateLimitedError && error.retryAfterMs === 3_600_000);
    assert.equal(server.asked.length, 1);
  });
  await t.test("never a write, and its error says that it may be done", async (t) => {
    const server = await fake(t, (_, response) => response.destroy());
    const client = server.client();
    for (const send of [() => client.tools.put({ source_code: "x" }), () => client.keys.issue({}), () => client.toolCalls({}), () => client.tools.remove("x"), () => client.calls.replay("c")]) {
      await assert.rejects(send(), (error) => error instanceof UnavailableError && error.maybeDone);
    }
    assert.equal(server.asked.length, 5);
  });
  await t.test("never a refusal that stays one", async (t) => {
    const server = await fake(t, (_, response) => reply(response, 404, { code: "not_found", detail: "no" }));
    await assert.rejects(server.client().tools.show("x"), NotFoundError);
    assert.equal(server.asked.length, 1);
  });
  await t.test("a server that cannot be reached did nothing", async (t) => {
    const client = new Haft({ server: await nobody(), key: "k", tries: 2, maxWaitMs: 1 });
    const plain = await fake(t, (_, response) => reply(response, 200, self));
    const clients = [client, new Haft({ server: (await nobody()).replace("127.0.0.1", "localhost"), key: "k", tries: 1 }), new Haft({ server: plain.url.replace("http:", "https:"), key: "k", tries: 1 })];
    for (const one of clients) {
      await assert.rejects(one.tools.put({ source_code: "x" }), (error) => error instanceof UnavailableError && !error.maybeDone && error.message === "the server cannot be reached");
    }
    assert.equal(plain.asked.length, 0);
  });
});

test("a server that hangs", async (t) => {
  const server = await fake(t, () => {});
  await t.test("is given up after the timeout, once", async () => {
    await assert.rejects(server.client({ timeoutMs: 20 }).whoami(), TimeoutError);
    await assert.rejects(server.client().whoami({ timeoutMs: 20 }), (error) => error instanceof TimeoutError && !error.maybeDone);
    await assert.rejects(server.client().tools.put({ source_code: "x" }, { timeoutMs: 20 }), (error) => error instanceof TimeoutError && error.maybeDone);
    assert.ok(server.asked.length <= 3);
  });
  await t.test("is left when the signal is aborted, for its reason", async () => {
    const reason = new Error("enough");
    const control = new AbortController();
    const asked = server.client().whoami({ signal: control.signal });
    control.abort(reason);
    await assert.rejects(asked, reason);
    await assert.rejects(server.client().calls.run("x", {}, { signal: control.signal }), reason);
  });
  await t.test("in the middle of its answer is given up too", async (t) => {
    const half = await fake(t, (_, response) => {
      response.writeHead(200, { "Content-Type": "application/json" });
      response.write('{"half":');
    });
    await assert.rejects(half.client().whoami({ timeoutMs: 50 }), TimeoutError);
  });
});

test("redirects are not followed, and the key goes nowhere", async (t) => {
  const thief = await fake(t, (_, response) => reply(response, 200, self));
  for (const status of [301, 302, 303, 307, 308]) {
    const server = await fake(t, (_, response) => {
      response.writeHead(status, { Location: `${thief.url}/v1/whoami` });
      response.end();
    });
    await assert.rejects(server.client().whoami(), { code: "unavailable", message: /sends elsewhere/ });
    assert.equal(server.asked.length, 1);
  }
  assert.equal(thief.asked.length, 0);
});

test("what has not changed is no redirect", async (t) => {
  const server = await fake(t, (_, response) => response.writeHead(304, { ETag: '"1"' }).end());
  const answer = await server.client().request("GET", "/v1/tools/add", { headers: { "If-None-Match": '"1"' } });
  assert.deepEqual([answer.status, answer.body], [304, undefined]);
});

test("answers that are none", async (t) => {
  const cases: { [name: string]: [type: string, body: string | Buffer, headers?: { [name: string]: string }] } = {
    "half of JSON": ["application/json", '{"principal":'],
    "bytes that are no text": ["application/json", Buffer.from([0x22, 0xff, 0x22])],
    "more than is to be kept": ["application/json", JSON.stringify("x".repeat(5000))],
    "more than is to be kept, packed": ["application/json", gzipSync(JSON.stringify("x".repeat(5000))), { "Content-Encoding": "gzip" }],
  };
  for (const [name, [type, body, headers]] of Object.entries(cases)) {
    await t.test(name, async (t) => {
      const server = await fake(t, (_, response) => {
        response.writeHead(200, { "Content-Type": type, ...headers });
        response.end(body);
      });
      await assert.rejects(server.client({ maxAnswer: 4096 }).whoami(), UnavailableError);
      assert.equal(server.asked.length, 1, "it does not get better by asking again");
    });
  }
  await t.test("a list that is none", async (t) => {
    const server = await fake(t, (_, response) => reply(response, 200, { data: 7 }));
    await assert.rejects(all(server.client().tools.list()), UnavailableError);
  });
  await t.test("a refusal that is too large", async (t) => {
    const server = await fake(t, (_, response) => reply(response, 422, { code: "invalid", detail: "x".repeat(2 << 20) }));
    await assert.rejects(server.client().tools.show("x"), UnavailableError);
  });
  await t.test("bytes that are no HTTP", async (t) => {
    const server = createServer((socket) => socket.end("SSH-2.0-nothing\r\n"));
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    t.after(() => server.close());
    const { port } = server.address() as { port: number };
    await assert.rejects(new Haft({ server: `http://127.0.0.1:${port}`, key: "k", tries: 1 }).whoami(), UnavailableError);
  });
});

test("names do not make other paths of requests", async (t) => {
  const server = await fake(t, (_, response) => reply(response, 200, {}));
  const client = server.client();
  for (const name of ["", ".", "..", "a\0b"]) await assert.rejects(client.tools.show(name), NotFoundError);
  assert.equal(server.asked.length, 0);
  for (const name of ["../keys", "a/b", "%2e%2e", "a?b=c", "a#b", "ä b"]) await client.tools.show(name);
  assert.deepEqual(
    server.asked.map((one) => one.url),
    ["/v1/tools/..%2Fkeys", "/v1/tools/a%2Fb", "/v1/tools/%252e%252e", "/v1/tools/a%3Fb%3Dc", "/v1/tools/a%23b", "/v1/tools/%C3%A4%20b"],
  );
});

test("lists are fetched page by page, as they are needed", async (t) => {
  const server = await fake(t, (request, response) => {
    const at = Number(new URL(request.url ?? "", "http://x").searchParams.get("cursor") ?? 0);
    reply(response, 200, { data: [{ name: at }, { name: at + 1 }], next_cursor: at < 4 ? String(at + 2) : undefined });
  });
  const client = server.client();
  const names = (await all(client.tools.list({ pageSize: 2 }))).map((tool) => tool.name);
  assert.deepEqual(names, [0, 1, 2, 3, 4, 5]);
  assert.equal(server.asked.length, 3);
  for await (const tool of client.tools.list({ pageSize: 2, tag: "a b", enabled: false })) {
    assert.equal(tool.name, 0);
    break;
  }
  assert.equal(server.asked.length, 4);
  assert.equal(server.asked[3]?.url, "/v1/tools?tag=a+b&enabled=false&limit=2");
  assert.equal((await all(client.tools.list({ limit: 3, pageSize: 2 }))).length, 3);
});

test("many requests may share a signal", async (t) => {
  const warnings: Error[] = [];
  const warned = (warning: Error): void => void warnings.push(warning);
  process.on("warning", warned);
  t.after(() => process.off("warning", warned));
  const server = await fake(t, (_, response) => reply(response, 200, self));
  const { signal } = new AbortController();
  await Promise.all(Array.from({ length: 50 }, () => server.client().whoami({ signal })));
  await new Promise(setImmediate);
  assert.deepEqual(warnings, []);
});
