"""An MCP server on its standard streams, honest or hostile by its first argument."""
import json
import os
import sys
import threading
import time

mode = sys.argv[1] if len(sys.argv) > 1 else "honest"
lock = threading.Lock()


def say(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def tool(name):
    return {"name": name, "description": "Tool " + name + ".", "inputSchema": {"type": "object", "properties": {"x": {"type": "string"}}}}


def listed(params):
    if mode == "huge-list":
        n = int((params or {}).get("cursor") or 0)
        return {"tools": [tool("t%d_%d" % (n, i)) for i in range(500)], "nextCursor": str(n + 1)}
    if mode == "circle":
        return {"tools": [tool("a")], "nextCursor": "again"}
    if mode == "huge-tool":
        return {"tools": [tool("ok"), {**tool("big"), "description": "x" * (2 << 20)}, tool("ok")]}
    if mode == "huge-message":
        return {"tools": [tool("x" * 100) for _ in range(400000)]}
    return {"tools": [tool(n) for n in ("echo", "slow", "fail", "pid", "env", "log", "die")] + [tool("t%d" % i) for i in range(3)]}


def call(ident, params):
    name, args, meta = params["name"], params.get("arguments") or {}, params.get("_meta") or {}
    text = lambda t, **more: say({"id": ident, "result": {"content": [{"type": "text", "text": t}], **more}})
    if mode == "wrong-ids":
        say({"id": 987654, "result": {"content": [{"type": "text", "text": "another's"}]}})
        return
    if mode == "invalid-json":
        with lock:
            sys.stdout.write("{this is no JSON\n")
            sys.stdout.flush()
        return
    if mode == "die-mid-call" or name == "die":
        os._exit(3)
    if name == "slow":
        for i in range(1000):
            if ident in cancelled:
                sys.stderr.write("cancelled %s\n" % args.get("x"))
                sys.stderr.flush()
                return
            if meta.get("progressToken") is not None and i < 3:
                say({"method": "notifications/progress", "params": {"progressToken": meta["progressToken"], "progress": i + 1, "total": 3}})
            if args.get("x") == "short" and i == 3:
                break
            time.sleep(0.01)
        text("done")
    elif name == "fail":
        text("it failed: " + str(args.get("x")), isError=True)
    elif name == "pid":
        text(str(os.getpid()))
    elif name == "env":
        text(os.environ.get(args.get("x", ""), "not set"))
    elif name == "log":
        say({"method": "notifications/message", "params": {"level": "info", "data": "a log line"}})
        sys.stderr.write("words on stderr\n")
        sys.stderr.flush()
        time.sleep(0.05)
        text("logged")
    else:
        text("echo " + str(args.get("x")))


cancelled = set()
if mode == "exit":
    sys.stderr.write("cannot start: the key SECRETKEY123456 is wrong\n")
    sys.exit(7)
if mode == "stderr-flood":
    def flood():
        while True:
            sys.stderr.write("x" * 65536)
    threading.Thread(target=flood, daemon=True).start()
for line in sys.stdin:
    request = json.loads(line)
    method, ident = request.get("method"), request.get("id")
    if mode == "no-answer":
        continue
    if method == "initialize":
        version = request["params"]["protocolVersion"]
        say({"id": ident, "result": {"protocolVersion": version, "capabilities": {"tools": {"listChanged": True}, "logging": {}}, "serverInfo": {"name": "fixture", "version": "1"}}})
        if mode == "notification-flood":
            def notify():
                while True:
                    say({"method": "notifications/tools/list_changed"})
            threading.Thread(target=notify, daemon=True).start()
    elif method == "tools/list":
        say({"id": ident, "result": listed(request.get("params"))})
    elif method == "tools/call":
        if mode == "no-call-answer":
            while True:
                time.sleep(1)
        threading.Thread(target=call, args=(ident, request["params"]), daemon=True).start()
    elif method == "notifications/cancelled":
        cancelled.add(request["params"]["requestId"])
    elif method == "ping":
        say({"id": ident, "result": {}})
    elif ident is not None:
        say({"id": ident, "error": {"code": -32601, "message": "there is no such method"}})
