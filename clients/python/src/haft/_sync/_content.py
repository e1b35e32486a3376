# Made by tools/unasync.py of ../_async/_content.py: change that one.
"""Content that a server has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from .._errors import InvalidError, UnavailableError
from .._files import PART, PART_TIMEOUT, create
from .._models import Chain, Record, Result
from .._request import Query
from ._io import in_thread

if TYPE_CHECKING:
    from ._transport import Transport


class Content:
    """Reads content part by part: a connection that is cut costs one part."""

    def __init__(self, transport: Transport, path: str, name: str, size: int, data: bytes | None = None) -> None:
        self._transport = transport
        self._path = path
        self._name = name
        self._size = size
        self._data = data if data is not None and len(data) == size else None

    def read(self) -> bytes:
        """All of it, in memory."""
        if self._size > self._transport.max_answer:
            raise InvalidError(f"the content has more than {self._transport.max_answer} bytes: save it to a file")
        content = bytearray()
        while len(content) < self._size:
            content += self._part(len(content))
        return bytes(content)

    def save(self, to: str | os.PathLike[str]) -> Path:
        """Write all of it to a new file, and leave none if that fails."""
        path, file = in_thread(create, to, self._name)
        try:
            with file:
                at = 0
                while at < self._size:
                    piece = self._part(at)
                    in_thread(file.write, piece)
                    at += len(piece)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return path

    def _part(self, at: int) -> bytes:
        if self._data is not None:
            return self._data
        end = min(self._size, at + min(PART, self._transport.max_answer))
        q = Query(path=self._path, headers={"Range": f"bytes={at}-{end - 1}"}, timeout=PART_TIMEOUT)
        piece, _ = self._transport.send(q)
        if not 0 < len(piece) <= end - at:
            raise UnavailableError("the server sent another part of the content than was asked for")
        return piece


def attach(transport: Transport, value: object) -> None:
    """Let the artifacts of what a server answered be read."""
    results: list[object] = [value]
    if isinstance(value, Record):
        results = [value.result]
    elif isinstance(value, Chain):
        results = [step.result for step in value.steps]
    for result in results:
        if not isinstance(result, Result):
            continue
        for artifact in result.artifacts:
            path = f"/v1/calls/{_part(result.call_id)}/artifacts/{_part(artifact.name)}"
            content = Content(transport, path, artifact.name, artifact.size, artifact.data)
            object.__setattr__(artifact, "_content", content)


def _part(text: str) -> str:
    return quote(text, safe="", errors="replace")  # of a text that is none of Unicode, nothing is found
