"""The client that is awaited: it is the same text, so this looks only at what is its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest

import haft

from .test_server import add, fail, patient
from .test_transport import FAST, KEY, RESULT, SELF, Script, event, stream

pytestmark = pytest.mark.anyio


async def test_tools_and_calls(aclient: haft.AsyncClient) -> None:
    tool = await aclient.register(add)
    assert await tool(1) == 3
    assert tool.local(1) == 3
    assert await tool.remote(40) == 42
    assert (await tool.schema("openai"))["function"]["name"] == "add"
    with pytest.raises(haft.CallError, match="no luck"):
        await (await aclient.register(fail)).remote("no luck")
    assert "add" in [t.name async for t in aclient.tools.list(name=["add"])]
    assert [r async for r in aclient.calls.list(limit=2)]


async def test_rules(aclient: haft.AsyncClient) -> None:
    decision = await aclient.policies.explain("fetch_webpage", {"url": "https://example.com"})
    assert decision.effect in ("allow", "ask", "deny")
    assert all([s.name async for s in aclient.mcp_servers.list(limit=1)])
    assert all([c.type async for c in aclient.sandbox_configs.list(limit=1)])


async def test_async_functions_stay_what_they_are(aclient: haft.AsyncClient, anyio_backend: str) -> None:
    tool = await aclient.register(patient)
    if anyio_backend == "asyncio":  # which the function uses
        assert await tool.local(0) == "done"
    started = await tool.start(0.1)
    kinds = [e.type async for e in aclient.calls.events(started.call_id)]
    assert kinds[-1] == "tool_completed"
    assert [p.text async for p in aclient.calls.output(started.call_id)]
    assert (await aclient.calls.wait(started.call_id)).value == "done"


async def test_many_at_once_register_a_tool_once(aclient: haft.AsyncClient, fresh: Callable[[str], str]) -> None:
    puts = 0
    put = aclient.tools.put

    async def counting(draft: haft.Draft) -> haft.Added:
        nonlocal puts
        puts += 1
        return await put(draft)

    aclient.tools.put = counting  # type: ignore[method-assign]
    tool = aclient.tool(name=fresh("many"))(add.function)
    values: list[Any] = []

    async def one(n: int) -> None:
        values.append(await tool.remote(n))

    async with anyio.create_task_group() as group:
        for n in range(8):
            group.start_soon(one, n)
    assert sorted(values) == list(range(2, 10))
    assert puts == 1


async def test_who_is_cancelled_cancels_the_call(aclient: haft.AsyncClient, fresh: Callable[[str], str]) -> None:
    await aclient.register(patient)
    turn = fresh("turn")
    async with anyio.create_task_group() as group:

        async def call() -> None:
            await aclient.calls.run("patient", {"seconds": 25}, turn=turn)

        group.start_soon(call)
        while not [r async for r in aclient.calls.list(turn=turn, status=["running"])]:
            await anyio.sleep(0.02)
        group.cancel_scope.cancel()
    record = [r async for r in aclient.calls.list(turn=turn)][0]  # noqa: RUF015
    result = await aclient.calls.wait(record.id, timeout=60)
    assert result.status == "cancelled"


async def test_retries_and_streams() -> None:
    script = Script(httpx.ReadError("x"), RESULT)
    async with haft.AsyncClient("http://127.0.0.1:1", KEY, transport=httpx.MockTransport(script), retry=FAST) as c:
        assert await c.calls.value("t") == 1
        assert "haft.AsyncClient" in repr(c)
    script = Script(stream(event(1)), stream(event(1), event(2, "tool_completed")))
    async with haft.AsyncClient("http://127.0.0.1:1", KEY, transport=httpx.MockTransport(script), retry=FAST) as c:
        assert [e.cursor async for e in c.calls.events("c_1")] == [1, 2]
    script = Script(SELF)
    async with haft.AsyncClient("http://127.0.0.1:1", KEY, transport=httpx.MockTransport(script)) as c:
        assert (await c.as_agent("smith").whoami()).version == "1"
