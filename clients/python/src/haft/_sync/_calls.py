# Made by tools/unasync.py of ../_async/_calls.py: change that one.
"""Calls and chains."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .._errors import TimeoutError, UnavailableError
from .._files import MAX_INLINE
from .._inputs import CallOptions, NewCall, call_body, workspace_of
from .._json import decode, member
from .._models import CallWorkspace, Chain, Event, OutputPart, Plan, Record, Result, Status, Step, final
from .._request import Query, given, new_key, part
from .._sse import EventStream
from ._content import attach
from ._files import Files
from ._io import sleep
from ._transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: Seconds that one request waits for the end of a call: less than what proxies cut connections after.
_ONE_WAIT = 25.0
#: Seconds between two looks at a call that waits for a person.
_LOOK = 2.0


class Calls:
    """Calls of tools."""

    def __init__(self, transport: Transport, timeout: float) -> None:
        self._transport = transport
        self._timeout = timeout
        self._files = Files(transport)

    def run(self, tool: str, args: Any = None, **options: Unpack[CallOptions]) -> Result:
        """Call a tool and wait for its result, or until it waits for a person.

        A tool that fails is no error: look at :attr:`Result.status`, or use
        :meth:`Result.unwrap` or :meth:`value`. When the client goes away, or the connection
        is cut, the server cancels the call; :meth:`start` makes one that goes on.
        """
        return self._make(tool, args, options, wait=True)

    def value(self, tool: str, args: Any = None, **options: Unpack[CallOptions]) -> Any:
        """Call a tool and return its value. Raises :class:`~haft.CallError` if there is none."""
        return (self.run(tool, args, **options)).unwrap()

    def start(self, tool: str, args: Any = None, **options: Unpack[CallOptions]) -> Result:
        """Have a call made and do not wait for it: its id is :attr:`Result.call_id`."""
        return self._make(tool, args, options, wait=False)

    def _make(self, tool: str, args: Any, options: Mapping[str, Any], wait: bool) -> Result:
        timeout = options.get("timeout")
        body = {**call_body(tool, args, options), "wait": wait}
        if files := self._files._of_call(options.get("files"), MAX_INLINE):
            body["files"] = files
        q = Query(
            method="POST",
            path="/v1/calls",
            body=body,
            again=True,
            result=True,
            timeout=self._timeout if timeout is None else timeout,
        )
        return self._transport.read(Result, q)

    def wait(self, call_id: str, *, timeout: float | None = None, approval: bool = False) -> Result:
        """Wait until a call has ended or waits for a person; with ``approval``, also for the person.

        Raises:
            TimeoutError: it went on for longer than ``timeout`` seconds, and still does.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _ONE_WAIT if until is None else min(_ONE_WAIT, max(0.0, until - time.monotonic()))
            record = self._show(call_id, left)
            if record.final or (record.status == "pending_approval" and not approval):
                if record.result is None:
                    raise UnavailableError("the server has no result of the call any more")
                return record.result
            if until is not None and time.monotonic() >= until:
                raise TimeoutError("the call goes on: wait again, or cancel it")
            if record.status == "pending_approval":
                sleep(_LOOK if until is None else min(_LOOK, max(0.0, until - time.monotonic())))

    def show(self, call_id: str) -> Record:
        """What is kept of a call."""
        return self._show(call_id, None)

    def _show(self, call_id: str, wait: float | None) -> Record:
        params = {"wait": f"{wait:.3f}"} if wait else {}
        timeout = self._transport.timeout + (wait or 0)
        return self._transport.read(
            Record, Query(path="/v1/calls" + part("call", call_id), params=params, timeout=timeout)
        )

    def list(
        self,
        *,
        status: Sequence[Status] = (),
        tool: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        chain: str | None = None,
        turn: str | None = None,
        parent: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        oldest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[Record]:
        """Calls, newest first."""
        params = given(tool=tool, user=user, agent=agent, chain=chain, turn=turn, parent=parent, since=since)
        params |= given(until=until, sort="created" if oldest_first else None)
        params["status"] = [status] if isinstance(status, str) else [*status]
        return self._transport.pages(Record, Query(path="/v1/calls", params=params), limit)

    def cancel(self, call_id: str) -> None:
        """Cancel a call. One that has ended stays as it is."""
        self._transport.send(
            Query(method="POST", path="/v1/calls" + part("call", call_id) + "/cancel", again=True)
        )

    def cancel_all(self, *, user: str | None = None, agent: str | None = None, all: bool = False) -> int:
        """Cancel all calls of a user or an agent, or one's own, and say how many those were."""
        body = given(user=user, agent=agent, all=all or None)
        raw, _ = self._transport.send(Query(method="POST", path="/v1/calls/cancel", body=body, again=True))
        return member(int, raw, "cancelled")

    def batch(self, calls: Sequence[NewCall], *, timeout: float | None = None) -> Sequence[Result]:
        """Make several calls, beside each other where their tools allow it. Results are in their order."""
        if not calls:
            return []
        left = MAX_INLINE // len(calls)
        made = [
            replace(
                c,
                idempotency_key=c.idempotency_key or new_key(),
                files=self._files._of_call(c.files, left) or None,
                workspace=workspace_of(c.workspace),
            )
            for c in calls
        ]
        wait = self._timeout if timeout is None else timeout
        q = Query(method="POST", path="/v1/calls/batch", body={"calls": made}, again=True, timeout=wait)
        results = member(_Results, (self._transport.send(q))[0], "results")
        if len(results) != len(made):
            raise UnavailableError("the server gave another number of results than there were calls")
        for result in results:
            attach(self._transport, result)
        return results

    def replay(self, call_id: str, *, timeout: float | None = None) -> Result:
        """Call the same version with the same arguments again."""
        wait = self._timeout if timeout is None else timeout
        path = "/v1/calls" + part("call", call_id) + "/replay"
        return self._transport.read(Result, Query(method="POST", path=path, result=True, timeout=wait))

    def events(self, call_id: str, *, after: int = 0) -> Iterator[Event]:
        """What happens to a call, from its beginning or after a cursor, until it has ended.

        A stream that is cut goes on where it was: nothing is lost or repeated.
        """
        part("call", call_id)
        stream = EventStream(self._transport.target.hide, "/v1/events", {"call": call_id}, after, True)
        return self._transport.follow(stream)

    def output(self, call_id: str, *, after: int = 0) -> Iterator[OutputPart]:
        """What a tool prints, while it runs."""
        for event in self.events(call_id, after=after):
            if event.type == "tool_output":
                yield decode(OutputPart, event.data)


_Results = list[Result]


class Chains:
    """Calls whose arguments refer to earlier results."""

    def __init__(self, transport: Transport, timeout: float) -> None:
        self._transport = transport
        self._timeout = timeout

    def run(
        self,
        steps: Sequence[Step] | Plan,
        *,
        input: Any = None,
        workspace: CallWorkspace | str | None = None,
        background: bool = False,
        agent: str | None = None,
        timeout: float | None = None,
    ) -> Chain:
        """Run a plan to its end, or until it waits for a person; in the background, only begin it."""
        plan = steps if isinstance(steps, Plan) else Plan(steps=[*steps], input=input, background=background)
        body = given(steps=plan.steps, input=plan.input, background=plan.background or None, agent=agent)
        body |= given(workspace=workspace_of(workspace) or plan.workspace)
        wait = self._timeout if timeout is None else timeout
        return self._transport.read(Chain, Query(method="POST", path="/v1/chains", body=body, timeout=wait))

    def show(self, chain_id: str) -> Chain:
        """Where a chain stands."""
        return self._transport.read(Chain, Query(path="/v1/chains" + part("chain", chain_id)))

    def wait(self, chain_id: str, *, timeout: float | None = None, approval: bool = False) -> Chain:
        """Wait until a chain has ended or waits for a person; with ``approval``, also for the person."""
        until = None if timeout is None else time.monotonic() + timeout
        pause = 0.05
        while True:
            chain = self.show(chain_id)
            if final(chain.status) or (chain.status == "pending_approval" and not approval):
                return chain
            if until is not None and time.monotonic() + pause > until:
                raise TimeoutError("the chain goes on: wait again")
            sleep(pause)
            pause = min(pause * 2, _LOOK)
