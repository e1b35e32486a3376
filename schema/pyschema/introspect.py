"""Describe a type of an installed module as JSON Schema, by importing it.

Reads {"module", "name", "path"} from standard input and writes one JSON document:
{"schema": ...} or {"error": ..., and what it is about}. Unlike reader.py this runs
code of others, so it must run confined, and its answer is not to be trusted. What
the module prints does not spoil the answer: that goes out on a descriptor of its
own. {"x-type": [names]} stands for a class that the reader of the answer knows, or
not: the names are the class and its bases.
"""
import enum
import json
import os
import sys
import types
import typing

MAX_QUESTION = 1 << 16  # bytes read from standard input
MAX_ANSWER = 1 << 18    # characters written
MAX_NODES = 4000        # subschemas
MAX_DEPTH = 40          # of types in types
MAX_DOC = 20000         # characters of a docstring
MAX_TEXT = 300          # characters of the text of an exception

# The types that constraints are written for.
SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}

# Where the classes live that the reader of the answer knows by name.
KNOWN = ("builtins", "datetime", "decimal", "fractions", "ipaddress", "numbers", "os", "pathlib", "re", "uuid", "zoneinfo")


class Refused(Exception):
    """There is no schema; what says why."""

    def __init__(self, error, **what):
        Exception.__init__(self, error)
        self.answer = dict(what, error=error)


class TooLarge(Exception):
    """The schema outgrew its bounds."""


def own(t, name):
    """An attribute of the class itself, not of its bases or its metaclass."""
    return getattr(t, "__dict__", {}).get(name)


def named(t):
    return str(getattr(t, "__name__", None) or getattr(t, "_name", None) or type(t).__name__)[:200]


def same(t, *names):
    """Whether t is a special form of typing or of typing_extensions."""
    return getattr(t, "__module__", "") in ("typing", "typing_extensions") and \
        (getattr(t, "_name", None) or getattr(t, "__name__", None)) in names


class Walker:
    """Turns types into one schema document. Classes are written out where they are
    used; those that contain themselves, or all if it shares, go to $defs."""

    def __init__(self, share):
        self.share = share
        self.defs = {}
        self.open = {}
        self.done = {}
        self.nodes = 0
        self.depth = 0
        self.adapted = 0

    def document(self, t):
        s = self.type(t)
        if self.defs:
            s = dict(s)
            s["$defs"] = self.defs
        return s

    # Named types.

    def define(self, t, build):
        key = id(t)
        if key in self.done:
            return {"$ref": self.done[key]}
        if key in self.open:
            if self.open[key] is None:
                self.open[key] = self.take(named(t))
            return {"$ref": "#/$defs/" + self.open[key]}
        self.open[key] = None
        s = build(t)
        name = self.open.pop(key)
        if name is None and self.share and ("properties" in s or "enum" in s):
            name = self.take(named(t))
        if name is None:
            return s
        self.defs[name] = s
        self.done[key] = "#/$defs/" + name
        return {"$ref": "#/$defs/" + name}

    def take(self, name):
        name = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
        taken = set(self.defs) | {n for n in self.open.values() if n}
        free, i = name, 2
        while free in taken:
            free, i = "%s_%d" % (name, i), i + 1
        return free

    # Any type.

    def type(self, t):
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise TooLarge
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                raise TooLarge
            return self.plain(t)
        finally:
            self.depth -= 1

    def plain(self, t):
        if t is None:
            return {"type": "null"}
        if isinstance(t, type) and t in SCALARS:
            return {"type": SCALARS[t]}
        if t is typing.Any or same(t, "Any", "AnyStr"):
            return {}
        if hasattr(t, "__metadata__"):
            return self.annotated(t)
        if hasattr(t, "__supertype__"):  # NewType
            return self.type(t.__supertype__)
        if type(t).__name__ == "TypeAliasType":
            if getattr(t, "__type_params__", ()):
                raise Refused("generic", name=named(t))
            return self.define(t, lambda t: dict(self.type(t.__value__)))
        if type(t).__name__ == "InitVar":
            return self.type(t.type)
        if isinstance(t, typing.TypeVar):
            raise Refused("generic", name=named(t))
        if isinstance(t, (str, typing.ForwardRef)):
            raise Refused("unreadable", name="annotation")
        origin = typing.get_origin(t)
        if origin is not None:
            return self.generic(t, origin, typing.get_args(t))
        if isinstance(t, type):
            return self.define(t, self.cls)
        raise Refused("value", kind=type(t).__name__)

    def annotated(self, t):
        notes = t.__metadata__
        if any(type(n).__module__.partition(".")[0] == "pydantic" for n in notes):
            return self.pydantic(t)
        s = dict(self.type(t.__origin__))
        for n in notes:
            if isinstance(n, str):
                s.setdefault("description", n)
            for attribute, text, items, number in (
                    ("gt", None, None, "exclusiveMinimum"), ("ge", None, None, "minimum"), ("lt", None, None, "exclusiveMaximum"),
                    ("le", None, None, "maximum"), ("multiple_of", None, None, "multipleOf"),
                    ("min_length", "minLength", "minItems", None), ("max_length", "maxLength", "maxItems", None)):
                v = getattr(n, attribute, None) if type(n).__module__.startswith("annotated_types") else None
                key = {"string": text, "array": items, "integer": number, "number": number}.get(s.get("type"))
                if key and type(v) in (int, float):
                    s[key] = v
            if isinstance(getattr(n, "documentation", None), str):  # typing_extensions.Doc
                s["description"] = n.documentation
        return s

    def generic(self, t, origin, args):
        if origin is typing.Union or type(t).__name__ == "UnionType":
            branches = []
            for a in args:
                s = self.type(a)
                if not s:
                    return {}
                for b in s["anyOf"] if set(s) == {"anyOf"} else [s]:
                    if b not in branches:
                        branches.append(b)
            return branches[0] if len(branches) == 1 else {"anyOf": branches}
        if same(origin, "Literal") or origin is typing.Literal:
            return self.values([a.value if isinstance(a, enum.Enum) else a for a in args], t)
        if same(origin, "Required", "NotRequired", "ReadOnly", "Final", "ClassVar", "Unpack"):
            return self.type(args[0])
        if not isinstance(origin, type):
            raise Refused("generic", name=named(t))
        if hasattr(origin, "__pydantic_generic_metadata__"):
            return self.pydantic(t)
        return self.collection(origin, args)

    def collection(self, origin, args):
        import collections
        import collections.abc as abc
        if issubclass(origin, tuple) and not hasattr(origin, "_fields"):
            if len(args) == 2 and args[1] is Ellipsis:
                return {"type": "array", "items": self.type(args[0])}
            if not args:
                return {"type": "array", "items": {}}
            if args == ((),):
                return {"type": "array", "items": False, "maxItems": 0}
            return {"type": "array", "prefixItems": [self.type(a) for a in args], "items": False,
                    "minItems": len(args), "maxItems": len(args)}
        if origin.__module__ not in ("builtins", "collections", "collections.abc", "typing", "re", "os"):
            raise Refused("generic", name=named(origin))
        if origin is collections.Counter:
            return {"type": "object", "additionalProperties": {"type": "integer"}}
        if issubclass(origin, abc.Mapping):
            return self.mapping(args)
        if origin.__module__ in ("re", "os"):
            return self.cls(origin)
        if issubclass(origin, (abc.Iterable, abc.Container)) and not issubclass(origin, (str, bytes, bytearray)):
            s = {"type": "array", "items": self.type(args[0]) if args else {}}
            if issubclass(origin, abc.Set):
                s["uniqueItems"] = True
            return s
        raise Refused("plain", name=named(origin))

    def mapping(self, args):
        s = {"type": "object"}
        if len(args) != 2:
            return s
        key = self.type(args[0])
        if key.get("type") == "integer":  # keys of JSON objects are text
            s["propertyNames"] = {"pattern": "^-?[0-9]+$"}
        elif key.get("type") == "number":
            s["propertyNames"] = {"pattern": "^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$"}
        elif key and key != {"type": "string"}:
            s["propertyNames"] = key
        value = self.type(args[1])
        if value:
            s["additionalProperties"] = value
        return s

    # Classes.

    def cls(self, t):
        if hasattr(t, "__pydantic_core_schema__") or hasattr(t, "__get_pydantic_core_schema__"):
            return self.pydantic(t)
        if hasattr(t, "__fields__") and hasattr(t, "parse_obj") or hasattr(t, "__pydantic_model__"):
            return self.pydantic1(t)
        if getattr(t, "__parameters__", ()) and not same(t, "Generic", "Protocol"):
            raise Refused("generic", name=named(t))
        if issubclass(t, enum.Enum):
            return self.described(self.enum(t), t)
        if hasattr(t, "__total__") and dict in t.__mro__:
            return self.described(self.typeddict(t), t)
        if issubclass(t, tuple) and hasattr(t, "_fields"):
            return self.described(self.namedtuple(t), t)
        if hasattr(t, "__dataclass_fields__"):
            return self.described(self.dataclass(t), t)
        if hasattr(t, "__attrs_attrs__"):
            return self.described(self.attrs(t), t)
        if t in (list, tuple, set, frozenset, dict) or t.__module__ in ("collections", "collections.abc"):
            return self.collection(t, ())
        return {"x-type": [c.__module__.partition(".")[0] + "." + c.__name__ for c in t.__mro__[:32]
                           if c is t or c.__module__.partition(".")[0] in KNOWN]}

    def described(self, s, t):
        doc = own(t, "__doc__")
        # Dataclasses, named tuples and enums get a text that says nothing.
        if isinstance(doc, str) and not doc.startswith(t.__name__ + "(") and doc != "An enumeration.":
            s["description"] = doc[:MAX_DOC]
        return s

    def enum(self, t):
        if issubclass(t, enum.Flag):
            return {"type": "integer", "minimum": 0}
        return self.values([m.value for m in t], t)

    def values(self, values, t):
        found, distinct = [], []
        for v in values:
            for base in (bool, int, float, str):
                if isinstance(v, base):
                    v = base(v)
                    break
            if type(v) not in SCALARS:
                raise Refused("members", name=named(t))
            if SCALARS[type(v)] not in found:
                found.append(SCALARS[type(v)])
            distinct.append(v)
        if not distinct:
            raise Refused("empty", name=named(t))
        self.nodes += len(distinct) // 10
        return {"type": found[0] if len(found) == 1 else found, "enum": distinct}

    def hints(self, t):
        try:
            return typing.get_type_hints(t, include_extras=True)
        except Exception:
            raise Refused("unreadable", name=named(t)) from None

    def record(self, t, fields):
        """An object of fields: name, type, whether it may be missing, default, text."""
        s = {"type": "object", "properties": {}}
        required = []
        for name, hint, optional, default, text in fields:
            try:
                p = dict(self.type(hint))
            except Refused as e:
                e.answer.setdefault("field", named(t) + "." + name)
                raise
            if isinstance(text, str) and text:
                p["description"] = text[:MAX_DOC]
            if isinstance(default, enum.Enum):
                default = default.value
            if optional and type(default) in SCALARS:
                p["default"] = default
            s["properties"][name] = p
            if not optional:
                required.append(name)
        if required:
            s["required"] = required
        return s

    def dataclass(self, t):
        from dataclasses import MISSING
        hints = self.hints(t)
        fields = []
        for name, f in t.__dataclass_fields__.items():
            if f.init and repr(f._field_type) != "_FIELD_CLASSVAR":
                optional = f.default is not MISSING or f.default_factory is not MISSING
                meta = f.metadata
                fields.append((name, hints.get(name, typing.Any), optional, f.default, meta.get("description") or own(f, "doc")))
        return self.record(t, fields)

    def attrs(self, t):
        hints = self.hints(t)
        return self.record(t, [
            (a.name, hints.get(a.name, typing.Any), repr(a.default) != "NOTHING", a.default, a.metadata.get("description"))
            for a in t.__attrs_attrs__ if a.init])

    def typeddict(self, t):
        fields = []
        for name, hint in self.hints(t).items():
            optional = name not in t.__required_keys__
            if same(typing.get_origin(hint), "NotRequired", "Required"):
                optional = same(typing.get_origin(hint), "NotRequired")
            fields.append((name, hint, optional, typing.Any, None))
        s = self.record(t, fields)
        if getattr(t, "__closed__", None) is True:
            s["additionalProperties"] = False
        return s

    def namedtuple(self, t):
        hints = self.hints(t)
        r = self.record(t, [(n, hints.get(n, typing.Any), n in t._field_defaults, t._field_defaults.get(n, typing.Any), None)
                            for n in t._fields])
        items = [dict(p, title=n) for n, p in r["properties"].items()]
        if not items:
            raise Refused("empty", name=named(t))
        return {"type": "array", "prefixItems": items, "items": False,
                "minItems": len(items) - len(t._field_defaults), "maxItems": len(items)}

    # Pydantic makes the schemas of its own types.

    def template(self):
        """References of one schema that Pydantic makes; each has names of its own."""
        self.adapted += 1
        return "#/$defs/" + ("" if self.adapted == 1 else "P%d_" % self.adapted) + "{model}"

    def merged(self, s, template, keyword):
        prefix = template[len("#/$defs/"):-len("{model}")]
        for name, d in s.pop(keyword, {}).items():
            if isinstance(d, dict) and d.get("title") == name.rpartition(".")[2]:
                del d["title"]
            self.defs[prefix + name] = d
        return s

    def pydantic(self, t):
        try:
            from pydantic import TypeAdapter
            from pydantic.json_schema import GenerateJsonSchema
        except ImportError:
            raise Refused("needs", module="pydantic") from None

        class Untitled(GenerateJsonSchema):
            def field_title_should_be_set(self, schema):
                return False

        template = self.template()
        try:
            s = TypeAdapter(t).json_schema(by_alias=True, mode="validation", ref_template=template, schema_generator=Untitled)
        except Exception as e:
            raise Refused("adapter", name=named(t), exception=type(e).__name__, text=first_line(e)) from None
        if s.get("title") == named(t):
            del s["title"]
        return self.merged(s, template, "$defs")

    def pydantic1(self, t):
        template = self.template()
        try:
            s = getattr(t, "__pydantic_model__", t).schema(by_alias=True, ref_template=template)
        except Exception as e:
            raise Refused("adapter", name=named(t), exception=type(e).__name__, text=first_line(e)) from None
        s = dict(s)
        if s.get("title") == named(t):
            del s["title"]
        s = self.merged(s, template, "definitions")
        for schema in [s] + list(self.defs.values()):
            for name, p in schema.get("properties", {}).items():
                if isinstance(p.get("title"), str) and p["title"].replace(" ", "").lower() == name.replace("_", "").lower():
                    del p["title"]
        return s


def first_line(e):
    try:
        lines = str(e).strip().splitlines()
    except BaseException:  # it is their __str__
        lines = []
    return lines[0][:MAX_TEXT] if lines else ""


def load(module):
    """The module, or the longest part of its name that is one; a class of a class
    looks like a module to who knows only its name."""
    import importlib
    name = module
    while True:
        try:
            return importlib.import_module(name), name
        except ModuleNotFoundError as e:
            missing = str(e.name or "")
            if not (name == missing or name.startswith(missing + ".")):
                raise Refused("needs", module=missing) from None
            if "." not in name or missing == name.partition(".")[0]:
                raise Refused("missing", module=name.partition(".")[0]) from None
            name = name.rpartition(".")[0]
        except Refused:
            raise
        except BaseException as e:  # SystemExit, too
            raise Refused("import", exception=type(e).__name__, text=first_line(e)) from None


def find(module, name):
    found, got = load(module)
    for part in (module[len(got) + 1:] + "." + name).strip(".").split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise Refused("none", module=got, name=part) from None
        except BaseException as e:
            raise Refused("import", exception=type(e).__name__, text=first_line(e)) from None
        got += "." + part
    if isinstance(found, (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)) \
            and not hasattr(found, "__supertype__"):
        raise Refused("value", kind=type(found).__name__)
    if isinstance(found, str):
        raise Refused("value", kind="str")
    return found


def describe(question):
    for p in question["path"]:
        if p not in sys.path:
            sys.path.append(p)
    try:
        t = find(question["module"], question["name"])
        for share in (False, True):
            try:
                return {"schema": Walker(share).document(t)}
            except (TooLarge, RecursionError):
                pass
        return {"error": "large"}
    except Refused as e:
        return e.answer
    except BaseException as e:
        return {"error": "introspection", "exception": type(e).__name__, "text": first_line(e)}


def main():
    me = os.getpid()
    question = json.loads(sys.stdin.buffer.read(MAX_QUESTION))
    out = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    answer = describe(question)
    try:
        text = json.dumps(answer, allow_nan=False, default=str)
    except BaseException as e:
        text = json.dumps({"error": "introspection", "exception": type(e).__name__, "text": ""})
    if len(text) > MAX_ANSWER:
        text = json.dumps({"error": "large"})
    if os.getpid() == me:  # and not a fork that the module left behind
        text = text.encode("ascii")
        while text:
            text = text[os.write(out, text):]
    os._exit(0)  # whatever threads and exit handlers the module has


if __name__ == "__main__":
    main()
