import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { type TestContext, test } from "node:test";
import { pathToFileURL } from "node:url";

import { type Artifact, Haft, InvalidError, NotFoundError, UnavailableError } from "../src/index.js";
import { all, fake, otherKey, real, reply, unique } from "./world.js";

const id = "file_0000000000001abc";
const part = 4 << 20;

/** A directory for one test. */
function directory(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), "haft-client-"));
  t.after(() => rmSync(dir, { recursive: true }));
  return dir;
}

/** A server with one file. Faults are what it does with parts that arrive. */
async function keeper(t: TestContext, ...faults: ("lose" | "mute" | "refuse" | "ignore" | "")[]) {
  const kept = { size: 0, uploaded: 0, content: Buffer.alloc(0), artifacts: [] as object[] };
  const server = await fake(t, (request, response) => {
    const url = new URL(request.url ?? "", "http://x");
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    if (url.pathname === "/v1/calls") return reply(response, 200, { call_id: "c_1", status: "success", value: 1, artifacts: kept.artifacts });
    if (range !== null) return response.writeHead(206, { "Content-Type": "text/plain" }).end(kept.content.subarray(Number(range[1]), Number(range[2]) + 1));
    if (request.method === "DELETE") return response.writeHead(204).end();
    const length = Number(request.headers["content-length"] ?? 0);
    if (request.method === "POST") Object.assign(kept, { size: Number(url.searchParams.get("size")), uploaded: length });
    if (request.method === "PATCH") {
      const fault = faults.shift();
      if (fault === "refuse") return reply(response, 422, { code: "invalid", detail: "no" });
      if (Number(url.searchParams.get("offset")) !== kept.uploaded) return reply(response, 409, { code: "conflict", detail: "no" });
      if (fault !== "lose" && fault !== "ignore") kept.uploaded += length;
      if (fault === "lose" || fault === "mute") return request.socket.destroy();
    }
    return reply(response, 200, { id, name: "n", content_type: "t", size: kept.size, uploaded: kept.uploaded });
  });
  return { ...server, kept };
}

test("parts that are lost are sent again", async (t) => {
  for (const faults of [[], ["lose"], ["mute"], ["lose", "mute", "", "mute"]] as const) {
    const server = await keeper(t, ...faults);
    const file = await server.client().files.upload(new Uint8Array(4 * part + 1), { name: "n", ttl: 60 });
    assert.equal(file.uploaded, 4 * part + 1);
    assert.equal(server.asked[0]?.url, `/v1/files?name=n&size=${4 * part + 1}&ttl=60`);
  }
});

test("an upload that fails leaves nothing, or what can be resumed", async (t) => {
  const content = new Uint8Array(part + 1);
  const refused = await keeper(t, "refuse");
  await assert.rejects(refused.client().files.upload(content), InvalidError);
  assert.equal(refused.asked.at(-1)?.method, "DELETE");
  await assert.rejects((await keeper(t, "ignore")).client().files.upload(content), /did not keep/);
  const server = await keeper(t, "lose", "lose", "lose");
  await assert.rejects(server.client().files.upload(content), UnavailableError);
  assert.equal(server.kept.uploaded, part);
  assert.equal((await server.client().files.upload(content, { resume: id })).uploaded, part + 1);
  await assert.rejects(server.client().files.upload(new Uint8Array(3), { resume: id }), /another size/);
});

test("what can be sent, alone and with a call", async (t) => {
  const dir = directory(t);
  const path = join(dir, "a.txt");
  writeFileSync(path, "hello");
  const server = await keeper(t);
  const haft = server.client();
  const handle = await open(path);
  t.after(() => handle.close());
  for (const [content, name] of [[path, "a.txt"], [pathToFileURL(path), "a.txt"], [handle], [Buffer.from("hello")], [new Blob(["hello"])], [Readable.from([Buffer.from("hel"), Buffer.from("lo")])]] as const) {
    await haft.files.upload(content);
    const { url, body } = server.asked.at(-1) ?? {};
    assert.deepEqual([url, body], [`/v1/files?${name === undefined ? "" : `name=${name}&`}size=5`, "hello"]);
  }
  for (const wrong of [5, null, {}, dir, "/dev/null", Readable.from(["text"])]) await assert.rejects(haft.files.upload(wrong as string), InvalidError);
  await assert.rejects(haft.files.upload(join(dir, "none")), { code: "ENOENT" });

  const sent = async (files: Parameters<typeof haft.files.ofCall>[0] | undefined): Promise<unknown> => {
    await haft.calls.run("t", {}, { files });
    return (JSON.parse(server.asked.at(-1)?.body ?? "") as { files?: unknown }).files;
  };
  const data = Buffer.from("hello").toString("base64");
  assert.equal(await sent(undefined), undefined);
  for (const files of [path, [path], { "a.txt": handle }, [{ path: "a.txt", data }]]) assert.deepEqual(await sent(files), [{ path: "a.txt", data }]);
  assert.deepEqual(await sent({ "b/c": Buffer.from("hello"), id: new Uint8Array() }), [{ path: "b/c", data }, { path: "id", data: "" }]);
  for (const files of [id, [id], [{ id, sha256: "0" }], await haft.files.show(id)]) assert.deepEqual(await sent(files), [{ id }]);
  assert.deepEqual(await sent({ x: id }), [{ id, path: "x" }]);
  // What is too much for one request is added before.
  assert.deepEqual(await sent({ "a.txt": path, "d/b": new Uint8Array(1 << 20) }), [{ path: "a.txt", data }, { id, path: "d/b" }]);
  assert.equal(server.asked.at(-2)?.url, `/v1/files?name=b&size=${1 << 20}&ttl=86400`);
  await assert.rejects(sent([new Uint8Array(1)]), /needs one/);
});

/** The artifact of a call of a server that has this content. */
async function artifactOf(t: TestContext, name: string, content: string, more: object = {}): Promise<{ artifact: Artifact; server: Awaited<ReturnType<typeof keeper>> }> {
  const server = await keeper(t);
  server.kept.content = Buffer.from(content);
  server.kept.artifacts = [{ name, content_type: "t", size: content.length, ...more }];
  const [artifact] = (await server.client({ maxAnswer: 1000 }).calls.run("t")).artifacts ?? [];
  assert.ok(artifact !== undefined);
  return { artifact, server };
}

test("artifacts are read and saved", async (t) => {
  const dir = directory(t);
  const content = "0123456789".repeat(100);
  const { artifact, server } = await artifactOf(t, "sub/a ü.txt", content);
  assert.equal(Buffer.from(await artifact.read()).toString(), content);
  assert.equal(server.asked.at(-1)?.url, "/v1/calls/c_1/artifacts/sub%2Fa%20%C3%BC.txt");
  assert.equal(await artifact.save(dir), join(dir, "sub", "a ü.txt"));
  for (const to of [join(dir, "mine"), pathToFileURL(join(dir, "other")), join(dir, "new") + "/"]) assert.equal(readFileSync(await artifact.save(to), "utf8"), content);
  await assert.rejects(artifact.save(dir), { code: "EEXIST" });
  assert.deepEqual(Object.keys(artifact), ["name", "content_type", "size"]);

  const inline = await artifactOf(t, "b", "hello", { data: Buffer.from("hello").toString("base64") });
  assert.equal(readFileSync(await inline.artifact.save(dir), "utf8"), "hello");
  assert.equal(inline.server.asked.length, 1);

  server.kept.content = Buffer.alloc(0);
  await assert.rejects(artifact.save(join(dir, "half")), UnavailableError);
  assert.ok(!existsSync(join(dir, "half")));
  await assert.rejects((await artifactOf(t, "a", "x".repeat(1001))).artifact.read(), /save it/);
});

test("a name leads to nowhere else, and links are not followed", async (t) => {
  const dir = directory(t);
  const [inside, outside] = [join(dir, "inside"), join(dir, "outside")];
  mkdirSync(inside);
  mkdirSync(outside);
  for (const name of ["", "/etc/x", "..", "../x", "a/../../x", "a//x", "a/", ".", ".bashrc", "a/.git/x", "a\\..\\x", "C:x", "c:/x", "x\0y"]) {
    await assert.rejects((await artifactOf(t, name, "x")).artifact.save(inside), /below the directory/, name);
  }
  assert.deepEqual(readdirSync(inside), []);
  symlinkSync(outside, join(inside, "sub"));
  symlinkSync(join(outside, "a"), join(inside, "a"));
  await assert.rejects((await artifactOf(t, "sub/a", "x")).artifact.save(inside), /link/);
  for (const to of [inside, join(inside, "a")]) await assert.rejects((await artifactOf(t, "a", "x")).artifact.save(to), { code: "EEXIST" });
  assert.deepEqual(readdirSync(outside), []);
});

test("files with a real server", async (t) => {
  const haft = real();
  const dir = directory(t);
  const tool = unique("shout");
  const source = `import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
/** Writes a file in capitals. */
export function ${tool}(): number {
  const text = readFileSync("in.txt", "utf8").toUpperCase();
  mkdirSync("out/sub");
  writeFileSync("out/sub/loud.txt", text);
  return text.length;
}
`;
  await haft.tools.put({ source_code: source, source_type: "typescript" });
  const path = join(dir, "in.txt");
  writeFileSync(path, "hello");
  const result = await haft.calls.run(tool, {}, { files: path });
  assert.equal(result.value, 5, JSON.stringify(result.error));
  const [artifact] = result.artifacts ?? [];
  assert.equal(Buffer.from((await artifact?.read()) ?? []).toString(), "HELLO");
  assert.equal(await artifact?.save(dir), join(dir, "sub", "loud.txt"));
  const record = await haft.calls.show(result.call_id);
  assert.equal(record.call.files?.[0]?.path, "in.txt");
  await record.result?.artifacts?.[0]?.save(join(dir, "again"));

  // One that is sent in parts, by its id and as it is; what it leaves is too large for the record.
  writeFileSync(path, "hello".repeat(1_800_000));
  const file = await haft.files.upload(path);
  assert.ok(file.sha256);
  assert.ok((await all(haft.files.list({ limit: 10 }))).some((one) => one.id === file.id));
  for (const files of [file, file.id, path]) {
    const [one] = await haft.calls.batch([{ tool, files }]);
    assert.equal(one?.value, 9_000_000, JSON.stringify(one?.error));
    assert.ok(one?.artifacts?.[0]?.file_id);
    const saved = await one.artifacts[0].save(join(dir, unique("large")));
    assert.equal(readFileSync(saved).length, 9_000_000);
  }
  assert.ok(readFileSync(await haft.files.download(file.id, join(dir, "copy"))).equals(readFileSync(path)));
  assert.equal((await haft.files.read((await haft.files.upload(new Uint8Array(), { name: "empty" })).id)).length, 0);
  if (otherKey) await assert.rejects(new Haft({ key: otherKey }).files.read(file.id), NotFoundError);
  await haft.files.remove(file.id);
  await assert.rejects(haft.files.show(file.id), NotFoundError);
});
