"""What agents remember."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from .. import _json
from .._models import Block, Passage
from .._request import Query, given, part
from ._transport import AsyncTransport


class AsyncBlocks:
    """Texts that agents have before them in every request to their models."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def list(
        self, *, agent: str | None = None, label: str | None = None, limit: int | None = None
    ) -> AsyncIterator[Block]:
        """Blocks by id, or those of an agent or of a label."""
        return self._transport.pages(Block, Query(path="/v1/blocks", params=given(agent=agent, label=label)), limit)

    async def add(
        self,
        label: str,
        value: str = "",
        *,
        description: str | None = None,
        limit: int | None = None,
        read_only: bool | None = None,
    ) -> Block:
        """Add a block. Agents have it when it is attached to them."""
        body = given(label=label, value=value, description=description, limit=limit, read_only=read_only)
        return await self._transport.read(Block, Query(method="POST", path="/v1/blocks", body=body))

    async def show(self, block_id: str) -> Block:
        """Show a block."""
        return await self._transport.read(Block, Query(path=_block(block_id)))

    async def set(
        self,
        block_id: str,
        *,
        label: str | None = None,
        value: str | None = None,
        description: str | None = None,
        limit: int | None = None,
        read_only: bool | None = None,
        version: int | None = None,
    ) -> Block:
        """Change some of a block. With ``version`` it is refused if the block has another one by now."""
        body = given(
            label=label, value=value, description=description, limit=limit, read_only=read_only, version=version
        )
        return await self._transport.read(Block, Query(method="PATCH", path=_block(block_id), body=body))

    async def remove(self, block_id: str) -> None:
        """Remove a block, from all agents too."""
        await self._transport.send(Query(method="DELETE", path=_block(block_id)))

    async def agents(self, block_id: str) -> builtins.list[str]:
        """The ids of the agents that have a block."""
        return _json.page(str, (await self._transport.send(Query(path=_block(block_id) + "/agents")))[0])[0]

    async def attach(self, agent: str, block_id: str) -> None:
        """Give an agent a block."""
        path = "/v1/agents" + part("agent", agent) + "/blocks" + part("block", block_id)
        await self._transport.send(Query(method="PUT", path=path, again=True))

    async def detach(self, agent: str, block_id: str) -> None:
        """Take a block from an agent."""
        path = "/v1/agents" + part("agent", agent) + "/blocks" + part("block", block_id)
        await self._transport.send(Query(method="DELETE", path=path, again=True))


class AsyncPassages:
    """The archives of agents: texts that they find by search."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def list(
        self,
        agent: str,
        *,
        query: str | None = None,
        tags: Sequence[str] = (),
        all_tags: bool | None = None,
        since: datetime | None = None,
        till: datetime | None = None,
        newest: bool | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Passage]:
        """Passages by time. With ``query`` the ones that fit best come first, 50 at most."""
        params = given(query=query, tags=[*tags] or None, all_tags=all_tags, since=since, till=till, newest=newest)
        return self._transport.pages(Passage, Query(path=_passages(agent), params=params), limit)

    async def add(self, agent: str, text: str, *, tags: Sequence[str] = ()) -> Passage:
        """Add a passage."""
        body = given(text=text, tags=[*tags] or None)
        return await self._transport.read(Passage, Query(method="POST", path=_passages(agent), body=body))

    async def remove(self, agent: str, passage_id: str) -> None:
        """Remove a passage."""
        await self._transport.send(Query(method="DELETE", path=_passages(agent) + part("passage", passage_id)))

    async def tags(self, agent: str) -> builtins.list[str]:
        """The tags that the passages of an agent have."""
        return _json.page(str, (await self._transport.send(Query(path=_passages(agent) + "/tags")))[0])[0]


def _block(block_id: str) -> str:
    return "/v1/blocks" + part("block", block_id)


def _passages(agent: str) -> str:
    return "/v1/agents" + part("agent", agent) + "/passages"
