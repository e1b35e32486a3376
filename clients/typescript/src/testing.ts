/**
 * Runs the test files of tools (`haft test`) from a suite of vitest, node:test or jest: each
 * case is a test of its own.
 *
 *     import { test } from "vitest";
 *     import { haftTests } from "@haft/client/testing";
 *
 *     haftTests("tools", { test });
 *
 * It also writes test files:
 *
 *     const suite = new Suite({ tool: "weather.ts" });
 *     suite.case("one day", { args: { city: "Oslo", days: 1 }, expect: { value: ["sun"] } });
 *     suite.write("weather_test.yaml");
 */

import { execFile, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";

/** The function `test` of vitest, node:test or jest. */
export interface TestFunction {
  (name: string, fn: () => Promise<void>, timeout?: number): unknown;
  skip(name: string, fn: () => Promise<void>): unknown;
}

/** Options of {@link haftTests}. */
export interface HaftTestsOptions {
  /** What makes a test; the global `test` if it is not given. */
  test?: TestFunction;
  /** The haft command; HAFT_COMMAND of the environment, or haft, if it is not given. */
  command?: string;
  /** More arguments of `haft test`, such as `["--tags", "fast"]`. */
  args?: string[];
  /** How long all cases together may take, in milliseconds; ten minutes if it is not given. */
  timeout?: number;
}

interface Listed {
  file: string;
  line: number;
  name: string;
  skip?: string;
  generated?: boolean;
}

interface Outcome {
  file: string;
  name: string;
  sandbox?: string;
  state: "passed" | "failed" | "skipped" | "flaky";
  faults?: { what: string; text: string }[];
}

/** Keys of a test file or a case, by the same names as in YAML. haft says what is wrong in them. */
export type Keys = Record<string, unknown>;

/** A test file. */
export class Suite {
  readonly #file: Keys & { cases: unknown[] };

  constructor(keys: Keys = {}) {
    this.#file = { ...keys, cases: [...((keys["cases"] as unknown[] | undefined) ?? [])] };
  }

  /** Adds a case. */
  case(name: string, keys: Keys = {}): this {
    this.#file.cases.push({ name, ...keys });
    return this;
  }

  /** Writes the file. Its name has to be NAME_test.yaml or NAME.test.yaml for `haft test` to find it. */
  write(path: string): void {
    // JSON is YAML, but for characters that YAML may not have as they are, or takes for the end of a line.
    const text = JSON.stringify(this.#file, null, 2).replace(/[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
      (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
    writeFileSync(path, text + "\n");
  }
}

/** What haft prints at most: a report has the results of all cases. */
const most = 512 << 20;

/** Makes a test of each case of the test files below a directory, or of one test file. */
export function haftTests(path: string, options: HaftTestsOptions = {}): void {
  const test = options.test ?? (globalThis as { test?: TestFunction }).test;
  if (!test) throw new Error('haftTests needs the function that makes tests: haftTests(dir, { test }), with test of "vitest"');
  const command = options.command ?? process.env["HAFT_COMMAND"] ?? "haft";
  const args = (more: string[]) => ["test", "--json", ...more, ...(options.args ?? []), "--", path];
  const { stdout, stderr, error } = spawnSync(command, args(["--list"]), { encoding: "utf8", maxBuffer: most });
  if (error) throw new Error(`${command} cannot be run (${error.message}): install haft, or name it with HAFT_COMMAND`);
  const listed = read<Listed[]>(stdout, stderr);
  const timeout = options.timeout ?? 600_000;
  let running: Promise<Outcome[]> | undefined; // all cases run at once, when the first test does
  for (const l of listed) {
    const name = `${l.file}: ${l.name}`;
    if (l.skip) {
      test.skip(`${name} (${l.skip})`, async () => {});
      continue;
    }
    const check = async () => {
      running ??= run(command, args([]), timeout);
      verify(l, await running);
    };
    test(name, check, timeout);
  }
}

/** Returns what became of all cases. */
function run(command: string, args: string[], timeout: number): Promise<Outcome[]> {
  return new Promise((resolve, reject) => {
    execFile(command, args, { encoding: "utf8", maxBuffer: most, timeout }, (_, stdout, stderr) => {
      try {
        resolve(read<{ outcomes: Outcome[] }>(stdout, stderr).outcomes);
      } catch (error) {
        reject(error as Error);
      }
    });
  });
}

/** Reads what haft printed. */
function read<T>(stdout: string, stderr: string): T {
  let report: T & { error?: { message: string } };
  try {
    report = JSON.parse(stdout) as typeof report;
  } catch {
    throw new Error(stderr.trim() || "haft test ended without a report");
  }
  if (report.error) throw new Error(report.error.message);
  return report;
}

/** Throws what is wrong with a case. */
function verify(l: Listed, outcomes: Outcome[]): void {
  const mine = outcomes.filter((o) => o.file === l.file && (l.generated ? o.name.startsWith("generated/") : o.name === l.name));
  if (mine.length === 0) throw new Error("haft test did not run the case");
  const bad = mine.filter((o) => o.state === "failed" || o.state === "flaky");
  if (bad.length === 0) return;
  const lines = bad.map((o) => {
    const where = o.sandbox ? ` in ${o.sandbox}` : "";
    return [`${o.name}${where} ${o.state}`, ...(o.faults ?? []).map((f) => `${f.what}: ${f.text}`)].join("\n");
  });
  throw new Error(`${l.file}:${l.line}: ${lines.join("\n")}`);
}
