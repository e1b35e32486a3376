import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { haftTests, Suite, type TestFunction } from "../src/testing.js";

/** A command that lists and runs four cases. */
const haft = `#!${process.execPath}
const fs = require("node:fs");
const args = process.argv.slice(2);
fs.appendFileSync(__dirname + "/asked", JSON.stringify(args) + "\\n");
const file = "tools/x_test.yaml";
const names = ["fine", "broken", "left out"];
if (args.includes("--list")) {
  const listed = names.map((name, i) => ({ file, line: i + 2, name }));
  listed[2].skip = "no network";
  console.log(JSON.stringify([...listed, { file, line: 1, name: "generated", generated: true }]));
} else {
  const faults = [{ what: "value", text: "values differ\\n- 1\\n+ 2" }];
  console.log(JSON.stringify({ outcomes: [
    { file, name: "fine", state: "passed" }, { file, name: "broken", state: "failed", faults },
    { file, name: "generated/t/1 valid", state: "passed" }, { file, name: "generated/t/2 valid", state: "flaky" } ] }));
  process.exitCode = 1;
}
`;

/** Collects tests instead of running them. */
function collect(): { test: TestFunction; made: Map<string, () => Promise<void>>; skipped: string[] } {
  const made = new Map<string, () => Promise<void>>();
  const skipped: string[] = [];
  const test = (name: string, fn: () => Promise<void>) => made.set(name, fn);
  return { test: Object.assign(test, { skip: (name: string) => skipped.push(name) }), made, skipped };
}

/** Runs f with a directory that has a command. */
async function withCommand(text: string, f: (command: string, dir: string) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "haft-testing-"));
  try {
    const command = join(dir, "haft.cjs");
    writeFileSync(command, text);
    chmodSync(command, 0o755);
    await f(command, dir);
  } finally {
    rmSync(dir, { recursive: true });
  }
}

test("each case is a test", () =>
  withCommand(haft, async (command, dir) => {
    const { test, made, skipped } = collect();
    haftTests("tools", { test, command, args: ["--tags", "fast"] });
    assert.deepEqual([...made.keys()], ["tools/x_test.yaml: fine", "tools/x_test.yaml: broken", "tools/x_test.yaml: generated"]);
    assert.deepEqual(skipped, ["tools/x_test.yaml: left out (no network)"]);
    await made.get("tools/x_test.yaml: fine")!();
    await assert.rejects(made.get("tools/x_test.yaml: broken")!(), {
      message: "tools/x_test.yaml:3: broken failed\nvalue: values differ\n- 1\n+ 2",
    });
    await assert.rejects(made.get("tools/x_test.yaml: generated")!(), /generated\/t\/2 valid flaky/);
    const asked = readFileSync(join(dir, "asked"), "utf8").trim().split("\n").map((line) => JSON.parse(line) as string[]);
    assert.deepEqual(asked, [
      ["test", "--json", "--list", "--tags", "fast", "--", "tools"],
      ["test", "--json", "--tags", "fast", "--", "tools"],
    ]);
  }));

test("what is missing is said", async () => {
  assert.throws(() => haftTests("tools"), /haftTests\(dir, \{ test \}\)/);
  assert.throws(() => haftTests("tools", { test: collect().test, command: "/there/is/no/haft" }), /install haft/);
  await withCommand(`#!/bin/sh\necho 'x_test.yaml:2:1: a case has no field x' >&2; exit 3\n`, async (command) => {
    assert.throws(() => haftTests("tools", { test: collect().test, command }), /x_test.yaml:2:1: a case has no field x/);
  });
  const error = JSON.stringify({ error: { code: "invalid", message: "x_test.yaml:2:1: a case has no field x" } });
  await withCommand(`#!/bin/sh\necho '${error}'; exit 3\n`, async (command) => {
    assert.throws(() => haftTests("tools", { test: collect().test, command }), { message: /^x_test.yaml:2:1: a case/ });
  });
});

const odd = "a\u2028b\u0085\u007f\ufeff\t\\ \"'{}: # \u{1f600}ü\nend";

test("a suite has the keys of a file", () =>
  withCommand(haft, async (_, dir) => {
    const suite = new Suite({ tool: "add.ts", cases: [{ name: "first" }] });
    suite.case("second", { args: { a: 1 }, expect: { value: odd } }).case("third").write(join(dir, "x_test.yaml"));
    const text = readFileSync(join(dir, "x_test.yaml"), "utf8");
    assert.deepEqual(JSON.parse(text), {
      tool: "add.ts", cases: [{ name: "first" }, { name: "second", args: { a: 1 }, expect: { value: odd } }, { name: "third" }],
    });
    assert.ok(!text.includes("\u2028") && text.includes("\u{1f600}"));
  }));

const real = process.env["HAFT_BINARY"];

// In this suite, the real command makes real tests, one of which has to fail.
test("the real command runs a tool", { skip: !real && "needs the haft command: HAFT_BINARY" }, async () => {
  const dir = mkdtempSync(join(tmpdir(), "haft-testing-"));
  try {
    writeFileSync(join(dir, "add.ts"), "/**\n * Add.\n * @param a One.\n */\nexport function add(a: number): number {\n  return a + 1;\n}\n");
    writeFileSync(join(dir, "add_test.yaml"),
      "cases:\n- {name: right, args: {a: 1}, expect: {value: 2}}\n- {name: wrong, args: {a: 1}, expect: {value: 3}}\n");
    const { test, made } = collect();
    haftTests(dir, { test, command: real! });
    const [right, wrong] = [...made.values()];
    await right!();
    await assert.rejects(wrong!(), /add_test.yaml:3: wrong failed\nvalue: /);
  } finally {
    rmSync(dir, { recursive: true });
  }
});

test("the real command runs a suite", { skip: !real && "needs the haft command: HAFT_BINARY" }, async () => {
  const dir = mkdtempSync(join(tmpdir(), "haft-testing-"));
  try {
    writeFileSync(join(dir, "say.ts"),
      "/**\n * Say.\n * @param text What.\n */\nexport function say(text: string): string {\n  return text + text;\n}\n");
    const suite = new Suite({ tool: "say.ts" }).case("right", { args: { text: odd }, expect: { value: odd + odd } });
    suite.case("wrong", { args: { text: "a" }, expect: { value: "a" } }).write(join(dir, "suite_test.yaml"));
    const { test, made } = collect();
    haftTests(dir, { test, command: real! });
    const [right, wrong] = [...made.values()];
    await right!();
    await assert.rejects(wrong!(), /suite_test.yaml:\d+: wrong failed\nvalue: /);
    suite.case("misspelt", { arguments: {} }).write(join(dir, "suite_test.yaml"));
    assert.throws(() => haftTests(dir, { test, command: real! }), /suite_test.yaml:\d+:\d+: .*arguments/);
  } finally {
    rmSync(dir, { recursive: true });
  }
});
