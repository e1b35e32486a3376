"""Tools for the agents of a framework."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from .. import _frameworks
from .._errors import HaftError, InvalidError, TimeoutError
from .._inputs import CallOptions
from .._models import Result, Tool
from .._outcome import Outcome, RunOptions, call_options, outcome_of, outcome_of_error, without
from ._calls import AsyncCalls
from ._io import AWAITED, Event, Lock, closing, shielded

if TYPE_CHECKING:
    from agents import FunctionTool
    from crewai.tools import BaseTool as CrewTool
    from langchain_core.tools import BaseTool
    from pydantic_ai import Tool as PydanticTool
    from smolagents import Tool as SmolTool

#: A tool by its name, or a function that is one.
ToolLike: TypeAlias = str | Callable[..., Any]

#: The most tools of a toolset, and what all vendors of models take as a name.
MAX_TOOLS = 1000
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class AsyncTurnstile:
    """Lets calls run beside each other where their tools allow it, as a batch of the server does.

    A call that has to be alone waits for those before it, and those after it wait for it.
    """

    def __init__(self) -> None:
        self._entry = Lock()
        self._count = threading.Lock()
        self._inside = 0
        self._empty: Event | None = None

    @asynccontextmanager
    async def passage(self, parallel: bool) -> AsyncGenerator[None, None]:
        """Wait until the call may run."""
        if parallel:
            async with self._entry:
                self._add(1)
            try:
                yield
            finally:
                self._add(-1)
            return
        async with self._entry:
            if (empty := self._emptied()) is not None:
                await empty.wait()
            yield

    def _add(self, n: int) -> None:
        with self._count:
            self._inside += n
            if self._inside == 0 and self._empty is not None:
                self._empty.set()
                self._empty = None

    def _emptied(self) -> Event | None:
        with self._count:
            if self._inside > 0:
                self._empty = Event()
            return self._empty


class AsyncModelTool:
    """One tool of a server as a model sees it. Calling it runs it on the server."""

    #: Whether :meth:`call` has to be awaited.
    awaited = AWAITED

    def __init__(
        self,
        calls: AsyncCalls,
        tool: Tool,
        options: RunOptions,
        pinned: CallOptions,
        fixed: Mapping[str, Any],
        turnstile: AsyncTurnstile,
    ) -> None:
        version = must_be_usable(tool).version
        properties = version.parameters.get("properties", {})
        self._fixed = {name: value for name, value in fixed.items() if name in properties}
        self._calls = calls
        self._options = options
        self._call_options: CallOptions = {**call_options(options), **pinned}
        self._turnstile = turnstile
        #: What the model calls it.
        self.name = tool.name
        #: What the model reads.
        self.description = version.description
        #: The JSON Schema of its arguments.
        self.parameters: dict[str, Any] = without(version.parameters, self._fixed)
        #: It may run beside other calls.
        self.parallel = version.settings is not None and version.settings.parallel

    def __repr__(self) -> str:
        return f"<haft tool {self.name}>"

    async def call(self, arguments: Mapping[str, Any]) -> Outcome:
        """Call the tool with what a model gave, and return what the model gets back.

        Nothing that goes wrong with a call is raised: it is an outcome that has ``failed``.
        """
        try:
            async with self._turnstile.passage(self.parallel):
                result = await self._make({**arguments, **self._fixed})
        except HaftError as err:
            return outcome_of_error(err)
        if on_result := self._options.get("on_result"):
            on_result(result)
        return outcome_of(result)

    async def _make(self, arguments: Mapping[str, Any]) -> Result:
        approval = self._options.get("approval_timeout") or 0
        if self._options.get("on_event") is None and not approval:
            return await self._calls.run(self.name, arguments, **self._call_options)
        options = self._call_options
        if (timeout := options.get("timeout")) and not options.get("deadline"):
            # Nobody looks at the clock between two events: the server does.
            options = {**options, "deadline": datetime.now(timezone.utc) + timedelta(seconds=timeout + approval)}
        started = await self._calls.start(self.name, arguments, **options)
        try:
            return await self._follow(started.call_id, approval)
        except BaseException:
            with suppress(Exception), shielded():  # what went wrong before is what matters
                await self._calls.cancel(started.call_id)
            raise

    async def _follow(self, call_id: str, approval: float) -> Result:
        """Report what happens to a call, and wait for its end, or for a person."""
        after = 0
        on_event = self._options.get("on_event") or (lambda _: None)
        async with closing(cast(Any, self._calls.events(call_id))) as events:
            async for event in events:
                after = event.cursor
                on_event(event)
                if event.type == "approval_requested":
                    break
        result = await self._calls.wait(call_id, timeout=self._call_options.get("timeout"))
        if result.status != "pending_approval" or not approval:
            return result
        try:
            result = await self._calls.wait(call_id, timeout=approval, approval=True)
        except TimeoutError:
            return result
        async for event in self._calls.events(call_id, after=after):
            on_event(event)
        return result


class AsyncToolset(Sequence[AsyncModelTool]):
    """Tools of a server, for the agents of a framework. Make one for each conversation.

    Calls of tools that may not run beside others wait for each other within one toolset.
    """

    def __init__(self, tools: Sequence[AsyncModelTool]) -> None:
        self._tools = tuple(tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, index: Any) -> Any:
        return self._tools[index]

    def __iter__(self) -> Iterator[AsyncModelTool]:
        return iter(self._tools)

    def __repr__(self) -> str:
        return f"<haft toolset of {len(self._tools)}>"

    def to_langchain(self) -> list[BaseTool]:
        """Tools of LangChain and LangGraph."""
        return _frameworks.langchain(self._tools)

    def to_openai_agents(self) -> list[FunctionTool]:
        """Tools of the OpenAI Agents SDK."""
        return _frameworks.openai_agents(self._tools)

    def to_pydantic_ai(self) -> list[PydanticTool[Any]]:
        """Tools of Pydantic AI."""
        return _frameworks.pydantic_ai(self._tools)

    def to_crewai(self) -> list[CrewTool]:
        """Tools of CrewAI, which needs a :class:`haft.Client`."""
        return _frameworks.crewai(self._tools)

    def to_smolagents(self) -> list[SmolTool]:
        """Tools of smolagents, which needs a :class:`haft.Client`."""
        return _frameworks.smolagents(self._tools)


def usable(tool: Tool) -> str:
    """Why a tool cannot be given to a model; empty if it can."""
    if tool.disabled:
        return "it is disabled"
    if tool.unavailable:
        return tool.unavailable
    if not NAME.fullmatch(tool.name):
        return "models take names of 1 to 64 of A-Z a-z 0-9 _ -"
    if not isinstance(tool.version.parameters, dict):
        return "it has no schema"
    return ""


def must_be_usable(tool: Tool) -> Tool:
    """The tool, or why it cannot be given to a model."""
    if why := usable(tool):
        raise InvalidError(f"{tool.name} cannot be given to a model: {why}")
    return tool
