"""What a request is, and what becomes of its answer: all that needs no connection."""

from __future__ import annotations

import ipaddress
import os
import random
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import httpx

from . import _json, _sign
from ._errors import BY_CODE, HaftError, InvalidError, NotFoundError, RateLimitedError, TimeoutError, UnavailableError
from ._models import Misfit
from ._version import __version__

#: The address of a server that was started without a configuration.
DEFAULT_SERVER = "http://127.0.0.1:7717"

# The bounds on what is believed of a refusal.
_MAX_PROBLEM = 1 << 20
_MAX_DETAIL = 4 << 10
_MAX_MISFITS = 100


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How often and when a request is repeated that does no harm twice.

    A request is repeated if it only looks, if it does the same when it is done twice,
    if it has an idempotency key (calls are given one), or if it was never sent. It is
    repeated when there is no connection or no answer, and for the statuses 429 and
    503. ``Retry-After`` is honoured; a server that asks for more than ``max_wait`` is
    not waited for.
    """

    #: How often it is sent in all; 1 never repeats.
    tries: int = 3
    #: Seconds before the second try; it doubles from then on, with some jitter.
    wait: float = 0.2
    #: The most seconds between two tries.
    max_wait: float = 10.0

    def __post_init__(self) -> None:
        if not 1 <= self.tries <= 20 or self.wait < 0 or self.max_wait < 0:
            raise ValueError("a retry has 1 to 20 tries, and no wait below 0")


class Secret:
    """A text that no printer shows."""

    __slots__ = ("_reveal",)

    def __init__(self, text: str) -> None:
        self._reveal: Callable[[], str] = lambda: text

    def reveal(self) -> str:
        """The text. Whoever calls this answers for where it goes."""
        return self._reveal()

    def __repr__(self) -> str:
        return "[secret]"

    def __reduce__(self) -> Any:
        raise TypeError("a key is not pickled: make a client where it is needed")


@dataclass(frozen=True, kw_only=True)
class Query:
    """One request."""

    method: str = "GET"
    path: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    #: What is sent, which may be a secret.
    body: Any = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict)
    #: It does no harm twice, besides those that only look.
    again: bool = False
    #: It is answered with the result of a call, also with the statuses 403 and 429.
    result: bool = False
    #: Seconds without a byte after which it is given up; None means those of the client.
    timeout: float | None = None

    @property
    def repeatable(self) -> bool:
        return self.again or self.method == "GET"


class Target:
    """Where a server is, and who asks."""

    def __init__(
        self, server: str | None, key: str | None, agent: str | None, sign: bool, env: Mapping[str, str]
    ) -> None:
        self.base = _address(server or env.get("HAFT_SERVER") or DEFAULT_SERVER)
        self.agent = agent
        text = (key if key is not None else _key_of(env)).strip()
        if re.search(r"[^!-~]", text):
            raise InvalidError("the key has characters that no key has")
        parts = urlsplit(self.base)
        self.local = _loopback(parts.hostname or "")
        # Where others could read it on its way, the key is not sent.
        self.sign = sign or (bool(text) and parts.scheme == "http" and not self.local)
        if self.sign and _sign.key_id(text) is None:
            raise InvalidError("only an API key can sign requests; anything else goes over https")
        self.key = Secret(text)

    def hide(self, text: str) -> str:
        """Take the key out of what a server says, which may repeat it."""
        key = self.key.reveal()
        return text.replace(key, "[secret]") if len(key) >= 8 else text

    def request(self, q: Query, timeout: float) -> httpx.Request:
        """Make a request. One that is sent again is made again: signatures are used once."""
        params = flat({**q.params, "as": self.agent})
        url = self.base + q.path + ("?" + urlencode(params) if params else "")
        headers = {
            "User-Agent": f"haft-python/{__version__}",
            "Accept": "application/json",
            # What is compressed has no bound until it is unpacked.
            "Accept-Encoding": "identity",
            **q.headers,
        }
        body = b""
        if isinstance(q.body, bytes):
            body = q.body
        elif q.body is not None:
            try:
                body = _json.dumps(q.body)
            except (TypeError, ValueError, RecursionError) as err:
                raise InvalidError(f"what is to be sent is not JSON: {err}") from None
            headers["Content-Type"] = "application/json"
        read = q.timeout if q.timeout is not None else timeout
        extensions = {"timeout": httpx.Timeout(timeout, read=read).as_dict()}
        request = httpx.Request(q.method, url, headers=headers, content=body or None, extensions=extensions)
        key = self.key.reveal()
        if self.sign:
            target = request.url.raw_path.decode()
            request.headers["Authorization"] = _sign.authorization(key, q.method, target, body)
        elif key:
            request.headers["Authorization"] = "Bearer " + key
        return request


def flat(params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Parameters of an address, without those that are left out."""
    out = []
    for name, value in params.items():
        if value is None or value == "" or (isinstance(value, (list, tuple)) and not value):
            continue
        if isinstance(value, bool):
            value = "true" if value else "false"
        elif isinstance(value, datetime):
            value = _json.rfc3339(value)
        elif isinstance(value, (list, tuple)):
            value = ",".join(str(v) for v in value)
        out.append((name, str(value)))
    return out


def _address(text: str) -> str:
    """Check the address of a server. Errors do not repeat it: it may hold a password."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.username is None
        _ = parts.port
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment or re.search(r"[^!-~]", text):
        raise InvalidError(
            "the address of a server is such as https://haft.example.com, without a user, a query or a fragment"
        )
    return text.rstrip("/")


def _loopback(host: str) -> bool:
    """Whether what is sent to a host stays on this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _key_of(env: Mapping[str, str]) -> str:
    if key := env.get("HAFT_KEY"):
        return key
    if name := env.get("HAFT_KEY_FILE"):
        try:
            return Path(name).read_text(encoding="ascii")
        except (OSError, ValueError) as err:
            reason = os.strerror(err.errno) if isinstance(err, OSError) and err.errno else "it is no text"
            raise InvalidError(f"the file that HAFT_KEY_FILE names cannot be read: {reason}") from None
    return ""


def part(kind: str, text: str) -> str:
    """One part of a path. What would make another path of it names nothing that there is."""
    if not isinstance(text, str) or text in ("", ".", "..") or "\0" in text:
        raise NotFoundError(f"there is no such {kind}")
    return "/" + quote(text, safe="")


def new_key() -> str:
    """An idempotency key that nobody else has."""
    return "py-" + uuid.uuid4().hex


def given(**values: Any) -> dict[str, Any]:
    """What was given, without what was left out."""
    return {name: value for name, value in values.items() if value is not None}


def pause(retry: Retry, tried: int, q: Query, err: HaftError, sent: bool) -> float | None:
    """How many seconds to wait before a request is sent again; None means never."""
    if tried >= retry.tries or not isinstance(err, (UnavailableError, RateLimitedError)):
        return None
    if sent and not q.repeatable:
        return None
    wait = backoff(retry, tried)
    if err.retry_after is not None:
        if err.retry_after > retry.max_wait:
            return None
        wait = max(wait, err.retry_after)
    return wait


def backoff(retry: Retry, failures: int) -> float:
    """How many seconds to wait after so many failures, with jitter so that not all come back at once."""
    most: float = min(retry.wait * 2.0 ** min(failures - 1, 20), retry.max_wait)
    return most * random.uniform(0.5, 1.0)  # noqa: S311, nothing secret


def cut(q: Query, err: Exception, sent: bool) -> UnavailableError:
    """There is no answer. The cause is kept apart: it names addresses."""
    if not sent:
        made: UnavailableError = UnavailableError(
            "the server cannot be reached: look whether a Haft server runs at the address that Client(server=…) or "
            f"HAFT_SERVER names ({DEFAULT_SERVER} if neither does)"
        )
    elif isinstance(err, httpx.TimeoutException):
        made = TimeoutError("the server did not answer in time", maybe_done=not q.repeatable)
    elif q.repeatable:
        made = UnavailableError("the server did not answer")
    else:
        made = UnavailableError(
            "the connection to the server ended before the answer, and whether it was done is not known",
            maybe_done=True,
        )
    made.__cause__ = err
    return made


def never_sent(err: Exception) -> bool:
    """Whether a failure is from before the request."""
    return isinstance(err, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError))


#: How much of a refusal is read.
MAX_PROBLEM = _MAX_PROBLEM


def is_result(q: Query, status: int, headers: httpx.Headers) -> bool:
    """Whether a refusal is the result of a call, which was denied or came too early, and not a problem."""
    media = headers.get("content-type", "").split(";")[0].strip()
    return q.result and status in (403, 429) and media == "application/json"


def refused(target: Target, status: int, headers: httpx.Headers, raw: bytes) -> HaftError:
    """Make an error of an answer that is a refusal."""
    problem: dict[str, Any] = {}
    if headers.get("content-type", "").split(";")[0].strip() == "application/problem+json":
        try:
            read = _hidden(target, _json.loads(raw))
            problem = read if isinstance(read, dict) else {}
        except UnavailableError:
            pass
    code, detail = problem.get("code"), problem.get("detail")
    if code not in BY_CODE:
        problem, code, detail = {}, _code_of(status), _foreign(status)
    if code == "unauthenticated" and isinstance(detail, str):
        detail += ": give a key with Client(key=…), in HAFT_KEY, or in the file that HAFT_KEY_FILE names"
    request_id = problem.get("request_id") or target.hide(headers.get("x-request-id", ""))
    after = problem.get("retry_after_ms")
    return BY_CODE[str(code)](
        detail[:_MAX_DETAIL] if isinstance(detail, str) else str(problem.get("title") or code)[:_MAX_DETAIL],
        status=status,
        misfits=_misfits(problem.get("misfits")),
        retry_after=after / 1000 if isinstance(after, (int, float)) and after > 0 else _retry_after(headers),
        request_id=request_id[:64] if request_id and isinstance(request_id, str) else None,
    )


def _hidden(target: Target, value: Any, depth: int = 4) -> Any:
    """What a server says, without the key in any text; deeper is nothing that is looked at."""
    if isinstance(value, str):
        return target.hide(value)
    if isinstance(value, list):
        return [_hidden(target, v, depth - 1) for v in value] if depth else []
    if isinstance(value, dict):
        return {k: _hidden(target, v, depth - 1) for k, v in value.items()} if depth else {}
    return value


def _misfits(listed: Any) -> list[Misfit]:
    out = []
    for m in listed[:_MAX_MISFITS] if isinstance(listed, list) else []:
        if isinstance(m, dict) and isinstance(m.get("pointer"), str) and isinstance(m.get("message"), str):
            out.append(Misfit(pointer=m["pointer"][:_MAX_DETAIL], message=m["message"][:_MAX_DETAIL]))
    return out


def _retry_after(headers: httpx.Headers) -> float | None:
    text = headers.get("retry-after", "")
    return float(text) if re.fullmatch(r"\d{1,6}", text) else None


def _code_of(status: int) -> str:
    """The code of a status that no Haft server explains: a proxy's."""
    known = {401: "unauthenticated", 403: "denied", 404: "not_found", 407: "unauthenticated", 408: "unavailable"}
    known |= {409: "conflict", 412: "conflict", 429: "rate_limited", 500: "internal"}
    return known.get(status) or ("invalid" if 400 <= status < 500 else "unavailable")


def _foreign(status: int) -> str:
    if 300 <= status < 400:
        return "the server sends elsewhere, which is not followed: give its last address"
    return f"the answer is {status} and not one of a Haft server: look whether the address is right"
