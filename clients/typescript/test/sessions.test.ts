import assert from "node:assert/strict";
import { test } from "node:test";

import { ConflictError, Haft, InvalidError, NotFoundError, type Output } from "../src/index.js";
import { otherKey, real } from "./world.js";

const haft = real();

test("sessions", async (t) => {
  let id = "";
  {
    await using s = await haft.sessions.create({ timeout_seconds: 600, idle_seconds: 300, language: "python" });
    id = s.id;
    await t.test("run code that remembers", async () => {
      await s.runCode("x = 20");
      assert.equal((await s.runCode<number>("x + 1")).value, 21);
      assert.equal((await s.runCode("typeof globalThis", { language: "typescript" })).value, "object");
      assert.equal((await s.runCode("'x' in globals()", { context: "other" })).value, false);
      assert.equal((await s.runCode("1 / 0")).error?.type, "ZeroDivisionError");
      const contexts = await s.contexts();
      assert.equal(contexts.find(({ name }) => name === "python")?.variables?.find(({ name }) => name === "x")?.text, "20");
      await s.restart();
      assert.equal((await s.runCode("'x' in globals()")).value, false);
    });
    await t.test("run commands", async () => {
      const done = await s.runCommand("cat; echo $V >&2; exit 3", { env: { V: "v" }, stdin: "in" });
      assert.deepEqual([done.stdout, done.stderr, done.exit_code], ["in", "v\n", 3]);
      const parts: Output[] = [];
      await s.runCommand(["echo", "$HOME", "*"], {}, (output) => parts.push(output));
      assert.deepEqual(parts, [{ stream: "stdout", text: "$HOME *\n" }]);
      await assert.rejects(s.runCommand("echo x; sleep 60", {}, () => { throw new RangeError("mine"); }), RangeError);
      const left = await s.runCommand("echo text > out/a.txt");
      assert.equal(Buffer.from((await left.artifacts[0]?.read()) ?? []).toString(), "text\n");
    });
    await t.test("give commands input", async () => {
      const command = await s.startCommand("cat; echo over", { input: true });
      await command.ready();
      await command.send({ data: "one\n" });
      await command.send({ data: Buffer.from("two\n"), close: true });
      let text = "";
      for await (const output of command.output()) text += output.text;
      assert.equal(text, "one\ntwo\nover\n");
      assert.equal((await command.wait()).exit_code, 0);
      await assert.rejects(command.send({ signal: "SIGINT" }), ConflictError);
    });
    await t.test("have files", async () => {
      await s.files.write("dir/a", new Uint8Array([0, 1, 2]));
      assert.deepEqual([...(await s.files.read("dir/a"))], [0, 1, 2]);
      await s.files.makeDir("empty");
      await s.files.move("dir/a", "dir/b");
      assert.deepEqual((await s.files.list("dir")).files?.map(({ name, size }) => [name, size]), [["b", 3]]);
      assert.equal((await s.files.list("dir", { depth: 0 })).files?.[0]?.type, "dir");
      const watched = await s.files.watch("dir");
      await s.files.write("dir/sub/c", Buffer.from("c"));
      const seen: string[] = [];
      for await (const { type, file } of watched) {
        seen.push(`${type} ${file.path}`);
        if (file.name === "c") break;
      }
      assert.ok(seen.includes("create /work/dir/sub/c"), seen.join());
      await assert.rejects(s.files.watch("nothing"), NotFoundError);
      const stop = new AbortController();
      const quiet = await s.files.watch("dir", { signal: stop.signal });
      stop.abort(new RangeError("enough"));
      await assert.rejects(quiet.next(), RangeError);
      await s.files.remove("dir");
      await assert.rejects(s.files.read("dir/b"), NotFoundError);
    });
    await t.test("are their owner's, for a time", async () => {
      assert.ok(Date.parse((await s.extend({ timeout_seconds: 60 })).expires_at) < Date.now() + 120_000);
      await assert.rejects(s.extend({ idle_seconds: 1e-9 }), InvalidError);
      assert.equal((await haft.sessions.get(id)).id, id);
      if (otherKey !== undefined) {
        const other = new Haft({ key: otherKey });
        await assert.rejects(other.sessions.get(id), NotFoundError);
        await assert.rejects(other.sessions.end(id), NotFoundError);
      }
    });
  }
  assert.ok(!(await haft.sessions.list()).some((known) => known.id === id));
  // It is named by its id, so that no other one is made.
  await assert.rejects(haft.calls.value("run_code", { session: id, language: "python", code: "1" }), NotFoundError);
});

test("sessions with a workspace and packages", async () => {
  await haft.workspaces.add("of-ts-sessions");
  {
    await using s = await haft.sessions.create({ workspace: { name: "of-ts-sessions" } });
    assert.deepEqual(s.info.workspace, { name: "of-ts-sessions" });
    assert.equal((await s.runCommand("echo kept > /workspace/f")).exit_code, 0);
  }
  {
    await using s = await haft.sessions.create({ workspace: { name: "of-ts-sessions", read_only: true } });
    assert.equal((await s.runCommand("cat /workspace/f")).stdout, "kept\n");
    assert.notEqual((await s.runCommand("echo lost > /workspace/f")).exit_code, 0);
  }
  await haft.workspaces.remove("of-ts-sessions");
  await assert.rejects(haft.sessions.create({ workspace: { name: "of-ts-sessions" } }), InvalidError);
  await assert.rejects(haft.sessions.create({ requirements: { pip: ["-r /etc/passwd"] } }), InvalidError);
});
