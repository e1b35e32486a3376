"""Describe a Python module as JSON, without importing or running it.

Reads source text from standard input and writes one JSON document:
{"module": {...}} or {"error": {"line", "column", "message"}}. It uses the parser
of the interpreter that runs it and nothing of the source is ever executed.
Everything is bounded, because the source may be written to break a parser.
"""
# Importing is most of the time that this takes, so: _ast has the classes of the
# nodes, and the modules ast, json and tokenize are only needed in rare cases.
import _ast as ast
import sys
from _json import encode_basestring_ascii

MAX_SOURCE = 1 << 20    # bytes read from standard input
MAX_OUTPUT = 4 << 20    # characters written
MAX_NODES = 6000        # nodes of one expression
MAX_DEPTH = 40          # nesting of one expression, and of blocks and classes
MAX_LINE = 4000         # bytes of a line whose characters are counted
MAX_STRING = 20000      # characters of one constant
MAX_DOC = 100000        # characters of one docstring
MAX_FORWARD = 600       # characters of a string that is read as an annotation
MAX_FORWARDS = 20000    # of them in the annotations of one module
MAX_ASSIGNED = 2000     # of them among assigned values, which may be tables of text
MAX_MEMORY = 1 << 30
MAX_CPU = 10            # seconds

# What needs a newer Python than the oldest that we support, by how its line looks.
NEWER = (
    ((3, 10), "match", r"^\s*match\b.*:\s*(#.*)?$|^\s*case\b.*:"),
    ((3, 11), "except*", r"^\s*except\s*\*"),
    ((3, 12), "PEP 695 type parameters and type statements",
     r"^\s*type\s+\w+\s*[\[=]|^\s*(async\s+)?def\s+\w+\s*\[|^\s*class\s+\w+\s*\["),
)


def parse(source, mode="exec"):
    """Parse like ast.parse."""
    return compile(source, "<unknown>", mode, ast.PyCF_ONLY_AST)


def walk(node):
    """Yield all nodes, like ast.walk."""
    todo = [node]
    while todo:
        node = todo.pop()
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                todo.append(value)
            elif isinstance(value, list):
                todo.extend(v for v in value if isinstance(v, ast.AST))


def unparse(node):
    """Write an expression as source."""
    from ast import unparse as write
    return write(node)


def dump(value, out):
    """Write a value as JSON. It holds nothing but the types below."""
    if value is None or value is True or value is False:
        out.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, str):
        out.append(encode_basestring_ascii(value))
    elif isinstance(value, int):
        out.append(int.__repr__(value))
    elif isinstance(value, float):
        out.append(float.__repr__(value))
    elif isinstance(value, dict):
        mark = "{"
        for key, item in value.items():
            out.append(mark)
            out.append(encode_basestring_ascii(key))
            out.append(":")
            dump(item, out)
            mark = ","
        out.append("}" if value else "{}")
    else:
        mark = "["
        for item in value:
            out.append(mark)
            dump(item, out)
            mark = ","
        out.append("]" if value else "[]")


def dumps(value):
    """Return a value as JSON."""
    out = []
    dump(value, out)
    return "".join(out)


class TooMuch(Exception):
    """An expression is larger than we describe."""


class Describer:
    def __init__(self, source):
        self.source = source
        self.lines = None
        self.ascii = source.isascii()
        self.nodes = 0
        self.forwards = {"annotation": MAX_FORWARDS, "value": MAX_ASSIGNED}

    # Places. ast counts columns in bytes of UTF-8; people count characters.

    def column(self, node):
        col = getattr(node, "col_offset", 0)
        if self.ascii:
            return col + 1
        if self.lines is None:
            self.lines = [l.encode("utf-8", "replace") for l in decode(self.source).splitlines()]
        line = getattr(node, "lineno", 1) - 1
        if not 0 <= line < len(self.lines) or len(self.lines[line]) > MAX_LINE:
            return col + 1
        return len(self.lines[line][:col].decode("utf-8", "replace")) + 1

    def at(self, node, out):
        out["l"] = getattr(node, "lineno", 1)
        out["c"] = self.column(node)
        return out

    # Expressions.

    def expr(self, node, forward="annotation"):
        """Describe one expression. Strings that read as annotations carry their
        own description, unless forward is None; whether they are types is decided
        by who reads this, because Literal["int"] is not."""
        if node is None:
            return None
        self.nodes = 0
        try:
            return self.walk(node, 0, forward)
        except (TooMuch, RecursionError):
            return self.at(node, {"k": "large"})

    def walk(self, node, depth, forward):
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise TooMuch
        out = self.at(node, {})
        sub = lambda n: self.walk(n, depth + 1, forward)
        if isinstance(node, ast.Name):
            out.update(k="name", n=node.id)
        elif isinstance(node, ast.Attribute):
            out.update(k="attr", v=sub(node.value), n=node.attr)
        elif isinstance(node, ast.Subscript):
            index = node.slice
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            out.update(k="sub", v=sub(node.value), a=[sub(p) for p in parts])
            if isinstance(index, ast.Tuple) and not index.elts:
                out["n"] = "()"  # tuple[()] differs from tuple
        elif isinstance(node, ast.Constant):
            self.constant(node.value, out, depth, forward)
        elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            out.update(k=type(node).__name__.lower(), a=[sub(e) for e in node.elts])
        elif isinstance(node, ast.Dict):
            out.update(k="dict", keys=[k and sub(k) for k in node.keys], a=[sub(v) for v in node.values])
        elif isinstance(node, ast.BinOp):
            out.update(k="binop", n=type(node.op).__name__, a=[sub(n) for n in operands(node)])
        elif isinstance(node, ast.UnaryOp):
            out.update(k="unary", n=type(node.op).__name__, v=sub(node.operand))
        elif isinstance(node, ast.Call):
            out.update(k="call", v=sub(node.func), a=[sub(a) for a in node.args],
                       kw=[{"n": k.arg or "", "v": sub(k.value)} for k in node.keywords])
        elif isinstance(node, ast.Lambda) and not any(
                (node.args.posonlyargs, node.args.args, node.args.kwonlyargs, node.args.vararg, node.args.kwarg)):
            out.update(k="lambda", v=sub(node.body))
        elif isinstance(node, ast.JoinedStr) and all(isinstance(v, ast.Constant) for v in node.values):
            self.constant("".join(v.value for v in node.values), out, depth, None)
        elif isinstance(node, ast.Starred):
            out.update(k="star", v=sub(node.value))
        else:
            out.update(k="other", text=self.text(node))
        return out

    def constant(self, value, out, depth, forward):
        out["k"] = "const"
        if value is None:
            out["t"] = "none"
        elif value is Ellipsis:
            out["t"] = "ellipsis"
        elif isinstance(value, bool):
            out.update(t="bool", s="true" if value else "false")
        elif isinstance(value, int) and value.bit_length() < 4096:
            out.update(t="int", s=str(value))
        elif isinstance(value, float):
            out.update(t="float", s=repr(value))
        elif isinstance(value, str) and len(value) <= MAX_STRING:
            out.update(t="str", s=value)
            if forward:
                self.forward(value, out, depth, forward)
        elif isinstance(value, bytes):
            out.update(t="bytes")
        else:
            out.update(k="other", text="")

    def forward(self, value, out, depth, forward):
        """Read a string as an annotation, if it is one."""
        if len(value) > MAX_FORWARD or "\n" in value or self.forwards[forward] <= 0:
            return
        self.forwards[forward] -= 1
        try:
            tree = parse(value.strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            return
        if isinstance(tree, (ast.Name, ast.Attribute, ast.Subscript, ast.BinOp, ast.Constant)):
            for inner in walk(tree):
                if hasattr(inner, "lineno"):  # the place of the string is the place of its parts
                    inner.lineno, inner.col_offset = out["l"], out["c"] - 1
            was, self.ascii = self.ascii, True
            try:
                out["p"] = self.walk(tree, depth + 1, forward if depth < 3 else None)
            finally:
                self.ascii = was

    def text(self, node):
        try:
            return unparse(node)[:80]
        except (RecursionError, ValueError, MemoryError):
            return ""

    # Statements.

    def params(self, args):
        out = []

        def add(arg, kind, default=None):
            out.append(self.at(arg, {
                "n": arg.arg, "kind": kind, "type": self.expr(arg.annotation), "default": self.expr(default, None)}))

        plain = [(a, "positional") for a in args.posonlyargs] + [(a, "plain") for a in args.args]
        missing = len(plain) - len(args.defaults)
        for i, (arg, kind) in enumerate(plain):
            add(arg, kind, args.defaults[i - missing] if i >= missing else None)
        if args.vararg:
            add(args.vararg, "args")
        for arg, default in zip(args.kwonlyargs, args.kw_defaults):
            add(arg, "keyword", default)
        if args.kwarg:
            add(args.kwarg, "kwargs")
        return out

    def function(self, node):
        return self.at(node, {
            "n": node.name, "async": isinstance(node, ast.AsyncFunctionDef), "params": self.params(node.args),
            "returns": self.expr(node.returns), "decorators": [self.expr(d, None) for d in node.decorator_list],
            "doc": docstring(node), "generic": bool(getattr(node, "type_params", None))})

    def classdef(self, node, depth):
        body, methods = [], []
        for i, stmt in enumerate(node.body):
            if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef)):
                methods.append(stmt.name)
                continue
            after = node.body[i + 1] if i + 1 < len(node.body) else None
            body += self.assigned(stmt, after)
        inner = []
        if depth < MAX_DEPTH:
            inner = [self.classdef(s, depth + 1) for s in node.body if isinstance(s, ast.ClassDef)]
        return self.at(node, {
            "n": node.name, "bases": [self.expr(b) for b in node.bases],
            "kw": [{"n": k.arg or "", "v": self.expr(k.value)} for k in node.keywords],
            "decorators": [self.expr(d, None) for d in node.decorator_list], "doc": docstring(node),
            "generic": bool(getattr(node, "type_params", None)),
            "body": body, "classes": inner, "methods": methods})

    def assigned(self, stmt, after=None):
        """The names that a statement gives a value or a type."""
        if isinstance(stmt, ast.AnnAssign) and isinstance(stmt.target, ast.Name):
            out = {"n": stmt.target.id, "type": self.expr(stmt.annotation), "value": self.expr(stmt.value, "value")}
        elif isinstance(stmt, ast.Assign) and all(isinstance(t, ast.Name) for t in stmt.targets):
            value = self.expr(stmt.value, "value")
            return [self.at(stmt, {"n": t.id, "value": value}) for t in stmt.targets[:8]]
        else:
            return []
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
            out["doc"] = after.value.value[:MAX_DOC]
        return [self.at(stmt, out)]

    def block(self, stmts, out, second, depth):
        """Describe statements of the module, also those under if and try. What
        stands in the branch that is less likely to be taken is marked second."""
        for stmt in stmts:
            found = []
            if isinstance(stmt, ast.Import):
                found = [{"is": "import", "n": a.asname or a.name.split(".")[0],
                          "module": a.name if a.asname else a.name.split(".")[0]} for a in stmt.names]
            elif isinstance(stmt, ast.ImportFrom):
                module = "." * stmt.level + (stmt.module or "")
                found = [{"is": "from", "n": a.asname or a.name, "module": module, "name": a.name}
                         for a in stmt.names]
            elif isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found = [dict(self.function(stmt), **{"is": "def"})]
            elif isinstance(stmt, ast.ClassDef):
                found = [dict(self.classdef(stmt, 0), **{"is": "class"})]
            elif type(stmt).__name__ == "TypeAlias":
                found = [{"is": "alias", "n": stmt.name.id, "value": self.expr(stmt.value),
                          "generic": bool(stmt.type_params)}]
            elif depth < MAX_DEPTH and isinstance(stmt, ast.If):
                if not is_main(stmt.test):
                    first, other = stmt.body, stmt.orelse
                    if is_old(stmt.test):
                        first, other = other, first
                    self.block(first, out, second, depth + 1)
                    self.block(other, out, True, depth + 1)
            elif depth < MAX_DEPTH and type(stmt).__name__ in ("Try", "TryStar"):
                self.block(stmt.body + stmt.orelse + stmt.finalbody, out, second, depth + 1)
                for handler in stmt.handlers:
                    self.block(handler.body, out, True, depth + 1)
            elif depth < MAX_DEPTH and isinstance(stmt, (ast.With, ast.AsyncWith)):
                self.block(stmt.body, out, second, depth + 1)
            else:
                found = [dict(a, **{"is": "assign"}) for a in self.assigned(stmt)]
            for f in found:
                f.setdefault("l", stmt.lineno)
                f.setdefault("c", self.column(stmt))
                if second:
                    f["second"] = True
                out.append(f)


def operands(node):
    """a, b and c of a | b | c, which Python has as (a | b) | c: long chains are
    common, and not deep for those who write them."""
    parts, op = [], type(node.op)
    while isinstance(node, ast.BinOp) and type(node.op) is op and len(parts) < MAX_NODES:
        parts.append(node.right)
        node = node.left
    return [node] + parts[::-1]


def is_main(test):
    """Whether this is the test of if __name__ == "__main__"."""
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def is_old(test):
    """Whether a test asks for what is not so today: not TYPE_CHECKING, an older Python."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return not is_old(test.operand)
    return (isinstance(test, ast.Compare) and isinstance(test.left, ast.Attribute)
            and test.left.attr == "version_info" and isinstance(test.ops[0], (ast.Lt, ast.LtE)))


def docstring(node):
    """The docstring as it is written, or None. Its indentation is cleaned elsewhere."""
    if node.body and isinstance(node.body[0], ast.Expr):
        value = node.body[0].value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value[:MAX_DOC]
    return None


def decode(source):
    """The text of source, by its byte order mark or its coding cookie."""
    if b"coding" not in b"".join(source.splitlines(True)[:2]):
        return source.decode("utf-8-sig", "replace")
    import io
    import tokenize
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        return source.decode(encoding, "replace")
    except (SyntaxError, LookupError):
        return source.decode("utf-8", "replace")


def syntax(error, source):
    """Say where and why the parser stopped."""
    message = error.msg or "invalid syntax"
    line, column = error.lineno or 1, error.offset or 1
    version = "%d.%d" % sys.version_info[:2]
    hint = "read as Python " + version
    lines = source.splitlines()
    import re
    for needs, what, pattern in NEWER:
        if sys.version_info >= needs:
            continue
        for near in (line, line - 1):
            text = lines[near - 1].decode("utf-8", "replace") if 0 < near <= len(lines) else ""
            if re.search(pattern, text):
                hint = "%s need Python %d.%d or newer, this is Python %s" % ((what,) + needs + (version,))
    return {"line": max(line, 1), "column": max(column, 1), "message": "%s (%s)" % (message, hint)}


def densest(source):
    """The longest line: where nesting that is too deep most likely is."""
    lines = source.splitlines() or [b""]
    return 1 + max(range(len(lines)), key=lambda i: len(lines[i]))


def describe(source):
    """Describe source, a bytes object, as a value for JSON."""
    try:
        tree = parse(source)
        found = []
        Describer(source).block(tree.body, found, False, 0)
        return {"module": {"statements": found, "python": list(sys.version_info[:2])}}
    except SyntaxError as error:
        return {"error": syntax(error, source)}
    except (RecursionError, MemoryError):
        return {"error": {"line": densest(source), "column": 1,
                          "message": "the source is nested too deeply to be read"}}
    except ValueError as error:
        return {"error": {"line": 1, "column": 1, "message": "the source cannot be read: %s" % error}}


def confine():
    """Bound this process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    for name, value in (("RLIMIT_AS", MAX_MEMORY), ("RLIMIT_CPU", MAX_CPU), ("RLIMIT_CORE", 0),
                        ("RLIMIT_STACK", 64 << 20)):
        try:
            which = getattr(resource, name)
            _, hard = resource.getrlimit(which)
            if hard != resource.RLIM_INFINITY:
                value = min(value, hard)
            resource.setrlimit(which, (value, hard))
        except (AttributeError, ValueError, OSError):
            pass  # the caller bounds us as well


def answer(source):
    """The JSON text for source."""
    if len(source) > MAX_SOURCE:
        text = {"error": {"line": 1, "column": 1, "message": "the source is larger than %d bytes" % MAX_SOURCE}}
        return dumps(text)
    text = dumps(describe(source))
    if len(text) > MAX_OUTPUT:
        text = dumps({"error": {"line": 1, "column": 1, "message":
                           "the source declares more than can be described"}})
    return text


if __name__ == "__main__":
    confine()
    sys.stdout.write(answer(sys.stdin.buffer.read(MAX_SOURCE + 1)))
