// Runs code of a session in one Node.js process: codes come and answers go on a descriptor, as JSON with NUL at the end.
(() => {
  const fs = require("fs"), net = require("net"), repl = require("repl"), util = require("util"), vm = require("vm");
  const { PassThrough } = require("stream");
  const fd = Number(process.env.HAFT_KERNEL_FD);
  delete process.env.HAFT_KERNEL_FD;
  const quiet = new PassThrough();
  quiet.resume();
  const shell = repl.start({
    prompt: "", input: new PassThrough(), output: quiet, terminal: false, useGlobal: true, ignoreUndefined: true,
  });
  const control = new net.Socket({ fd, readable: true, writable: false });

  // All writing is done at once and keeps no state, because an interrupt may end it anywhere.
  const pause = new Int32Array(new SharedArrayBuffer(4));
  function writeAll(to, data) {
    for (let b = typeof data === "string" ? Buffer.from(data) : Buffer.from(data.buffer, data.byteOffset, data.length); b.length;) {
      try {
        b = b.subarray(fs.writeSync(to, b));
      } catch (e) {
        if (e.code !== "EAGAIN") return;
        Atomics.wait(pause, 0, 0, 1);
      }
    }
  }
  for (const s of [process.stdout, process.stderr]) {
    s.write = (data, encoding, done) => {
      writeAll(s.fd, typeof data === "string" && typeof encoding === "string" ? Buffer.from(data, encoding) : data);
      const then = typeof encoding === "function" ? encoding : done;
      if (then) setImmediate(then);
      return true;
    };
  }
  const send = (m) => writeAll(fd, JSON.stringify(m) + "\0");
  let count = 0;

  function shown(value, main) {
    const out = { text: typeof value === "string" && main ? value : util.inspect(value, { depth: 4 }) };
    if (value !== null && typeof value === "object" && typeof value !== "function") {
      try {
        const text = JSON.stringify(value);
        if (text !== undefined && text.length < 1 << 20) out.json = JSON.parse(text);
      } catch {}
    } else if (typeof value === "number" || typeof value === "boolean") out.json = value;
    return { result: out, main };
  }
  globalThis.display = (...values) => values.forEach((v) => send(shown(v, false)));

  // Imports become what a script can do.
  const names = (list) => list.replace(/\bas\b/g, ":");
  const imports = (code) => code
    .replace(/^[ \t]*import\s+\*\s+as\s+([\w$]+)\s+from\s+(["'][^"']+["'])/gm, "var $1 = await import($2)")
    .replace(/^[ \t]*import\s+([\w$]+)\s*,\s*(\{[^}]*\})\s+from\s+(["'][^"']+["'])/gm,
      (_, one, list, from) => `var { default: ${one}, ${names(list).slice(1)} = await import(${from})`)
    .replace(/^[ \t]*import\s+(\{[^}]*\})\s+from\s+(["'][^"']+["'])/gm,
      (_, list, from) => `var ${names(list)} = await import(${from})`)
    .replace(/^[ \t]*import\s+([\w$]+)\s+from\s+(["'][^"']+["'])/gm, "var { default: $1 } = await import($2)")
    .replace(/^[ \t]*import\s+(["'][^"']+["'])/gm, "await import($1)");

  // A script can be interrupted anywhere. Code that awaits is none: the shell of Node.js makes one of it. What that
  // throws at once goes to the domain of the shell, in versions that have one.
  let threw = () => {};
  const interrupted = () => threw(new Error("interrupted"));
  shell._domain?.removeAllListeners("error");
  shell._domain?.on("error", (e) => threw(e));
  const evaluate = (code, file, m) => new Promise((done, failed) => {
    threw = failed;
    // An interrupt at times ends more than the script: all of what waits for it. Then this comes to run.
    const rest = m && setTimeout(() => finish(m, { count, error: failure(new Error("interrupted")) }), 0);
    try {
      const script = new vm.Script(code, { filename: file, importModuleDynamically: vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER });
      const value = script.runInThisContext({ breakOnSigint: true, displayErrors: false });
      clearTimeout(rest);
      return done(value);
    } catch (e) {
      clearTimeout(rest);
      if (!(e instanceof SyntaxError && /\bawait\b/.test(code))) return failed(e);
    }
    // A script is interrupted by Node.js itself, what awaits is not.
    process.on("SIGINT", interrupted);
    const run = () => shell.eval(code, shell.context, file, (err, value) => err ? failed(err) : done(value));
    shell._domain ? shell._domain.run(run) : run();
  });

  function failure(e) {
    e = e?.err ?? e; // of code that is not whole
    if (!(e instanceof Error) && !(e && typeof e === "object" && "message" in e)) {
      return { name: "Error", value: util.inspect(e), traceback: "" };
    }
    const stack = String(e.stack ?? ""), at = stack.match(/<?code \d+>?:(\d+)/);
    const kept = stack.split("\n").filter((l) => !/node:|\[eval\]/.test(l)).join("\n");
    const out = { name: String(e.name ?? "Error"), value: String(e.message).slice(0, 8192), traceback: kept.slice(0, 16384) };
    if (at) out.line = Number(at[1]);
    return out;
  }

  async function run(m) {
    count++;
    m.before = Object.keys(m.env ?? {}).map((k) => [k, process.env[k]]);
    Object.assign(process.env, m.env);
    note(m.code);
    try {
      const value = await evaluate(imports(m.code) + "\n", `code ${count}`, m);
      if (value !== undefined) send(shown(value, true));
      finish(m, { count });
    } catch (e) {
      finish(m, { count, error: failure(e) });
    }
  }

  // finish ends what m asks for, once, and goes on with what came meanwhile.
  let current;
  const pending = [];
  function finish(m, done) {
    if (current !== m) return;
    current = undefined;
    for (const [k, v] of m.before ?? []) v === undefined ? delete process.env[k] : process.env[k] = v;
    process.off("SIGINT", interrupted);
    send({ done: true, ...done });
    setImmediate(next);
  }
  function next() {
    if (current || !pending.length) return;
    current = pending.shift();
    current.variables ? variables(current) : run(current);
  }

  // Names of let, const and class are no properties of anything, so that they are noted as they come.
  const standard = new Set(Object.getOwnPropertyNames(globalThis)), declared = new Set();
  const note = (code) => {
    for (const m of code.matchAll(/^[ \t]*(?:let|const|class)\s+([A-Za-z_$][\w$]*)/gm)) declared.add(m[1]);
  };
  async function variables(m) {
    const all = new Set([...declared, ...Object.getOwnPropertyNames(globalThis).filter((n) => !standard.has(n))]);
    const list = [];
    for (const name of [...all].slice(0, 500)) {
      try {
        const v = await evaluate(name + "\n", "variables");
        list.push({ name, type: typeof v, text: util.inspect(v, { depth: 1 }).slice(0, 200) });
      } catch {}
    }
    finish(m, { variables: list });
  }

  let left = Buffer.alloc(0);
  control.on("data", (data) => {
    left = Buffer.concat([left, data]);
    for (let at; (at = left.indexOf(0)) >= 0; left = left.subarray(at + 1)) {
      const m = JSON.parse(left.subarray(0, at).toString("utf8"));
      pending.push(m);
      setImmediate(next);
    }
  });
  control.on("close", () => process.exit(0));
  process.on("uncaughtException", (e) => process.stderr.write(util.inspect(e) + "\n"));
})();
