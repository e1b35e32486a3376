"""Sends requests, again where that does no harm."""

from __future__ import annotations

import copy
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import httpx

from .. import _json, _request
from .._errors import HaftError, TimeoutError, UnavailableError
from .._request import Query, Retry, Target
from .._sse import Reader, Stream
from ._content import attach
from ._io import closing, sleep

T = TypeVar("T")

#: How many things one page has at most.
_PAGE = 1000
#: Seconds that a connection lives which was no failure, though nothing happened on it.
_LIVELY = 20.0


class AsyncTransport:
    """One connection pool to one server."""

    def __init__(
        self, target: Target, http: httpx.AsyncClient, timeout: float, retry: Retry, max_answer: int, patience: float
    ) -> None:
        self.target = target
        self.timeout = timeout
        self.retry = retry
        self.max_answer = max_answer
        self.patience = patience
        self._http = http

    def as_agent(self, agent: str) -> AsyncTransport:
        """The same on behalf of an agent."""
        target = copy.copy(self.target)
        target.agent = agent
        return AsyncTransport(target, self._http, self.timeout, self.retry, self.max_answer, self.patience)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def read(self, of: type[T], q: Query) -> T:
        """Send a request and read the answer."""
        value = _json.decode(of, _json.loads((await self.send(q))[0]))
        attach(self, value)
        return value

    async def send(self, q: Query) -> tuple[bytes, httpx.Headers]:
        """Send a request and return the answer, which is not a refusal."""
        tried = 0
        while True:
            tried += 1
            sent = False
            try:
                response = await self._open(q)
                sent = True
                try:
                    return await self._body(q, response), response.headers
                finally:
                    await response.aclose()
            except (httpx.RequestError, httpx.StreamError) as err:
                sent = sent or not _request.never_sent(err)
                failure: HaftError = _request.cut(q, err, sent)
            except HaftError as err:
                if err.status is None:
                    raise  # an answer that is none, or too much of one, will be again
                sent = True
                failure = err
            wait = _request.pause(self.retry, tried, q, failure, sent)
            if wait is None:
                if failure._answer is not None:
                    return cast("tuple[bytes, httpx.Headers]", failure._answer)
                raise failure
            await sleep(wait)

    async def _open(self, q: Query) -> httpx.Response:
        """Send a request once. The caller closes the answer, of which the body is not read yet."""
        response = await self._http.send(self.target.request(q, self.timeout), stream=True)
        try:
            plain = response.headers.get("content-encoding", "identity") == "identity"
            if not response.is_success:
                raw = await self._problem(response) if plain else b""
                failure = _request.refused(self.target, response.status_code, response.headers, raw)
                if _request.is_result(q, response.status_code, response.headers):
                    failure._answer = raw, response.headers
                raise failure
            if not plain:
                raise UnavailableError("the answer is compressed, which was not asked for")
        except BaseException:
            await response.aclose()
            raise
        return response

    async def _problem(self, response: httpx.Response) -> bytes:
        """Read why something was refused, within bounds."""
        until = time.monotonic() + self.timeout
        raw = bytearray()
        async for piece in response.aiter_bytes():
            raw += piece
            if len(raw) > _request.MAX_PROBLEM or time.monotonic() > until:
                break
        return bytes(raw)

    async def _body(self, q: Query, response: httpx.Response) -> bytes:
        """Read a body within bounds of size and time."""
        until = time.monotonic() + max(self.timeout, q.timeout or 0)
        raw = bytearray()
        async for piece in response.aiter_bytes():
            raw += piece
            if len(raw) > self.max_answer:
                raise UnavailableError(f"the answer of the server has more than {self.max_answer} bytes")
            if time.monotonic() > until:
                raise TimeoutError("the server did not answer in time", maybe_done=not q.repeatable)
        return bytes(raw)

    async def pages(self, of: type[T], q: Query, limit: int | None) -> AsyncIterator[T]:
        """Yield what a list has, up to so many; pages are fetched as they are needed."""
        left = limit
        cursor = ""
        while left is None or left > 0:
            size = _PAGE if left is None else min(left, _PAGE)
            page = Query(path=q.path, params={**q.params, "limit": size, "cursor": cursor})
            raw, _ = await self.send(page)
            items, following = _json.page(of, raw)
            for item in items[:size]:
                attach(self, item)
                yield item
            if left is not None:
                left -= len(items)
            if not following or not items:
                return
            if following == cursor:
                raise UnavailableError("the list of the server does not end")
            cursor = following

    async def lines(self, q: Query) -> AsyncIterator[bytes]:
        """Yield an answer of any size piece by piece. It is not asked for again."""
        try:
            response = await self._open(q)
            try:
                async for piece in response.aiter_bytes():
                    yield piece
            finally:
                await response.aclose()
        except (httpx.RequestError, httpx.StreamError) as err:
            raise _request.cut(q, err, not _request.never_sent(err)) from err

    async def _items(self, q: Query, stream: Stream[T]) -> AsyncGenerator[T, None]:
        """Yield what comes over one connection."""
        response = await self._open(q)
        try:
            async with closing(_taken(response, stream)) as items:
                async for item in items:
                    yield item
        finally:
            await response.aclose()

    @asynccontextmanager
    async def opened(self, q: Query, stream: Stream[T]) -> AsyncIterator[AsyncIterator[T]]:
        """Open a stream that cannot go on after a cut, and give what it has."""
        try:
            response = await self._open(q)
        except httpx.RequestError as err:
            raise _request.cut(q, err, not _request.never_sent(err)) from err
        try:
            async with closing(self._uncut(q, response, stream)) as items:
                yield items
        finally:
            await response.aclose()

    async def _uncut(self, q: Query, response: httpx.Response, stream: Stream[T]) -> AsyncGenerator[T, None]:
        """Yield what comes over a connection, whose end is an error."""
        try:
            async with closing(_taken(response, stream)) as items:
                async for item in items:
                    yield item
        except (httpx.RequestError, httpx.StreamError) as err:
            raise _request.cut(q, err, True) from err
        raise UnavailableError("the stream of events was cut")

    async def follow(self, stream: Stream[T]) -> AsyncIterator[T]:
        """Yield what a stream has. One that is cut goes on after the last item."""
        since, failures = time.monotonic(), 0
        failure: HaftError | None = None
        while True:
            began, heard = time.monotonic(), False
            q = stream.query()
            if q is None:
                raise failure or UnavailableError("the stream of events was cut")
            try:
                async with closing(self._items(q, stream)) as items:
                    async for item in items:
                        heard = True
                        yield item
                        if stream.over:
                            return
                failure = UnavailableError("the stream of events was cut")
            except (httpx.RequestError, httpx.StreamError) as err:
                failure = _request.cut(q, err, not _request.never_sent(err))
            except UnavailableError as err:
                failure = err
            if heard or time.monotonic() - began > _LIVELY:
                since, failures = time.monotonic(), 0
            failures += 1
            if time.monotonic() - since > self.patience:
                raise failure
            # What is not there now may be again: a restart, or we were too slow.
            await sleep(_request.backoff(self.retry, failures))


async def _taken(response: httpx.Response, stream: Stream[T]) -> AsyncGenerator[T, None]:
    """Yield what a stream takes of an answer."""
    reader = Reader()
    async with closing(cast(Any, response.aiter_bytes())) as pieces:
        async for piece in pieces:
            for message in reader.feed(piece):
                item = stream.take(message)
                if item is not None:
                    yield item
