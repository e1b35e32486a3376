"""The agents of frameworks run their tools on the server: real frameworks, a model that follows a script."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import haft

from . import model as scripted
from .model import Model, calls, says
from .test_server import add, fail, patient, wipe

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.server]

Fresh = Callable[[str], str]
HERE = str(Path.cwd())
#: Runs an agent of a framework with tools of a client, against a model, and gives its last words.
Agent = Callable[[Model, haft.Client, tuple[Any, ...], dict[str, Any]], str]
AsyncAgent = Callable[[Model, haft.AsyncClient, tuple[Any, ...], dict[str, Any]], Awaitable[str]]


@haft.tool
def where() -> str:
    """Say where this runs."""
    from pathlib import Path

    return str(Path.cwd())


@haft.tool(parallel=False)
def alone(seconds: float) -> str:
    """Wait.

    Args:
        seconds: How long.
    """
    import time

    time.sleep(seconds)
    return "done"


@haft.tool
def odd(args: str, config: str, run_manager: str, tool: str) -> str:
    """Take arguments whose names frameworks use themselves.

    Args:
        args: One.
        config: Two.
        run_manager: Three.
        tool: Four.
    """
    return args + config + run_manager + tool


@haft.tool
def report(name: str) -> None:
    """Write a report.

    Args:
        name: Whose.
    """
    from pathlib import Path

    print("progress", flush=True)
    Path("out/report.txt").write_text(Path("in.txt").read_text() + name)


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """No framework sends anything to anybody else."""
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    monkeypatch.setenv("LANGSMITH_TRACING", "false")
    monkeypatch.setenv("CREWAI_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("CREWAI_TRACING_ENABLED", "false")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setenv("OPENAI_API_KEY", "k")


def langchain_model(model: Model) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="scripted", base_url=model.url, api_key="k", max_retries=0)


def langchain(model: Model, client: haft.Client, tools: tuple[Any, ...], options: dict[str, Any]) -> str:
    from langchain.agents import create_agent

    agent = create_agent(langchain_model(model), client.to_langchain(*tools, **options))
    return str(agent.invoke({"messages": [("user", "Go.")]})["messages"][-1].content)


async def alangchain(model: Model, client: haft.AsyncClient, tools: tuple[Any, ...], options: dict[str, Any]) -> str:
    from langchain.agents import create_agent

    agent = create_agent(langchain_model(model), await client.to_langchain(*tools, **options))
    return str((await agent.ainvoke({"messages": [("user", "Go.")]}))["messages"][-1].content)


async def openai_run(model: Model, tools: list[Any]) -> str:
    from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=model.url, api_key="k", max_retries=0) as vendor:
        agent = Agent(name="a", model=OpenAIChatCompletionsModel("scripted", vendor), tools=tools)
        result = await Runner.run(agent, "Go.", run_config=RunConfig(tracing_disabled=True))
        return str(result.final_output)


def openai_agents(model: Model, client: haft.Client, tools: tuple[Any, ...], options: dict[str, Any]) -> str:
    return asyncio.run(openai_run(model, client.to_openai_agents(*tools, **options)))


async def aopenai_agents(
    model: Model, client: haft.AsyncClient, tools: tuple[Any, ...], options: dict[str, Any]
) -> str:
    return await openai_run(model, await client.to_openai_agents(*tools, **options))


async def pydantic_run(model: Model, tools: list[Any]) -> str:
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async with AsyncOpenAI(base_url=model.url, api_key="k", max_retries=0) as vendor:
        agent = Agent(OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=vendor)), tools=tools)
        return str((await agent.run("Go.")).output)


def pydantic_ai(model: Model, client: haft.Client, tools: tuple[Any, ...], options: dict[str, Any]) -> str:
    return asyncio.run(pydantic_run(model, client.to_pydantic_ai(*tools, **options)))


async def apydantic_ai(model: Model, client: haft.AsyncClient, tools: tuple[Any, ...], options: dict[str, Any]) -> str:
    return await pydantic_run(model, await client.to_pydantic_ai(*tools, **options))


def smolagents(model: Model, client: haft.Client, tools: tuple[Any, ...], options: dict[str, Any]) -> str:
    from smolagents import OpenAIModel, ToolCallingAgent

    # Its agents end with a tool of their own.
    model.messages[-1] = calls(("final_answer", {"answer": model.messages[-1]["content"]}))
    vendor = OpenAIModel("scripted", api_base=model.url, api_key="k")
    agent = ToolCallingAgent(client.to_smolagents(*tools, **options), vendor, verbosity_level=0, max_steps=5)
    return str(agent.run("Go."))


def crewai(model: Model, client: haft.Client, tools: tuple[Any, ...], options: dict[str, Any]) -> str:
    from crewai import LLM, Agent, Crew, Task

    vendor = LLM(model="openai/gpt-4o", base_url=model.url, api_key="k")
    made = client.to_crewai(*tools, **options)
    agent = Agent(
        role="r", goal="g", backstory="b", llm=vendor, tools=made, verbose=False, max_iter=5, max_retry_limit=0
    )
    task = Task(description="Go.", expected_output="A word.", agent=agent)
    return str(Crew(agents=[agent], tasks=[task], verbose=False).kickoff().raw)


#: CrewAI needs other versions than the rest, so its tests run in an environment of their own: HAFT_FRAMEWORK=crewai.
FRAMEWORKS: list[Agent] = (
    [crewai] if os.environ.get("HAFT_FRAMEWORK") == "crewai" else [langchain, openai_agents, pydantic_ai, smolagents]
)
AWAITED: list[AsyncAgent] = [alangchain, aopenai_agents, apydantic_ai]


def said(model: Model) -> str:
    """What the last request says of the calls: smolagents has its own form for it."""
    return "\n".join(str(m) for m in model.requests[-1]["messages"][-2:])


@pytest.mark.parametrize("agent", FRAMEWORKS)
class TestAgents:
    def test_run_their_tools_on_the_server(self, agent: Agent, client: haft.Client) -> None:
        results: list[haft.Result] = []
        with scripted.serve(calls(("add", {"a": 20, "b": 22}), ("where", {})), says("Done.")) as model:
            assert agent(model, client, (add, where), {"on_result": results.append}) == "Done."
        assert {"add", "where"} == model.offered - {"final_answer"}
        assert "42" in said(model)
        assert HERE not in said(model)
        assert {r.tool for r in results} == {"add", "where"}
        assert all(r.sandbox.provider for r in results)

    def test_read_what_went_wrong(self, agent: Agent, client: haft.Client) -> None:
        step = calls(("fail", {"message": "no luck"}))
        with scripted.serve(step, calls(("add", {"a": "x"})), says("Done.")) as model:
            assert agent(model, client, (fail, add), {}) == "Done."
        assert "Error (exception): no luck" in str(model.requests[1]["messages"])
        # smolagents looks at the types itself.
        misfit = "Argument a has type" if agent is smolagents else "/a"
        assert misfit in str(model.requests[2]["messages"])
        assert os.environ["HAFT_KEY"] not in str(model.requests)

    def test_are_not_ended_by_a_server_that_is_away(self, agent: Agent, client: haft.Client) -> None:
        away = haft.Client("http://127.0.0.1:1", os.environ["HAFT_KEY"], retry=haft.Retry(tries=1))
        away.tools = client.tools  # it was there a moment ago
        with away, scripted.serve(calls(("add", {"a": 1})), says("Done.")) as model:
            assert agent(model, away, ("add",), {}) == "Done."
        assert "unavailable" in said(model)
        assert os.environ["HAFT_KEY"] not in str(model.requests)

    @pytest.mark.parametrize(("tool", "beside"), [(patient, 2), (alone, 1)])
    def test_run_calls_beside_each_other_where_tools_allow_it(
        self, agent: Agent, tool: Any, beside: int, client: haft.Client, fresh: Fresh
    ) -> None:
        turn = fresh("turn")
        step = calls(*((tool.name, {"seconds": 300}) for _ in range(2)))
        with scripted.serve(step, says("Done.")) as model, ThreadPoolExecutor() as pool:
            done = pool.submit(agent, model, client, (tool,), {"turn": turn})
            while not done.done():
                time.sleep(0.05)  # so as not to keep the server busy
                running = [r.id for r in client.calls.list(turn=turn, status=["running"])]
                for call in running if len(running) >= beside else ():
                    client.calls.cancel(call)
            assert done.result() == "Done."
        one, two = client.calls.list(turn=turn, oldest_first=True)
        assert one.ended_at is not None
        assert two.started_at is not None
        assert (two.started_at < one.ended_at) is (beside == 2)

    def test_say_that_a_person_has_to_agree(
        self, agent: Agent, client: haft.Client, approver: haft.Client, fresh: Fresh
    ) -> None:
        path = fresh("path")
        with scripted.serve(calls(("wipe", {"path": path})), says("Done.")) as model:
            assert agent(model, client, (wipe,), {}) == "Done."
        assert "a person has to agree" in said(model)
        for pending in approver.approvals.list(state="pending", tool="wipe"):
            approver.approvals.deny(pending.id)

        def agree(event: haft.Event) -> None:
            if event.type == "approval_requested":
                pending = approver.approvals.list(state="pending", tool="wipe")
                approver.approvals.approve(next(p.id for p in pending if p.call_id == event.call_id))

        with scripted.serve(calls(("wipe", {"path": path})), says("Done.")) as model:
            agent(model, client, (wipe,), {"approval_timeout": 60, "on_event": agree})
        assert f"wiped {path}" in said(model)

    def test_have_files_progress_and_sessions(self, agent: Agent, client: haft.Client) -> None:
        results: list[haft.Result] = []
        events: list[str] = []
        options: dict[str, Any] = {"files": {"in.txt": b"All of "}, "on_result": results.append}
        options["on_event"] = lambda event: events.append(event.type)
        with scripted.serve(calls(("report", {"name": "Ann"})), says("Done.")) as model:
            agent(model, client, (report,), options)
        assert results[0].artifacts[0].read() == b"All of Ann"
        assert {"tool_executing", "tool_output", "tool_completed"} <= set(events)
        with client.sessions.create(idle=60) as session:
            session.run_code("x = 41")
            code = {"language": "python", "code": "x + 1"}
            with scripted.serve(calls(("run_code", code)), says("Done.")) as model:
                agent(model, client, ("run_code",), {"session": session})
            assert "42" in said(model)
            assert '"session"' not in str(model.requests[0]["tools"])

    def test_end_calls_that_take_too_long(self, agent: Agent, client: haft.Client) -> None:
        options = {"limits": haft.Limits(wall_ms=500)}
        with scripted.serve(calls(("patient", {"seconds": 60})), says("Done.")) as model:
            assert agent(model, client, (patient,), options) == "Done."
        assert "timeout" in said(model)

    def test_take_arguments_of_any_name(self, agent: Agent, client: haft.Client) -> None:
        arguments = {"args": "a", "config": "b", "run_manager": "c", "tool": "d"}
        with scripted.serve(calls(("odd", arguments)), says("Done.")) as model:
            agent(model, client, (odd,), {})
        assert "abcd" in said(model)


@pytest.mark.parametrize("agent", AWAITED)
class TestAwaitedAgents:
    def test_run_their_tools_on_the_server(self, agent: AsyncAgent, server: str) -> None:
        async def main(model: Model) -> tuple[str, list[haft.Result]]:
            ran: list[haft.Result] = []
            async with haft.AsyncClient() as client:
                return await agent(model, client, (where, fail), {"on_result": ran.append}), ran

        step = calls(("where", {}), ("where", {}), ("fail", {"message": "no luck"}))
        with scripted.serve(step, says("Done.")) as model:
            words, ran = asyncio.run(main(model))
        assert words == "Done."
        assert "no luck" in model.results[2]
        assert [r.value != HERE for r in ran if r.ok] == [True, True]

    @pytest.mark.parametrize("watched", [False, True])
    def test_end_their_calls_when_they_are_cancelled(
        self, agent: AsyncAgent, watched: bool, server: str, fresh: Fresh
    ) -> None:
        turn = fresh("turn")

        async def main(model: Model) -> None:
            options: dict[str, Any] = {"turn": turn}
            if watched:
                options["on_event"] = lambda _: None
            async with haft.AsyncClient() as awaited:
                task = asyncio.ensure_future(agent(model, awaited, (patient,), options))
                while not (running := [r async for r in awaited.calls.list(turn=turn, status=["running"])]):
                    await asyncio.sleep(0.05)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (await awaited.calls.wait(running[0].id)).status == "cancelled"

        with scripted.serve(calls(("patient", {"seconds": 100})), says("Done.")) as model:
            asyncio.run(main(model))


def test_blocking_tools_of_langchain_are_not_those_of_an_async_client(server: str) -> None:
    async def made() -> Any:
        async with haft.AsyncClient() as client:
            with pytest.raises(haft.InvalidError, match=r"haft\.Client"):
                await client.to_smolagents(add)
            return (await client.to_langchain(add))[0]

    tool = asyncio.run(made())
    with pytest.raises(TypeError, match="ainvoke"):
        tool.invoke({"a": 1})


def test_langchain_has_the_result_beside_the_text(client: haft.Client) -> None:
    (tool,) = client.to_langchain(add)
    message = tool.invoke({"type": "tool_call", "id": "c", "name": "add", "args": {"a": 1, "b": 1}})
    assert (message.content, message.status, message.artifact.value) == ("2", "success", 2)
    (tool,) = client.to_langchain(fail)
    message = tool.invoke({"type": "tool_call", "id": "c", "name": "fail", "args": {"message": "m"}})
    assert message.status == "error"


class TestDecoratedFunctions:
    """What a framework makes of a function itself runs on the server, too, or not at all."""

    def ran(self, client: haft.Client, fresh: Fresh, run: Callable[[Any], Any]) -> Any:
        tool = client.register(where.function, name=fresh("where"))
        value = run(tool)
        assert [r.status for r in client.calls.list(tool=tool.name)] == ["success"]
        return value

    def test_with_langchain(self, client: haft.Client, fresh: Fresh) -> None:
        from langchain_core.tools import StructuredTool

        run = lambda tool: StructuredTool.from_function(tool).invoke({})  # noqa: E731
        assert self.ran(client, fresh, run) != HERE

    def test_with_pydantic_ai(self, client: haft.Client, fresh: Fresh) -> None:
        def run(tool: Any) -> str:
            with scripted.serve(calls((tool.__name__, {})), says("Done.")) as model:
                asyncio.run(pydantic_run(model, [tool]))
                return said(model)

        assert HERE not in self.ran(client, fresh, run)

    def test_with_openai_agents(self, client: haft.Client, fresh: Fresh) -> None:
        from agents import function_tool

        def run(tool: Any) -> str:
            made = function_tool(tool)
            with scripted.serve(calls((made.name, {})), says("Done.")) as model:
                asyncio.run(openai_run(model, [made]))
                return said(model)

        assert HERE not in self.ran(client, fresh, run)

    def test_without_a_server_is_refused(self) -> None:
        from langchain_core.tools import StructuredTool

        made = StructuredTool.from_function(where)
        with pytest.raises(haft.InvalidError, match=r"where\.local"):
            made.invoke({})
