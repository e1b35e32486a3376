

# How an argument becomes what its parameter is annotated as.


class _Misfit(Exception):
    """An argument cannot become what its parameter is annotated as."""

    def __init__(self, where, message):
        Exception.__init__(self, message)
        self.where = where
        self.message = message


class _Record(dict):
    """What Haft fills in: a dict whose entries are also attributes."""

    __setattr__ = dict.__setitem__

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class _Model(_Record):
    """An object among the arguments of a tool of Letta, where it is an instance of a Pydantic model."""

    def __getattribute__(self, name):
        return self[name] if name in self else _Record.__getattribute__(self, name)

    def model_dump(self, **_):
        return _plain(self)

    def model_dump_json(self, **_):
        return _encode(self, 1 << 30).decode("utf-8")

    dict, json = model_dump, model_dump_json


def _plain(v):
    if isinstance(v, dict):
        return {k: _plain(v[k]) for k in v}
    return [_plain(x) for x in v] if type(v) is list else v


class _Named(str):
    """A tool of an agent: its name, which is also an attribute of it."""

    name = property(str)


class _Memory(_Record):
    """The blocks of an agent, with the methods that Letta has. What a tool changes is kept after the call."""

    def get_blocks(self):
        return self["blocks"]

    def list_block_labels(self):
        return [b["label"] for b in self["blocks"]]

    def get_block(self, label):
        for b in self["blocks"]:
            if b["label"] == label:
                return b
        raise KeyError("Block field %s does not exist (available sections = %s)" % (label, ", ".join(self.list_block_labels())))

    def update_block_value(self, label, value):
        if not isinstance(value, str):
            raise ValueError("Provided value must be a string")
        self.get_block(label)["value"] = value


class File:
    """A file that was given to the call: its name, its path, and its content."""

    __slots__ = ("name", "_path", "_format")

    def __init__(self, path, format=None):
        self._path, self._format = os.path.abspath(path), format
        self.name = os.path.basename(self._path)

    @property
    def path(self):
        import pathlib
        return pathlib.Path(self._path)

    def read(self):
        with open(self._path, "rb") as f:
            return f.read()

    def __fspath__(self):
        return self._path

    def __repr__(self):
        return "File(%r)" % self.name


File.__module__ = "haft"


def _put_files(args, files):
    """Puts the files of the call where the arguments name them."""
    for f in files:
        at, *rest = f["at"]
        v = args
        for step in rest:
            v, at = v[at if type(v) is dict else int(at)], step
        v[at if type(v) is dict else int(at)] = File(f["path"], f["format"])


def _file(v, t):
    """A file as a t, or None if it can be no t."""
    if t is str:
        return v._path
    if t is bytes or t is bytearray:
        return t(v.read())
    if isinstance(t, type) and t.__name__ == "File" and t.__module__.partition(".")[0] == "haft":  # also that of our client
        return v
    p = _loaded("pathlib", "PurePath")
    if isinstance(t, type) and p is not None and issubclass(t, p):
        return t(v._path)
    return None


def _filled(v):
    """v for a model of Pydantic, which knows no files."""
    if type(v) is File:
        return v.read() if v._format == "byte" else v if v._format == "haft-file" else v._path
    if type(v) is dict:
        return {k: _filled(x) for k, x in v.items()}
    return [_filled(x) for x in v] if type(v) is list else v


_SCALARS = {"str": str, "int": int, "float": float, "bool": bool}


def _hints(func, module):
    """The annotations of func by parameter, resolved."""
    raw = getattr(func, "__annotations__", None) or {}
    simple = {}
    for name, a in raw.items():
        if a is str or a is int or a is float or a is bool or a is list or a is dict:
            simple[name] = a
        elif type(a) is str and a in _SCALARS and a not in module.__dict__:
            simple[name] = _SCALARS[a]
        elif name != "return":
            break
    else:
        return simple
    # Typing costs milliseconds to import, so plain annotations do without.
    import typing
    try:
        return typing.get_type_hints(func, include_extras=True)
    except Exception:
        # One name that is only there for a type checker must not take the
        # others along.
        return _hints_one_by_one(func, raw, typing)


def _hints_one_by_one(func, raw, typing):
    out = {}
    for name, a in raw.items():
        one = type("_One", (), {"__annotations__": {name: a}, "__module__": func.__module__})
        # A name that nothing defines is that of typing, as for the reader of the schema.
        for names in (func.__globals__, dict(typing.__dict__, **func.__globals__)):
            try:
                out.update(typing.get_type_hints(one, names, None, include_extras=True))
                break
            except Exception:
                pass
    return out


def _arguments(func, call, module):
    """The positional and keyword arguments of func, as what they are annotated as."""
    inner, seen = func, 0
    while hasattr(inner, "__wrapped__") and seen < 32:
        inner, seen = inner.__wrapped__, seen + 1
    hints = _hints(inner, module)
    code = getattr(inner, "__code__", None)
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount] if code else ()
    defaults = _defaults(inner, code)
    given = {}
    for name, v in call["args"].items():
        if name in hints and not (v is None and defaults.get(name, 0) is None):
            v = _convert(v, hints[name], "/" + _escape(name))
        elif name not in hints and type(v) in (dict, list):
            # The schema may call it a model that is not in the source.
            v = _record(v, _Model if call.get("letta") else _Record)
        given[name] = v
    for name, v in (call.get("inject") or {}).items():
        if name in names:
            given[name] = _record(v)
            if name == "agent_state" and v and "blocks" in (v.get("memory") or ()):
                call["agent"] = given[name]
                given[name]["memory"] = _Memory(given[name]["memory"])
                if "tools" in v:
                    given[name]["tools"] = [_Named(n) for n in v["tools"]]
    for name in names if len(given) < len(names) else ():
        # The schema does not require what admits None, so that a caller need not give it.
        if name not in given and name not in defaults and name in hints and _admits_none(hints[name]):
            given[name] = None
    args = []
    for name in names[:code.co_posonlyargcount] if code else ():
        if name not in given:
            break
        args.append(given.pop(name))
    return args, given


def _defaults(func, code):
    if code is None:
        return {}
    values = func.__defaults__ or ()
    names = code.co_varnames[:code.co_argcount]
    out = dict(zip(names[len(names) - len(values):], values))
    out.update(func.__kwdefaults__ or {})
    return out


def _admits_none(t):
    try:
        return _convert(None, t, "") is None
    except Exception:
        return False


def _record(v, made=_Record):
    if type(v) is dict:
        return made((k, _record(x, made)) for k, x in v.items())
    if type(v) is list:
        return [_record(x, made) for x in v]
    return v


def _escape(name):
    return name.replace("~", "~0").replace("/", "~1")


def _kind(v):
    return {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list", dict: "an object"}.get(type(v), "something else")


def _expect(ok, v, what, where):
    if not ok:
        raise _Misfit(where, "%s is expected, not %s" % (what, _kind(v)))


def _convert(v, t, where):
    """v as a t. A type that says nothing about JSON leaves v as it is."""
    if type(v) is File:
        made = _file(v, t)
        if made is not None:
            return made
    if t is str:
        _expect(type(v) is str, v, "a string", where)
        return v
    if t is bool:
        _expect(type(v) is bool, v, "a boolean", where)
        return v
    if t is int:
        if type(v) is float and v == v // 1:
            return int(v)
        _expect(type(v) is int, v, "a whole number", where)
        return v
    if t is float:
        if type(v) is dict and v.get("$type") == "float":
            return float(v.get("value"))
        _expect(type(v) in (int, float), v, "a number", where)
        return float(v)
    if t is None or t is type(None):
        _expect(v is None, v, "null", where)
        return v
    if t is list or t is dict:
        _expect(type(v) is t, v, "a list" if t is list else "an object", where)
        return v
    import typing
    origin = typing.get_origin(t)
    if origin is not None:
        return _generic(v, t, origin, typing.get_args(t), where)
    if hasattr(t, "__supertype__"):
        return _convert(v, t.__supertype__, where)
    if isinstance(t, typing.TypeVar):
        return _convert(v, t.__bound__, where) if t.__bound__ is not None else v
    if hasattr(t, "__value__") and type(t).__name__ == "TypeAliasType":
        return _convert(v, t.__value__, where)
    if hasattr(t, "__origin__") and not isinstance(t, type):
        return _generic(v, t, t.__origin__, getattr(t, "__args__", ()), where)
    return _instance(v, t, where) if isinstance(t, type) else v


def _generic(v, t, origin, args, where):
    import typing
    if hasattr(t, "__metadata__"):
        return _convert(v, args[0] if args else t.__origin__, where)
    if origin is typing.Union or type(t).__name__ == "UnionType":
        return _union(v, args, where)
    if origin is typing.Literal or str(origin).endswith(".Literal"):
        for a in args:
            if type(a) is type(v) and a == v or getattr(a, "_value_", _Misfit) == v:
                return a
        raise _Misfit(where, "it is none of the allowed values")
    name = getattr(origin, "__name__", "") or getattr(origin, "_name", "") or ""
    if name in ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar"):
        return _convert(v, args[0], where)
    if isinstance(origin, type):
        return _collection(v, origin, args, where)
    if hasattr(origin, "__value__"):
        return _convert(v, origin.__value__, where)
    return v


def _union(v, args, where):
    """The member that v already is, else the first that it can become: text for a
    date or text stays text, as with Pydantic."""
    exact = {type(None): (type(None), None), bool: (bool,), int: (int,), float: (float,), str: (str,)}.get(type(v), ())
    for a in args:
        if a in exact:
            return v
    errors = []
    for a in args:
        try:
            return _convert(v, a, where)
        except _Misfit as e:
            errors.append(e)
        except Exception:
            pass
    if len(errors) == 1 or len(errors) == 2 and type(None) in args:
        raise max(errors, key=lambda e: len(e.where))
    raise _Misfit(where, "it fits none of the types that are allowed here")


def _collection(v, origin, args, where):
    import collections
    import collections.abc as abc
    if issubclass(origin, tuple):
        return _tuple(v, origin, args, where)
    if issubclass(origin, abc.Mapping):
        _expect(type(v) is dict, v, "an object", where)
        if len(args) == 2:
            v = {_convert_key(k, args[0], where): _convert(x, args[1], where + "/" + _escape(k)) for k, x in v.items()}
        if origin is collections.defaultdict:
            return collections.defaultdict(None, v)
        return v if origin.__module__ in ("collections.abc", "typing") or issubclass(dict, origin) else origin(v)
    if issubclass(origin, (abc.Iterable, abc.Container)) and origin not in (str, bytes):
        _expect(type(v) is list, v, "a list", where)
        if args:
            v = [_convert(x, args[0], where + "/%d" % i) for i, x in enumerate(v)]
        if issubclass(origin, abc.Set) or origin is abc.MutableSet:
            return set(v) if origin in (abc.Set, abc.MutableSet) else origin(v)
        return v if issubclass(list, origin) else origin(v)
    if origin is type or issubclass(origin, abc.Callable):
        return v
    return _instance(v, origin, where)


def _convert_key(k, t, where):
    if t is int or t is float:
        try:
            return t(k)
        except ValueError:
            raise _Misfit(where, "a key is not a number") from None
    if t is bool:
        return {"true": True, "false": False}.get(k, k)
    return k if t is str else _convert(k, t, where)


def _tuple(v, origin, args, where):
    _expect(type(v) is list, v, "a list", where)
    if hasattr(origin, "_fields"):
        return _instance(v, origin, where)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple([_convert(x, args[0], where + "/%d" % i) for i, x in enumerate(v)])
    if args and args != ((),):
        if len(args) != len(v):
            raise _Misfit(where, "a list of %d is expected, not of %d" % (len(args), len(v)))
        return tuple([_convert(x, a, where + "/%d" % i) for i, (x, a) in enumerate(zip(v, args))])
    return tuple(v)


def _instance(v, t, where):
    """v as an instance of the class t."""
    if hasattr(t, "model_validate") or hasattr(t, "parse_obj"):
        return _pydantic(v, t, where)
    if hasattr(t, "__total__") and dict in t.__mro__:  # TypedDict refuses isinstance
        return _fields(v, t, _class_hints(t), where, dict)
    if _is_enum(t):
        return _enum(v, t, where)
    if isinstance(v, t) and type(v) is not dict:
        return v
    if issubclass(t, tuple) and hasattr(t, "_fields"):
        hints = _class_hints(t)
        if type(v) is list:
            _expect(len(v) <= len(t._fields), v, "a shorter list", where)
            v = dict(zip(t._fields, v))
        return _fields(v, t, hints, where, lambda d: t(**d))
    if hasattr(t, "__dataclass_fields__"):
        init = {n for n, f in t.__dataclass_fields__.items() if f.init and repr(f._field_type) != "_FIELD_CLASSVAR"}
        return _fields(v, t, {n: h for n, h in _class_hints(t).items() if n in init}, where, lambda d: t(**d))
    if hasattr(t, "__attrs_attrs__"):
        return _fields(v, t, _class_hints(t), where, lambda d: t(**{k.lstrip("_"): x for k, x in d.items()}))
    make = _MAKERS.get((t.__module__.partition(".")[0], t.__name__)) or _maker_of_base(t)
    if make is not None:
        return _make(v, t, make, where)
    if issubclass(t, (tuple, set, frozenset)) or t.__module__ in ("collections", "collections.abc"):
        return _collection(v, t, (), where)
    return v


def _is_enum(t):
    e = _loaded("enum", "Enum")
    return e is not None and issubclass(t, e)


def _enum(v, t, where):
    try:
        return t(v)
    except Exception:
        pass
    for m in t:
        try:
            if _encode(m._value_, 1 << 16) == _encode(v, 1 << 16):
                return m
        except Exception:
            pass
    if type(v) is str and v in t.__members__:
        return t.__members__[v]
    raise _Misfit(where, "it is not a value of " + t.__name__)


def _class_hints(t):
    import typing
    try:
        return typing.get_type_hints(t, include_extras=True)
    except Exception:
        out = {}
        for c in reversed(t.__mro__):
            out.update({n: object for n in c.__dict__.get("__annotations__", {})})
        return out


def _fields(v, t, hints, where, make):
    """An object whose fields are converted one by one, put into its class."""
    _expect(type(v) is dict, v, "an object (%s)" % t.__name__, where)
    got = {n: _convert(x, hints[n], where + "/" + _escape(n)) if n in hints else x for n, x in v.items()}
    try:
        return make(got)
    except TypeError as e:
        raise _Misfit(where, _fitting(t, e)) from None
    except ValueError as e:
        raise _Misfit(where, "%s refuses it" % t.__name__) from e


def _fitting(t, e):
    text = _str(e)
    for sign in ("missing ", "got an unexpected "):
        if sign in text:
            return t.__name__ + ": " + text[text.index(sign):]
    return t.__name__ + " refuses it"


def _pydantic(v, t, where):
    v = _filled(v)
    try:
        return t.model_validate(v) if hasattr(t, "model_validate") else t.parse_obj(v)
    except Exception as e:
        errors = getattr(e, "errors", None)
        if errors is None:
            raise
        first = errors()[0]
        at = "".join(["/" + _escape(_str(p)) for p in first.get("loc", ())])
        raise _Misfit(where + at, _str(first.get("msg", "it does not fit"))[:300]) from None


def _make(v, t, make, where):
    what, accepts, build = make
    _expect(type(v) in accepts and type(v) is not bool, v, what, where)
    try:
        return build(v, t)
    except Exception:
        raise _Misfit(where, what + " is expected") from None


def _iso(v):
    if v[-1:] in "zZ":
        v = v[:-1] + "+00:00"
    if "." in v and sys.version_info < (3, 11):
        # Before 3.11 only three or six digits of a second were read.
        head, _, tail = v.partition(".")
        n = len(tail) - len(tail.lstrip("0123456789"))
        v = head + "." + tail[:n][:6].ljust(6, "0") + tail[n:]
    return v


def _datetime(v, t):
    if type(v) is not str:
        import datetime
        return t.fromtimestamp(v, datetime.timezone.utc)
    return t.fromisoformat(_iso(v))


def _timedelta(v, t):
    if type(v) is not str:
        return t(seconds=v)
    import re
    m = re.fullmatch(r"([+-]?)P(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?(?:T(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?", v)
    if not m or not any(m.groups()[1:]):
        raise ValueError()
    w, d, h, mi, s = [float(x) if x else 0 for x in m.groups()[1:]]
    out = t(weeks=w, days=d, hours=h, minutes=mi, seconds=s)
    return -out if m.group(1) == "-" else out


def _bytes(v, t):
    import binascii
    if type(v) is dict:
        if v.get("$type") != "bytes":
            raise ValueError()
        v = v["base64"]
    return t(binascii.a2b_base64(v.encode("ascii"), strict_mode=True) if sys.version_info >= (3, 11) else binascii.a2b_base64(v.encode("ascii")))


# What a class is called, which JSON it is made of, and how.
_MAKERS = {
    ("datetime", "datetime"): ("a date and time (RFC 3339)", (str, int, float), _datetime),
    ("datetime", "date"): ("a date (RFC 3339)", (str,), lambda v, t: t.fromisoformat(v)),
    ("datetime", "time"): ("a time of day (RFC 3339)", (str,), lambda v, t: t.fromisoformat(_iso(v))),
    ("datetime", "timedelta"): ("a duration (ISO 8601) or seconds", (str, int, float), _timedelta),
    ("uuid", "UUID"): ("a UUID", (str,), lambda v, t: t(v)),
    ("decimal", "Decimal"): ("a decimal number", (str, int, float), lambda v, t: t(_str(v))),
    ("fractions", "Fraction"): ("a fraction", (str, int, float), lambda v, t: t(_str(v))),
    ("builtins", "complex"): ("a complex number", (str, int, float), lambda v, t: t(v)),
    ("builtins", "bytes"): ("bytes (base64)", (str, dict), _bytes),
    ("builtins", "bytearray"): ("bytes (base64)", (str, dict), _bytes),
    ("builtins", "set"): ("a list", (list,), lambda v, t: t(v)),
    ("builtins", "frozenset"): ("a list", (list,), lambda v, t: t(v)),
    ("builtins", "tuple"): ("a list", (list,), lambda v, t: t(v)),
    ("re", "Pattern"): ("a regular expression", (str,), lambda v, t: __import__("re").compile(v)),
    ("os", "PathLike"): ("a path", (str,), lambda v, t: v),
}


def _maker_of_base(t):
    p = _loaded("pathlib", "PurePath")
    if p is not None and issubclass(t, p):
        return ("a path", (str,), lambda v, t: t(v))
    if t.__module__ == "ipaddress":
        return ("an address", (str,), lambda v, t: t(v))
    if t.__module__.startswith("pydantic") and not hasattr(t, "model_validate"):
        return ("a " + t.__name__, (str,), _adapted)
    for c in t.__mro__[1:]:
        m = _MAKERS.get((c.__module__, c.__name__))
        if m is not None:
            return m
    return None


def _adapted(v, t):
    import pydantic
    v = _filled(v)
    return pydantic.TypeAdapter(t).validate_python(v) if hasattr(pydantic, "TypeAdapter") else v
