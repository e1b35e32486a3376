"""Server-sent events, read piece by piece."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from . import _json
from ._errors import BY_CODE, HaftError, UnavailableError
from ._models import Event, SessionChange, TurnEvent
from ._request import Query, part

T = TypeVar("T")

#: Seconds after which a stream without a sign of life is cut. The server sends one every 15.
SILENCE = 60.0
#: The most bytes of one event: its data may be 1 MiB, and JSON escapes it.
MAX_EVENT = 16 << 20


@dataclass
class Message:
    """One message of a stream. One without data has at most an id."""

    id: str = ""
    kind: str = ""
    data: bytes | None = None


class Reader:
    """Makes messages of the pieces of a stream."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._looked = 0  # how much of the rest has no end of a line
        self._size = 0
        self._message = Message()

    def feed(self, piece: bytes) -> list[Message]:
        """Take a piece, and give the messages that it ends."""
        out: list[Message] = []
        self._rest += piece
        while (end := self._rest.find(b"\n", self._looked)) >= 0:
            line = bytes(self._rest[:end]).rstrip(b"\r")
            del self._rest[: end + 1]
            self._looked = 0
            self._bound(len(line))
            if line:
                self._line(line)
                continue
            out.append(self._message)
            self._message, self._size = Message(), 0
        self._looked = len(self._rest)
        if self._size + len(self._rest) > MAX_EVENT:
            raise UnavailableError(f"an event has more than {MAX_EVENT} bytes")
        return out

    def _bound(self, more: int) -> None:
        self._size += more
        if self._size > MAX_EVENT:
            raise UnavailableError(f"an event has more than {MAX_EVENT} bytes")

    def _line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if name == b"id":
            self._message.id = value.decode("utf-8", "replace")
        elif name == b"event":
            self._message.kind = value.decode("utf-8", "replace")
        elif name == b"data":
            before = self._message.data
            self._message.data = value if before is None else before + b"\n" + value


class Stream(ABC, Generic[T]):
    """Knows how far a stream was read, so that one that is cut goes on there."""

    #: Nothing more is expected.
    over = False

    def __init__(self, hide: Callable[[str], str]) -> None:
        self._hide = hide

    @abstractmethod
    def query(self) -> Query | None:
        """The request of the next connection; None if it is not known where to go on."""

    def take(self, m: Message) -> T | None:
        """The item of a message that was not seen yet. A farewell is raised."""
        if m.kind == "error":
            raise _farewell(m.data or b"", self._hide)
        return self._take(m)

    @abstractmethod
    def _take(self, m: Message) -> T | None: ...


def _watch(q: Query) -> Query:
    """A request that is answered with a stream."""
    return replace(q, headers={"Accept": "text/event-stream"}, timeout=SILENCE)


class EventStream(Stream[Event]):
    """Events after a cursor; None means that only what happens from now on is asked for."""

    def __init__(
        self, hide: Callable[[str], str], path: str, params: Mapping[str, Any], after: int | None, once: bool
    ) -> None:
        super().__init__(hide)
        self._path, self._params, self._once = path, params, once
        #: The cursor of the last event.
        self.at = after

    def query(self) -> Query | None:
        return _watch(Query(path=self._path, params={**self._params, "after": self.at}))

    def _take(self, m: Message) -> Event | None:
        if m.data:
            event = _json.decode(Event, _json.loads(m.data))
            if self.at and event.cursor <= self.at:
                return None
            self.at = event.cursor
            self.over = self._once and event.type == "tool_completed"
            return event
        if m.id.isascii() and m.id.isdigit() and len(m.id) < 20 and int(m.id) > (self.at or 0):
            self.at = int(m.id)  # how far the server has looked
        return None


class TurnStream(Stream[TurnEvent]):
    """What happens in a turn. With ``brief`` it ends also when the turn waits for a person."""

    def __init__(self, hide: Callable[[str], str], first: Query, brief: bool) -> None:
        super().__init__(hide)
        self._next: Query | None = first
        self._brief = brief
        self._seen = False  # anything at all
        self._at = 0

    def query(self) -> Query | None:
        q = self._next
        if q is None or (self._seen and not self._at):
            return None
        if not q.repeatable:
            self._next = None
        return _watch(q)

    def _take(self, m: Message) -> TurnEvent | None:
        if not m.data:
            return None
        event = _json.decode(TurnEvent, _json.loads(m.data))
        self._seen = True
        if event.message is not None:
            if event.message.seq <= self._at:
                return None
            self._at = event.message.seq
            path = "/v1/turns" + part("turn", event.message.turn_id) + "/events"
            self._next = Query(path=path, params={"after": self._at})
        if event.turn is not None:
            self.over = event.turn.status != "running" and (self._brief or event.turn.status != "waiting")
        return event


class FileStream(Stream[SessionChange]):
    """What happens to files of a session. What happens while it is cut is not known."""

    def __init__(self, hide: Callable[[str], str], path: str, at: str) -> None:
        super().__init__(hide)
        self._query = _watch(Query(path=path, params={"path": at}))

    def query(self) -> Query:
        return self._query

    def _take(self, m: Message) -> SessionChange | None:
        return _json.decode(SessionChange, _json.loads(m.data)) if m.data else None


def _farewell(data: bytes, hide: Callable[[str], str]) -> HaftError:
    """Why the server ends a stream."""
    try:
        said = _json.loads(data)
        code, message = said["code"], said["message"]
    except (UnavailableError, KeyError, TypeError, IndexError):
        return UnavailableError("the stream of events ended")
    of = BY_CODE.get(code, UnavailableError) if isinstance(code, str) else UnavailableError
    return of(hide(str(message))[:4096])
