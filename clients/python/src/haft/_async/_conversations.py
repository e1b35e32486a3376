"""What is said to agents, and what they do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from .._models import Budget, Message, MessageRole, Replied, Turn, TurnEvent
from .._request import Query, given, part
from .._sse import TurnStream
from ._transport import AsyncTransport


class AsyncMessages:
    """What is said to agents, and what they answer."""

    def __init__(self, transport: AsyncTransport, timeout: float) -> None:
        self._transport = transport
        self._timeout = timeout

    async def send(
        self,
        agent: str,
        text: str,
        *,
        model: str | None = None,
        budget: Budget | None = None,
        idempotency_key: str | None = None,
    ) -> Replied:
        """Send a message, and wait until the agent has answered or waits for a person.

        The key of the client must be allowed to act as the agent. The turn goes on if nobody
        waits for it any more.
        """
        q = _send(agent, text, model, budget, idempotency_key)
        return await self._transport.read(Replied, replace(q, timeout=self._timeout))

    def stream(
        self,
        agent: str,
        text: str,
        *,
        model: str | None = None,
        budget: Budget | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncIterator[TurnEvent]:
        """Send a message, and yield what happens until the agent has answered or waits for a person.

        A stream that is cut goes on after the last message. Pieces of text that were missed
        do not come again.
        """
        q = _send(agent, text, model, budget, idempotency_key)
        return self._transport.follow(TurnStream(self._transport.target.hide, q, True))

    def list(
        self,
        agent: str,
        *,
        query: str | None = None,
        roles: Sequence[MessageRole] = (),
        turn: str | None = None,
        since: datetime | None = None,
        till: datetime | None = None,
        after: int | None = None,
        before: int | None = None,
        newest: bool | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Message]:
        """Messages in their order. With ``query`` the ones that fit best come first, 50 at most."""
        params: dict[str, Any] = given(
            query=query, turn=turn, since=since, till=till, after=after, before=before, newest=newest
        )
        params["roles"] = [*roles]
        return self._transport.pages(Message, Query(path=_agent(agent) + "/messages", params=params), limit)


class AsyncTurns:
    """What agents do with messages."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def list(self, agent: str, *, after: str | None = None, limit: int | None = None) -> AsyncIterator[Turn]:
        """The turns of an agent, oldest first."""
        return self._transport.pages(Turn, Query(path=_agent(agent) + "/turns", params=given(after=after)), limit)

    async def show(self, turn_id: str) -> Turn:
        """Show a turn."""
        return await self._transport.read(Turn, Query(path=_turn(turn_id)))

    async def cancel(self, turn_id: str) -> None:
        """Cancel a turn. One that has ended stays as it is."""
        await self._transport.send(Query(method="POST", path=_turn(turn_id) + "/cancel", again=True))

    def watch(self, turn_id: str, *, after: int | None = None) -> AsyncIterator[TurnEvent]:
        """What happens in a turn until it ends: from now on, or after the message of that number.

        With ``after=0`` it begins with the first message of the turn.
        """
        q = Query(path=_turn(turn_id) + "/events", params=given(after=after))
        return self._transport.follow(TurnStream(self._transport.target.hide, q, False))


def _send(agent: str, text: str, model: str | None, budget: Budget | None, key: str | None) -> Query:
    body = given(text=text, model=model, budget=budget, idempotency_key=key)
    return Query(method="POST", path=_agent(agent) + "/messages", body=body, again=key is not None)


def _agent(agent: str) -> str:
    return "/v1/agents" + part("agent", agent)


def _turn(turn_id: str) -> str:
    return "/v1/turns" + part("turn", turn_id)
