"""Server-sent events, read piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import _json
from ._errors import BY_CODE, HaftError, UnavailableError
from ._models import Event

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


class Follower:
    """Knows how far a stream was read, so that one that is cut goes on there."""

    def __init__(self, after: int | None, hide: Callable[[str], str]) -> None:
        self._hide = hide
        #: The cursor of the last event; None means that only what happens from now on is asked for.
        self.at = after

    def take(self, m: Message) -> Event | None:
        """The event of a message that was not seen yet. A farewell is raised."""
        if m.kind == "error":
            raise _farewell(m.data or b"", self._hide)
        if m.data:
            event = _json.decode(Event, _json.loads(m.data))
            if self.at and event.cursor <= self.at:
                return None
            self.at = event.cursor
            return event
        if m.id.isascii() and m.id.isdigit() and len(m.id) < 20 and int(m.id) > (self.at or 0):
            self.at = int(m.id)  # how far the server has looked
        return None


def _farewell(data: bytes, hide: Callable[[str], str]) -> HaftError:
    """Why the server ends a stream."""
    try:
        said = _json.loads(data)
        code, message = said["code"], said["message"]
    except (UnavailableError, KeyError, TypeError, IndexError):
        return UnavailableError("the stream of events ended")
    of = BY_CODE.get(code, UnavailableError) if isinstance(code, str) else UnavailableError
    return of(hide(str(message))[:4096])
