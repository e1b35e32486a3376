# How a Python value becomes JSON: the table of package value, line by line.
#
# This file, python_param.py and python_main.py are one program, put together in
# that order. It holds private copies of everything it uses after the tool's code
# has run: a tool that replaces builtins or patches json changes nothing here.

import builtins as _b

__builtins__ = dict(_b.__dict__)

import os
import sys

try:
    from _json import encode_basestring as _quote
except ImportError:  # an interpreter without the C accelerator
    from json.encoder import py_encode_basestring as _quote

_MAX_DEPTH = 100
_MAX_DIGITS = 4300
_int_text = int.__repr__
_float_text = float.__repr__
_str = str
_isinstance = isinstance
_modules = sys.modules


class _Bad(Exception):
    """The value cannot be data."""

    def __init__(self, where, message):
        Exception.__init__(self, where + ": " + message)


class _TooLarge(Exception):
    """The text is longer than the limit."""


def _loaded(module, name):
    """The class of that name, if its module was ever imported: if not, no value is one."""
    m = _modules.get(module)
    c = getattr(m, name, None) if m is not None else None
    return c if _isinstance(c, type) else None


def _is(value, module, name):
    c = _loaded(module, name)
    return c is not None and _isinstance(value, c)


def _class(value):
    name = type(value).__name__
    return ("an " if name[:1] in "aeiouAEIOU" else "a ") + name


class _Encoder:
    def __init__(self, limit, any=False):
        self.limit = limit
        self.any = any  # what is no data becomes its text
        self.size = 0
        self.out = []
        self.inside = set()

    def put(self, text):
        self.size += len(text)
        if self.size > self.limit:
            raise _TooLarge()
        self.out.append(text)

    def text(self, s, where):
        if len(s) > self.limit:
            raise _TooLarge()
        if not str.isascii(s):
            try:
                str.encode(s, "utf-8")
            except UnicodeEncodeError:
                raise _Bad(where, "text with half a surrogate pair is not data; return bytes or clean text") from None
        return _quote(_str.__str__(s))

    def value(self, v, where, depth):
        t = type(v)
        if v is None:
            return self.put("null")
        if t is bool:
            return self.put("true" if v else "false")
        if t is str:
            return self.put(self.text(v, where))
        if t is int:
            return self.put(_whole(v, where))
        if t is float:
            return self.put(_real(v))
        if t is list or t is tuple:
            return self.items(v, where, depth, v)
        if t is dict:
            return self.pairs(v, where, depth, v.items())
        return self.special(v, where, depth)

    def special(self, v, where, depth):
        """Everything that is not exactly a JSON type, the most special first."""
        if _is(v, "enum", "Enum"):
            return self.value(v._value_, where, depth + 1)
        s = _as_text(v)
        if s is not None:
            return self.put(s if type(s) is _Raw else self.text(s, where))
        if _isinstance(v, bool):
            return self.put("true" if v else "false")
        if _isinstance(v, int):
            return self.put(_whole(v, where))
        if _isinstance(v, float):
            return self.put(_real(v))
        if _isinstance(v, str):
            return self.put(self.text(v, where))
        if _isinstance(v, (bytes, bytearray, memoryview)):
            import binascii
            raw = bytes(v)
            if len(raw) > self.limit:
                raise _TooLarge()
            return self.put('{"$type":"bytes","base64":"' + binascii.b2a_base64(raw, newline=False).decode("ascii") + '"}')
        if _is(v, "fractions", "Fraction"):
            return self.put('"%d/%d"' % (v.numerator, v.denominator))
        return self.container(v, where, depth)

    def container(self, v, where, depth):
        t = type(v)
        if _isinstance(v, (set, frozenset)):
            return self.set(v, where, depth)
        model = _model(v)
        if model is not None:
            return self.guarded(v, where, depth, lambda: self.value(model(), where, depth))
        if hasattr(t, "__dataclass_fields__"):
            names = [n for n, f in t.__dataclass_fields__.items() if repr(f._field_type) == "_FIELD"]
            return self.pairs(v, where, depth, [(n, getattr(v, n)) for n in names])
        if hasattr(t, "__attrs_attrs__"):
            return self.pairs(v, where, depth, [(a.name, getattr(v, a.name)) for a in t.__attrs_attrs__])
        table = _table(v)
        if table is not None:
            return self.value(table, where, depth)
        if _isinstance(v, dict) or _is(v, "collections.abc", "Mapping") or _is(v, "_collections_abc", "Mapping"):
            return self.pairs(v, where, depth, list(dict.items(v) if _isinstance(v, _Model) else v.items()))
        if _isinstance(v, (list, tuple, range, type({}.keys()), type({}.values()), type({}.items()))) or _is(v, "collections", "deque"):
            return self.items(v, where, depth, list(v))
        if self.any:
            return self.put(self.text(_str(v), where))
        raise _Bad(where, _class(v) + " is not data; " + _advice(v))

    def guarded(self, v, where, depth, write):
        """Runs write, with v marked as being written."""
        if depth >= _MAX_DEPTH:
            raise _Bad(where, "it is nested more than %d deep" % _MAX_DEPTH)
        if id(v) in self.inside:
            raise _Bad(where, "it contains itself")
        self.inside.add(id(v))
        write()
        self.inside.discard(id(v))

    def items(self, v, where, depth, items):
        def write():
            self.put("[")
            for i, x in enumerate(items):
                if i:
                    self.put(",")
                self.value(x, where + "[%d]" % i, depth + 1)
            self.put("]")
        self.guarded(v, where, depth, write)

    def pairs(self, v, where, depth, pairs):
        def write():
            seen = set()
            self.put("{")
            for k, x in pairs:
                name = _key(k, where)
                if name in seen:
                    raise _Bad(where, "two keys become the same text")
                if seen:
                    self.put(",")
                seen.add(name)
                self.put(self.text(name, where))
                self.put(":")
                self.value(x, where + "." + name[:64], depth + 1)
            self.put("}")
        self.guarded(v, where, depth, write)

    def set(self, v, where, depth):
        def write():
            made = []
            for x in v:
                start, size = len(self.out), self.size
                self.value(x, where + "[]", depth + 1)
                text = "".join(self.out[start:])
                del self.out[start:]
                self.size = size + len(text)
                if type(x) in (int, float) and x == x and abs(x) != float("inf"):
                    made.append((0, x, text))
                elif type(x) is str:
                    made.append((1, x, text))
                else:
                    made.append((2, text, text))
            made.sort(key=lambda m: m[:2])
            self.put("[" + ",".join([m[2] for m in made]) + "]")
        self.guarded(v, where, depth, write)


class _Raw(str):
    """JSON text that is ready."""


def _whole(v, where):
    if v.bit_length() > 14300:
        raise _Bad(where, "a number of more than %d digits is not data; return it as text" % _MAX_DIGITS)
    s = _int_text(v)
    if len(s) > _MAX_DIGITS:
        raise _Bad(where, "a number of more than %d digits is not data; return it as text" % _MAX_DIGITS)
    return s


def _real(v):
    if v != v:
        return '{"$type":"float","value":"NaN"}'
    s = _float_text(v)
    if s == "inf":
        return '{"$type":"float","value":"Infinity"}'
    if s == "-inf":
        return '{"$type":"float","value":"-Infinity"}'
    return s


def _as_text(v):
    """The string of a value that the table writes as one, or None."""
    if _is(v, "datetime", "datetime"):
        return _moment(v)
    if _is(v, "datetime", "time"):
        return _moment(v)
    if _is(v, "datetime", "date"):
        return v.isoformat()
    if _is(v, "datetime", "timedelta"):
        return _duration(v)
    if _is(v, "uuid", "UUID") or _is(v, "pathlib", "PurePath"):
        return _str(v)
    if _is(v, "decimal", "Decimal"):
        if v.is_nan():
            return _Raw(_real(float("nan")))
        return _Raw(_real(float(v))) if v.is_infinite() else _str(v)
    if type(v).__module__ == "ipaddress":
        return _str(v)
    for c in type(v).__mro__:
        if c.__module__.startswith("pydantic"):
            if c.__name__ in ("SecretStr", "SecretBytes", "Secret"):
                return "**********"
            if c.__name__ in ("AnyUrl", "Url", "MultiHostUrl", "_BaseUrl", "_BaseMultiHostUrl"):
                return _str(v)
    return None


def _moment(v):
    """RFC 3339, with no more of the second than there is."""
    s = v.isoformat()
    dot = s.find(".")
    if dot >= 0:
        s = s[:dot] + s[dot:dot + 7].rstrip("0") + s[dot + 7:]
    return s[:-6] + "Z" if s.endswith("+00:00") else s


def _duration(v):
    """ISO 8601, without weeks, months or years."""
    us = (v.days * 86400 + v.seconds) * 1000000 + v.microseconds
    sign, us = ("-", -us) if us < 0 else ("", us)
    s, us = divmod(us, 1000000)
    m, s = divmod(s, 60)
    h, m = divmod(m, 60)
    d, h = divmod(h, 24)
    out = "P" + ("%dD" % d if d else "")
    seconds = ("%d.%06d" % (s, us)).rstrip("0") + "S" if us else ("%dS" % s if s else "")
    clock = ("%dH" % h if h else "") + ("%dM" % m if m else "") + seconds
    if clock:
        out += "T" + clock
    return sign + ("PT0S" if out == "P" else out)


def _model(v):
    """How to take a Pydantic model apart, or None."""
    t = type(v)
    if hasattr(t, "model_dump") and hasattr(t, "__pydantic_fields_set__") or hasattr(t, "__pydantic_core_schema__") and hasattr(t, "model_dump"):
        return lambda: v.model_dump(by_alias=True)
    if hasattr(t, "__fields__") and hasattr(t, "parse_obj") and hasattr(v, "dict"):
        return lambda: v.dict(by_alias=True)
    return None


def _table(v):
    """Arrays and tables of numpy and pandas as lists, or None."""
    for c in type(v).__mro__:
        root = c.__module__.partition(".")[0]
        if root == "numpy":
            if c.__name__ == "ndarray":
                return v.tolist()
            if c.__name__ == "generic":
                return v.item()
        elif root == "pandas":
            if c.__name__ == "DataFrame":
                return _rows(v)
            if c.__name__ == "Series" and _labelled(v.index):
                return v.to_dict() if v.index.is_unique and v.index.nlevels == 1 else _rows(v.to_frame("value" if v.name is None else v.name))
            if c.__name__ in ("Series", "Index"):
                return v.tolist()
    return None


def _labelled(index):
    """Whether an index says more than which row it is."""
    return index.nlevels > 1 or index.name is not None or index.dtype.kind not in "iu"


def _rows(frame):
    """The rows of a table, with the labels of a row as its first columns."""
    if not _labelled(frame.index):
        return frame.to_dict(orient="records")
    names = ["index" if n is None and frame.index.nlevels == 1 else "level_%d" % i if n is None else n
             for i, n in enumerate(frame.index.names)]
    if any(n in frame.columns for n in names):  # a column of that name is there as well
        names = ["index_%d" % i for i in range(len(names))]
    return frame.rename_axis(index=names).reset_index().to_dict(orient="records")


def _key(k, where):
    t = type(k)
    if t is str:
        return k
    if k is None:
        return "null"
    if _is(k, "enum", "Enum"):
        return _key(k._value_, where)
    if _isinstance(k, bool):
        return "true" if k else "false"
    if _isinstance(k, int):
        return _whole(k, where)
    if _isinstance(k, float) and k == k and abs(k) != float("inf"):
        return _real(k)
    if _isinstance(k, str):
        return _str.__str__(k)
    s = _as_text(k)
    if s is None and _is(k, "fractions", "Fraction"):
        s = "%d/%d" % (k.numerator, k.denominator)
    if s is None or type(s) is _Raw:
        raise _Bad(where, _class(k) + " cannot be a key; use text or numbers")
    return s


def _advice(v):
    if hasattr(type(v), "__next__"):
        return "return a list"
    if hasattr(type(v), "__await__"):
        return "await it first"
    if callable(v):
        return "return what it gives"
    if hasattr(type(v), "__fspath__") or hasattr(v, "read"):
        return "return its content"
    return "return a dict, a list, text or a number"


def _encode(value, limit, any=False):
    """The JSON text of value as UTF-8, at most limit bytes."""
    e = _Encoder(limit, any)
    e.value(value, "value", 0)
    text = "".join(e.out).encode("utf-8")
    if len(text) > limit:
        raise _TooLarge()
    return text
