# Follows session_agent.py and session_notebook.py in one module: the Python contexts of a session. Each is a fork of the
# agent, so that it starts at once.


def _fork_kernel(control, out, err, cwd):
    if not os.path.isdir(cwd):
        raise _Refused("not_found", "%s: there is no such directory" % cwd)
    pid = os.fork()
    if pid:
        try:
            os.setpgid(pid, pid)
        except OSError:
            pass  # the child has done it
        return pid
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.setpgid(0, 0)
        os.chdir(cwd)
        null = os.open("/dev/null", os.O_RDONLY)
        for fd, to in ((null, 0), (out, 1), (err, 2)):
            os.dup2(fd, to)
        os.dup2(control, 3)
        os.closerange(4, 4096)
        os.set_inheritable(3, False)
        _Kernel(3).serve()
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        os._exit(1)


# The methods by which objects show themselves, as notebooks know them.
_SHOWN = (("html", "_repr_html_"), ("markdown", "_repr_markdown_"), ("svg", "_repr_svg_"), ("png", "_repr_png_"),
          ("jpeg", "_repr_jpeg_"), ("pdf", "_repr_pdf_"), ("latex", "_repr_latex_"), ("json", "_repr_json_"),
          ("javascript", "_repr_javascript_"))
_MIME = {"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg",
         "image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex",
         "application/json": "json", "application/javascript": "javascript"}
_MAX_SHOWN = 8 << 20
_MAX_NAMES = 500


class _Kernel:
    def __init__(self, fd):
        self.fd, self.left, self.count, self.loop, self.dropped = fd, bytearray(), 0, None, False
        self.module = sys.modules["__main__"] = type(sys)("__main__")
        self.names = self.module.__dict__
        self.names.update(display=self.display, _haft_shell=_haft_shell)
        sys.argv = [""]
        if "" not in sys.path:
            sys.path.insert(0, "")
            # What pip installs in the session. The interpreter itself reads no such directory.
            sys.path.append("/work/.local/lib/python%d.%d/site-packages" % sys.version_info[:2])
        os.environ.setdefault("MPLBACKEND", "agg")

    def receive(self):
        while True:
            at = self.left.find(b"\0")
            if at >= 0:
                text = bytes(self.left[:at])
                del self.left[:at + 1]
                return json.loads(text)
            data = os.read(self.fd, 1 << 16)
            if not data:
                os._exit(0)
            self.left += data

    def send(self, text):
        data = memoryview(text.encode("utf-8", "replace") + b"\0")
        while data:
            data = data[os.write(self.fd, data):]

    def serve(self):
        while True:
            m = self.receive()
            if m.get("variables"):
                self.send(json.dumps({"done": True, "variables": self.variables()}))
                continue
            before = {k: os.environ.get(k) for k in m.get("env") or {}}
            os.environ.update(m.get("env") or {})
            self.count += 1
            error = None
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                self.run(m["code"])
                self.figures()
            except BaseException as e:
                error = self.failure(e)
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            for k, v in before.items():
                os.environ.pop(k, None)
                if v is not None:
                    os.environ[k] = v
            for s in (sys.stdout, sys.stderr):
                try:
                    s.flush()
                except BaseException:
                    pass
            done = {"done": True, "count": self.count}
            if error:
                done["error"] = error
            self.send(json.dumps(done))

    def run(self, code):
        import ast
        import linecache
        file = "<code %d>" % self.count
        linecache.cache[file] = (len(code), None, code.splitlines(True), file)
        tree = ast.parse(_plain(code, file), file)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.evaluate(compile(tree, file, "exec", flags, True))
        if last is not None:
            value = self.evaluate(compile(last, file, "eval", flags, True))
            if value is not None:
                self.names["_"] = value
                self.show(value, True)

    def evaluate(self, code):
        import inspect
        value = eval(code, self.names)
        if code.co_flags & inspect.CO_COROUTINE:
            import asyncio
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                asyncio.set_event_loop(self.loop)
            value = self.loop.run_until_complete(value)
        return value

    def display(self, *values):
        for v in values:
            self.show(v, False)

    def show(self, value, main):
        for s in (sys.stdout, sys.stderr):
            s.flush()
        out = {}
        bundle = getattr(value, "_repr_mimebundle_", None)
        if bundle is not None and not isinstance(value, type):
            try:
                found = bundle(include=None, exclude=None)
                for k, v in (found[0] if isinstance(found, tuple) else found or {}).items():
                    if k in _MIME:
                        out[_MIME[k]] = v
            except Exception:
                pass
        for key, method in _SHOWN:
            if key not in out and not isinstance(value, type) and callable(getattr(type(value), method, None)):
                try:
                    v = getattr(value, method)()
                    out[key] = v[0] if isinstance(v, tuple) else v
                except Exception:
                    pass
        if "text" not in out:
            out["text"] = value if isinstance(value, str) and main else repr(value)
        self.table(value, out)
        if type(value) in (dict, list, tuple, int, float, bool):
            out.setdefault("json", value)
        self.result({k: v for k, v in out.items() if v is not None}, main)

    def table(self, value, out):
        """Adds the rows of a data frame or series, with the labels of its index."""
        t = type(value)
        if t.__module__.split(".")[0] == "pandas" and t.__name__ in ("DataFrame", "Series"):
            try:
                frame = value.to_frame() if t.__name__ == "Series" else value
                out["table"] = json.loads(frame.head(1000).to_json(orient="split", date_format="iso"))
            except Exception:
                pass

    def result(self, out, main):
        import base64
        for k, v in list(out.items()):
            if isinstance(v, bytes):
                out[k] = base64.b64encode(v).decode("ascii")
        try:
            text = json.dumps({"result": out, "main": main}, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            for k in ("json", "table"):
                out.pop(k, None)
            text = json.dumps({"result": {k: str(v) for k, v in out.items()}, "main": main})
        if len(text) > _MAX_SHOWN:
            text = json.dumps({"result": {"text": out.get("text", "")[:1 << 16]}, "main": main, "cut": True})
        self.send(text)

    def figures(self):
        """Shows the figures of matplotlib that are open, as notebooks do."""
        plt = sys.modules.get("matplotlib.pyplot")
        if plt is None:
            return
        import io
        for n in plt.get_fignums():
            png = io.BytesIO()
            plt.figure(n).savefig(png, format="png", bbox_inches="tight")
            self.result({"text": "Figure %d" % n, "png": png.getvalue()}, False)
        plt.close("all")

    def failure(self, e):
        import traceback
        try:
            tb = e.__traceback__
            while tb is not None and not tb.tb_frame.f_code.co_filename.startswith("<code "):
                tb = tb.tb_next
            text = "".join(traceback.format_exception(type(e), e, tb))
            line = e.lineno if isinstance(e, SyntaxError) else None
            while tb is not None:
                if tb.tb_frame.f_code.co_filename.startswith("<code "):
                    line = tb.tb_lineno
                tb = tb.tb_next
            out = {"name": type(e).__name__, "value": str(e)[:8 << 10], "traceback": text[-(16 << 10):]}
            if line:
                out["line"] = line
            return out
        except BaseException:
            return {"name": type(e).__name__, "value": "", "traceback": ""}

    def variables(self):
        out = []
        for name, v in list(self.names.items()):
            if name.startswith("_") or name == "display" or len(out) >= _MAX_NAMES:
                continue
            try:
                text = repr(v)[:200]
            except BaseException:
                text = ""
            out.append({"name": name, "type": type(v).__name__, "text": text})
        return out
