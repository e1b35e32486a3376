# Made by tools/unasync.py of ../_async/_client.py: change that one.
"""The client."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload

import httpx

from .._errors import InvalidError, NotFoundError
from .._json import decode, loads, member, page
from .._models import CallFormat, Model, Self, ToolAnswers, UsageSum
from .._outcome import ToolsetOptions
from .._request import Query, Retry, Target, given
from .._tool import LocalTool, Options, ToolOptions
from ._calls import Calls, Chains
from ._content import attach
from ._conversations import Messages, Turns
from ._files import Files
from ._memory import Blocks, Passages
from ._resources import (
    Agents,
    Approvals,
    Audit,
    Events,
    Keys,
    Secrets,
    Tools,
    Webhooks,
)
from ._rules import MCPServers, Policies, SandboxConfigs
from ._sessions import Sessions
from ._tool import RemoteTool
from ._toolset import MAX_TOOLS, ModelTool, Toolset, Turnstile, ToolLike, usable
from ._transport import Transport
from ._workspaces import Workspaces

if TYPE_CHECKING:
    from agents import FunctionTool
    from crewai.tools import BaseTool as CrewTool
    from langchain_core.tools import BaseTool
    from pydantic_ai import Tool as PydanticTool
    from smolagents import Tool as SmolTool
    from typing_extensions import Unpack

P = ParamSpec("P")
R = TypeVar("R")


class Client:
    """Asks a Haft server.

    Making one sends nothing. It may be used by many at once. Close it, or use it as a
    context manager.

    Args:
        server: The address of the server; ``HAFT_SERVER``, or the server that
            ``haft serve`` starts on this machine, if it is left out.
        key: An API key or a token; ``HAFT_KEY``, or what is in the file that
            ``HAFT_KEY_FILE`` names, if it is left out.
        agent: The agent on whose behalf everything is asked, by name or id. The key
            must be for it.
        sign: Sign requests with the key instead of sending it. That is done anyway
            where others could read it on its way: over http to another machine.
        timeout: Seconds to wait for a connection, and for an answer.
        call_timeout: Seconds to wait for the result of a call.
        retry: How often and when requests are repeated that do no harm twice.
        max_answer: The most bytes of an answer that is kept in memory.
        patience: Seconds that a stream of events tries to come back to a server that
            is away.
        tls: Whom to believe, and a certificate if the server wants one.
        transport: What sends, for tests and for proxies of your own.
    """

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        agent: str | None = None,
        sign: bool = False,
        timeout: float = 30.0,
        call_timeout: float = 600.0,
        retry: Retry = Retry(),  # noqa: B008, it cannot be changed
        max_answer: int = 64 << 20,
        patience: float = 60.0,
        tls: ssl.SSLContext | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if timeout <= 0 or call_timeout <= 0 or max_answer <= 0:
            raise InvalidError("timeouts and bounds are above 0")
        target = Target(server, key, agent, sign, os.environ)
        http = httpx.Client(
            transport=transport,
            verify=tls if tls is not None else True,
            follow_redirects=False,  # the key is for this address only
            trust_env=not target.local,  # no proxy between us and this machine
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
        )
        self._call_timeout = call_timeout
        self._attach(Transport(target, http, timeout, retry, max_answer, patience))

    def _attach(self, transport: Transport) -> None:
        """Have everything use a transport."""
        self._transport = transport
        #: Tools, their versions and their schemas.
        self.tools = Tools(self._transport)
        #: Calls of tools.
        self.calls = Calls(self._transport, self._call_timeout)
        #: Files for tools, and what calls left.
        self.files = Files(self._transport)
        #: Sandboxes that live for many calls.
        self.sessions = Sessions(self._transport, self._call_timeout)
        self.workspaces = Workspaces(self._transport)
        #: Calls whose arguments refer to earlier results.
        self.chains = Chains(self._transport, self._call_timeout)
        #: Calls that wait for a person.
        self.approvals = Approvals(self._transport)
        #: Agents, and the tools and variables that their calls have.
        self.agents = Agents(self._transport)
        #: Texts that agents have before them.
        self.blocks = Blocks(self._transport)
        #: The archives of agents.
        self.passages = Passages(self._transport)
        #: What is said to agents, and what they answer.
        self.messages = Messages(self._transport, self._call_timeout)
        #: What agents do with messages.
        self.turns = Turns(self._transport)
        #: Stored variables.
        self.secrets = Secrets(self._transport)
        #: What happens.
        self.events = Events(self._transport)
        #: API keys.
        self.keys = Keys(self._transport)
        #: Addresses that events are sent to.
        self.webhooks = Webhooks(self._transport)
        #: The documents that say who may do what.
        self.policies = Policies(self._transport)
        #: How calls run where their tools do not say.
        self.sandbox_configs = SandboxConfigs(self._transport)
        #: Upstream MCP servers.
        self.mcp_servers = MCPServers(self._transport)
        #: The record of what was done.
        self.audit = Audit(self._transport)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of all connections, also of those of :meth:`as_agent`."""
        self._transport.close()

    def __repr__(self) -> str:
        return f"<haft.Client of {self._transport.target.base}>"

    def as_agent(self, agent: str) -> Client:
        """A client with the same key and the same connections, on behalf of an agent that the key is for."""
        other = object.__new__(Client)
        other._call_timeout = self._call_timeout
        other._attach(self._transport.as_agent(agent))
        return other

    def whoami(self) -> Self:
        """Whom the server takes this client for."""
        return self._transport.read(Self, Query(path="/v1/whoami"))

    def models(self) -> list[Model]:
        """The language models that agents can be given."""
        return page(Model, (self._transport.send(Query(path="/v1/models")))[0])[0]

    def tool_calls(
        self,
        answer: Any,
        *,
        format: CallFormat | None = None,
        agent: str | None = None,
        turn: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Run the tool calls in what a model answered, and return the messages to append.

        ``answer`` is what the vendor's API returned, unchanged: JSON, or the object of the
        vendor's SDK. The messages are in the form of that vendor. What tools fail with is
        in the messages, as the model should see it.
        """
        return loads(self._tool_calls(answer, given(format=format, agent=agent, turn=turn), timeout))

    def run_tools(
        self,
        answer: Any,
        *,
        format: CallFormat | None = None,
        agent: str | None = None,
        turn: str | None = None,
        timeout: float | None = None,
    ) -> ToolAnswers:
        """Run the tool calls in what a model answered: :meth:`tool_calls`, with one answer for every vendor.

        Calls run beside each other where their tools allow it. :attr:`ToolAnswers.messages` are to be
        appended to the conversation; :attr:`ToolAnswers.calls` have the results.
        """
        params = given(format=format, agent=agent, turn=turn) | {"whole": True}
        answers = decode(ToolAnswers, loads(self._tool_calls(answer, params, timeout)))
        for call in answers.calls:
            attach(self._transport, call.result)
        return answers

    def _tool_calls(self, answer: Any, params: Mapping[str, Any], timeout: float | None) -> bytes:
        wait = self._call_timeout if timeout is None else timeout
        q = Query(method="POST", path="/v1/tool_calls", params=params, body=answer, timeout=wait)
        return (self._transport.send(q))[0]

    def toolset(self, *tools: ToolLike, **options: Unpack[ToolsetOptions]) -> Toolset:
        """Tools for a model, each with its description, its schema and a call that runs it on the server.

        ``tools`` are names, and functions, which are registered. Without any, they are all tools of the
        server that can be called, or those of ``agent``; built-in ones only if ``builtins`` asks for them.
        """
        turnstile = Turnstile()
        session = options.get("session")
        fixed = {} if session is None else {"session": session if isinstance(session, str) else session.id}
        made: list[ModelTool] = []
        for one in tools:
            if isinstance(one, str):
                try:
                    shown = self.tools.show(one)
                except NotFoundError as err:
                    raise NotFoundError(f"there is no such tool: {one}", status=err.status) from None
                made.append(ModelTool(self.calls, shown, options, {}, fixed, turnstile))
                continue
            bound = self._bind(one, {})
            pinned = bound._pinned()
            made.append(ModelTool(self.calls, bound.register(), options, pinned, fixed, turnstile))
        if tools:
            return Toolset(made)
        chosen = given(tag=options.get("tag"), category=options.get("category"), agent=options.get("agent"))
        asked = options.get("builtins") or options.get("agent") or self._transport.target.agent
        for tool in self.tools.list(limit=MAX_TOOLS + 1, **chosen):
            if not usable(tool) and (asked or tool.version.kind != "builtin"):
                made.append(ModelTool(self.calls, tool, options, {}, fixed, turnstile))
        if len(made) > MAX_TOOLS:
            raise InvalidError(f"there are more than {MAX_TOOLS} tools: choose some, by name, tag or category")
        return Toolset(made)

    def to_langchain(self, *tools: ToolLike, **options: Unpack[ToolsetOptions]) -> list[BaseTool]:
        """Tools for LangChain and LangGraph, which run on the server: see :meth:`toolset`."""
        return (self.toolset(*tools, **options)).to_langchain()

    def to_openai_agents(self, *tools: ToolLike, **options: Unpack[ToolsetOptions]) -> list[FunctionTool]:
        """Tools for the OpenAI Agents SDK, which run on the server: see :meth:`toolset`."""
        return (self.toolset(*tools, **options)).to_openai_agents()

    def to_pydantic_ai(self, *tools: ToolLike, **options: Unpack[ToolsetOptions]) -> list[PydanticTool[Any]]:
        """Tools for Pydantic AI, which run on the server: see :meth:`toolset`."""
        return (self.toolset(*tools, **options)).to_pydantic_ai()

    def to_crewai(self, *tools: ToolLike, **options: Unpack[ToolsetOptions]) -> list[CrewTool]:
        """Tools for CrewAI, which run on the server: see :meth:`toolset`. It needs a :class:`haft.Client`."""
        return (self.toolset(*tools, **options)).to_crewai()

    def to_smolagents(self, *tools: ToolLike, **options: Unpack[ToolsetOptions]) -> list[SmolTool]:
        """Tools for smolagents, which run on the server: see :meth:`toolset`. It needs a :class:`haft.Client`."""
        return (self.toolset(*tools, **options)).to_smolagents()

    def usage(
        self,
        *,
        by: Sequence[Literal["tool", "user", "agent", "hour", "day", "month"]] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        tool: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        limit: int | None = None,
    ) -> Sequence[UsageSum]:
        """What calls used that have ended; of the last 30 days if nothing else is said."""
        params = given(until=until, tool=tool, user=user, agent=agent, limit=limit)
        params |= {"from": since, "by": [by] if isinstance(by, str) else [*by]}
        raw, _ = self._transport.send(Query(path="/v1/usage", params=params))
        return member(_Sums, raw, "data")

    def request(
        self, method: str, path: str, *, params: Mapping[str, Any] | None = None, body: Any = None
    ) -> Any:
        """Ask for anything else that ``/openapi.json`` of the server has, as JSON."""
        if not path.startswith("/") or path.startswith("//"):
            raise InvalidError("a path begins with one /")
        raw, _ = self._transport.send(Query(method=method.upper(), path=path, params=params or {}, body=body))
        return loads(raw) if raw else None

    def register(self, function: Callable[P, R], **options: Unpack[ToolOptions]) -> RemoteTool[P, R]:
        """Give the server the source of a function, and return the tool that it is there.

        A tool of that name gets a new version, unless the source is the same as before.
        ``options`` are those of :func:`haft.tool`, for a function without that decorator.
        """
        bound = self._bind(function, options)
        bound.register()
        return bound

    def _bind(self, function: Callable[P, R], options: Mapping[str, Any]) -> RemoteTool[P, R]:
        if isinstance(function, RemoteTool) and function.client is self and not options:
            return function
        if isinstance(function, LocalTool):
            if options:
                raise InvalidError("the decorator of the function says what the tool is like")
            return RemoteTool(function.function, function.options, self)
        return RemoteTool(function, Options(**options), self)

    @overload
    def tool(self, function: Callable[P, R], /) -> RemoteTool[P, R]: ...

    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], RemoteTool[P, R]]: ...

    def tool(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a tool of this client's server: :func:`haft.tool`, and where it runs.

        Nothing is sent when the function is defined. It is registered by
        :meth:`register`, or by the first call that the server is to make.
        """
        if function is not None:
            return self._bind(function, options)
        return lambda f: self._bind(f, options)

    tool.__haft_decorator__ = True  # type: ignore[attr-defined]


_Sums = list[UsageSum]
