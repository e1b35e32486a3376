

# One call: read the frame, load the source as a module, run the function, answer.

_FILE = "<haft>"
_MODULE = "__haft_tool__"
_MAX_TRACEBACK = 8 << 10
_MAX_MESSAGE = 4 << 10


class _Scan:
    """The options of the C scanner of JSON."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    memo = {}

    @staticmethod
    def parse_constant(name):
        raise ValueError(name)


try:
    from _json import make_scanner as _make_scanner

    def _decode(text, scan=_make_scanner(_Scan())):
        return scan(text, 0)[0]
except ImportError:
    from json import loads as _decode


# What a cell writes to is copied from the template, and looking at an object is writing. So what can
# be done before a cell is forked is done here, when this program is loaded.
import fcntl as _fcntl
import _signal
import _socket
import _thread
from time import perf_counter as _clock

_fd = -1  # of the channel
_read, _write, _close, _leave, _getpid = os.read, os.write, os.close, os._exit, os.getpid
_lock, _masks, _socket_of, _shut = _thread.allocate_lock(), [], _socket.socket, _socket.SHUT_WR
_setmask, _block, _reset, _TERM = _signal.pthread_sigmask, _signal.SIG_BLOCK, _signal.SIG_SETMASK, [_signal.SIGTERM]
_getsignal, _signals, _default, _pause = _signal.getsignal, _signal.signal, _signal.SIG_DFL, _signal.pause


_is_early = []


def early():
    """Does in a template what each of its forks would do at its start. It is called if a fork runs no
    functions that were registered."""
    os.register_at_fork(before=_before_fork, after_in_parent=_unmask, after_in_child=_forked)
    sys.modules["__main__"] = type(sys)("__main__")
    _signals(_TERM[0], _terminate)
    _is_early.append(True)


def _connect(fd):
    """Takes the channel."""
    global _fd
    try:
        # Out of the way of descriptors that the tool will open, and not for the
        # programs that it starts.
        _fd = _fcntl.fcntl(fd, _fcntl.F_DUPFD_CLOEXEC, 100)
        _close(fd)
    except OSError:
        os.set_inheritable(fd, False)
        _fd = fd


def _receive():
    """The text of the next frame."""
    return _take(int.from_bytes(_take(4), "big")).decode("utf-8")


def _take(n):
    parts = []
    while n:
        part = _read(_fd, min(n, 1 << 20))
        if not part:
            # The host is gone.
            _leave(0)
        parts.append(part)
        n -= len(part)
    return b"".join(parts)


def _send(payload, report=False):
    """Sends a frame."""
    # A handler of a signal may report while this thread sends: it waits in vain.
    if not _lock.acquire(True, 1 if report else -1):
        return
    try:
        if report and not _running:
            return
        data = memoryview(len(payload).to_bytes(4, "big") + payload)
        while data:
            data = data[_write(_fd, data):]
    finally:
        _lock.release()


def _finish():
    """Ends the channel. The host sees that even if a child of the tool still holds the descriptor."""
    s = _socket_of(fileno=_fd)
    s.shutdown(_shut)
    s.detach()


def _await_host():
    """Waits until the host closes its end, which it does when it has the result, or dies itself:
    exiting takes longer than most calls, and the host need not wait for it."""
    try:
        while _read(_fd, 4096):
            pass
    except OSError:
        pass


def _before_fork():
    # Python would lose a signal that comes before the child has its handler.
    _masks.append(_setmask(_block, _TERM))


def _unmask():
    _setmask(_reset, _masks.pop())


def _forked():
    del _running[:]
    try:
        _close(_fd)
    except OSError:
        pass
    if _getsignal(_TERM[0]) is _terminate:
        _signals(_TERM[0], _default)
    _unmask()


_running = []  # has something while the function of the tool runs in this process
_ITEM, _ITEMS, _ITEM_BYTES, _TEXT = 32 << 10, 1000, 1 << 20, 1000


def _terminate(*_, leave=os._exit):
    """The handler of SIGTERM: the finally clauses of the tool run."""
    if not _running:
        leave(143)
    raise SystemExit(143)


def progress(done, total=None, text=""):
    """Reports how far the call is: done of total, and a text."""
    frame = {"type": "progress", "progress": float(done), "message": _str(text)}
    if total is not None:
        frame["total"] = float(total)
    if len(frame["message"]) > _TEXT:
        frame["message"] = "(a text of %d characters)" % len(frame["message"])
    frame["message"] = _clean(frame["message"])
    if not all(abs(v) < float("inf") for v in (frame["progress"], frame.get("total", 0))):
        raise ValueError("done and total are finite numbers")
    if _running:
        try:
            _ask[0](_encode(frame, 1 << 13), True)
        except OSError:
            pass  # the tool has closed the channel


class _Haft:
    """Finds the module haft for a tool that does not bring one. Our client, which is another
    module of that name, asks for _haft_sandbox."""

    @staticmethod
    def find_spec(name, path=None, target=None, spec=type(sys.__spec__)):
        return spec(name, _Haft) if name in ("haft", "_haft_sandbox") else None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        module.progress, module.File, module.tool = progress, File, _tool


sys.meta_path.append(_Haft)


def _tool(function=None, *_, **__):
    """A decorator that changes nothing, with and without arguments."""
    return function if callable(function) else _tool


class _Server:
    """Stands for a server of MCP, of which a tool only needs the decorators."""

    def __init__(self, *_, **__):
        pass

    def run(self, *_, **__):
        pass

    tool = resource = prompt = custom_route = staticmethod(_tool)


# Modules whose decorators make tools of functions, by what a source may take of them.
_DECORATORS = {
    "mcp.server.fastmcp": {"FastMCP": _Server}, "mcp.server": {"FastMCP": _Server}, "fastmcp": {"FastMCP": _Server},
    "langchain_core.tools": {"tool": _tool}, "langchain.tools": {"tool": _tool},
    "langchain.agents": {"tool": _tool},
}


class _Decorators:
    """Finds the modules above for a tool whose source imports them and that does not bring them. What
    else a source takes of them is missing as the package is."""

    names = frozenset(n for full in _DECORATORS for n in (full, full.partition(".")[0]))

    @staticmethod
    def find_spec(name, path=None, target=None, spec=type(sys.__spec__)):
        return spec(name, _Decorators, is_package=True) if name in _Decorators.names else None

    @staticmethod
    def create_module(spec):
        return None

    @staticmethod
    def exec_module(module):
        name = module.__name__

        def missing(attribute):
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            top = name.partition(".")[0]
            raise ModuleNotFoundError("No module named '%s'" % top, name=top)

        module.__dict__.update(_DECORATORS.get(name, {}), __getattr__=missing)


def _plain(func):
    """The function that a decorator made something else of: LangChain has it as func or coroutine,
    FastMCP as fn. What can be called is left as it is, unless it is theirs."""
    if not callable(func) or type(func).__module__.partition(".")[0] in _Decorators.names:
        for name in ("func", "coroutine", "fn"):
            inner = getattr(func, name, None)
            if _isinstance(inner, type(_plain)) and inner.__module__ == _MODULE:
                return inner
    return func


def _items(values, limit):
    """Reports each item of a generator, and returns the list of them as JSON."""
    parts, size = [], 2

    def add(value):
        nonlocal size
        text = _encode(value, limit - size)
        size += len(text) + 1
        parts.append(text)
        if len(parts) <= _ITEMS and len(text) <= _ITEM and size <= _ITEM_BYTES and _running:
            _ask[0](b'{"type":"progress","progress":%d,"value":%b}' % (len(parts), text), True)

    async def each():
        async for value in values:
            add(value)

    if type(values) is _GENERATORS[0]:
        for value in values:
            add(value)
    else:
        _await(each())
    return b"[" + b",".join(parts) + b"]"


async def _async_generator():
    yield


_GENERATORS = (type((_ for _ in ())), type(_async_generator()))


class _Source(Exception):
    """The source cannot be loaded."""

    def __init__(self, message, line=0, column=0):
        Exception.__init__(self, message)
        self.message, self.line, self.column = message, line, column


class _Loader:
    """Lets inspect and linecache find the source."""

    def __init__(self, source):
        self.source = source

    def get_source(self, name=None):
        return self.source


def _load(call):
    """The source as a module."""
    name = call["file"]
    source = call["source"]
    try:
        code = call.get("code") or compile(source, name, "exec", dont_inherit=True)
    except SyntaxError as e:
        raise _Source("%s: %s" % (type(e).__name__, e.msg), e.lineno or 0, e.offset or 0) from None
    except (ValueError, OverflowError, RecursionError, MemoryError) as e:
        raise _Source("%s: %s" % (type(e).__name__, e)) from None
    if "linecache" in sys.modules:
        _cache_lines(name, source)
    _file_of_tool[:] = [name, source]
    try:
        return _exec(call, code)
    except NameError as e:
        code = _unannotated(e, source, name)
        if code is None:
            raise
    return _exec(call, code)


_TYPING = frozenset((
    "Annotated", "Any", "Callable", "Dict", "FrozenSet", "Iterable", "List", "Literal", "Mapping", "NamedTuple",
    "Optional", "Sequence", "Set", "Tuple", "Type", "TypedDict", "Union"))


def _exec(call, code):
    module = type(sys)(_MODULE)
    module.__file__ = call["file"]
    # Without this exec would hand our private builtins to the tool.
    module.__dict__["__builtins__"] = _b
    module.__loader__ = _Loader(call["source"])
    sys.modules[_MODULE] = module
    if call.get("invoke"):
        module.__dict__["__haft_invoke__"] = _invoker(*_ask)
    if not _Decorators.names.isdisjoint(code.co_names) and _Decorators not in sys.meta_path:
        sys.meta_path.append(_Decorators)
    names = _TYPING.intersection(code.co_names)
    if call.get("letta"):
        _define(module, _names(code))
    elif names:
        # A source that does not import them means these, for the reader of the schema too.
        import typing
        for n in names:
            module.__dict__[n] = getattr(typing, n)
    exec(code, module.__dict__)
    return module


def _names(code):
    """The names that code and its functions use."""
    names = set(code.co_names)
    for c in code.co_consts:
        if type(c) is type(code):
            names |= _names(c)
    return names


def _define(module, names):
    """Defines those of names that Letta defines before the source of every tool."""
    import typing
    for n in names:
        if n in ("asyncio", "base64", "hashlib", "os", "pickle", "struct", "sys"):
            module.__dict__[n] = __import__(n)
        elif n in typing.__all__:
            module.__dict__[n] = getattr(typing, n)
    if "client" not in names and "Letta" not in names:
        return
    made, key, url = None, os.environ.get("LETTA_API_KEY"), os.environ.get("LETTA_BASE_URL")
    try:
        from letta_client import Letta
    except ImportError:
        Letta = None
    if Letta is not None and key:
        where = {"base_url": url} if url else {}
        try:
            made = Letta(api_key=key, **where)
        except TypeError:  # before 1.0
            made = Letta(token=key, **where)
    module.__dict__.update(Letta=Letta, client=made)


def _unannotated(e, source, name):
    """The code of a source with annotations that are not evaluated, or None. A function that
    was registered without the module around it may be annotated with names that are not
    there, such as the model of a schema that was given. Only a source that does
    nothing but define and import is run once more."""
    import ast
    import __future__
    missing = getattr(e, "name", None) or _str(e).partition("'")[2].partition("'")[0]
    try:
        tree = ast.parse(source)
        for s in tree.body:
            if not _isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)) and \
                    not (_isinstance(s, ast.Expr) and _isinstance(s.value, ast.Constant)):
                return None
        for f in ast.walk(tree):
            if _isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef)):
                f.returns = None
            elif _isinstance(f, ast.arg):
                f.annotation = None
        if any(_isinstance(n, ast.Name) and n.id == missing for n in ast.walk(tree)):
            return None
        return compile(source, name, "exec", __future__.annotations.compiler_flag, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Detector:
    """A stream that only knows whether something was written to it."""

    written = False

    def write(self, text):
        self.written = True

    def flush(self):
        pass


def _ahead(call, state):
    """Compiles a source while the host is still busy with the call. Errors and
    warnings of the compiler are left to the call, which compiles again."""
    if state.get("source") == call["source"]:
        return
    detector, stderr = _Detector(), sys.stderr
    sys.stderr = detector
    try:
        code = compile(call["source"], call["file"], "exec", dont_inherit=True)
        if not detector.written:
            call["code"] = code
    except BaseException:
        pass
    finally:
        sys.stderr = stderr


_file_of_tool = []
_ask = [_send, _receive]


def _invoker(send, receive):
    """Returns a function that sends a frame that asks for a call, and waits for its result."""
    import _thread
    lock = _thread.allocate_lock()

    def invoke(payload):
        with lock:  # threads take turns
            send(payload)
            return receive()

    return invoke


def _cache_lines(name, source):
    cache = getattr(sys.modules.get("linecache"), "cache", None)
    if type(cache) is dict:
        cache[name] = (len(source), None, source.splitlines(True), name)


def _find(module, name):
    func = _plain(module.__dict__.get(name))
    if func is None:
        raise _Source("there is no function %s" % name)
    if not callable(func):
        raise _Source("%s is not a function" % name)
    return func


def _prepare(call):
    """Sets up the environment, the files and the module path of a call."""
    for k, v in (call.get("env") or {}).items():
        os.environ[k] = v
    for p in call.get("path") or ():
        if p not in sys.path:
            sys.path.append(p)
    if call.get("files"):
        import binascii
        for f in call["files"]:
            name = f["name"]
            if "/" in name:
                os.makedirs(os.path.dirname(name), exist_ok=True)
            fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, f.get("mode") or 0o644)
            with os.fdopen(fd, "wb") as w:
                if f.get("after"):
                    with open(f["after"], "rb") as r:
                        w.write(r.read() + b"\n")
                w.write(binascii.a2b_base64(f["data"]))
    sys.argv = [call["file"]]
    if call.get("modules") and not any(isinstance(f, _Finder) for f in sys.meta_path):
        names = frozenset(call["modules"])
        standard = getattr(sys, "stdlib_module_names", ())
        # A package that was imported ahead may have the name of a file of the tool.
        for k in list(sys.modules):
            top = k.partition(".")[0]
            if top in names and top not in standard and not top.startswith("__"):
                del sys.modules[k]
        sys.meta_path.insert(0, _Finder(names))
    if call.get("workdir"):
        os.chdir(os.environ["HAFT_WORKSPACE"])


class _Finder:
    """Finds the modules that are files of the tool. Other files beside them are of
    whoever calls, so that the directory is not one to import from."""

    def __init__(self, names):
        from _frozen_importlib_external import PathFinder
        self.names, self.dirs, self.find = names, [os.getcwd()], PathFinder.find_spec

    def find_spec(self, name, path=None, target=None):
        if path is None and name in self.names:
            return self.find(name, self.dirs)
        return None


def _ready(call):
    """Sets up a call ahead. If that fails, the call does it again and reports the error."""
    try:
        _prepare(call)
        call["ready"] = True
    except BaseException:
        pass


def _run(call, state, clock):
    """Runs one call and returns the payload that answers it."""
    t0 = clock()
    try:
        module = state.get("module")
        if not call.get("ready"):
            _prepare(call)
        if module is None or state.get("source") != call["source"]:
            module = _load(call)
            state["module"], state["source"] = module, call["source"]
        func = _find(module, call["function"])
        _put_files(call["args"], call.get("file_args") or ())
        args, kwargs = _arguments(func, call, module)
        t1 = clock()
        value = func(*args, **kwargs)
        _settrace(None)
        if hasattr(type(value), "__await__"):
            value = _await(value)
        text = _items(value, call["limit"]) if type(value) in _GENERATORS else None
        t2 = clock()
        _settle()
        if text is None:
            text = _text_of(value, call)
        changed = b""
        if "agent" in call and call["agent"] != call["inject"]["agent_state"]:
            changed = b',"state":' + _encode(call["agent"], call["limit"], False)
        times = "%.3f,%.3f,%.3f" % ((t1 - t0) * 1e3, (t2 - t1) * 1e3, (clock() - t2) * 1e3)
        return b'{"type":"result","times":[' + times.encode("ascii") + b"]" + changed + b',"value":' + text + b"}"
    except BaseException as e:
        return _failure(e, call)


def _text_of(value, call):
    """The JSON text of the value of a call."""
    try:
        return _encode(value, call["limit"], call.get("any", False))
    except _Bad:
        if not call.get("any"):
            raise
    return _encode(_str(value).encode("utf-8", "replace").decode("utf-8"), call["limit"])


def _await(value):
    import asyncio

    async def whole():
        return await value

    return asyncio.run(value if asyncio.iscoroutine(value) else whole())


_settrace = sys.settrace


def _settle(setlimit=sys.setrecursionlimit, setprofile=sys.setprofile):
    """Resets settings of a tool that would disturb the harness."""
    _settrace(None)
    setprofile(None)
    try:
        setlimit(1000)
    except Exception:
        pass
    _flush()


_streams = [sys.stdout, sys.stderr]
for _s in _streams:
    if _s is not None:
        _s.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
# Without site there is no exit, which scripts use.
_b.exit = _b.quit = sys.exit


def _flush():
    for s in (*_streams, sys.__dict__.get("stdout"), sys.__dict__.get("stderr")):
        try:
            s.flush()
        except BaseException:
            pass


def _failure(e, call):
    """The payload that says what went wrong."""
    try:
        _settle()
        out = _describe(e, call)
    except BaseException:
        out = {"kind": "exception", "error": type(e).__name__}
    try:
        return _encode(dict(type="error", **out), 1 << 20)
    except BaseException:
        return b'{"type":"error","kind":"exception"}'


def _describe(e, call):
    if isinstance(e, _Misfit):
        return {"kind": "validation", "pointer": e.where, "message": e.message[:_MAX_MESSAGE]}
    if isinstance(e, _Source):
        return {"kind": "source", "message": e.message[:_MAX_MESSAGE], "line": e.line, "column": e.column}
    if isinstance(e, _Bad):
        return {"kind": "bad_value", "message": _clean(_str(e))}
    if isinstance(e, _TooLarge):
        return {"kind": "limit_result"}
    if isinstance(e, SystemExit):
        return _exit(e)
    raised = _raised(e)
    if isinstance(e, MemoryError) and not raised:
        return {"kind": "limit_memory", "error": "MemoryError"}
    kind = "recursion" if isinstance(e, RecursionError) else "exception"
    out = {"kind": kind, "error": _name(type(e)), "message": _message(e)}
    if isinstance(e, OSError) and type(e.errno) is int and not raised:
        out["errno"] = e.errno
    elif isinstance(e, RuntimeError) and _message(e) == "can't start new thread":
        out["errno"] = 11
    out["traceback"] = _traceback(e)
    return out


def _raised(e):
    """Whether the tool itself raised e: then it says nothing about limits."""
    try:
        import opcode
        t = e.__traceback__
        while t.tb_next is not None:
            t = t.tb_next
        code = t.tb_frame.f_code
        at = code.co_code[t.tb_lasti:t.tb_lasti + 2]
        return bool(_file_of_tool) and code.co_filename == _file_of_tool[0] and \
            at[0] == opcode.opmap["RAISE_VARARGS"] and at[1] > 0  # 0 raises again what was caught
    except BaseException:
        return False


def _exit(e):
    code = e.code
    if code is None:
        code = 0
    elif type(code) is not int:
        try:
            sys.__stderr__.write(_str(code) + "\n")
            sys.__stderr__.flush()
        except BaseException:
            pass
        code = 1
    return {"kind": "exit", "code": code & 0xFF}


def _name(t):
    module = t.__module__
    if module in ("builtins", _MODULE, "__main__") or type(module) is not str:
        return _clean(t.__name__)
    return _clean(module + "." + t.__qualname__)


def _clean(s):
    """s as bounded text that UTF-8 can hold."""
    s = _str.__str__(s)
    if len(s) > _MAX_MESSAGE:
        s = s[:_MAX_MESSAGE] + "..."
    return s.encode("utf-8", "replace").decode("utf-8")


def _message(e):
    try:
        return _clean(_str(e))
    except BaseException:
        return "(its message cannot be read)"


def _traceback(e):
    """The traceback from the tool's first line on."""
    try:
        import traceback
        if _file_of_tool:
            _cache_lines(*_file_of_tool)
        seen = set()
        x = e
        while x is not None and id(x) not in seen:
            seen.add(id(x))
            x.__traceback__ = _own(x.__traceback__)
            x = x.__cause__ or x.__context__
        text = "".join(traceback.format_exception(type(e), e, e.__traceback__))
    except BaseException:
        return ""
    if len(text) > _MAX_TRACEBACK:
        text = text[:_MAX_TRACEBACK // 4] + "\n  ...\n" + text[-(_MAX_TRACEBACK * 3 // 4):]
    return text.encode("utf-8", "replace").decode("utf-8")


def _own(tb):
    """tb without the frames before the tool's first one, and without ours at its end."""
    t = tb
    while t is not None:
        if _file_of_tool and t.tb_frame.f_code.co_filename == _file_of_tool[0]:
            n = last = t
            while n is not None:
                if n.tb_frame.f_code.co_filename != _FILE:
                    last = n
                n = n.tb_next
            last.tb_next = None
            return t
        t = t.tb_next
    while tb is not None and tb.tb_frame.f_code.co_filename in (_FILE, "<string>"):
        tb = tb.tb_next
    return tb


# The call for nothing. It makes no class: that is a millisecond for each cell, and
# the converter is warmed by the one that was made when the modules were loaded.
_DUMMY = """
import typing
def run(n: int, when: typing.Optional[str] = None, tags: list = ()):
    return {"n": n, "when": when, "set": {1, 2}, "half": 0.5, "list": [tags, (True, None)]}
"""

_DUMMY_CALL = (
    '{"type":"call","file":"warm.py","function":"run","args":{"n":1,"when":"x","tags":["a"]},'
    '"env":{"HAFT_WARM":"1"},"limit":65536,"wait":true}'
)

_SAMPLE = """
import dataclasses, datetime, enum, typing
class Color(enum.Enum):
    RED = "red"
@dataclasses.dataclass
class Thing:
    name: str
    at: datetime.datetime
    color: Color
    tags: typing.List[str]
"""

_sample = []


def preload():
    """Imports what tools often use, so that cells need not."""
    import asyncio, base64, collections, collections.abc, dataclasses, datetime, decimal, enum, functools  # noqa: F401
    import binascii, inspect, io, itertools, json, linecache, math, pathlib, random, re, string, time, traceback, typing, uuid  # noqa: F401
    import fcntl, _signal, _socket  # noqa: F401
    import gc
    if not _sample:
        sample = sys.modules["__haft_sample__"] = type(sys)("__haft_sample__")
        exec(_SAMPLE, sample.__dict__)
        del sys.modules["__haft_sample__"]
        _sample.append(sample.Thing)
    gc.collect()
    if hasattr(gc, "freeze"):
        gc.freeze()


_dummy = []  # the call for nothing, compiled


def _warm(clock, compiled=False):
    """One call for nothing: it takes the page faults and lazy imports of the next. If
    that is compiled in this process anyway, this one need not be."""
    if not _sample:
        preload()
    call = _decode(_DUMMY_CALL)
    call["source"], call["code"] = _DUMMY, _dummy[0] if compiled and _dummy else None
    _ready(call)
    answer = _run(call, {}, clock)
    os.environ.pop("HAFT_WARM", None)
    if b'"type":"result"' not in answer:
        raise RuntimeError("the warm-up call failed: " + answer.decode("utf-8"))
    sys.modules.pop(_MODULE, None)
    sys.modules["linecache"].cache.pop("warm.py", None)
    del _file_of_tool[:]
    return call


def prime():
    """Calls for nothing in a template, so that what an interpreter finds out as it
    goes (specialised code, caches of types and names) is found out once for all
    cells; what fewer calls need, such as classes and failures, here only."""
    from time import perf_counter as clock
    for _ in range(10):
        call = _warm(clock)
        thing = _convert({"name": "n", "at": "2026-01-31T10:00:00Z", "color": "red", "tags": ["a"]}, _sample[0], "")
        _encode(thing, 1 << 16)
        _failure(ValueError("x"), call)
    sys.modules["linecache"].cache.pop("warm.py", None)
    _dummy[:] = [compile(_DUMMY, "warm.py", "exec", dont_inherit=True)]


_IMPORT_SECONDS = 10


def _import(call):
    """Imports modules for the call that is to come. What fails is left to it."""
    for p in call["path"]:
        if p not in sys.path:
            sys.path.append(p)
    import signal

    def late(*_):
        raise TimeoutError

    # A module that waits for something is given up. One that does so in C is
    # ended by the host.
    was = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, _IMPORT_SECONDS)
    try:
        for name in call["modules"]:
            try:
                __import__(name)
            except TimeoutError:
                break
            except BaseException:
                pass
    except TimeoutError:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, was)
    _flush()


_reader = None
_MAX_READ = 4 << 20


# Sources up to this many bytes are described without a process of their own.
_SHORT_READ = 32 << 10


def _describe_source(call):
    """Describes a source. One that is written to kill a parser kills this process,
    which runs nothing yet: the host notices, and has it read elsewhere. A long one,
    which can also take long, is left to a child."""
    if _reader is None:
        return b'{"type":"read","kind":"unable","value":null}'
    source = bytes.fromhex(call["data"])
    try:
        text = _described(source) if len(source) <= _SHORT_READ else _described_apart(source)
    except OSError:
        return b'{"type":"read","kind":"unable","value":null}'
    return b'{"type":"read","value":' + text + b"}"


def _described(source, apart=False):
    names = {"__name__": "haft_reader", "__builtins__": _b}
    exec(_reader, names)
    if apart:
        names["confine"]()
    return names["answer"](source).encode("utf-8")


def _described_apart(source):
    """What a child says, or null if it dies of it."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            data = memoryview(_described(source, True))
            while data:
                data = data[os.write(w, data):]
            os._exit(0)
        finally:
            os._exit(1)
    os.close(w)
    parts = []
    while True:
        part = os.read(r, 1 << 16)
        if not part or sum(map(len, parts)) > _MAX_READ:
            break
        parts.append(part)
    os.close(r)
    if os.waitpid(pid, 0)[1] != 0:
        return b"null"
    return b"".join(parts)


def main(channel):
    """Serves the one call of this process."""
    me = _getpid()
    _connect(channel)
    if not _is_early:
        early()
    _send(b'{"type":"hello"}')
    state, ahead = {}, {}
    while True:
        text = _receive()
        try:
            call = _decode(text)
        except Exception:
            # Such as a number of more digits than this interpreter reads.
            _send(b'{"type":"error","kind":"validation","message":"an argument cannot be read by this interpreter"}')
            _finish()
            _leave(0)
        if call["type"] == "source":
            # The cell may have got it while it was idle, as the likely one.
            if ahead.get("source") != call["source"] or ahead["file"] != call["file"]:
                ahead = call
                _ahead(call, state)
            continue
        if call["type"] == "read":
            _send(_describe_source(call))
            continue
        if call["type"] == "import":
            _import(call)
            _send(b'{"type":"ready"}')
            continue
        if call["type"] == "session":
            agent = sys.modules["__haft_session__"] = type(sys)("__haft_session__")
            exec(ahead.get("code") or compile(ahead["source"], ahead["file"], "exec"), agent.__dict__)
            agent.serve(_fd, call)
        if call["type"] == "warm":
            _warm(_clock, call.get("compiled"))
            _send(b'{"type":"ready"}')
            continue
        call["source"], call["code"] = ahead["source"], ahead.get("code")
        if call.get("wait"):
            _ready(call)
            _receive()
        try:
            _running.append(True)
            answer = _run(call, state, _clock)
            if _getpid() != me:
                # A process that the tool forked has come back here, without the
                # channel. Whoever forked it may wait for its end.
                _leave(0 if answer.startswith(b'{"type":"result"') else 1)
            del _running[:]
            _send(answer)
        except OSError:
            # The tool has closed the channel. The host has seen it, and ends us:
            # a status of ours would look like one of the tool's.
            while True:
                _pause()
        if not call.get("reuse"):
            _finish()
            _await_host()
            _leave(0)
