# Runs code that is data: the value of its last expression is the answer, as in a
# notebook. The code has a module of its own, __main__, and may await at its top.
#
# It shares the process with this file and can change everything here. What it gains
# is the answer to its own call, which is its own to choose.

import ast
import builtins
import errno
import linecache
import os
import sys

NAME = "code.py"
FLAGS = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
MAX_MESSAGE = 4 << 10
MAX_TRACEBACK = 8 << 10

# Errors behind which stands a limit, which the host can name.
LIMITS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.EAGAIN, errno.ENOMEM)


def run(code, stdin=None, tools=None):
    if stdin is not None:
        feed(stdin)
    try:
        parts = split(code)
    except SyntaxError as e:
        return error("source", e, "line %d, column %d: %s" % (e.lineno or 0, e.offset or 0, e.msg))
    except (ValueError, OverflowError, RecursionError, MemoryError) as e:
        return error("source", e, "the code cannot be read: %s" % e)
    linecache.cache[NAME] = (len(code), None, code.splitlines(True), NAME)
    main = sys.modules["__main__"] = type(sys)("__main__")
    main.__dict__.update(__file__=NAME, __builtins__=builtins)
    if tools is not None:
        equip(main.__dict__, tools)
    try:
        value = evaluate(parts, main.__dict__)
    except SystemExit as e:
        return left(e.code)
    except BaseException as e:
        if isinstance(e, MemoryError) or limited(e):
            raise
        return failed(e)
    return {} if value is None else {"value": value}


def split(code):
    """The code without its last expression, and that expression if it has one."""
    tree = compile(code, NAME, "exec", FLAGS | ast.PyCF_ONLY_AST, dont_inherit=True)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    parts = [compile(tree, NAME, "exec", FLAGS, dont_inherit=True)]
    if last is not None:
        parts.append(compile(last, NAME, "eval", FLAGS, dont_inherit=True))
    return parts


def evaluate(parts, names):
    if any(p.co_flags & 0x80 for p in parts):  # CO_COROUTINE: there is an await
        value = wait(together(parts, names))
    else:
        for p in parts:
            value = eval(p, names)
    return wait(value) if hasattr(type(value), "__await__") else value


async def together(parts, names):
    """All parts in one event loop."""
    value = None
    for p in parts:
        value = eval(p, names)
        if p.co_flags & 0x80:
            value = await value
    return value


def wait(value):
    import asyncio

    async def whole():
        return await value

    return asyncio.run(whole())


def feed(text):
    """Makes text the standard input, for programs that are started too."""
    import tempfile
    with tempfile.TemporaryFile() as f:
        f.write(text.encode("utf-8", "surrogatepass"))
        f.seek(0)
        os.dup2(f.fileno(), 0)
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)


def limited(e):
    if isinstance(e, OSError):
        return e.errno in LIMITS
    return isinstance(e, RuntimeError) and str(e) == "can't start new thread"


def left(code):
    """What sys.exit means."""
    if code is None:
        code = 0
    elif type(code) is not int:
        try:
            print(code, file=sys.stderr)
        except BaseException:
            pass
        code = 1
    return {"exit": code & 0xFF}


def failed(e):
    try:
        message = str(e)
    except BaseException:
        message = "(its message cannot be read)"
    return error("recursion" if isinstance(e, RecursionError) else "exception", e, message, traceback(e))


def error(kind, e, message, trace=""):
    return {"error": {"kind": kind, "type": text(type(e).__name__, 256), "message": text(message, MAX_MESSAGE), "traceback": trace}}


def text(s, limit):
    """s as bounded text that UTF-8 can hold."""
    s = str.__str__(s)
    if len(s) > limit:
        s = s[: limit // 4] + "\n  ...\n" + s[-(limit * 3 // 4):]
    return s.encode("utf-8", "replace").decode("utf-8")


def traceback(e):
    """The traceback from the first line of the code on."""
    import traceback
    try:
        seen = set()
        x = e
        while x is not None and id(x) not in seen:
            seen.add(id(x))
            t = x.__traceback__
            while t is not None and t.tb_frame.f_code.co_filename != NAME:
                t = t.tb_next
            x.__traceback__ = t or x.__traceback__
            x = x.__cause__ or x.__context__
        return text("".join(traceback.format_exception(type(e), e, e.__traceback__)), MAX_TRACEBACK)
    except BaseException:
        return ""


class ToolError(Exception):
    """A tool that was called gave no value. kind says why, and retry whether the same
    call may succeed later: never, same (unchanged) or changed."""

    def __init__(self, tool, error):
        Exception.__init__(self, error.get("message", ""))
        self.tool = tool
        self.kind, self.retry = error.get("kind", "internal"), error.get("retry", "")
        self.status, self.call_id = error.get("status", ""), error.get("call_id", "")

    def __str__(self):
        return "%s: %s: %s" % (self.tool, self.kind, self.args[0])


class Tools:
    """The tools that can be called: tools.name(argument=value) or tools["name"](…)."""

    def __init__(self, functions):
        self.__dict__.update(functions)

    def __getitem__(self, name):
        return self.__dict__[name]

    def __iter__(self):
        return iter(self.__dict__)

    def __len__(self):
        return len(self.__dict__)


def equip(names, tools):
    """Makes functions of tools: by their names, where those are free, and in tools."""
    import json
    import keyword
    invoke = globals()["__haft_invoke__"]

    def call(tool, args):
        answer = json.loads(invoke(json.dumps({"type": "invoke", "tool": tool, "args": args}, allow_nan=False).encode("utf-8")))
        if "error" in answer:
            raise ToolError(tool, answer["error"])
        return answer["value"]

    def function(tool):
        name, parameters = tool["name"], tool["parameters"]

        def f(*args, **kwargs):
            if len(args) > len(parameters):
                raise TypeError("%s takes %d arguments, %d were given" % (name, len(parameters), len(args)))
            for key, value in zip(parameters, args):
                if key in kwargs:
                    raise TypeError("%s was given %s twice" % (name, key))
                kwargs[key] = value
            return call(name, kwargs)

        f.__name__ = f.__qualname__ = name
        f.__doc__ = tool["description"]
        return f

    functions = {t["name"]: function(t) for t in tools}
    names["tools"], names["ToolError"] = Tools(functions), ToolError
    for name, f in functions.items():
        if name.isidentifier() and not keyword.iskeyword(name) and name not in names and not hasattr(builtins, name):
            names[name] = f
