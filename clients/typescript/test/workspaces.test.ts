import assert from "node:assert/strict";
import { test } from "node:test";

import { fake, reply } from "./world.js";

test("workspaces are asked for, and named by calls", async (t) => {
  const server = await fake(t, (request, response) => {
    if (request.url?.includes("/files/content")) return response.writeHead(200).end("abc");
    if (request.method === "DELETE" || request.method === "PUT") return response.writeHead(204).end();
    return reply(response, 200, { name: "w", call_id: "c_1", status: "success", entries: [], changes: [] });
  });
  const { workspaces, calls } = server.client();
  assert.equal((await workspaces.add("w", { from: "v@s" })).name, "w");
  assert.deepEqual((await workspaces.files("w", { dir: "d" })).entries, []);
  assert.equal(Buffer.from(await workspaces.read("w", "a b")).toString(), "abc");
  await workspaces.write("w", "f", Buffer.from("xyz"));
  await workspaces.delete("w", "f");
  await workspaces.snapshot("w", "s");
  await workspaces.restore("w", "w@s");
  await workspaces.diff("w@s", "w");
  await workspaces.remove("w");
  await calls.run("f", {}, { workspace: "w:ro" });
  await calls.run("f", {}, { workspace: { name: "w", workdir: true } });
  const bodies = server.asked.map(({ body }) => body);
  assert.deepEqual(server.asked.slice(0, 9).map(({ method, url }) => `${method} ${url}`), [
    "POST /v1/workspaces",
    "GET /v1/workspaces/w/files?dir=d",
    "GET /v1/workspaces/w/files/content?path=a+b",
    "PUT /v1/workspaces/w/files?path=f",
    "DELETE /v1/workspaces/w/files?path=f",
    "POST /v1/workspaces",
    "POST /v1/workspaces/w/restore",
    "GET /v1/workspaces/w%40s/diff?to=w",
    "DELETE /v1/workspaces/w",
  ]);
  assert.equal(bodies[3], "xyz");
  assert.deepEqual(JSON.parse(bodies[0] ?? ""), { name: "w", from: "v@s" });
  assert.deepEqual(JSON.parse(bodies[5] ?? ""), { name: "w@s" });
  assert.deepEqual(JSON.parse(bodies[9] ?? "").workspace, { name: "w", read_only: true });
  assert.deepEqual(JSON.parse(bodies[10] ?? "").workspace, { name: "w", workdir: true });
});
