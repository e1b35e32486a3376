// One call of a JavaScript tool: read the frame on descriptor 3, run the code as
// a CommonJS module, call the function, answer. Values become JSON by the table
// of package value. Everything that is used after the tool's code has run is held
// here: a tool that replaces JSON or Array.prototype changes nothing. This is the
// function of one argument that harness.go calls: what node_egress.js gives, or
// nothing.
"use strict";
((egress) => {
  const fs = require("node:fs");
  const path = require("node:path");
  const Module = require("node:module");
  const { inspect, types } = require("node:util");
  const FD = 3;
  const NEWLINE = Buffer.from("\n");
  const MAX_DEPTH = 100;
  const MAX_DIGITS = 4300;
  const MAX_TRACEBACK = 8 << 10;
  const MAX_MESSAGE = 4 << 10;

  const call = Function.prototype.call;
  const uncurry = Function.prototype.bind.bind(call);
  const { readSync, writeSync, closeSync } = fs;
  const { stringify, parse } = JSON;
  const { isArray } = Array;
  const { keys, getPrototypeOf, prototype: objectProto } = Object;
  const { isFinite, isInteger } = Number;
  const has = uncurry(objectProto.hasOwnProperty);
  const push = uncurry(Array.prototype.push);
  const join = uncurry(Array.prototype.join);
  const slice = uncurry(String.prototype.slice);
  const test = uncurry(RegExp.prototype.test);
  const toISO = uncurry(Date.prototype.toISOString);
  const getTime = uncurry(Date.prototype.getTime);
  const bigText = uncurry(BigInt.prototype.toString);
  const eachMap = uncurry(Map.prototype.forEach);
  const eachSet = uncurry(Set.prototype.forEach);
  const setAdd = uncurry(Set.prototype.add);
  const setHas = uncurry(Set.prototype.has);
  const setDelete = uncurry(Set.prototype.delete);
  const BufferOf = Buffer.from.bind(Buffer);
  const concat = Buffer.concat.bind(Buffer);
  const alloc = Buffer.allocUnsafe.bind(Buffer);
  const base64 = uncurry(Buffer.prototype.toString);
  const writeUInt32 = uncurry(Buffer.prototype.writeUInt32BE);
  const readUInt32 = uncurry(Buffer.prototype.readUInt32BE);
  const now = performance.now.bind(performance);
  const then = uncurry(Promise.prototype.then);
  const resolve = Promise.resolve.bind(Promise);
  const realExit = process.reallyExit.bind(process);
  const str = String;
  const sleep = Atomics.wait;
  const { SourceMap } = Module;
  const NewSet = Set;
  const LONE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/;

  // --- frames ---

  function take(n) {
    const b = alloc(n);
    let got = 0;
    while (got < n) {
      let k;
      try {
        k = readSync(FD, b, got, n - got, null);
      } catch (e) {
        if (e.code === "EAGAIN" || e.code === "EINTR") continue;
        throw e;
      }
      if (k === 0) realExit(0); // the host is gone
      got += k;
    }
    return b;
  }

  function receive() {
    return parse(base64(take(readUInt32(take(4), 0)), "utf8"));
  }

  function send(text) {
    const body = BufferOf(text, "utf8");
    const head = alloc(4);
    writeUInt32(head, body.length, 0);
    const b = concat([head, body]);
    let at = 0;
    while (at < b.length) {
      try {
        at += writeSync(FD, b, at, b.length - at);
      } catch (e) {
        if (e.code !== "EAGAIN" && e.code !== "EINTR") throw e;
      }
    }
  }

  // --- reports ---

  const ITEM = 32 << 10, ITEMS = 1000, ITEM_BYTES = 1 << 20, TEXT = 1000;

  // progress reports how far the call is: done of total, and a text.
  function progress(done, total, text = "") {
    const frame = { type: "progress", progress: +done, message: str(text) };
    if (total !== undefined && total !== null) frame.total = +total;
    if (!isFinite(frame.progress) || !isFinite(frame.total ?? 0)) throw new RangeError("done and total are finite numbers");
    if (frame.message.length > TEXT) frame.message = "(a text of " + frame.message.length + " characters)";
    frame.message = clean(frame.message);
    report(stringify(frame));
  }

  function report(text) {
    try {
      if (!answered) send(text);
    } catch {} // the tool has closed the channel
  }

  // An installed package of this name comes first.
  const api = { progress };
  const resolveFilename = Module._resolveFilename;
  Module._resolveFilename = function (id, ...rest) {
    if (id !== "haft") return resolveFilename.call(this, id, ...rest);
    try {
      return resolveFilename.call(this, id, ...rest);
    } catch {
      return id;
    }
  };
  Module._cache.haft = Object.assign(new Module("haft", null), { exports: api, loaded: true });
  Object.defineProperty(globalThis, "haft", { value: api, writable: true, configurable: true });
  const IMPORT = /^(import .+ from )"haft";$/gm;
  const URL_OF_API = '"data:text/javascript,export const {progress}=haft;export default haft"';

  // stream reports each item of a generator, and gives the list of them as JSON to done.
  function stream(values, limit, done, fail) {
    const parts = [];
    let size = 2;
    const add = (value) => {
      const text = encode(value, limit - size);
      const n = Buffer.byteLength(text);
      size += n + 1;
      push(parts, text);
      if (parts.length <= ITEMS && n <= ITEM && size <= ITEM_BYTES) {
        report('{"type":"progress","progress":' + parts.length + ',"value":' + text + "}");
      }
    };
    const finish = () => done("[" + join(parts, ",") + "]");
    if (typeof values[Symbol.asyncIterator] !== "function") {
      for (const value of values) add(value);
      return finish();
    }
    const all = (async () => {
      for await (const value of values) add(value);
    })();
    then(then(all, finish), undefined, fail);
  }

  // --- values ---

  class Bad {
    constructor(where, message) {
      this.message = where + ": " + message;
    }
  }
  class TooLarge {}

  function encode(value, limit) {
    const out = [];
    let size = 0;
    const inside = new NewSet();
    const put = (s) => {
      size += s.length;
      if (size > limit) throw new TooLarge();
      push(out, s);
    };
    const text = (s, where) => {
      if (s.length > limit) throw new TooLarge();
      if (test(LONE, s)) throw new Bad(where, "text with half a surrogate pair is not data; return bytes or clean text");
      return stringify(s);
    };
    const number = (v) => {
      if (v !== v) return '{"$type":"float","value":"NaN"}';
      if (!isFinite(v)) return '{"$type":"float","value":"' + (v > 0 ? "" : "-") + 'Infinity"}';
      return v === 0 && 1 / v < 0 ? "-0" : str(v);
    };
    const guarded = (v, where, depth, body) => {
      if (depth >= MAX_DEPTH) throw new Bad(where, "it is nested more than " + MAX_DEPTH + " deep");
      if (setHas(inside, v)) throw new Bad(where, "it contains itself");
      setAdd(inside, v);
      body();
      setDelete(inside, v);
    };
    const items = (v, where, depth, list) =>
      guarded(v, where, depth, () => {
        put("[");
        for (let i = 0; i < list.length; i++) {
          if (i) put(",");
          const x = list[i];
          if (x === undefined) put("null");
          else write(x, where + "[" + i + "]", depth + 1);
        }
        put("]");
      });
    const pairs = (v, where, depth, list) =>
      guarded(v, where, depth, () => {
        const seen = new NewSet();
        let first = true;
        put("{");
        for (let i = 0; i < list.length; i++) {
          const k = key(list[i][0], where);
          const x = list[i][1];
          if (x === undefined) continue;
          if (setHas(seen, k)) throw new Bad(where, "two keys become the same text");
          setAdd(seen, k);
          if (!first) put(",");
          first = false;
          put(text(k, where));
          put(":");
          write(x, where + "." + slice(k, 0, 64), depth + 1);
        }
        put("}");
      });
    const key = (k, where) => {
      switch (typeof k) {
        case "string":
          return k;
        case "number":
          if (isFinite(k)) return number(k);
          break;
        case "boolean":
          return k ? "true" : "false";
        case "bigint":
          return bigText(k);
        case "undefined":
          return "null";
        case "object":
          if (k === null) return "null";
          if (types.isDate(k) && getTime(k) === getTime(k)) return moment(k);
      }
      throw new Bad(where, named(k) + " cannot be a key; use text or numbers");
    };
    const write = (v, where, depth) => {
      switch (typeof v) {
        case "undefined":
          return put("null");
        case "boolean":
          return put(v ? "true" : "false");
        case "number":
          return put(number(v));
        case "string":
          return put(text(v, where));
        case "bigint": {
          const s = bigText(v);
          if (s.length > MAX_DIGITS) throw new Bad(where, "a number of more than " + MAX_DIGITS + " digits is not data; return it as text");
          return put(s);
        }
        case "object":
          if (v === null) return put("null");
          return object(v, where, depth);
      }
      throw new Bad(where, named(v) + " is not data; " + (typeof v === "function" ? "return what it gives" : "return text"));
    };
    const object = (v, where, depth) => {
      if (isArray(v)) return items(v, where, depth, v);
      if (types.isUint8Array(v) || types.isAnyArrayBuffer(v)) {
        const b = types.isUint8Array(v) ? BufferOf(v.buffer, v.byteOffset, v.byteLength) : BufferOf(v);
        if (b.length > limit) throw new TooLarge();
        return put('{"$type":"bytes","base64":"' + base64(b, "base64") + '"}');
      }
      if (types.isTypedArray(v)) return items(v, where, depth, v);
      if (types.isDate(v)) {
        if (getTime(v) !== getTime(v)) throw new Bad(where, "an invalid Date is not data; return null");
        return put(stringify(moment(v)));
      }
      if (types.isMap(v)) {
        const list = [];
        eachMap(v, (x, k) => push(list, [k, x]));
        return pairs(v, where, depth, list);
      }
      if (types.isSet(v)) {
        const list = [];
        eachSet(v, (x) => push(list, x));
        return items(v, where, depth, list);
      }
      if (types.isBoxedPrimitive(v)) return write(v.valueOf(), where, depth);
      if (types.isPromise(v) || typeof v.then === "function") throw new Bad(where, "a Promise is not data; await it first");
      if (v instanceof URL) return put(text(v.href, where));
      if (
        types.isNativeError(v) || types.isRegExp(v) || types.isWeakMap(v) || types.isWeakSet(v) ||
        types.isDataView(v) || types.isGeneratorObject(v)
      ) {
        throw new Bad(where, named(v) + " is not data; return an object, an array, text or a number");
      }
      if (typeof v.toJSON === "function") return guarded(v, where, depth, () => write(v.toJSON(), where, depth + 1));
      const names = keys(v);
      if (getPrototypeOf(v) !== objectProto && getPrototypeOf(v) !== null && names.length === 0 && typeof v.next === "function") {
        throw new Bad(where, named(v) + " is not data; return an array");
      }
      const list = [];
      for (let i = 0; i < names.length; i++) push(list, [names[i], v[names[i]]]);
      return pairs(v, where, depth, list);
    };
    write(value, "value", 0);
    const s = join(out, "");
    if (Buffer.byteLength(s) > limit) throw new TooLarge();
    return s;
  }

  // moment is RFC 3339 with no more of the second than there is.
  function moment(d) {
    const s = toISO(d);
    let end = s.length - 1;
    while (s[end - 1] === "0") end--;
    return slice(s, 0, s[end - 1] === "." ? end - 1 : end) + "Z";
  }

  function named(v) {
    let name = typeof v;
    try {
      if (name === "object") name = v.constructor.name || "object";
    } catch {}
    return (/^[aeiou]/i.test(name) ? "an " : "a ") + name;
  }

  // --- one call ---

  let answered = false;
  let reuse = false;
  function answer(text) {
    if (answered) return;
    answered = true;
    ended();
    try {
      send(text);
    } catch {
      // The tool has closed the channel. The host has seen it, and ends us: a
      // status of ours would look like one of the tool's.
      sleep(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    }
    if (!reuse) {
      closeSync(FD);
      realExit(0);
    }
  }

  // ended tells a tool that haft test measures that its call has ended.
  let current = {};
  function ended() {
    try {
      const tell = globalThis[Symbol.for("haft.end")];
      if (tell) tell(current.source, current.map);
    } catch {}
  }

  function failure(kind, more) {
    answer(stringify({ type: "error", kind, ...more }));
  }

  function clean(s) {
    s = str(s);
    if (s.length > MAX_MESSAGE) s = slice(s, 0, MAX_MESSAGE) + "...";
    return s.isWellFormed ? s.toWellFormed() : s;
  }

  class Source {
    constructor(message) {
      this.message = message;
    }
  }

  function raised(e, frame) {
    try {
      if (e instanceof Bad) return failure("bad_value", { message: e.message });
      if (e instanceof TooLarge) return failure("limit_result");
      if (e instanceof Source) return failure("source", { message: e.message });
      if (types.isNativeError(e) || e instanceof Error) {
        const deep = e instanceof RangeError && e.message === "Maximum call stack size exceeded";
        let name = "Error";
        try {
          name = clean(e.name || e.constructor.name);
        } catch {}
        const out = { error: name, message: clean(because(e)), traceback: trace(e, frame) };
        if (typeof e.errno === "number") out.errno = Math.abs(e.errno);
        return failure(deep ? "recursion" : "exception", out);
      }
      let shown;
      try {
        shown = typeof e === "string" ? e : encode(e, MAX_MESSAGE);
      } catch {
        shown = "(it cannot be shown)";
      }
      failure("exception", { error: typeof e, message: "it threw a value that is no Error: " + clean(shown) });
    } catch {
      failure("exception", { error: "Error", message: "(its message cannot be read)" });
    }
  }

  // because is the message of an error with those that led to it: fetch says
  // "fetch failed", and the reason is behind it.
  function because(e) {
    let text = str(e.message);
    for (let n = 0; n < 3 && types.isNativeError(e.cause); n++) {
      e = e.cause;
      text += ": " + str(e.message);
    }
    return text;
  }

  // trace is the stack with the user's lines: ours are left out, and places in
  // the code that ran are mapped to the source.
  function trace(e, frame) {
    let stack = str(e.stack || "");
    let map = null;
    try {
      if (frame.map) map = new SourceMap(frame.map);
    } catch {}
    const lines = [];
    for (const line of stack.split("\n")) {
      if (/^\s+at /.test(line)) {
        if (line.includes("[eval]") || line.includes("node:internal") || line.includes("evalmachine")) continue;
      }
      lines.push(
        line.replace(/([^\s()]+):(\d+):(\d+)(?=\)?$)/, (all, file, l, c) => {
          const helper = scripts.get(file);
          if (helper) {
            const at = helper.map ? new SourceMap(helper.map).findEntry(l - 1, c - 1) : {};
            return helper.name + (at.originalLine === undefined ? ":" + l + ":" + c : ":" + (at.originalLine + 1) + ":" + (at.originalColumn + 1));
          }
          if (!map || (![frame.file, frame.file + ".mjs"].includes(path.basename(file)) && !file.startsWith("data:text/javascript"))) return all;
          const at = map.findEntry(l - 1, c - 1);
          if (at.originalLine === undefined) return frame.file + ":" + l + ":" + c;
          return frame.file + ":" + (at.originalLine + 1) + ":" + (at.originalColumn + 1);
        }),
      );
    }
    stack = lines.join("\n");
    if (stack.length > MAX_TRACEBACK) stack = stack.slice(0, MAX_TRACEBACK / 4) + "\n    ...\n" + stack.slice(-MAX_TRACEBACK * 0.75);
    return stack.toWellFormed ? stack.toWellFormed() : stack;
  }

  const home = process.cwd(); // modules are never looked for in a workspace

  function prepare(frame) {
    for (const k of keys(frame.env || {})) process.env[k] = frame.env[k];
    for (const f of frame.files || []) {
      const dir = path.dirname(f.name);
      if (dir !== ".") fs.mkdirSync(dir, { recursive: true });
      const data = BufferOf(f.data, "base64");
      fs.writeFileSync(f.name, f.after ? concat([fs.readFileSync(f.after), NEWLINE, data]) : data, { mode: f.mode || 0o644 });
      if (f.trust && egress) egress.trust(base64(data, "utf8"));
    }
    if (egress) egress.lead(false);
    process.argv = [process.argv[0], frame.file];
    if (frame.scripts) own(frame.scripts);
    if (frame.workdir) process.chdir(process.env.HAFT_WORKSPACE);
  }

  // own lets require load the files of the tool as the host has translated them: x.ts also as
  // ./x and ./x.js.
  const scripts = new Map();
  function own(list) {
    const first = scripts.size === 0;
    for (const s of list) scripts.set(path.join(process.cwd(), s.name), s);
    if (!first) return;
    const loaders = Module._extensions;
    for (const ext of [".js", ".mjs", ".ts", ".mts", ".cts"]) {
      const load = loaders[ext] || loaders[".js"];
      loaders[ext] = (m, file) => {
        const s = scripts.get(file);
        if (!s) return load(m, file);
        if (s.error) throw new SyntaxError(s.name + ": " + s.error);
        m._compile(s.source, file);
      };
    }
    const locate = Module._resolveFilename;
    Module._resolveFilename = function (request, parent, ...rest) {
      if (/^\.\.?\//.test(request) && parent && parent.filename) {
        const at = path.resolve(path.dirname(parent.filename), request);
        if (!scripts.has(at) && /\.[mc]?js$/.test(at)) {
          const ts = at.slice(0, -2) + "ts";
          if (scripts.has(ts)) return ts;
        }
      }
      return locate.call(this, request, parent, ...rest);
    };
  }

  function moduleOf(frame) {
    const file = path.join(home, frame.file);
    const m = new Module(file, null);
    m.filename = file;
    m.paths = (frame.path || []).concat(Module._nodeModulePaths(home));
    return m;
  }

  // define gives a tool of Letta its client, which is null without a key or the package.
  function define(frame) {
    const apiKey = process.env.LETTA_API_KEY;
    const baseURL = process.env.LETTA_BASE_URL;
    let client = null;
    try {
      const lib = apiKey && moduleOf(frame).require("@letta-ai/letta-client");
      const Client = lib && (lib.Letta || lib.LettaClient || lib.default);
      if (Client) client = new Client({ apiKey, token: apiKey, baseURL, baseUrl: baseURL });
    } catch {} // as Letta does
    Object.defineProperty(globalThis, "client", { value: client, writable: true, configurable: true });
  }

  function load(frame) {
    const m = moduleOf(frame);
    if (frame.invoke) {
      // Asks for a call of another tool, and waits for its end.
      m.invoke = (text) => {
        send(text);
        return receive();
      };
    }
    m._compile(frame.source, m.filename);
    return m.exports;
  }

  function find(exports, name) {
    const local = globalThis[Symbol.for("haft")];
    delete globalThis[Symbol.for("haft")];
    const d = exports && exports.default;
    if (name) {
      if (exports && typeof exports[name] === "function") return exports[name];
      if (typeof local === "function") return local;
      if (d && typeof d[name] === "function") return d[name];
      if (typeof d === "function" && (d.name === name || name === "default")) return d;
      if (typeof exports === "function" && (exports.name === name || name === "default")) return exports;
      throw new Source("there is no function " + name);
    }
    if (typeof d === "function") return d;
    if (typeof exports === "function") return exports;
    throw new Source("there is no default export that is a function");
  }

  // passed lists what the function is given.
  function passed(frame) {
    const inject = frame.inject || {};
    if (inject.agent_state && inject.agent_state.memory && inject.agent_state.memory.blocks) {
      frame.before = encode(inject.agent_state, frame.limit);
      frame.agent = inject.agent_state;
    }
    for (const f of frame.file_args || []) {
      let v = frame.args;
      for (const step of f.at.slice(0, -1)) v = v[step];
      v[f.at[f.at.length - 1]] = f.format === "haft-file" ? fs.readFileSync(f.path) : path.resolve(f.path);
    }
    if (!frame.pass || frame.pass.length === 0) return [{ ...frame.args, ...inject }];
    const rest = { ...inject };
    for (const p of frame.pass) if (!p.whole) delete rest[p.name];
    const list = frame.pass.map((p) => {
      if (p.whole) return { ...frame.args, ...rest };
      return has(inject, p.name) ? inject[p.name] : frame.args[p.name];
    });
    // Defaults of the function apply to what is not given.
    while (list.length && list[list.length - 1] === undefined) list.pop();
    return list;
  }

  let loaded = null;
  function run(frame, done) {
    const t0 = now();
    prepare(frame);
    if (loaded && loaded.source === frame.source) return invoke(frame, done, t0);
    if (frame.letta && /\bclient\b/.test(frame.source)) define(frame);
    if (!frame.esm) {
      loaded = { source: frame.source, exports: load(frame) };
      return invoke(frame, done, t0);
    }
    // Only a real module may await outside of a function.
    const from = place(frame);
    const ready = import(from.url);
    const begin = (exports) => {
      from.done();
      loaded = { source: frame.source, exports };
      invoke(frame, done, t0);
    };
    then(then(ready, begin), undefined, (e) => raised(e, frame));
  }

  // place is where a module is imported from. Only one in a file finds packages.
  function place(frame) {
    const source = frame.source.replace(IMPORT, "$1" + URL_OF_API + ";");
    if (!(frame.path && frame.path.length) && !frame.files) {
      return { url: "data:text/javascript;base64," + base64(BufferOf(source, "utf8"), "base64"), done() {} };
    }
    const file = path.join(home, frame.file + ".mjs");
    fs.writeFileSync(file, source);
    return { url: require("node:url").pathToFileURL(file).href, done: () => fs.rmSync(file, { force: true }) };
  }

  // anyText writes a value. What is no data becomes its text, if any value will do.
  function anyText(value, frame) {
    try {
      return encode(value, frame.limit);
    } catch (e) {
      if (!(e instanceof Bad) || !frame.any) throw e;
    }
    return encode(typeof value === "object" && !types.isNativeError(value) ? inspect(value) : str(value), frame.limit);
  }

  function invoke(frame, done, t0) {
    const func = find(loaded.exports, frame.function);
    const args = passed(frame);
    const t1 = now();
    const finish = (value) => {
      if (types.isGeneratorObject(value)) return stream(value, frame.limit, (s) => encoded(s, now()), (e) => raised(e, frame));
      const t2 = now();
      encoded(anyText(value, frame), t2);
    };
    const encoded = (s, t2) => {
      const state = frame.agent ? encode(frame.agent, frame.limit) : undefined;
      const changed = state === frame.before ? "" : ',"state":' + state;
      done('{"type":"result","times":[' + (t1 - t0).toFixed(3) + "," + (t2 - t1).toFixed(3) + "," + (now() - t2).toFixed(3) + "]" + changed + ',"value":' + s + "}");
    };
    const value = func(...args);
    if (value !== null && typeof value === "object" && typeof value.then === "function") {
      then(then(resolve(value), finish), undefined, (e) => raised(e, frame));
      return;
    }
    finish(value);
  }

  const WARM = {
    file: "warm.js", function: "run", limit: 1 << 16, args: { n: 1, s: ["a"] },
    source: "exports.run = function run({n, s}) { return {n: n + 1, s, d: new Date(0), m: new Map([[1, new Set([2])]]), b: Buffer.from('x')}; };",
  };

  function main() {
    send('{"type":"hello"}');
    for (;;) {
      const frame = receive();
      if (frame.type === "warm") {
        run(WARM, () => {});
        trace(new Error("x"), WARM);
        loaded = null;
        if (egress) egress.lead(true);
        send('{"type":"ready"}');
        continue;
      }
      serve(frame);
      return;
    }
  }

  function serve(frame) {
    answered = false;
    reuse = !!frame.reuse;
    current = frame;
    const fail = (e) => raised(e, frame);
    process.on("uncaughtException", fail);
    process.on("exit", (code) => {
      if (!answered && code === 0 && !exiting) failure("exception", { error: "Error", message: "nothing is left to do, and the promise that it gave never settles" });
    });
    try {
      run(frame, answer);
    } catch (e) {
      fail(e);
    }
    if (reuse) next();
  }

  // With reuse the next call is waited for when this one has been answered.
  function next() {
    setImmediate(() => (answered ? serve2() : setTimeout(next, 1)));
  }
  function serve2() {
    process.removeAllListeners("uncaughtException");
    process.removeAllListeners("exit");
    serve(receive());
  }

  // An exit that the tool asks for is told apart from running out of work.
  let exiting = false;
  const exit = process.exit;
  process.exit = function (code) {
    exiting = true;
    return exit.call(process, code);
  };

  main();
})
