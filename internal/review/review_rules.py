

def canonical(name):
    """The name by which the rules know something."""
    head, _, rest = name.partition(".")
    head = SAME.get(head, head)
    name = head + "." + rest if rest else head
    while name.startswith("builtins.builtins"):
        name = name[9:]
    return SAME.get(name, name)


class Rules(Reader):
    """Holds every node against the rules."""

    def run(self):
        self.build()
        todo = [self.tree]
        while todo:
            node = todo.pop()
            method = getattr(self, "r_" + type(node).__name__, None)
            if method:
                method(node)
            if isinstance(node, ast.expr):
                self.carried(node)
            todo.extend(children(node))
        self.together()

    def refs(self, node):
        return [v[1] for v in self.values(node) if v[0] == "ref"]

    # What is imported and named.

    def r_Import(self, node):
        for a in node.names:
            self.imported(canonical(a.name), node)

    def r_ImportFrom(self, node):
        if not node.level:
            self.imported(canonical(node.module or ""), node)
            for a in node.names:
                ref = canonical((node.module or "") + "." + a.name)
                self.named(ref, node)
                if SEVERAL and a.name == "*" and ref[:-2] in DANGEROUS:
                    self.note("python-computed-attribute", node)
                elif SEVERAL:
                    self.handed_on([ref], node)

    def shared(self, node):
        """Something of a module that this file has not imported by its name."""
        modules = self.refs(node.value)
        if node.attr in HANDED if not modules else any("." in m and m.split(".")[-1] not in DATA for m in modules):
            self.note("python-eval", node)

    def imported(self, module, node):
        if module.split(".")[0] in ("ctypes", "cffi"):
            self.note("python-native", node)

    def named(self, ref, node):
        """A thing that is dangerous however it is used."""
        if ref.startswith(("socket.SOCK_RAW", "socket.AF_PACKET", "socket.SOCK_PACKET")):
            self.note("python-raw-socket", node)
        elif ref in ("ssl._create_unverified_context", "ssl.CERT_NONE", "ssl._create_stdlib_context"):
            self.note("python-tls", node)
        elif ref == "mmap.PROT_EXEC":
            self.note("python-executable-memory", node)
        elif ref in ("sys.meta_path", "sys.path_hooks", "sys.path_importer_cache"):
            self.note("python-module-patch", node)
        elif ref in FRAME_CALLS:
            self.note("python-frames", node)
        elif SEVERAL and ref in ("sys.executable", "sys._base_executable", "sys.orig_argv"):
            self.note("source-runs-file", node)
        elif SEVERAL and ref in ("sys.path", "site.addsitedir"):
            self.note("python-path", node)
        elif ref in TRACE:
            self.note("python-trace", node)
        elif ref.split(".")[0] in ("ctypes", "cffi") and "." in ref:
            self.note("python-native", node)
        for part in ref.split(".")[1:]:
            self.walked(part, node)

    def walked(self, name, node):
        if name in WALK:
            self.note("python-introspection", node)
        elif name in FRAMES:
            self.note("python-frames", node)

    def r_Name(self, node):
        if not isinstance(node.ctx, ast.Load):
            if node.id == "__builtins__":
                self.note("python-builtins-patch", node)
            return
        if node.id == "__builtins__":
            self.note("python-introspection", node)
        for ref in self.refs(node):
            if ref != "builtins":
                self.named(ref, node)

    def r_Attribute(self, node):
        self.walked(node.attr, node)
        if isinstance(node.ctx, ast.Load):
            for ref in self.refs(node):
                self.named(ref, node)
            if SEVERAL and node.attr in SHARED:
                self.shared(node)
            if node.attr == "environ" and "os.environ" in self.refs(node):
                self.whole_environ(node)
            return
        for v in self.values(node.value):
            if v[0] != "ref":
                continue
            target = v[1] + "." + node.attr
            if v[1] == "builtins":
                self.note("python-builtins-patch", node)
            elif SEVERAL and target == "sys.path":
                self.note("python-path", node)
            elif target in ("sys.modules", "sys.meta_path", "sys.path_hooks"):
                self.note("python-module-patch", node)
            elif "." not in v[1] and v[1] in MODULES | {"ssl", "json", "time", "random", "hashlib", "logging"} and v[1] not in ("sys",) \
                    and not node.attr.startswith("environ") and node.attr != "_create_default_https_context":
                self.note("python-monkey-patch", node)
        if node.attr == "__code__":
            self.note("python-code-patch", node)
        if node.attr == "check_hostname":
            parent = self.parent.get(node)
            if isinstance(parent, ast.Assign) and isinstance(parent.value, ast.Constant) and parent.value.value is False:
                self.note("python-tls", node)

    def whole_environ(self, node):
        """os.environ itself, and not one variable of it."""
        up = self.parent.get(node)
        if isinstance(up, ast.Subscript) and up.value is node or isinstance(up, ast.Compare):
            return
        if isinstance(up, ast.Call) and isinstance(up.func, ast.Attribute) and up.func.attr == "dict":  # of mock.patch
            return
        if isinstance(up, ast.Attribute) and up.attr in ("get", "pop", "setdefault", "__getitem__", "__contains__", "update", "__setitem__", "putenv"):
            return
        while up is not None and not isinstance(up, ast.stmt):
            if isinstance(up, ast.keyword) and up.arg == "env":
                return
            up = self.parent.get(up)
        if isinstance(up, (ast.Assign, ast.AnnAssign)):
            targets = up.targets if isinstance(up, ast.Assign) else [up.target]
            if any(isinstance(t, ast.Name) and re.fullmatch(r"_?(child_|proc_|sub_|new_)?env(iron(ment)?)?(_vars)?", t.id, re.I) for t in targets) and self.env_used():
                return
        self.environ.append(node)

    def env_used(self):
        if not self.env_keyword:
            self.env_keyword = any(isinstance(n, ast.keyword) and n.arg == "env" for n in ast.walk(self.tree)) and 1 or 2
        return self.env_keyword == 1

    def r_Subscript(self, node):
        for v in self.values(node.value):
            if v == ("ref", "builtins"):
                v = ("ns", "builtins")
            if v[0] != "ns":
                continue
            if not isinstance(node.ctx, ast.Load):
                if v[1] == "":
                    self.note("python-module-patch", node)
                elif v[1] == "builtins":
                    self.note("python-builtins-patch", node)
                continue
            known = self.texts(node.slice)
            own = isinstance(node.slice, ast.Name) and node.slice.id == "__name__"  # sys.modules[__name__] is this module
            if not known and not own and (v[1] in DANGEROUS or v[1] == ""):
                self.note("python-computed-attribute", node)
            for k in known:
                self.assembled(k, self.entry(v, k), node)
                for e in self.entry(v, k):
                    if e[0] == "ref":
                        self.named(e[1], node)
        key = node.slice
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            self.walked(key.value, node)

    def assembled(self, text, found, node):
        """A name that is not written as one."""
        if text[2] == 0:
            return
        dunder = text[1].startswith("__") and text[1].endswith("__")
        hit = any(v[0] == "ref" and (v[1] in EVAL | SHELL | IMPORT | CODE | PROCESS or v[1].split(".")[0] in DANGEROUS) for v in found)
        if text[2] == 2 or dunder or hit:
            self.note("python-built-name", node)

    # Strings.

    def r_Constant(self, node):
        if isinstance(node.value, (str, bytes)) and node not in self.docs:
            if isinstance(self.parent.get(node), ast.JoinedStr):
                return
            self.string(node.value, node)

    def r_JoinedStr(self, node):
        text = "".join(p.value if isinstance(p, ast.Constant) else "{}" for p in node.values)
        self.string(text, node)

    def r_BinOp(self, node):
        up = self.parent.get(node)
        if isinstance(up, ast.BinOp) and type(up.op) is type(node.op):
            return
        for v in self.values(node):
            if v[0] == "const" and isinstance(v[1], (str, bytes)):
                self.string(v[1], node)

    def string(self, text, node):
        if isinstance(text, bytes):
            text = text[:MAX_TEXT * 50].decode("latin-1")
        if len(text) < 5:
            return
        if len(text) >= 512 and not re.search(r"\s", text[:2000]) and entropy(text) >= 4.5 and not picture(text):
            self.note("source-encoded", node)
        for rule, pattern in PATTERNS:
            if pattern.search(text[:MAX_TEXT]):
                self.note(rule, node)

    def starts(self, node):
        """A command, or its first word, that is an interpreter."""
        if SEVERAL and any(INTERPRETER.fullmatch(t[1]) for t in self.texts(node)):
            self.note("source-runs-file", node)

    def r_List(self, node):
        if node.elts and isinstance(node.ctx, ast.Load):
            self.starts(node.elts[0])

    r_Tuple = r_List

    # Calls.

    def r_Call(self, node):
        for v in self.values(node.func):
            if v[0] == "ref":
                self.call(v[1], node)
            elif v[0] == "method" and v[1][0] == "ns":
                self.table(v[1], v[2], node)
            elif v[0] == "inst" and v[1] == "builtins.type" and isinstance(node.func, ast.Call):
                if any(x[0] == "func" for a in node.func.args for x in self.values(a)):
                    self.note("python-code-object", node)
        if isinstance(node.func, ast.Attribute):
            self.any_method(node)
        for k in node.keywords:
            off = isinstance(k.value, ast.Constant) and k.value.value is False
            if k.arg in ("verify", "verify_ssl", "ssl") and off and NETWORKS & self.uses:
                self.note("python-tls", node)
            if SEVERAL and k.arg == "shell" and not (isinstance(k.value, ast.Constant) and not k.value.value) and node.args \
                    and not any(r in PROCESS for r in self.refs(node.func)):  # another file may have named it
                self.command(node.args[0], node)
            if k.arg == "co_code":
                self.note("python-code-object", node)
        for v in self.values(node):
            if v[0] == "const" and isinstance(v[1], (str, bytes)) and v[2]:
                self.string(v[1], node)

    def table(self, ns, attr, node):
        if attr in ("update", "pop", "setdefault", "clear", "__setitem__", "popitem", "__delitem__"):
            if ns[1] == "":
                self.note("python-module-patch", node)
            elif ns[1] == "builtins":
                self.note("python-builtins-patch", node)
        if attr in ("get", "__getitem__", "pop") and node.args:
            known = self.texts(node.args[0])
            if not known and ns[1] in DANGEROUS:
                self.note("python-computed-attribute", node)
            for k in known:
                self.assembled(k, self.entry(ns, k), node)

    def any_method(self, node):
        """A method of anything."""
        attr, args = node.func.attr, node.args
        if attr in ("write_text", "write_bytes", "touch", "unlink", "chmod", "symlink_to", "hardlink_to", "rename"):
            self.system_path(node.func.value, node)
        if attr == "open" and args and self.writes(args[0]):
            self.system_path(node.func.value, node)
        if attr == "__reduce__" or attr == "load_module" or attr == "exec_module":
            self.note("python-import-computed", node)

    def writes(self, mode):
        return any(set(m[1]) & set("wax+") for m in self.texts(mode))

    def system_path(self, path, node):
        for p in self.texts(path):
            if re.match(r"/(etc|usr|bin|sbin|lib|lib64|boot|sys|root|dev/(?!null|stdout|stderr|shm))(/|$)", p[1]):
                self.note("python-system-write", node)

    def call(self, f, node):
        args = node.args
        words = {k.arg: k.value for k in node.keywords if k.arg}
        first = args[0] if args else None
        if f in EVAL:
            self.evaluated(f, first, words, node)
        elif f == "builtins.compile":
            mode_ast = any("PyCF_ONLY_AST" in r for a in args[3:] for r in self.refs(a))
            if first is not None and not self.constant(first) and not mode_ast:
                self.note("python-compile", node)
        elif f in SHELL:
            self.command(first or words.get("cmd") or words.get("command"), node)
        elif f.endswith("create_subprocess_exec"):
            self.starts(first)
            self.process(ast.List(args, ast.Load()), words, node)
        elif f in PROCESS:
            self.process(first or words.get("args"), words, node)
        elif f in IMPORT:
            self.import_call(first or words.get("name"), node)
        elif f in ("builtins.getattr", "builtins.setattr", "builtins.delattr", "builtins.object.__getattribute__", "inspect.getattr_static") and len(args) >= 2:
            self.attribute_call(f, node)
        elif f == "operator.attrgetter" or f == "operator.methodcaller":
            for k in self.texts(first) if first is not None else []:
                for part in k[1].split("."):
                    self.walked(part, node)
                self.assembled(k, [], node)
        elif f in PICKLE or f == "torch.load" and "weights_only" not in words:
            self.note("python-pickle", node)
        elif f.startswith("marshal.load"):
            self.note("python-marshal", node)
        elif f in ("numpy.load", "pandas.read_csv") and isinstance(words.get("allow_pickle"), ast.Constant) and words["allow_pickle"].value:
            self.note("python-pickle", node)
        elif f in ("yaml.load", "yaml.load_all"):
            loader = words.get("Loader") or (args[1] if len(args) > 1 else None)
            if loader is None or not any("Safe" in r or "Base" in r for r in self.refs(loader)):
                self.note("python-yaml-load", node)
        else:
            self.system_call(f, first, words, node)

    def system_call(self, f, first, words, node):
        args = node.args
        if f in STARTS:
            for a in args[:2]:
                self.starts(a)
            self.note("python-process", node)
        elif f in ("pty.spawn", "pty.fork", "os.openpty", "os.forkpty"):
            self.note("python-pty", node)
        elif f in ("os.fork", "os.forkpty", "os.fork1"):
            self.note("python-fork-bomb" if self.endless(node) else "python-fork", node)
        elif f in ("os.setsid", "os.setpgrp", "daemon.DaemonContext"):
            self.note("python-daemon", node)
        elif f in ("os.kill", "os.killpg", "signal.pthread_kill", "os.abort"):
            self.note("python-kill", node)
        elif f in CODE:
            self.note("python-code-object", node)
        elif f == "tempfile.mktemp" or f in ("os.tempnam", "os.tmpnam"):
            self.note("python-tempfile", node)
        elif f.startswith("hashlib.") and f.split(".")[1] in ("md5", "sha1", "new"):
            if any(isinstance(n, (ast.Name, ast.Attribute)) and SECRET.search(n.id if isinstance(n, ast.Name) else n.attr)
                   for a in args for n in ast.walk(a)) and (f != "hashlib.new" or any(t[1] in ("md5", "sha1") for t in self.texts(first))):
                self.note("python-weak-hash", node)
        elif f == "atexit.register":
            self.note("python-atexit", node)
        elif f in ("signal.signal", "signal.pthread_sigmask") and first is not None:
            if any(r.split(".")[-1] in ENDING for n in ast.walk(first) if isinstance(n, ast.expr) for r in self.refs(n)):
                self.note("python-signal", node)
        elif f in ("os.write", "os.fdopen", "os.close", "os.dup", "os.dup2", "socket.fromfd", "builtins.open", "os.closerange", "os.read", "os.sendfile") \
                and any(v[0] == "const" and v[1] == 3 and type(v[1]) is int for a in (args[:2] if "dup2" in f else args[:1]) for v in self.values(a)):
            self.note("python-channel", node)
        elif f == "socket.socket" and isinstance(words.get("fileno"), ast.Constant) and words["fileno"].value == 3:
            self.note("python-channel", node)
        elif f == "builtins.open" and first is not None:
            mode = args[1] if len(args) > 1 else words.get("mode")
            if mode is not None and self.writes(mode):
                self.system_path(first, node)
        elif f in ("os.remove", "os.unlink", "os.rename", "os.replace", "shutil.copy", "shutil.copyfile", "shutil.move", "os.symlink", "os.chmod", "os.chown"):
            for a in args[-1:] if f not in ("os.chmod", "os.chown") else args[:1]:
                self.system_path(a, node)
        elif f == "shutil.rmtree" and first is not None:
            if any(re.fullmatch(r"/|/\*|~/?|/(home|root|etc|usr|var|bin|lib|boot)/?", p[1]) for p in self.texts(first)):
                self.note("python-delete-root", node)

    def constant(self, node):
        return any(v[0] == "const" for v in self.values(node)) and not isinstance(node, ast.Name) or isinstance(node, ast.Name) and self.only_constant(node)

    def only_constant(self, node):
        """A name that is a constant and never anything else."""
        scope = self.scope.get(node, self.top)
        while scope is not None and node.id not in scope.names:
            scope = scope.parent
        if scope is None:
            return False
        return all(kind == "expr" and what is not None and any(v[0] == "const" for v in self.values(what)) for kind, what, _ in scope.names[node.id])

    def evaluated(self, f, first, words, node):
        if f not in RUN:
            if f.startswith(("code.", "runpy.", "pdb.", "trace.")) or first is not None and not self.constant(first) and isinstance(first, (ast.JoinedStr, ast.BinOp, ast.Name)) \
                    and not any(v[0] == "func" for v in self.values(first)) and f.startswith(("cProfile.", "profile.")):
                self.note("python-eval", node)
            return
        if first is None:
            self.note("python-eval", node)
            return
        if ("inst", "builtins.compile") in self.values(first) and isinstance(first, ast.Call) and first.args:
            first = first.args[0]
        values = self.values(first)
        if any(v[0] == "inst" and v[1].startswith(DECODE + NETWORK) for v in values) or any(v[0] == "const" and v[2] == 2 for v in values):
            self.note("python-exec-decoded", node)
        texts = [v for v in values if v[0] == "const" and isinstance(v[1], (str, bytes))]
        self.note("python-eval-constant" if texts and self.constant(first) else "python-eval", node)
        for t in texts[:4]:
            self.nested_code(t[1], node)

    def nested_code(self, text, node):
        """Code in a constant is read like any other."""
        if self.nested >= MAX_NESTED or len(text) > 100000:
            self.note("source-complex", node)
            return
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return
        inner = Rules(tree, self.line or getattr(node, "lineno", 1), self.nested + 1, self)
        inner.run()

    def command(self, what, node):
        if what is None:
            return
        for v in self.values(what):
            if v[0] == "const" and v[2] == 2:
                self.note("python-built-name", node)
        known = self.constant(what)
        self.note("python-shell-constant" if known else "python-shell", node)
        texts = [t[1] for t in self.texts(what)]
        if not texts and isinstance(what, ast.JoinedStr):
            texts = ["".join(p.value if isinstance(p, ast.Constant) else "$x" for p in what.values)]
        for text in texts:
            if len(self.shell) < MAX_SHELL:
                self.shell.append({"t": text[:MAX_COMMAND], "l": self.line or node.lineno})

    def process(self, what, words, node):
        if what is None:
            return
        shell = words.get("shell")
        if shell is not None and not (isinstance(shell, ast.Constant) and not shell.value):
            if isinstance(what, (ast.List, ast.Tuple)) and what.elts:
                what = what.elts[0]
            self.command(what, node)
            return
        if isinstance(what, ast.Name):
            scope = self.scope.get(what, self.top)
            while scope is not None and what.id not in scope.names:
                scope = scope.parent
            lists = [w for kind, w, _ in (scope.names[what.id] if scope else []) if kind == "expr" and isinstance(w, (ast.List, ast.Tuple))]
            what = lists[0] if len(lists) == 1 else what
        self.starts(what)
        if isinstance(what, (ast.List, ast.Tuple)):
            head = [self.one(e, 0) for e in what.elts[:6]]
            program = head[0].rsplit("/", 1)[-1] if head and isinstance(head[0], str) else ""
            if program in ("sh", "bash", "zsh", "dash", "ksh") and len(head) > 2 and isinstance(head[1], str) and head[1].startswith("-") and "c" in head[1]:
                self.command(what.elts[2], node)
            elif program in ("bash", "sh", "zsh") and len(head) > 1 and head[1] == "-i":
                self.uses.add("-i")
            if "install" in head and (program in ("pip", "pip3", "npm", "apt", "apt-get", "apk", "yum", "dnf", "brew", "gem", "cargo") or "pip" in head):
                self.note("python-install", node)
        elif isinstance(what, (ast.JoinedStr, ast.BinOp)) and not self.constant(what) or isinstance(what, ast.Call) and isinstance(what.func, ast.Attribute) and what.func.attr == "format":
            self.note("python-process-string", node)

    def import_call(self, first, node):
        known = self.texts(first) if first is not None else []
        if not known or not self.constant(first):
            self.note("python-import-computed", node)
        for k in known:
            self.imported(canonical(k[1]), node)
            if k[2] > 0:
                self.note("python-built-name", node)
            else:
                self.note("python-import-call", node)

    def attribute_call(self, f, node):
        base, name = node.args[0], node.args[1]
        if f != "builtins.getattr" and f != "inspect.getattr_static":
            for v in self.values(base):
                if v[0] == "ref" and v[1] == "builtins":
                    self.note("python-builtins-patch", node)
                elif v[0] == "ref" and "." not in v[1] and v[1] in MODULES and not f.endswith("__"):
                    self.note("python-monkey-patch", node)
            if any(t[1] == "__code__" for t in self.texts(name)):
                self.note("python-code-patch", node)
        known = self.texts(name)
        if not known or not self.constant(name):
            if any(v[0] == "ref" and v[1] in DANGEROUS for v in self.values(base)) and f != "builtins.setattr":
                self.note("python-computed-attribute", node)
        for k in known:
            found = [r for v in self.values(base) for r in self.dotted(v, k[1])]
            self.assembled(k, found, node)
            for part in k[1].split("."):
                self.walked(part, node)
            for r in found:
                if r[0] == "ref":
                    self.named(r[1], node)

    def endless(self, node):
        up = self.parent.get(node)
        while up is not None and not function(up):
            if isinstance(up, ast.While) and isinstance(up.test, ast.Constant) and up.test.value:
                return True
            if isinstance(up, ast.For) and any(r in ("itertools.count", "itertools.repeat", "itertools.cycle") for c in [up.iter] if isinstance(c, ast.Call) for r in self.refs(c.func)):
                return True
            up = self.parent.get(up)
        return False

    def r_Assert(self, node):
        for n in ast.walk(node.test):
            name = n.id if isinstance(n, ast.Name) else n.attr if isinstance(n, ast.Attribute) else ""
            if PERMIT.search(name):
                self.note("python-assert", node)
                return

    def carried(self, node):
        """Something dangerous that is handed on instead of being called."""
        if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return
        hit = [r for r in self.refs(node) if r in CARRIED]
        if not hit:
            return
        up = self.parent.get(node)
        if isinstance(up, ast.Call) and up.func is node or isinstance(up, ast.Attribute):
            return
        if isinstance(up, (ast.Assign, ast.NamedExpr, ast.AnnAssign)) and self.scope[up].kind != "ClassDef":
            targets = up.targets if isinstance(up, ast.Assign) else [up.target]
            if all(isinstance(t, ast.Name) for t in targets) and not (SEVERAL and self.scope[up] is self.top):
                return
        if isinstance(up, ast.Call):
            for f in self.refs(up.func):
                if f in ("functools.partial", "inspect.getsource", "builtins.callable", "builtins.isinstance"):
                    return
        if isinstance(up, (ast.Compare, ast.arguments)):
            return
        self.handed_on(hit, node)

    def handed_on(self, refs, node):
        for r in CARRIED.intersection(refs):
            self.note("python-eval" if r in RUN else "python-shell" if r in SHELL else "python-import-computed" if "import" in r else
                      "python-fork" if r == "os.fork" else "python-pickle" if r == "pickle.loads" else "python-marshal", node)

    # What only means something together.

    def together(self):
        used = set()
        for n in ast.walk(self.tree):
            if isinstance(n, ast.Call):
                for r in self.refs(n.func):
                    used.add(r)
                    if r in ("os.dup2", "pty.spawn") and "socket" in self.uses:
                        self.note("python-reverse-shell", n)
                    if r in PROCESS and any(k.arg in ("stdin", "stdout") and any(v[0] == "inst" and v[1].startswith("socket.") for v in self.values(k.value)) for k in n.keywords):
                        self.note("python-reverse-shell", n)
        if self.environ and NETWORKS & self.uses:
            for n in self.environ:
                self.note("python-environ", n)


def entropy(text):
    size = len(text)
    counts = {}
    for c in text:
        counts[c] = counts.get(c, 0) + 1
    return -sum(n / size * log2(n / size) for n in counts.values())


def picture(text):
    return any(k in text[:60] for k in ("iVBORw0KGgo", "/9j/", "R0lGOD", "UklGR", "PHN2Zy", "PD94bWwg", "d09GMg", "d09GRg", "JVBERi0", "AAABAA"))


PATTERNS = [(rule, re.compile(pattern)) for rule, pattern in STRING_RULES]


def names(source, note):
    """Look at names as they are written: the parser already turned them into what
    they mean (PEP 3131), so the tree cannot tell."""
    import io
    import tokenize
    import unicodedata
    try:
        for t in tokenize.generate_tokens(io.StringIO(source).readline):
            if t.type not in (tokenize.NAME, tokenize.ERRORTOKEN) or t.string.isascii():
                continue
            plain = unicodedata.normalize("NFKC", t.string)
            if plain != t.string and plain.isascii():
                note("source-disguised-name", t.start[0])
            for part in re.split(r"[_\d]+", t.string):
                scripts = {unicodedata.name(c, "").split(" ")[0] for c in part}
                if "LATIN" in scripts and (scripts & {"CYRILLIC", "CHEROKEE", "ARMENIAN", "LISU", "COPTIC", "DESERET"} or any(c in ALIKE for c in part)):
                    note("source-mixed-script", t.start[0])
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        pass  # the parser complains


def coding(source):
    import io
    import tokenize
    return tokenize.detect_encoding(io.BytesIO(source).readline)[0]


def answer(source):
    """The value for JSON."""
    try:
        if SEVERAL and coding(source) not in ("utf-8", "utf-8-sig"):  # which an import would obey
            return {"error": {"Line": 1}}
        text = source.decode("utf-8")  # as the harness does: a coding comment means nothing
        rules = Rules(ast.parse(text.removeprefix("\ufeff")))
        sys.setrecursionlimit(6000)
        rules.run()
    except SyntaxError as error:
        return {"error": {"Line": max(error.lineno or 1, 1)}}
    except (RecursionError, MemoryError, ValueError):
        return {"error": {"Line": 1}}
    found = rules.findings
    if not text.isascii():
        names(text, lambda rule, line: found.setdefault((rule, line), True))
    out = [{"r": r, "l": l} for r, l in sorted(found, key=lambda k: (k[1], k[0]))]
    if len(out) >= MAX_FINDINGS:
        out.append({"r": "source-complex", "l": 1})
    return {"findings": out, "shell": rules.shell}


def confine():
    """Bound this process, where the system can."""
    try:
        import resource
    except ImportError:
        return
    for name, value in (("RLIMIT_AS", 1 << 30), ("RLIMIT_CPU", 20), ("RLIMIT_CORE", 0)):
        try:
            which = getattr(resource, name)
            hard = resource.getrlimit(which)[1]
            resource.setrlimit(which, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
        except (AttributeError, ValueError, OSError):
            pass  # the caller bounds us as well


if __name__ == "__main__":
    import json
    import warnings
    warnings.simplefilter("ignore")
    confine()
    text = sys.stdin.buffer.read(MAX_SOURCE + 1)
    sys.stdout.write(json.dumps(answer(text) if len(text) <= MAX_SOURCE else {"error": {"Line": 1}}))
