"""JSON to and from the models, by their annotations."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import json
import os
import re
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from ._errors import UnavailableError

T = TypeVar("T")
_Decoder = Callable[[Any], Any]


class _MisreadError(Exception):
    """Something is not what the API says."""


def loads(raw: bytes) -> Any:
    """Read JSON that a server sent."""

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    try:
        return json.loads(raw, parse_constant=constant)
    except (ValueError, RecursionError):
        raise UnavailableError("the answer is not JSON: look whether the address is right") from None


def decode(of: type[T], data: Any) -> T:
    """Make a model of what a server sent."""
    try:
        value = _decoder(typing.cast(Any, of))(data)
    except (_MisreadError, RecursionError) as err:
        raise UnavailableError(f"the answer is not one of a Haft server of this version: {err}") from None
    return typing.cast(T, value)


def member(of: type[T], raw: bytes, name: str) -> T:
    """Read one member of an object that a server sent."""
    answer = loads(raw)
    if not isinstance(answer, dict) or name not in answer:
        raise UnavailableError(f"the answer is not one of a Haft server of this version: it has no {name}")
    return decode(of, answer[name])


def page(of: type[T], raw: bytes) -> tuple[list[T], str]:
    """Read a part of a list, and the cursor of the next."""
    answer = loads(raw)
    if not isinstance(answer, dict) or "data" not in answer:
        raise UnavailableError("the answer is not a list of a Haft server of this version")
    items: list[T] = decode(list[of], answer["data"])  # type: ignore[valid-type]
    return items, decode(str, answer.get("next_cursor") or "")


def wire_name(name: str) -> str:
    """The name of a field in JSON: what Python reserves has an underscore behind it."""
    return name.rstrip("_")


def _plain(what: type, *also: type) -> _Decoder:
    def read(data: Any) -> Any:
        # bool is an int for Python, and is none for us.
        if (isinstance(data, bool) and what is not bool) or not isinstance(data, (what, *also)):
            raise _MisreadError(f"{what.__name__} expected")
        return data

    return read


# Go writes up to nine digits, of which Python keeps six.
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)")


def _time(data: Any) -> dt.datetime:
    match = _TIME.fullmatch(data) if isinstance(data, str) else None
    if match is None:
        raise _MisreadError("time expected")
    day, fraction, zone = match.groups()
    micro = (fraction or "").ljust(6, "0")[:6]
    try:
        return dt.datetime.fromisoformat(f"{day}.{micro}{'+00:00' if zone == 'Z' else zone}")
    except ValueError:
        raise _MisreadError("time expected") from None


def _bytes(data: Any) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise _MisreadError("base64 expected") from None


@functools.cache
def _decoder(of: Any) -> _Decoder:
    """The function that reads a type."""
    origin, args = typing.get_origin(of), typing.get_args(of)
    if of is Any:
        return lambda data: data
    if origin is typing.Literal:
        return _plain(str)  # a newer server may know more
    if origin in (typing.Union, types.UnionType):
        one = _decoder(next(a for a in args if a is not type(None)))
        return lambda data: None if data is None else one(data)
    if origin is list:
        item = _decoder(args[0])
        return functools.partial(_list, item)
    if origin is dict:
        item = _decoder(args[1])
        return functools.partial(_dict, item)
    if dataclasses.is_dataclass(of):
        return functools.partial(_object, of)
    if of is dt.datetime:
        return _time
    if of is bytes:
        return _bytes
    if of is float:
        return _plain(float, int)
    return _plain(of)


def _list(item: _Decoder, data: Any) -> list[Any]:
    if data is None:
        return []
    if not isinstance(data, list):
        raise _MisreadError("list expected")
    return [item(d) for d in data]


def _dict(item: _Decoder, data: Any) -> dict[str, Any]:
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise _MisreadError("object expected")
    return {k: item(v) for k, v in data.items()}


@functools.cache
def _fields(of: Any) -> list[tuple[str, str, _Decoder, bool]]:
    """Name, name in JSON, decoder and whether it must be there, of each field."""
    hints = typing.get_type_hints(of)
    return [
        (
            f.name,
            wire_name(f.name),
            _decoder(hints[f.name]),
            f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
        )
        for f in dataclasses.fields(of)
    ]


def _object(of: Any, data: Any) -> Any:
    if not isinstance(data, dict):
        raise _MisreadError(f"{of.__name__} expected")
    values = {}
    for name, key, read, needed in _fields(of):
        if key not in data:
            if needed:
                raise _MisreadError(f"{of.__name__} without {key}")
            continue
        try:
            values[name] = read(data[key])
        except _MisreadError as err:
            raise _MisreadError(f"{of.__name__}.{key}: {err}") from None
    return of(**values)


def encode(value: Any) -> Any:
    """Make JSON of models and of what programs pass as arguments.

    Dataclasses, Pydantic models, enums, times, UUIDs, decimals, paths, sets, tuples
    and bytes are written as tools written in Python read them back.
    """
    if value is None or (isinstance(value, (bool, str)) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, enum.Enum):
        return encode(value.value)
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, Mapping):
        return {_key(k): encode(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encode_dataclass(value)
    dump = getattr(value, "model_dump", None)  # Pydantic, which is not ours to import
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json", by_alias=True)
    if isinstance(value, (list, tuple, AbstractSet)):
        return [encode(v) for v in value]
    return _encode_scalar(value)


def _encode_scalar(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return rfc3339(value) if value.tzinfo else value.isoformat()
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return f"{'-' if value < dt.timedelta(0) else ''}PT{abs(value).total_seconds():f}S"
    if isinstance(value, (uuid.UUID, decimal.Decimal)):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    raise TypeError(f"a {type(value).__name__} cannot be sent as JSON")


def _key(key: Any) -> str:
    if isinstance(key, enum.Enum):
        key = key.value
    if not isinstance(key, str):
        raise TypeError("the keys of JSON objects are texts")
    return key


def _encode_dataclass(value: Any) -> dict[str, Any]:
    ours = type(value).__module__.startswith("haft.")
    out = {}
    for f in dataclasses.fields(value):
        item = getattr(value, f.name)
        if not ours:
            out[f.name] = encode(item)
            continue
        # What is as it would be anyway is left out, as the server does it.
        default = f.default_factory() if f.default_factory is not dataclasses.MISSING else f.default
        if default is not dataclasses.MISSING and item == default and type(item) is type(default):
            continue
        out[wire_name(f.name)] = encode(item)
    return out


def rfc3339(at: dt.datetime) -> str:
    """Write a time. One without a zone is refused: nobody can know what it means."""
    if at.tzinfo is None:
        raise ValueError("a time needs a zone, such as datetime.now(timezone.utc)")
    return at.astimezone(dt.timezone.utc).isoformat().replace("+00:00", "Z")


def dumps(value: Any) -> bytes:
    """Write JSON to send."""
    return json.dumps(encode(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
