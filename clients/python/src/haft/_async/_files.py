"""Files that are kept to be given to tools, and that calls left."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from .._errors import ConflictError, HaftError, InvalidError, UnavailableError
from .._files import CALL_TTL, PART, PART_TIMEOUT, FilesLike, Source, Upload, id_of, kept, listed
from .._models import CallFile, File
from .._request import Query, backoff, given, part
from ._content import AsyncContent
from ._io import in_thread, sleep
from ._transport import AsyncTransport


class AsyncFiles:
    """Files that are kept to be given to tools, and that calls left."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def upload(
        self,
        content: Upload,
        *,
        name: str | None = None,
        content_type: str | None = None,
        ttl: float | None = None,
        resume: File | str | None = None,
    ) -> File:
        """Add a file: a path, bytes, or a file that was opened in binary mode.

        It is sent part by part. A part whose answer is lost is sent again if the server does
        not have it. If the server stays away, what it has is kept until it expires:
        :meth:`list` has its id, and ``resume`` goes on with it.

        Args:
            content: What is sent.
            name: The name of the file; that of the path or the open file if it is left out.
            content_type: The type; left out, it is what the content looks like.
            ttl: Seconds until the file expires; left out, as late as the server allows.
            resume: A file of which a part has arrived, with the same content.
        """
        source = await in_thread(Source, content)
        try:
            if resume is not None:
                return await self._rest(await self.show(resume), source)
            return await self._upload(source, name or source.name, content_type, ttl)
        finally:
            source.close()

    async def _upload(self, source: Source, name: str | None, content_type: str | None, ttl: float | None) -> File:
        first = await in_thread(source.read, 0, PART)
        file = await self._transport.read(
            File,
            Query(
                method="POST",
                path="/v1/files",
                params=given(name=name, size=source.size, ttl=None if ttl is None else max(1, int(ttl))),
                body=first,
                headers={"Content-Type": content_type or "application/octet-stream"},
                timeout=PART_TIMEOUT,
            ),
        )
        try:
            return await self._rest(file, source)
        except UnavailableError:
            raise
        except Exception:
            with suppress(HaftError):  # else it expires
                await self.remove(file)
            raise

    async def _rest(self, file: File, source: Source) -> File:
        """Send what the server does not have yet."""
        if file.size != source.size:
            raise InvalidError("the file that the server has is for content of another size")
        failures = 0
        while file.uploaded < source.size:
            at = max(0, file.uploaded)
            piece = await in_thread(source.read, at, PART)
            path = "/v1/files" + part("file", file.id)
            headers = {"Content-Type": "application/octet-stream"}
            q = Query(method="PATCH", path=path, params={"offset": at}, body=piece, headers=headers)
            try:
                file = await self._transport.read(File, q)
            except (UnavailableError, ConflictError):
                failures += 1
                if failures >= self._transport.retry.tries:
                    raise
                await sleep(backoff(self._transport.retry, failures))
                file = await self.show(file)
                continue
            if file.uploaded <= at:
                raise UnavailableError("the server did not keep a part of the file")
            failures = 0
        return file

    def list(self, *, limit: int | None = None) -> AsyncIterator[File]:
        """Files, newest first."""
        return self._transport.pages(File, Query(path="/v1/files"), limit)

    async def show(self, file: File | str) -> File:
        """What is known of a file, by its id."""
        return await self._transport.read(File, Query(path="/v1/files" + part("file", id_of(file))))

    async def read(self, file: File | str) -> bytes:
        """The content of a file."""
        return await (await self._content(file)).read()

    async def download(self, file: File | str, to: str | os.PathLike[str]) -> Path:
        """Write the content to a new file and return its path.

        ``to`` is the file, or a directory that is there, in which it gets its own name. What is
        there already, a link also, is left alone: that is a :class:`FileExistsError`.
        """
        return await (await self._content(file)).save(to)

    async def _content(self, file: File | str) -> AsyncContent:
        known = await self.show(file)
        path = "/v1/files" + part("file", known.id) + "/content"
        return AsyncContent(self._transport, path, known.name, known.size)

    async def remove(self, file: File | str) -> None:
        """Remove a file."""
        path = "/v1/files" + part("file", id_of(file))
        await self._transport.send(Query(method="DELETE", path=path, again=True))

    async def _of_call(self, files: FilesLike | None, left: int) -> Sequence[CallFile]:
        """Files as a call takes them: up to ``left`` bytes go with the call, what is larger is added before."""
        out = []
        for path, content in () if files is None else listed(files):
            file = kept(content, path)
            if file is None:
                source = await in_thread(Source, cast(Upload, content))
                try:
                    path = path or source.name
                    if not path:
                        raise InvalidError("bytes need a name: files={'name': content}")
                    if source.size <= left:
                        left -= source.size
                        file = CallFile(path=path, data=await in_thread(source.read, 0, source.size))
                    else:
                        name = path.rsplit("/", 1)[-1]
                        file = CallFile(id=(await self._upload(source, name, None, CALL_TTL)).id, path=path)
                finally:
                    source.close()
            out.append(file)
        return out
