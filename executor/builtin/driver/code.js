// Runs code that is data: the value of its last expression is the answer, as in a
// console, also if it awaits at its top. What imports or exports is run as a module,
// whose default export is the answer. Either way the answer comes when
// nothing is left to do, as when a file is given to Node.js.
//
// The code shares the process with this file and can change everything here. What it
// gains is the answer to its own call, which is its own to choose.
"use strict";
const fs = require("node:fs");
const { EventEmitter } = require("node:events");
const os = require("node:os");
const path = require("node:path");
const url = require("node:url");
const vm = require("node:vm");
const { inspect, types } = require("node:util");
const modules = require("node:module");

const MAX_MESSAGE = 4 << 10;
const MAX_TRACEBACK = 8 << 10;
// Errors behind which stands a limit, which the host can name.
const LIMITS = ["ENOSPC", "EDQUOT", "EFBIG", "EMFILE", "EAGAIN", "ENOMEM"];

exports.run = function run({ code, typescript, map, stdin, tools }) {
  const state = { name: typescript ? "code.ts" : "code.js", file: "", unread: null, map: map ? new modules.SourceMap(map) : null };
  if (typeof stdin === "string") feed(stdin);
  if (tools) equip(tools, module.invoke);
  if (typescript === "strip") {
    if (typeof modules.stripTypeScriptTypes !== "function") return { error: { kind: "runtime", message: "this Node.js is too old to run TypeScript" } };
    try {
      code = modules.stripTypeScriptTypes(code);
    } catch (e) {
      return { error: { kind: "source", type: "SyntaxError", message: text(e.message, MAX_MESSAGE) } };
    }
  }
  return new Promise((resolve, reject) => {
    let outcome = { error: { kind: "exception", type: "Error", message: "nothing is left to do, and the promise that it gave never settles" } };
    const fail = (e) => (limited(e) ? reject(e) : resolve(failed(e, state)));
    process.setUncaughtExceptionCaptureCallback(fail);
    process.once("beforeExit", () => resolve(outcome));
    start(code, state).then((value) => {
      outcome = value === undefined || value === null || alive(value) ? {} : { value };
    }, fail);
  });
};

// start runs the code and gives its value.
async function start(code, state) {
  let script;
  try {
    script = compile(code, state);
  } catch (e) {
    if (!(e instanceof SyntaxError)) throw e;
    const waits = awaiting(code, state);
    if (waits === null) {
      // Modules do not say in which line an error is, so the script has to.
      state.unread = { message: e.message, line: Number((/^[^\n]*:(\d+)\n/.exec(e.stack) || [])[1]) || 0 };
      const exported = await load(code, state);
      return exported.default;
    }
    script = waits;
  }
  const at = path.join(process.cwd(), state.name);
  const main = new modules.Module(at, null);
  main.filename = at;
  main.paths = modules.Module._nodeModulePaths(process.cwd());
  const require = modules.createRequire(at);
  require.main = main;
  for (const [name, value] of Object.entries({ require, module: main, exports: main.exports, __filename: at, __dirname: process.cwd() })) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
  return script.runInThisContext();
}

function compile(code, state, columnOffset = 0) {
  return new vm.Script(code, {
    filename: state.name,
    columnOffset,
    importModuleDynamically: vm.constants && vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
}

const OPEN = "(async () => {";

function parses(code) {
  try {
    new vm.Script(OPEN + code + "\n})");
    return true;
  } catch {
    return false;
  }
}

// awaiting makes code that awaits at its top the body of a function that gives the
// value of the last expression, or null if it cannot be one.
function awaiting(code, state) {
  if (!parses(code)) return null;
  const split = lastExpression(code);
  const body = split < 0 ? code : code.slice(0, split) + "return (" + trimEnd(code.slice(split)) + "\n)";
  return compile(OPEN + body + "\n})()", state, -OPEN.length);
}

const trimEnd = (code) => code.replace(/[\s;]+$/, "");

// What no expression statement begins with, and what goes on with the line before it.
const DECLARES = /^(function\b|class\b|async\s+function\b|let\s*\[|\{)/;
const CONTINUES = /^[-+([`/]/;

// lastExpression is where the expression begins that the code ends with, or -1. It and
// what is before it are complete for themselves; in doubt there is none.
function lastExpression(code) {
  const end = trimEnd(code).length;
  for (let at = end - 1, tries = 0; at >= 0 && tries < 50; at--) {
    const before = at === 0 ? ";" : code[at - 1];
    const tail = code.slice(at, end).trimStart();
    if (!";\n}".includes(before) || tail === "" || DECLARES.test(tail)) continue;
    if (before !== ";" && CONTINUES.test(tail)) continue;
    if (code.slice(code.lastIndexOf("\n", at - 1) + 1, at).includes("//")) continue; // perhaps a comment
    tries++;
    if (parses(code.slice(0, at)) && parses("return (" + tail + "\n)")) return end - tail.length;
  }
  return -1;
}

// load imports the code as a module of the working directory, hidden, so that it finds the
// files beside it.
async function load(code, state) {
  for (let i = 0; ; i++) {
    state.file = path.join(process.cwd(), i ? `.code-${i}.mjs` : ".code.mjs");
    try {
      fs.writeFileSync(state.file, code, { flag: "wx" });
      break;
    } catch (e) {
      if (e.code !== "EEXIST") throw e;
    }
  }
  return import(url.pathToFileURL(state.file));
}

// alive tells timers, streams, servers and the like from values: a script may well
// end with one.
function alive(v) {
  return v instanceof EventEmitter || (typeof v === "object" && typeof v.unref === "function");
}

// feed makes the text the standard input: the lowest free descriptor is the one that
// was closed last.
function feed(s) {
  const file = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "in-")), "stdin");
  fs.writeFileSync(file, s);
  fs.closeSync(0);
  fs.openSync(file, "r");
}

function limited(e) {
  return types.isNativeError(e) && LIMITS.includes(e.code);
}

function failed(e, state) {
  try {
    if (!types.isNativeError(e) && !(e instanceof Error)) {
      const shown = typeof e === "string" ? e : inspect(e, { depth: 2, maxStringLength: 1024, maxArrayLength: 32 });
      return { error: { kind: "exception", type: typeof e, message: text("it threw a value that is no Error: " + shown, MAX_MESSAGE) } };
    }
    const error = { kind: "exception", type: text(e.name || "Error", 256), message: text(e.message, MAX_MESSAGE), traceback: trace(e, state) };
    if (e instanceof RangeError && e.message === "Maximum call stack size exceeded") error.kind = "recursion";
    if (e instanceof SyntaxError && state.unread && !error.traceback.includes(state.name + ":")) {
      const line = state.unread.message === e.message ? `line ${state.unread.line}: ` : "";
      Object.assign(error, { kind: "source", message: line + error.message, traceback: "" });
    }
    return { error };
  } catch {
    return { error: { kind: "exception", type: "Error", message: "(its message cannot be read)" } };
  }
}

// trace is the stack with the places in the code that was given.
function trace(e, state) {
  const lines = [];
  for (const line of String(e.stack || "").split("\n")) {
    if (/^\s+at /.test(line) && /\[eval\]|node:|run_code\.js/.test(line)) continue;
    lines.push(
      line.replace(/(?:file:\/\/)?([^\s()]*?([^\s()/]+)):(\d+):(\d+)(?=\)?$)/, (all, file, base, l, c) => {
        if (base !== state.name && file !== state.file) return all;
        const at = state.map && state.map.findEntry(l - 1, c - 1);
        return at && at.originalLine !== undefined
          ? `${state.name}:${at.originalLine + 1}:${at.originalColumn + 1}`
          : `${state.name}:${l}:${c}`;
      }),
    );
  }
  return text(lines.join("\n"), MAX_TRACEBACK);
}

function text(s, limit) {
  s = String(s);
  if (s.length > limit) s = s.slice(0, limit / 4) + "\n  ...\n" + s.slice(-limit * 0.75);
  return s.toWellFormed ? s.toWellFormed() : s.replace(/[\uD800-\uDFFF]/g, "\uFFFD");
}

// ToolError says why a tool that was called gave no value. retry says whether the same
// call may succeed later: never, same (unchanged) or changed.
class ToolError extends Error {
  constructor(tool, error) {
    super(`${tool}: ${error.kind}: ${error.message}`);
    Object.assign(this, { name: "ToolError", tool, kind: error.kind, retry: error.retry, status: error.status, callId: error.call_id });
  }
}

// equip makes functions of tools, which take an object of arguments and give a
// promise: by their names, where those are free, and in tools.
function equip(list, invoke) {
  const tools = Object.create(null);
  for (const { name } of list) {
    tools[name] = async function (args = {}) {
      if (typeof args !== "object" || args === null || Array.isArray(args)) throw new TypeError(`${name} takes one object of arguments`);
      const answer = invoke(JSON.stringify({ type: "invoke", tool: name, args }));
      if (answer.error) throw new ToolError(name, answer.error);
      return answer.value;
    };
    if (/^[A-Za-z_$][\w$]*$/.test(name) && !(name in globalThis)) {
      Object.defineProperty(globalThis, name, { value: tools[name], writable: true, configurable: true });
    }
  }
  Object.defineProperty(globalThis, "tools", { value: tools, writable: true, configurable: true });
  Object.defineProperty(globalThis, "ToolError", { value: ToolError, writable: true, configurable: true });
}
