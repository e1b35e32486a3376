"""A function's own source, with what it needs and nothing else.

What is sent is what was written: the text of the function without the decorators
that were put on top of it, the imports of its module whose names it uses, and what
``uses`` names. Values that came to be when the program ran (closures, clients, open
files) are not in any source; a function that needs one is refused, with the reason.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import contextlib
import functools
import importlib.util
import inspect
import io
import symtable
import sys
import tokenize
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from ._errors import SourceError

#: What may be named in ``uses``: functions, classes, and names of the module's own variables.
Use: TypeAlias = "Callable[..., Any] | type[Any] | str"

#: What every module has.
_EVERYWHERE = {"__name__", "__file__", "__doc__", "__builtins__"}

_Definition: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef"


def check(function: Any) -> types.FunctionType:
    """Report at once what can never become a tool, and return the function behind wrappers."""
    if isinstance(function, (staticmethod, classmethod)) or inspect.ismethod(function):
        raise SourceError("a method is not a tool: it needs an object that is only here; write a function")
    inner = inspect.unwrap(function) if callable(function) else function
    if isinstance(inner, functools.partial):
        raise SourceError("a partial has no source of its own: write a function")
    if inspect.isclass(inner) or not isinstance(inner, types.FunctionType):
        raise SourceError("a tool is a function that is written in Python")
    if inner.__name__ == "<lambda>":
        raise SourceError("a lambda has no name and no docstring: write a function")
    outer = inner.__qualname__.split(".")[:-1]
    if outer and outer[-1] != "<locals>":
        raise SourceError(f"{inner.__qualname__} is a method: it needs an object that is only here; write a function")
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise SourceError(f"{inner.__name__} is a generator; a tool returns one value")
    return inner


def collect(function: Any, uses: Sequence[Use], ours: Callable[[Any], bool]) -> str:
    """The source of a tool. ``ours`` knows the decorators that make tools."""
    inner = check(function)
    plan = _Plan(ours, inner)
    for use in uses:
        plan.use(use)
    plan.add(plan.piece(inner))
    return plan.text()


@dataclass
class _Piece:
    """One definition that is sent, and the names that it needs."""

    name: str
    text: str
    needs: set[str]
    #: Names in annotations, which need not be there when the program runs.
    types: set[str]
    module: _Module
    future: bool = False
    aliases: list[str] = field(default_factory=list)


@dataclass
class _Module:
    """What is known of the module that something is from."""

    name: str
    values: Mapping[str, Any]
    tree: ast.Module | None
    source: str

    @classmethod
    def of(cls, obj: Any, values: Mapping[str, Any]) -> _Module:
        name = str(values.get("__name__", "?"))
        try:
            lines, _ = inspect.findsource(obj)
            source = "".join(lines)
            return cls(name, values, ast.parse(source), source)
        except (OSError, TypeError, SyntaxError, ValueError):
            return cls(name, values, None, "")

    def imports(self, name: str) -> list[str]:
        """The imports of the module's top level that give a name."""
        parts, others, right = [], [], []
        for node in _top_level(self.tree):
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            for alias in node.names:
                if isinstance(node, ast.Import) and not alias.asname and alias.name.split(".")[0] == name:
                    parts.append(_import_text(node, alias))  # import a.b and import a.c both give a
                elif (alias.asname or alias.name) == name:
                    others.append(_import_text(node, alias))
                    if self._gives(node, alias, self.values.get(name)):
                        right.append(others[-1])
        return parts or right[:1] or others[-1:]

    def _gives(self, node: ast.Import | ast.ImportFrom, alias: ast.alias, value: Any) -> bool:
        """Whether it was this import that gave the value, of several in branches."""
        if isinstance(node, ast.Import):
            return value is sys.modules.get(alias.name)
        if node.level:
            return False
        module = sys.modules.get(node.module or "")
        return value is not None and value is vars(module or object).get(alias.name, self)

    def starred(self, name: str) -> bool:
        """Whether a name may be of an import that does not name it."""
        statements = list(_top_level(self.tree))
        names = [n for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)]
        if any(n.id == name and isinstance(n.ctx, ast.Store) for n in names):
            return False
        return any(isinstance(s, ast.ImportFrom) and any(a.name == "*" for a in s.names) for s in statements)

    def assignment(self, name: str) -> ast.stmt | None:
        """The one statement of the top level that gives a variable its value."""
        found = []
        for node in self.tree.body if self.tree else []:
            targets: Iterable[ast.expr] = ()
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
                targets = (node.target,)
            elif sys.version_info >= (3, 12) and isinstance(node, ast.TypeAlias):
                targets = (node.name,)
            if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                found.append(node)
        if len(found) > 1:
            raise SourceError(f"{name} is given a value more than once in {self.name}: it cannot be taken along")
        return found[0] if found else None


def _top_level(tree: ast.Module | None) -> Iterable[ast.stmt]:
    """The statements of a module, also those under if and try."""
    todo: list[ast.stmt] = list(tree.body) if tree else []
    while todo:
        node = todo.pop(0)
        yield node
        if isinstance(node, ast.If):
            todo += node.body + node.orelse
        elif isinstance(node, ast.Try):
            todo += node.body + [s for h in node.handlers for s in h.body] + node.orelse


def _import_text(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    name = alias.name + (f" as {alias.asname}" if alias.asname else "")
    if isinstance(node, ast.Import):
        return f"import {name}"
    return f"from {'.' * node.level}{node.module or ''} import {name}"


class _Plan:
    """Collects pieces until nothing is missing."""

    def __init__(self, ours: Callable[[Any], bool], main: types.FunctionType) -> None:
        self._ours = ours
        self._main = main
        self._pieces: dict[str, _Piece] = {}
        self._objects: dict[int, str] = {}  # by identity: the name of what is taken along
        self._keep: list[Any] = []  # so that identities stay theirs
        self._order: list[str] = []

    def use(self, use: Use) -> None:
        """Take along what somebody named."""
        if isinstance(use, str):
            self.add(self._variable(use))
            return
        obj = inspect.unwrap(use)
        obj = getattr(obj, "function", obj) if self._is_tool(obj) else obj
        if not isinstance(obj, (types.FunctionType, type)):
            raise SourceError("uses names functions, classes, and variables of the module by their name as text")
        self._objects[id(use)] = self._objects[id(obj)] = obj.__name__
        self._keep += [use, obj]
        self.add(self.piece(obj))

    @staticmethod
    def _is_tool(obj: Any) -> bool:
        return type(obj).__module__.startswith("haft.")

    def add(self, piece: _Piece) -> None:
        before = self._pieces.get(piece.name)
        if before is not None and before.text != piece.text:
            raise SourceError(f"two different things are called {piece.name}: give one of them another name")
        if before is None:
            self._pieces[piece.name] = piece
            self._order.append(piece.name)

    def piece(self, obj: types.FunctionType | type) -> _Piece:
        """Read one function or class."""
        where = obj.__name__
        if isinstance(obj, types.FunctionType):
            if obj.__code__.co_freevars:
                names = ", ".join(obj.__code__.co_freevars)
                raise SourceError(
                    f"{where} is a closure over {names}: those are not in its source; make them arguments"
                )
            values: Mapping[str, Any] = obj.__globals__
        else:
            if obj.__module__ in ("builtins",):
                raise SourceError(f"{where} is there anyway")
            values = vars(sys.modules[obj.__module__]) if obj.__module__ in sys.modules else {}
        try:
            lines, _ = inspect.getsourcelines(obj)
        except (OSError, TypeError) as err:
            raise SourceError(
                f"the source of {where} cannot be read ({err}): it has to be in a file, and not typed at a prompt"
            ) from None
        text = _dedent("".join(lines))
        try:
            tree = ast.parse(text)
        except SyntaxError:
            raise SourceError(f"the source of {where} is not one whole definition") from None
        node = tree.body[0]
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or node.name != where:
            raise SourceError(f"what is in the file is not {where}: was it changed after it was loaded?")
        if not isinstance(node, ast.ClassDef):
            text = self._undecorated(text, node, values)
        needs, annotations = _names(text)
        needs.discard(where)
        annotations.discard(where)
        flags = getattr(getattr(obj, "__code__", None), "co_flags", 0)
        module = _Module.of(obj, values)
        future = bool(flags & __future__.annotations.compiler_flag) or _postponed(module.tree)
        return _Piece(where, text, needs, annotations, module, future)

    def _variable(self, name: str) -> _Piece:
        module = _Module.of(self._main, self._main.__globals__)
        node = module.assignment(name)
        text = ast.get_source_segment(module.source, node) if node else None
        if node is None or text is None:
            raise SourceError(f"{module.name} has no variable {name} that is given its value at the top level")
        needs, annotations = _names(text)
        return _Piece(name, text, needs - {name}, annotations - {name}, module, _postponed(module.tree))

    def _undecorated(self, text: str, node: _Definition, values: Mapping[str, Any]) -> str:
        """Take off the decorator that makes a tool, and what is above it: that is put on the tool."""
        last = 0
        for decorator in node.decorator_list:
            if self._ours(_resolve(decorator, values)) or _called_tool(decorator, values):
                last = decorator.end_lineno or decorator.lineno
        return "".join(list(io.StringIO(text))[last:])

    def text(self) -> str:
        """Put everything together, in an order in which it can be run."""
        imports: dict[str, str] = {}
        needs: dict[str, list[str]] = {}
        for piece in list(self._pieces.values()):
            needs[piece.name] = []
            for name in sorted(piece.needs | piece.types):
                self._find(piece, name, imports, needs[piece.name])
        done: list[str] = []
        for name in self._order:
            self._visit(name, needs, done, [])
        parts = ["from __future__ import annotations"] if any(p.future for p in self._pieces.values()) else []
        lines = sorted(set(imports.values()), key=lambda s: (s.startswith("from "), s))
        if lines:
            parts.append("\n".join(lines))
        for name in done:
            piece = self._pieces[name]
            parts.append("\n".join([piece.text.strip("\n"), *piece.aliases]))
        return "\n\n\n".join(parts) + "\n"

    def _visit(self, name: str, needs: Mapping[str, list[str]], done: list[str], path: list[str]) -> None:
        if name in done or name in path:  # functions may call each other in a circle
            return
        for other in needs[name]:
            self._visit(other, needs, done, [*path, name])
        done.append(name)

    def _find(self, piece: _Piece, name: str, imports: dict[str, str], needs: list[str]) -> None:
        """Find where a name is from, or say what is missing."""
        module = piece.module
        there = name in module.values
        value = module.values.get(name)
        if there and id(value) in self._objects:
            used = self._objects[id(value)]
            needs.append(used)
            alias = f"{name} = {used}"
            if used != name and alias not in self._pieces[used].aliases:
                self._pieces[used].aliases.append(alias)
            return
        if name in self._pieces and (not there or self._same(piece, name)):
            needs.append(name)
            return
        statements = module.imports(name)
        if statements:
            for statement in statements:
                _check_import(piece.name, name, statement, value)
            text = "\n".join(statements)
            if imports.setdefault(name, text) != text:
                raise SourceError(f"{name} is imported from two places: give one of them another name")
            return
        if name in _EVERYWHERE or (not there and hasattr(builtins, name)):
            return
        if name in piece.types - piece.needs and not there:
            return  # an annotation that nobody resolves here either
        if there and module.starred(name) and not isinstance(value, (types.FunctionType, type)):
            raise SourceError(f"{piece.name} uses {name}, which an import of * may give: import it by its name")
        raise SourceError(_missing(piece.name, name, there, value))

    def _same(self, piece: _Piece, name: str) -> bool:
        """Whether the piece of a name is what the name means there."""
        return self._pieces[name].module.name == piece.module.name


def _check_import(where: str, name: str, statement: str, value: Any) -> None:
    """Refuse imports that only work on this machine."""
    words = statement.split()
    module = words[1]
    root = module.split(".")[0]
    if module.startswith(".") or not (root in sys.stdlib_module_names or _installed(root)):
        able = isinstance(value, (types.FunctionType, type))
        help_ = f"name it in uses=[{name}]" if able else "name what it needs of it in uses, and not the module"
        raise SourceError(
            f"{where} uses {name} of {module}, which is code of yours: {help_}"
            " (a package that the server has may be imported within the function)"
        )


def _installed(root: str) -> bool:
    """Whether a module is of a package that was installed, and not of code that is worked on here."""
    try:
        spec = importlib.util.find_spec(root)
    except (ImportError, ValueError):
        return False
    places = [spec.origin or "", *(spec.submodule_search_locations or [])] if spec else []
    return any({"site-packages", "dist-packages"} & set(Path(p).parts) for p in places)


def _missing(where: str, name: str, there: bool, value: Any) -> str:
    if not there:
        return f"{where} uses {name}, which its module does not have"
    if isinstance(value, (types.FunctionType, type)) or (_Plan._is_tool(value) and hasattr(value, "function")):
        return f"{where} uses {name}: name it in uses=[{name}], and its source is taken along"
    if isinstance(value, types.ModuleType):
        return f"{where} uses the module {name}: import it at the top level of the file, or in the function"
    if isinstance(value, (bool, int, float, str, bytes, tuple, list, dict, set, frozenset, type(None))):
        return f'{where} uses the variable {name}: name it in uses=["{name}"], or make it an argument'
    kind = type(value).__name__
    return (
        f"{where} uses {name}, of type {kind}, which was made when the program ran: a tool has only what is in"
        " its source"
        f' (if a statement of the module makes it anew, uses=["{name}"] takes that along)'
    )


def _called_tool(decorator: ast.expr, values: Mapping[str, Any]) -> bool:
    """Whether a decorator is one called tool whose owner cannot be looked at, such as a local client."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    if _resolve(decorator, values) is not None:
        return False
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name == "tool"


def _resolve(decorator: ast.expr, values: Mapping[str, Any]) -> Any:
    """What a decorator is, without running anything; None if that cannot be seen."""
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    found = values.get(node.id)
    for name in reversed(names):
        found = inspect.getattr_static(found, name, None) if found is not None else None
    return found


def _postponed(tree: ast.Module | None) -> bool:
    """Whether a module postpones its annotations."""
    return any(
        isinstance(n, ast.ImportFrom) and n.module == "__future__" and any(a.name == "annotations" for a in n.names)
        for n in (tree.body if tree else [])
    )


def _dedent(text: str) -> str:
    """Take the indentation off a definition, but not from lines within its strings."""
    first = text.partition("\n")[0]
    indent = first[: len(first) - len(first.lstrip())]
    if not indent:
        return text
    inside: set[int] = set()
    starts: list[int] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            kind = tokenize.tok_name[token.type]
            if kind in ("FSTRING_START", "TSTRING_START"):
                starts.append(token.start[0])
            elif kind in ("FSTRING_END", "TSTRING_END"):
                inside.update(range(starts.pop() + 1, token.end[0] + 1))
            elif kind == "STRING":
                inside.update(range(token.start[0] + 1, token.end[0] + 1))
    except (tokenize.TokenError, IndentationError):
        pass  # the parser says it better
    return "".join(
        line if number in inside else line.removeprefix(indent) if line.startswith(indent) else line.lstrip(" \t")
        for number, line in enumerate(io.StringIO(text), 1)
    )


def _names(text: str) -> tuple[set[str], set[str]]:
    """The global names that a definition needs when it runs, and those in its annotations."""
    needs: set[str] = set()
    bound = set()

    def visit(table: symtable.SymbolTable, top: bool) -> None:
        for symbol in table.get_symbols():
            if top and symbol.is_assigned():
                bound.add(symbol.get_name())
            if symbol.is_referenced() and (top or symbol.is_global()):
                needs.add(symbol.get_name())
        for child in table.get_children():
            visit(child, False)

    visit(symtable.symtable(text, "tool", "exec"), True)
    annotations: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            args = node.args
            every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
            for arg in every:
                if arg is not None and arg.annotation is not None:
                    _annotation(arg.annotation, annotations)
            if node.returns is not None:
                _annotation(node.returns, annotations)
        elif isinstance(node, ast.AnnAssign):
            _annotation(node.annotation, annotations)
    return needs - bound, annotations - bound


def _annotation(node: ast.expr, names: set[str]) -> None:
    """Add the names of an annotation, also of one that is written as text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        with contextlib.suppress(SyntaxError):
            _annotation(ast.parse(node.value, mode="eval").body, names)
        return
    if isinstance(node, ast.Subscript):
        _annotation(node.value, names)
        head = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
        if head == "Literal":
            return
        if head == "Annotated" and isinstance(node.slice, ast.Tuple):
            _annotation(node.slice.elts[0], names)
            for other in node.slice.elts[1:]:
                names.update(n.id for n in ast.walk(other) if isinstance(n, ast.Name))
            return
        _annotation(node.slice, names)
        return
    if isinstance(node, ast.Name):
        names.add(node.id)
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            _annotation(child, names)
