"""Look for dangerous constructs in Python source, without importing or running it.

Reads source text from standard input and writes one JSON document:
{"findings": [{"r": rule, "l": line}], "shell": [{"t": command, "l": line}]} and,
if the source cannot be parsed, {"error": {"Line": line}}. It follows names to what
they stand for through imports, assignments and constants, whatever the order in
which they run: what a name may stand for at any time counts everywhere.

Values are followed as sets of:
  ("const", value, made)  a constant; made is 0 for a literal, 1 if put together,
                          2 if decoded or spelled by codes
  ("ref", "os.system")    something of a module
  ("ns", "os")            the dictionary of a module
  ("inst", "socket.socket")  what a call of it returns, and what comes of that
  ("func", node)          a function of the source
"""
import ast
import builtins
import re
import sys
from math import log2

STRING_RULES = []
SEVERAL = False         # the source is one of several files of a tool
MAX_SOURCE = 1 << 20    # bytes read from standard input
MAX_FINDINGS = 5000
MAX_SHELL = 200         # commands, of at most MAX_COMMAND characters
MAX_COMMAND = 2000
MAX_VALUES = 12         # values that one expression may have
MAX_TEXT = 20000        # characters of a constant that is put together
MAX_DEPTH = 80          # nesting of one expression that is followed
MAX_BOUND = 200         # assignments to one name that are followed
MAX_STEPS = 200000      # expressions that are followed in all
MAX_NESTED = 3          # code in constants in code in constants

BUILTINS = frozenset(dir(builtins)) | {"__builtins__"}
# Modules that the harness gives a tool of Letta that does not import them. A source is reviewed without its settings, so they
# count in every source.
GIVEN = frozenset(("asyncio", "base64", "hashlib", "os", "pickle", "struct", "sys"))
# Other names of the same thing.
SAME = {"posix": "os", "nt": "os", "_pickle": "pickle", "cPickle": "pickle", "_io": "io", "__builtin__": "builtins",
        "_socket": "socket", "_ctypes": "ctypes", "_posixsubprocess": "subprocess", "_operator": "operator",
        "_codecs": "codecs", "_imp": "imp", "_signal": "signal", "_thread": "threading", "commands": "subprocess",
        "builtins.__import__": "importlib.__import__", "builtins.__builtins__": "builtins", "io.open": "builtins.open",
        "importlib._bootstrap._gcd_import": "importlib.import_module"}
MODULES = {"os", "sys", "subprocess", "builtins", "importlib", "ctypes", "socket", "marshal", "pickle", "codecs", "base64",
           "types", "code", "runpy", "shutil", "signal", "inspect", "gc", "io", "threading", "pty", "imp", "operator"}
DANGEROUS = {"os", "sys", "subprocess", "builtins", "importlib", "ctypes", "marshal", "pty", "imp", "types", "code", "runpy"}
EVAL = {"builtins.eval", "builtins.exec", "code.InteractiveInterpreter", "code.InteractiveConsole", "code.interact",
        "timeit.timeit", "timeit.Timer", "cProfile.run", "profile.run", "pdb.run", "pdb.runeval", "runpy.run_path",
        "runpy.run_module", "trace.Trace", "code.compile_command", "builtins.execfile"}
RUN = {"builtins.eval", "builtins.exec"}
SHELL = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "asyncio.create_subprocess_shell",
         "os.popen2", "os.popen3", "os.popen4", "subprocess.create_subprocess_shell"}
PROCESS = {"subprocess." + n for n in ("run", "call", "Popen", "check_call", "check_output")}
IMPORT = {"importlib.__import__", "importlib.import_module", "pydoc.locate", "pkgutil.resolve_name", "imp.load_module",
          "imp.load_source", "importlib.util.spec_from_file_location", "imp.find_module"}
PICKLE = {m + "." + n for m in ("pickle", "dill", "cloudpickle") for n in ("load", "loads", "Unpickler")} | {
    "shelve.open", "shelve.DbfilenameShelf", "joblib.load", "pandas.read_pickle", "jsonpickle.decode", "yaml.unsafe_load",
    "yaml.full_load", "yaml.unsafe_load_all"}
DECODE = ("base64.", "zlib.decompress", "gzip.decompress", "bz2.decompress", "lzma.decompress", "codecs.decode", "binascii.",
          "marshal.load", "codecs.getdecoder", "bytes.fromhex", "builtins.bytes.fromhex", "builtins.bytearray.fromhex",
          "cryptography.", "Crypto.", "zlib.decompressobj", "quopri.")
NETWORK = ("requests.", "urllib.request.", "urllib.urlopen", "urllib2.", "http.client.", "httpx.", "aiohttp.", "socket.",
           "urllib3.", "ftplib.", "telnetlib.", "smtplib.", "websocket.", "websockets.", "paramiko.")
NETWORKS = {n.split(".")[0] for n in NETWORK}
WALK = {"__subclasses__", "__globals__", "__builtins__", "f_globals", "f_builtins", "f_locals", "func_globals"}
FRAMES = {"f_back", "gi_frame", "cr_frame", "ag_frame", "tb_frame", "gi_code", "cr_code"}
CODE = {"types.FunctionType", "types.CodeType", "types.LambdaType", "types.MethodType.__func__"}
TRACE = {"sys.settrace", "sys.setprofile", "threading.settrace", "threading.setprofile", "sys.addaudithook",
         "gc.get_objects", "gc.get_referrers", "gc.get_referents", "sys.monitoring.register_callback"}
FRAME_CALLS = {"sys._getframe", "inspect.currentframe", "inspect.stack", "sys._current_frames", "inspect.getouterframes"}
STARTS = {"os." + n for n in ("execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe", "spawnl", "spawnle",
                              "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp", "spawnvpe", "posix_spawn", "posix_spawnp",
                              "startfile")}
ENDING = {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGXCPU", "SIGABRT", "SIGSYS", "SIGSEGV"}
# What must not be handed on unseen: passing it is using it.
CARRIED = RUN | SHELL | {"importlib.__import__", "importlib.import_module", "pickle.loads", "marshal.loads", "os.fork"}
INTERPRETER = re.compile(r"(?:\S*/)?(?:(?:ba|da|z|k|a|rba|fi)?sh|python[\d.]*|pypy[\d.]*|node|nodejs|deno|bun|(?:perl|ruby|php|lua|java|[gmn]?awk)[\d.]*(?:-\S*)?|busybox|env|make)(?:\s.*)?", re.S)
# Other files of the tool hand modules on, under any name: what is used of such a module tells what it is. HANDED tells it of
# anything, SHARED of what a module of the tool is known to give.
HANDED = {"system", "popen", "getoutput", "getstatusoutput", "create_subprocess_shell", "import_module", "run_path", "run_module",
          "execfile", "__import__"}
SHARED = HANDED | {"eval", "exec", "load", "loads", "Unpickler", "InteractiveInterpreter", "InteractiveConsole"}
DATA = {"json", "orjson", "ujson", "simplejson", "toml", "tomllib", "tomli"}
SECRET = re.compile(r"passw|pwd|secret|passphrase", re.I)
PERMIT = re.compile(r"admin|authori[sz]ed|authenticated|permission|permitted|allowed|password|privilege", re.I)
ALIKE = "\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u03bd\u03bf\u03f2\u03f3"


class Scope:
    """Where names live. Its parent is where names are looked up next."""

    def __init__(self, node, parent):
        self.node, self.parent = node, parent
        self.names = {}      # name -> list of (kind, what, firm)
        self.outer = set()   # names declared global
        self.kind = type(node).__name__

    def bind(self, name, kind, what, firm=False):
        self.names.setdefault(name, []).append((kind, what, firm))


def function(node):
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


def children(node):
    return ast.iter_child_nodes(node)


class Reader:
    def __init__(self, tree, line=0, nested=0, sink=None):
        self.tree, self.line, self.nested = tree, line, nested
        self.findings = sink.findings if sink else {}
        self.shell = sink.shell if sink else []
        self.scope = {}       # node -> scope it is evaluated in
        self.parent = {}
        self.memo, self.busy = {}, {}
        self.steps, self.spent = 0, False
        self.known, self.firm = {}, {}   # of names
        self.stars = []
        self.uses, self.environ = set(), []
        self.env_keyword = False
        self.docs = set()

    def note(self, rule, node):
        line = self.line or getattr(node, "lineno", 1)
        if len(self.findings) < MAX_FINDINGS:
            self.findings.setdefault((rule, line), True)

    # First pass: scopes and what names are bound to.

    def build(self):
        top = Scope(self.tree, None)
        self.top = top
        todo = [(self.tree, top, True)]
        while todo:
            node, scope, firm = todo.pop()
            self.scope[node] = scope
            self.bindings(node, scope, firm)
            inner = scope
            if function(node) or isinstance(node, ast.ClassDef):
                inner = Scope(node, scope)
                self.parameters(node, inner)
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.body:
                first = node.body[0]
                if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                    self.docs.add(first.value)
            outside = set()
            if inner is not scope:  # decorators, defaults and bases belong outside
                for part in getattr(node, "decorator_list", []) + getattr(node, "bases", []) + [k.value for k in getattr(node, "keywords", [])]:
                    outside.add(part)
                if function(node):
                    outside.update(node.args.defaults)
                    outside.update(d for d in node.args.kw_defaults if d)
            for child in reversed(list(children(node))):  # what comes first is bound first
                self.parent[child] = node
                if isinstance(child, (ast.arguments, ast.keyword, ast.comprehension, ast.withitem)) and inner is not scope:
                    self.scope[child] = inner
                    for sub in children(child):
                        self.parent[sub] = child
                        todo.append((sub, scope if sub in outside else inner, False))
                    continue
                todo.append((child, scope if child in outside else inner,
                             isinstance(node, ast.Module) if inner is scope else False))

    def parameters(self, node, scope):
        if not function(node):
            return
        a = node.args
        plain = a.posonlyargs + a.args
        for arg in plain + a.kwonlyargs + [x for x in (a.vararg, a.kwarg) if x]:
            scope.bind(arg.arg, "unknown", None, True)
        for arg, default in list(zip(plain[len(plain) - len(a.defaults):], a.defaults)) + list(zip(a.kwonlyargs, a.kw_defaults)):
            if default is not None:
                scope.bind(arg.arg, "expr", default, True)

    def target(self, scope, name):
        while name in scope.outer and scope.parent:
            scope = self.top
        return scope

    def bindings(self, node, scope, firm):
        bind = lambda name, kind, what: self.target(scope, name).bind(name, kind, what, firm)
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            scope.outer.update(node.names)
        elif isinstance(node, ast.Import):
            for a in node.names:
                self.uses.add(a.name.split(".")[0])
                bind(a.asname or a.name.split(".")[0], "ref", canonical(a.name if a.asname else a.name.split(".")[0]))
        elif isinstance(node, ast.ImportFrom):
            module = canonical(node.module or "") if not node.level else "." + (node.module or "")
            self.uses.add(module.split(".")[0])
            for a in node.names:
                if a.name == "*":
                    self.stars.append(module)
                else:
                    bind(a.asname or a.name, "ref", canonical(module + "." + a.name))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            bind(node.name, "func", node)
        elif isinstance(node, ast.ClassDef):
            bind(node.name, "unknown", None)
        elif isinstance(node, ast.Assign):
            for t in node.targets:
                self.assign(t, node.value, scope, firm)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            self.assign(node.target, node.value, scope, firm)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            value = ast.BinOp(ast.copy_location(ast.Name(node.target.id, ast.Load()), node), node.op, node.value)
            ast.copy_location(value, node)
            self.scope[value] = self.scope[value.left] = scope
            bind(node.target.id, "expr", value)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            self.elements(node.target, node.iter, scope)
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            for g in node.generators:
                self.elements(g.target, g.iter, scope)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, item.context_expr, scope, False)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bind(node.name, "unknown", None)

    def assign(self, target, value, scope, firm):
        if isinstance(target, ast.Name):
            self.target(scope, target.id).bind(target.id, "expr", value, firm)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, None, scope, firm)
        elif isinstance(target, (ast.Tuple, ast.List)):
            pairs = value.elts if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts) else None
            for i, t in enumerate(target.elts):
                self.assign(t, pairs[i] if pairs else None, scope, firm)

    def elements(self, target, values, scope):
        if isinstance(target, ast.Name) and isinstance(values, (ast.Tuple, ast.List, ast.Set)):
            for v in values.elts[:MAX_VALUES]:
                self.target(scope, target.id).bind(target.id, "expr", v)
        elif isinstance(target, ast.Name):
            self.target(scope, target.id).bind(target.id, "each", values)
        else:
            self.assign(target, None, scope, False)

    # Following values.

    def name(self, node):
        scope = self.scope.get(node, self.top)
        found, first = [], True
        while scope is not None:
            bound = scope.names.get(node.id)
            if bound and (first or scope.kind != "ClassDef"):
                found = bound
                break
            first = False
            scope = scope.parent
        out = self.bound(scope, node, found)
        firm, first = self.firmness(scope, node.id, found)
        if firm and scope is self.top and getattr(node, "lineno", 0) < first:
            firm = False  # it is used before it is bound
        if not found or (scope is self.top and not firm):
            if node.id in BUILTINS:
                out.append(("ref", canonical("builtins." + node.id)))
            out.extend(("ref", canonical(m + "." + node.id)) for m in self.stars)
        if node.id in GIVEN and (not found or scope is self.top):  # it is there until the source binds it
            out.append(("ref", node.id))
        return out

    def bound(self, scope, node, found):
        """What a name is bound to, in any order."""
        key = (id(scope), node.id)
        if key in self.known:
            return list(self.known[key])
        if key in self.busy:  # it depends on itself
            return list(self.busy[key])
        top = not self.busy
        out = []
        if len(found) > MAX_BOUND:
            self.note("source-complex", node)
        for kind, what, _ in found[:MAX_BOUND]:
            if len(out) >= MAX_VALUES * 4 or self.steps > MAX_STEPS:
                break
            if kind == "ref":
                out.append(("ref", what))
            elif kind == "func":
                out.append(("func", what))
            elif kind == "expr" and what is not None:
                out.extend([v for v in self.follow(what, key, out) if v not in out])
            elif kind == "each":
                for v in self.follow(what, key, out):
                    if v[0] == "const" and isinstance(v[1], (tuple, str, bytes)):
                        out.extend(("const", x, v[2]) for x in v[1][:MAX_VALUES])
                    elif v[0] == "inst":
                        out.append(v)
        if top:
            self.known[key] = list(out)
        return out

    def firmness(self, scope, name, found):
        """Whether a name is surely bound, and the first line where it is."""
        key = (id(scope), name)
        if key not in self.firm:
            lines = [getattr(what, "lineno", 0) for _, what, f in found if f and isinstance(what, ast.AST)]
            self.firm[key] = any(f for _, _, f in found), min(lines or [0])
        return self.firm[key]

    def follow(self, node, key, so_far):
        """The values of what a name is bound to. A name that depends on itself has
        the values that it has so far."""
        if key in self.busy:
            return list(self.busy[key])
        self.busy[key] = so_far
        try:
            return self.values(node)
        finally:
            del self.busy[key]

    def values(self, node, depth=0):
        """What an expression may be."""
        if node is None:
            return []
        if node in self.memo:
            return self.memo[node]
        self.steps += 1
        depth = max(depth, len(self.busy))
        if self.steps > MAX_STEPS and self.spent:
            return []
        self.spent = self.steps > MAX_STEPS
        if depth > MAX_DEPTH or self.steps > MAX_STEPS:
            self.note("source-complex", node)
            return []
        method = getattr(self, "v_" + type(node).__name__, None)
        found = method(node, depth + 1) if method else []
        out = []
        for v in found:
            if v not in out:
                out.append(v)
            if len(out) >= MAX_VALUES:
                break
        if not self.busy:
            self.memo[node] = out
        return out

    def v_Constant(self, node, depth):
        return [("const", node.value, 0)] if isinstance(node.value, (str, bytes, int)) else []

    def v_Name(self, node, depth):
        return self.name(node)

    def v_Attribute(self, node, depth):
        out = []
        for v in self.values(node.value, depth):
            out.extend(self.attribute(v, node.attr))
        return out

    def attribute(self, v, attr):
        if v[0] == "ref":
            if attr == "__dict__":
                return [("ns", v[1])]
            if attr in ("__call__", "__func__", "__wrapped__"):
                return [v]
            if v[1] == "sys" and attr == "modules":
                return [("ns", "")]
            if attr in MODULES and "." not in v[1] and attr != v[1] or attr in GIVEN | {"subprocess", "builtins"} and "." in v[1]:
                return [("ref", attr)]
            if v[1] == "builtins" and attr in ("get", "__getitem__"):  # it is a dictionary in modules that are imported
                return [("method", ("ns", "builtins"), attr)]
            return [("ref", canonical(v[1] + "." + attr))]
        if v[0] == "inst":
            return [v]
        if v[0] == "ns":
            return [("method", v, attr)]
        if v[0] == "const":
            return [("method", v, attr)]
        if v[0] == "func" and attr == "__globals__":
            return [("ns", "main")]
        return []

    def v_Subscript(self, node, depth):
        out = []
        index = node.slice
        if isinstance(node.value, (ast.List, ast.Tuple)) and isinstance(index, ast.Constant) and isinstance(index.value, int):
            if -len(node.value.elts) <= index.value < len(node.value.elts):
                return self.values(node.value.elts[index.value], depth)
        if isinstance(node.value, ast.Dict):
            for k, v in zip(node.value.keys, node.value.values):
                out.extend(self.values(v, depth))
            return out
        for v in self.values(node.value, depth):
            if v == ("ref", "builtins"):
                v = ("ns", "builtins")
            if v[0] == "ns":
                for k in self.texts(index, depth):
                    out.extend(self.entry(v, k))
            elif v[0] == "inst":
                out.append(v)
            elif v[0] == "const" and isinstance(v[1], (str, bytes, tuple)):
                if isinstance(index, ast.Slice):
                    parts = [self.number(p, depth) for p in (index.lower, index.upper, index.step)]
                    if all(p is None or isinstance(p, int) for p in parts) and parts[2] != 0:
                        out.append(("const", v[1][slice(*parts)], 2))
                else:
                    i = self.number(index, depth)
                    if isinstance(i, int) and -len(v[1]) <= i < len(v[1]):
                        out.append(("const", v[1][i], max(v[2], 1)))
        return out

    def number(self, node, depth):
        if node is None:
            return None
        for v in self.values(node, depth):
            if v[0] == "const" and isinstance(v[1], int):
                return v[1]
        return "unknown"

    def texts(self, node, depth=0):
        return [v for v in self.values(node, depth) if v[0] == "const" and isinstance(v[1], str)]

    def entry(self, ns, key):
        if ns[1] == "":
            return [("ref", canonical(key[1]))]
        if ns[1] == "main":
            if key[1] == "__builtins__":
                return [("ref", "builtins")]
            bound = self.top.names.get(key[1], [])
            out = [("ref", what) for kind, what, _ in bound if kind == "ref"]
            if not out and key[1] in BUILTINS | GIVEN:
                out.append(("ref", key[1] if key[1] in GIVEN else canonical("builtins." + key[1])))
            return out
        return self.attribute(("ref", ns[1]), key[1])

    def v_BinOp(self, node, depth):
        if isinstance(node.op, ast.Add):
            parts, n = [], node
            while isinstance(n, ast.BinOp) and isinstance(n.op, ast.Add) and len(parts) < 4000:
                parts.append(n.right)
                n = n.left
            parts.append(n)
            return self.concat([self.values(p, depth) for p in reversed(parts)])
        left, right = self.values(node.left, depth), self.values(node.right, depth)
        out = [v for v in left + right if v[0] == "inst"]
        for a in left:
            if a[0] != "const":
                continue
            for b in right:
                if b[0] != "const":
                    continue
                v = self.arithmetic(node.op, a[1], b[1])
                if v is not None:
                    out.append(("const", v, 2 if isinstance(v, int) else max(a[2], b[2], 1)))
        if isinstance(node.op, ast.Mod) and isinstance(node.right, ast.Tuple) and left and left[0][0] == "const":
            items = [self.one(e, depth) for e in node.right.elts]
            if None not in items and isinstance(left[0][1], str):
                try:
                    out.append(("const", (left[0][1] % tuple(items))[:MAX_TEXT], 1))
                except (TypeError, ValueError, OverflowError, MemoryError):
                    pass
        return out

    def arithmetic(self, op, a, b):
        if isinstance(a, int) and isinstance(b, int):
            if abs(a) > 1 << 32 or abs(b) > 1 << 32:
                return None
            if isinstance(op, ast.Sub):
                return a - b
            if isinstance(op, ast.BitXor):
                return a ^ b
            if isinstance(op, ast.Mult):
                return a * b
            if isinstance(op, ast.FloorDiv) and b:
                return a // b
            if isinstance(op, ast.Mod) and b:
                return a % b
        if isinstance(op, ast.Mult) and isinstance(a, (str, bytes)) and isinstance(b, int) and 0 < b * len(a) <= MAX_TEXT:
            return a * b
        if isinstance(op, ast.Mod) and isinstance(a, str) and isinstance(b, (str, int)) and a.count("%") == 1 and "*" not in a and not re.search(r"\d{4}", a):
            try:
                return a % b
            except (TypeError, ValueError, OverflowError):
                return None
        if isinstance(op, ast.Div) and isinstance(a, str) and isinstance(b, str):  # of paths
            return a.rstrip("/") + "/" + b
        return None

    def one(self, node, depth):
        for v in self.values(node, depth):
            if v[0] == "const":
                return v[1]
        return None

    def concat(self, parts):
        """The values of parts put one after another. A part that is not known makes
        the whole unknown, but where it came from stays."""
        out = [v for p in parts for v in p if v[0] == "inst"]
        whole = [("const", None, 0)]
        for p in parts:
            consts = [v for v in p if v[0] == "const"]
            if not consts:
                return out
            nxt = []
            for w in whole:
                for c in consts:
                    made = max(w[2], c[2], 0 if w[1] is None else 1)
                    if w[1] is None:
                        nxt.append((c[0], c[1], made))
                    elif type(w[1]) is type(c[1]) and (isinstance(c[1], int) or len(w[1]) + len(c[1]) <= MAX_TEXT):
                        nxt.append(("const", w[1] + c[1], made))
            whole = nxt[:MAX_VALUES]
        return out + whole

    def v_JoinedStr(self, node, depth):
        parts = []
        for p in node.values:
            if isinstance(p, ast.FormattedValue):
                values = self.values(p.value, depth)
                parts.append([("const", str(v[1]), v[2]) if v[0] == "const" and not isinstance(v[1], tuple) else v for v in values]
                             if p.format_spec is None else [])
            else:
                parts.append(self.values(p, depth))
        return self.concat(parts)

    def v_Tuple(self, node, depth):
        items = []
        if len(node.elts) > 5000:
            return []
        for e in node.elts:
            values = [v for v in self.values(e, depth) if v[0] == "const"]
            if not values:
                return []
            items.append(values[0])
        return [("const", tuple(i[1] for i in items), max([i[2] for i in items] or [0]))]

    v_List = v_Tuple

    def v_IfExp(self, node, depth):
        return self.values(node.body, depth) + self.values(node.orelse, depth)

    def v_BoolOp(self, node, depth):
        return [v for n in node.values for v in self.values(n, depth)]

    def v_NamedExpr(self, node, depth):
        return self.values(node.value, depth)

    def v_Await(self, node, depth):
        return self.values(node.value, depth)

    def v_Starred(self, node, depth):
        return self.values(node.value, depth)

    def v_Lambda(self, node, depth):
        return [("func", node)]

    def v_UnaryOp(self, node, depth):
        return [("const", -v[1], v[2]) for v in self.values(node.operand, depth)
                if v[0] == "const" and isinstance(v[1], int) and isinstance(node.op, ast.USub)]

    def v_GeneratorExp(self, node, depth):
        """chr(c) for c in [...]"""
        if len(node.generators) != 1 or node.generators[0].ifs or not isinstance(node.generators[0].target, ast.Name):
            return []
        name, out = node.generators[0].target.id, []
        for v in self.values(node.generators[0].iter, depth):
            if v[0] == "inst":
                out.append(v)
            if v[0] != "const" or not isinstance(v[1], (tuple, str, bytes)) or len(v[1]) > 5000:
                continue
            items = []
            for x in v[1]:
                r = self.apply(node.elt, name, x, 0)
                if r is None:
                    break
                items.append(r)
            else:
                out.append(("const", tuple(items), 2))
        return out

    v_ListComp = v_GeneratorExp

    def apply(self, node, name, value, depth):
        """A small expression of one name."""
        self.steps += 1
        if depth > 6 or self.steps > MAX_STEPS:
            return None
        if isinstance(node, ast.Name) and node.id == name:
            return value
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, str)):
            return node.value
        if isinstance(node, ast.BinOp):
            a, b = self.apply(node.left, name, value, depth + 1), self.apply(node.right, name, value, depth + 1)
            if isinstance(node.op, ast.Add) and type(a) is type(b) and a is not None:
                return a + b
            return None if a is None or b is None else self.arithmetic(node.op, a, b)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) >= 1:
            a = self.apply(node.args[0], name, value, depth + 1)
            return self.pure("builtins." + node.func.id, [a]) if a is not None and len(node.args) == 1 else (
                self.pure("builtins." + node.func.id, [a, 16]) if node.func.id == "int" and a is not None else None)
        return None

    def pure(self, f, args):
        """What a harmless function of constants returns, or None."""
        a = args[0] if args else None
        try:
            if f == "builtins.chr":
                return chr(a)
            if f == "builtins.ord":
                return ord(a)
            if f == "builtins.str":
                return a if isinstance(a, str) else str(a, args[1]) if len(args) > 1 else str(a)
            if f == "builtins.int":
                return int(*args) if len(str(a)) < 40 else None
            if f in ("builtins.bytes", "builtins.bytearray"):
                return bytes(a) if isinstance(a, (tuple, bytes)) else a.encode(args[1]) if isinstance(a, str) else None
            if f in ("builtins.reversed", "builtins.list", "builtins.tuple"):
                items = tuple(a)[:MAX_TEXT]
                return items[::-1] if f.endswith("reversed") else items
            if f in ("bytes.fromhex", "builtins.bytes.fromhex", "builtins.bytearray.fromhex", "binascii.unhexlify", "binascii.a2b_hex"):
                return bytes.fromhex(a if isinstance(a, str) else a.decode())
            if f.startswith("base64.") and isinstance(a, (str, bytes)) and len(a) <= MAX_TEXT:
                import base64
                return getattr(base64, f[7:])(a)
            if f == "codecs.decode" and isinstance(args[1], str):
                how = args[1].replace("-", "").replace("_", "").lower()
                import codecs
                if how == "rot13":
                    return codecs.decode(a, "rot13")
                if how in ("hex", "hexcodec"):
                    return bytes.fromhex(a if isinstance(a, str) else a.decode())
                if how in ("base64", "base64codec"):
                    return codecs.decode(a, "base64")
                return a.decode() if isinstance(a, bytes) else None
            if f in ("os.path.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath"):
                return "/".join(x.rstrip("/") if len(x) > 1 else "" for x in args) or "/"
            if f in ("os.path.expanduser", "os.path.abspath", "os.path.expandvars", "os.fspath", "os.fsencode"):
                return a
            if f == "pathlib.Path.home":
                return "~"
        except Exception:
            return None
        return None

    METHODS = {"lower", "upper", "strip", "lstrip", "rstrip", "replace", "format", "encode", "decode", "swapcase", "title",
               "capitalize", "join", "split", "removeprefix", "removesuffix", "expanduser", "joinpath", "translate", "casefold"}

    def method(self, v, attr, args):
        """A method of a constant."""
        s = v[1]
        try:
            if attr not in self.METHODS or not isinstance(s, (str, bytes)) or len(s) > MAX_TEXT:
                return None
            if attr == "expanduser":
                return s
            if attr == "joinpath":
                return "/".join([s.rstrip("/")] + args)
            if attr == "join":
                return s.join(args[0])[:MAX_TEXT]
            if attr == "format" and re.search(r"[.\[\d]{3}|:", s):
                return None
            if attr in ("replace", "translate", "format") and sum(len(str(a)) for a in args) > 200:
                return None
            out = getattr(s, attr)(*args)
            return tuple(out) if isinstance(out, list) else out if len(out) <= MAX_TEXT else None
        except Exception:
            return None

    def v_Call(self, node, depth):
        out = []
        for f in self.values(node.func, depth):
            out.extend(self.called(f, node, depth))
        return out

    def consts(self, nodes, depth):
        """The constants that arguments are, or None; and how they were made."""
        out, made = [], 0
        for n in nodes:
            values = [v for v in self.values(n, depth) if v[0] == "const"]
            if not values:
                return None, 0
            out.append(values[0][1])
            made = max(made, values[0][2])
        return out, made

    def called(self, f, node, depth):
        args, made = self.consts(node.args, depth)
        if f[0] == "method":
            _, base, attr = f
            if base[0] == "ns":
                if attr in ("get", "__getitem__", "pop", "setdefault") and node.args:
                    return [r for k in self.texts(node.args[0], depth) for r in self.entry(base, k)]
                return []
            if attr == "__getattribute__":
                return []
            r = self.method(base, attr, args) if args is not None else None
            plain = attr in ("encode", "expanduser", "joinpath", "strip", "split", "lstrip", "rstrip")
            hard = attr in ("decode", "translate")
            if r is not None:
                return [("const", r, max(base[2], made, 0 if plain else 2 if hard else 1))]
            return [v for a in node.args for v in self.values(a, depth) if v[0] == "inst"]
        if f[0] == "func":
            return self.returned(f[1], depth)
        if f[0] == "inst":
            if f[1] in ("operator.attrgetter", "operator.methodcaller") and isinstance(node.func, ast.Call) and node.args:
                return [r for v in self.values(node.args[0], depth) if v[0] in ("ref", "ns")
                        for k in self.texts(node.func.args[0], depth) if node.func.args for r in self.dotted(v, k[1])]
            return [f]
        if f[0] != "ref":
            return []
        name = f[1]
        if name in ("builtins.getattr", "builtins.object.__getattribute__", "inspect.getattr_static") and len(node.args) >= 2:
            out = [r for v in self.values(node.args[0], depth) for k in self.texts(node.args[1], depth) for r in self.dotted(v, k[1])]
            return out + [v for v in self.values(node.args[0], depth) if v[0] == "inst"]
        if name.endswith((".__getattribute__", ".__getattr__")) and node.args:
            return [r for k in self.texts(node.args[-1], depth) for r in self.dotted(("ref", name.rsplit(".", 1)[0]), k[1])]
        if name in IMPORT and node.args:
            return [("ref", canonical(k[1])) for k in self.texts(node.args[0], depth)]
        if name == "builtins.vars" and node.args:
            return [("ns", v[1]) for v in self.values(node.args[0], depth) if v[0] == "ref"]
        if name in ("builtins.globals", "builtins.locals", "builtins.vars"):
            return [("ns", "main")]
        if name == "functools.partial" and node.args:
            return self.values(node.args[0], depth)
        if name in ("builtins.map", "builtins.filter") and len(node.args) == 2:
            return self.mapped(node, depth)
        if name in ("builtins.str", "builtins.bytes", "builtins.list", "builtins.dict", "builtins.print") and args is None:
            return [v for a in node.args for v in self.values(a, depth) if v[0] == "inst"]
        if name == "builtins.str.join" and args and len(args) == 2 and isinstance(args[0], str):
            r = self.method(("const", args[0], 0), "join", args[1:])
            return [("const", r, 2)] if r is not None else []
        if args is not None:
            r = self.pure(name, args)
            if r is not None:
                soft = name.startswith(("os.", "pathlib.", "builtins.str", "builtins.list", "builtins.tuple", "builtins.int"))
                return [("const", r, made if soft else 2)]
        out = [("inst", name)]
        if not name.startswith(DECODE + NETWORK):
            out += [v for a in node.args for v in self.values(a, depth) if v[0] == "inst" and v[1].startswith(DECODE + NETWORK)]
        return out

    def dotted(self, v, path):
        values = [v]
        for part in path.split(".")[:10]:
            values = [r for x in values for r in self.attribute(x, part)]
        return values

    def mapped(self, node, depth):
        out = []
        for f in self.values(node.args[0], depth):
            for v in self.values(node.args[1], depth):
                if v[0] == "const" and isinstance(v[1], (tuple, str, bytes)) and len(v[1]) <= 5000:
                    if f[0] == "ref":
                        items = tuple(self.pure(f[1], [x]) for x in v[1])
                    elif f[0] == "func" and isinstance(f[1], ast.Lambda) and len(f[1].args.args) == 1:
                        items = tuple(self.apply(f[1].body, f[1].args.args[0].arg, x, 0) for x in v[1])
                    else:
                        continue
                    if None not in items:
                        out.append(("const", items, 2))
        return out

    def returned(self, fn, depth):
        if isinstance(fn, ast.Lambda):
            return self.values(fn.body, depth)
        key = ("returned", id(fn))
        if key in self.busy:
            return []
        self.busy[key] = []
        try:
            out, todo = [], list(fn.body)
            while todo:
                n = todo.pop(0)
                if isinstance(n, ast.Return) and n.value is not None:
                    out.extend(self.values(n.value, depth))
                elif not function(n) and not isinstance(n, (ast.ClassDef, ast.expr)):
                    todo.extend(children(n))
            return out
        finally:
            del self.busy[key]
