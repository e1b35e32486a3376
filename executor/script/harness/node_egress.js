// Leads requests to the egress proxy of a call, which is its only network. fetch does not read
// HTTP_PROXY before Node.js 24, and the modules http and https not before 22.21 and
// 24.5; there, connections of both go through a tunnel (CONNECT) from here. Later
// versions do it themselves, see NODE_USE_ENV_PROXY.
(() => {
  const net = require("node:net");
  const { hostname: HOST, port: PORT } = new URL(process.env.HTTP_PROXY);
  const MAX_REFUSAL = 4 << 10;
  const [major, minor] = process.versions.node.split(".").map(Number);
  const native = major > 24 || (major === 24 && minor >= 5) || (major === 22 && minor >= 21);

  // refused reads why the proxy does not let us through.
  function refused(to, res, socket, head, done) {
    const parts = [head];
    let size = head.length;
    const length = Number(res.headers["content-length"]) || 0;
    const end = () => {
      socket.destroy();
      const text = Buffer.concat(parts).toString("utf8", 0, MAX_REFUSAL).trim() || res.statusMessage;
      const e = new Error(text || "the proxy answered " + res.statusCode + " for " + to);
      e.code = "EACCES";
      done(e);
    };
    if (size >= length) return end();
    socket.on("data", (b) => {
      parts.push(b);
      size += b.length;
      if (size >= length || size > MAX_REFUSAL) socket.destroy();
    });
    socket.on("error", () => {}); // close follows
    socket.once("close", end);
  }

  // tunnel connects to a host through the egress proxy.
  function tunnel(host, port, done) {
    const to = (net.isIPv6(host) ? "[" + host + "]" : host) + ":" + port;
    const req = http.request({ method: "CONNECT", path: to, headers: { host: to }, agent: straight });
    req.once("error", done);
    req.once("connect", (res, socket, head) => {
      req.removeListener("error", done);
      if (res.statusCode !== 200) return refused(to, res, socket, head, done);
      if (head.length) socket.unshift(head);
      done(null, socket);
    });
    req.end();
  }

  // foreign reports whether a connection has to go through a tunnel.
  const foreign = (o) =>
    o !== null && typeof o === "object" && !o.socketPath && !o.socket && !o.path?.startsWith?.("\0") &&
    !((o.host === HOST || o.hostname === HOST) && String(o.port) === PORT);

  let http, tls, straight;

  // agents leads the modules http and https, and all agents derived from theirs.
  function agents() {
    http = require("node:http");
    tls = require("node:tls");
    if (native) return;
    straight = new http.Agent();
    straight.createConnection = () => net.connect(PORT, HOST);
    const https = require("node:https");
    const plain = http.Agent.prototype.createConnection;
    http.Agent.prototype.createConnection = function createConnection(o, done) {
      if (typeof done !== "function" || !foreign(o)) return plain.apply(this, arguments);
      tunnel(o.host || "localhost", o.port || 80, done);
    };
    const secure = https.Agent.prototype.createConnection;
    https.Agent.prototype.createConnection = function createConnection(o, done) {
      if (typeof done !== "function" || !foreign(o)) return secure.apply(this, arguments);
      tunnel(o.host || "localhost", o.port || 443, (e, socket) => (e ? done(e) : done(null, secure.call(this, { ...o, socket }))));
    };
  }

  // dispatcher leads fetch. Its library is not to be had by name, but has left its
  // agent in a well-known place, which it looks at for every request.
  let led = native;
  function dispatcher() {
    if (led) return;
    led = true;
    void globalThis.Headers; // loads the library
    const place = Symbol.for("undici.globalDispatcher.1");
    const Agent = globalThis[place].constructor;
    const connect = (o, done) =>
      tunnel(o.hostname, o.port || (o.protocol === "https:" ? 443 : 80), (e, socket) => {
        if (e || o.protocol !== "https:") return done(e, socket || null);
        const servername = o.servername || (net.isIP(o.hostname) ? "" : o.hostname);
        const s = tls.connect({ socket, servername, ALPNProtocols: ["http/1.1"] });
        const fail = (e) => done(e, null);
        s.once("error", fail);
        s.once("secureConnect", () => {
          s.removeListener("error", fail);
          done(null, s);
        });
      });
    globalThis[place] = new Agent({ connect });
  }

  // lead is called before the code of a tool runs. Loading the library of fetch
  // takes longer than most calls, so that waits for its use, unless the process is
  // being warmed.
  let ready = false;
  function lead(warm) {
    if (!ready) {
      ready = true;
      agents();
      if (!native) {
        const real = globalThis.fetch;
        globalThis.fetch = function fetch(input, init) {
          dispatcher();
          return real(input, init);
        };
      }
    }
    if (warm) dispatcher();
  }

  // trust adds certificates. NODE_EXTRA_CA_CERTS is read at the start of a process,
  // and this one was there before the call.
  let certs = null;
  function trust(pem) {
    lead(false);
    if (tls.setDefaultCACertificates) {
      certs = certs || tls.getCACertificates("default");
      return tls.setDefaultCACertificates([...certs, pem]);
    }
    if (!certs) {
      const make = tls.createSecureContext;
      tls.createSecureContext = function createSecureContext(o, ...rest) {
        const c = make(o, ...rest);
        if (!o || !o.ca) c.context.addCACert(certs);
        return c;
      };
    }
    certs = pem;
  }

  return { lead, trust };
})()
