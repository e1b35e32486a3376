"""What a server has besides calls."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from .._errors import UnavailableError
from .._json import decode, loads, member
from .._models import (
    Added,
    Agent,
    Approval,
    ApprovalState,
    Binding,
    DeadLetter,
    Event,
    EventType,
    Format,
    IssuedKey,
    Key,
    Kind,
    NewWebhook,
    Schemas,
    Secret,
    Tool,
    ToolRule,
    Version,
    Webhook,
)
from .._request import Query, given, part
from .._sse import EventStream
from .._tool import Draft
from ._transport import AsyncTransport


class _Resource:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport


class AsyncTools(_Resource):
    """Tools, their versions and their schemas."""

    async def put(self, draft: Draft) -> Added:
        """Add a tool, or a version to the tool of that name."""
        again = not draft.new and not draft.if_digest
        return await self._transport.read(
            Added, Query(method="POST", path="/v1/tools", body=draft, again=again, timeout=120.0)
        )

    def list(
        self,
        *,
        name: Sequence[str] = (),
        category: str | None = None,
        tag: str | None = None,
        kind: Kind | None = None,
        enabled: bool | None = None,
        disabled: bool = False,
        search: str | None = None,
        agent: str | None = None,
        recent_first: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[Tool]:
        """Tools by name; a search has the best first.

        With ``disabled``, those too that are disabled; with ``enabled=False``, only those.
        """
        params = given(category=category, tag=tag, kind=kind, enabled=enabled, search=search, agent=agent)
        params |= {"name": _names(name), "disabled": disabled or None, "sort": "-updated" if recent_first else None}
        return self._transport.pages(Tool, Query(path="/v1/tools", params=params), limit)

    async def show(self, ref: str) -> Tool:
        """A tool with its current version, by name or id."""
        return await self._transport.read(Tool, Query(path=_tool(ref)))

    async def set(
        self,
        ref: str,
        *,
        disabled: bool | None = None,
        category: str | None = None,
        tags: Sequence[str] | None = None,
        version: int | None = None,
    ) -> Tool:
        """Change what is not part of a version. With ``version``, calls run that one from now on."""
        body = given(disabled=disabled, category=category, tags=tags, version=version)
        return await self._transport.read(Tool, Query(method="PATCH", path=_tool(ref), body=body, again=True))

    async def enable(self, ref: str) -> Tool:
        """Let a tool be called again."""
        return await self.set(ref, disabled=False)

    async def disable(self, ref: str) -> Tool:
        """Refuse calls of a tool, and keep it."""
        return await self.set(ref, disabled=True)

    async def review(self, ref: str, *, accept: bool, reason: str | None = None) -> Tool:
        """Accept or refuse the version that waits for it."""
        body = {"review": {"approve": accept, **given(reason=reason)}}
        return await self._transport.read(Tool, Query(method="PATCH", path=_tool(ref), body=body))

    async def remove(self, ref: str) -> None:
        """Remove a tool with its versions."""
        await self._transport.send(Query(method="DELETE", path=_tool(ref)))

    def versions(self, ref: str, *, limit: int | None = None) -> AsyncIterator[Version]:
        """The versions of a tool, newest first."""
        return self._transport.pages(Version, Query(path=_tool(ref) + "/versions"), limit)

    async def version(self, ref: str, number: int) -> Version:
        """One version of a tool."""
        return await self._transport.read(Version, Query(path=f"{_tool(ref)}/versions/{int(number)}"))

    async def schemas(
        self,
        format: Format,
        *,
        strict: bool = False,
        name: Sequence[str] = (),
        category: str | None = None,
        tag: str | None = None,
        kind: Kind | None = None,
        search: str | None = None,
        agent: str | None = None,
        builtins: bool = False,
    ) -> Schemas:
        """Tools that can be called, in the form of a model vendor.

        Built-in tools are among them if they are asked for: by ``builtins``, by ``name``, by ``kind``, or by an
        agent that has them.
        """
        params = given(category=category, tag=tag, kind=kind, search=search, agent=agent)
        params |= {"format": format, "strict": strict or None, "name": _names(name), "limit": 1000}
        tools: list[Any] = []
        out = Schemas()
        for _ in range(100):
            raw, headers = await self._transport.send(Query(path="/v1/tools", params=params))
            page = decode(Schemas, loads(raw))
            tools = _merge(tools, page.tools)
            out = Schemas(tools=tools, skipped=[*out.skipped, *page.skipped])
            following = re.search(r'[?&]cursor=([A-Za-z0-9_-]+)[^>]*>; rel="next"', headers.get("link", ""))
            if following is None:
                asked = builtins or name or kind or agent or self._transport.target.agent
                return out if asked else _left_out(out, {t.name async for t in self.list(kind="builtin")})
            params["cursor"] = following[1]
        raise UnavailableError("the list of the server does not end")


def _left_out(found: Schemas, names: set[str]) -> Schemas:
    """Schemas without the tools of these names."""
    tools: list[Any] = []
    for tool in found.tools:
        if "functionDeclarations" in tool:
            left = [f for f in tool["functionDeclarations"] if f["name"] not in names]
            tools += [{**tool, "functionDeclarations": left}] if left else []
        elif tool.get("function", tool)["name"] not in names:
            tools.append(tool)
    return Schemas(tools=tools, skipped=[s for s in found.skipped if s.name not in names])


def _tool(ref: str) -> str:
    return "/v1/tools" + part("tool", ref)


def _names(name: Sequence[str]) -> Sequence[str]:
    return [name] if isinstance(name, str) else [*name]


def _merge(tools: list[Any], more: list[Any]) -> list[Any]:
    """Put pages together. Gemini has all functions in one tool."""
    key = "functionDeclarations"
    if len(tools) == 1 and len(more) == 1 and isinstance(tools[0], dict) and key in tools[0] and key in more[0]:
        return [{**tools[0], key: [*tools[0][key], *more[0][key]]}]
    return [*tools, *more]


class AsyncApprovals(_Resource):
    """Calls that wait for a person."""

    def list(
        self,
        *,
        state: ApprovalState | None = None,
        tool: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Approval]:
        """Requests for approval, oldest first."""
        params = given(state=state, tool=tool, user=user, agent=agent)
        return self._transport.pages(Approval, Query(path="/v1/approvals", params=params), limit)

    async def show(self, approval_id: str) -> Approval:
        """One request, with the arguments that are asked for."""
        return await self._transport.read(Approval, Query(path=_approval(approval_id)))

    async def approve(self, approval_id: str, *, reason: str | None = None, args: Any = None) -> Approval:
        """Agree to a call as it was shown, or with other arguments."""
        body = given(reason=reason, args=args)
        return await self._transport.read(
            Approval, Query(method="POST", path=_approval(approval_id) + "/approve", body=body)
        )

    async def deny(self, approval_id: str, *, reason: str | None = None) -> Approval:
        """Do not agree. The reason is told to the model."""
        body = given(reason=reason)
        return await self._transport.read(
            Approval, Query(method="POST", path=_approval(approval_id) + "/deny", body=body)
        )


def _approval(approval_id: str) -> str:
    return "/v1/approvals" + part("approval", approval_id)


class AsyncAgents(_Resource):
    """Agents, and the tools and variables that their calls have."""

    def list(
        self,
        *,
        tool: str | None = None,
        enabled: bool | None = None,
        prefix: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Agent]:
        """Agents by name."""
        params = given(tool=tool, enabled=enabled, prefix=prefix)
        return self._transport.pages(Agent, Query(path="/v1/agents", params=params), limit)

    async def add(
        self,
        name: str,
        *,
        description: str = "",
        instructions: str = "",
        model: str = "",
        tags: Sequence[str] = (),
        tools: Sequence[str] = (),
        workspace: str = "",
        env: Mapping[str, str] | None = None,
        tool_rules: Sequence[ToolRule] = (),
        disabled: bool = False,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> Agent:
        """Add an agent; one of that name must not exist."""
        fields = _agent_body(
            description=description,
            instructions=instructions,
            model=model,
            tags=[*tags],
            tools=[*tools],
            workspace=workspace,
            env=env,
            tool_rules=[*tool_rules],
            disabled=disabled,
            title=title,
            metadata=metadata,
        )
        body = {"name": name, **fields}
        return await self._transport.read(Agent, Query(method="POST", path="/v1/agents", body=body))

    async def show(self, agent: str) -> Agent:
        """An agent, by name or id."""
        return await self._transport.read(Agent, Query(path=_agent(agent)))

    async def put(
        self,
        agent: str,
        *,
        description: str = "",
        instructions: str = "",
        model: str = "",
        tags: Sequence[str] = (),
        tools: Sequence[str] = (),
        workspace: str = "",
        env: Mapping[str, str] | None = None,
        tool_rules: Sequence[ToolRule] = (),
        disabled: bool = False,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> Agent:
        """Replace an agent, or add it. Of its environment an empty value keeps what is there."""
        body = _agent_body(
            description=description,
            instructions=instructions,
            model=model,
            tags=[*tags],
            tools=[*tools],
            workspace=workspace,
            env=env,
            tool_rules=[*tool_rules],
            disabled=disabled,
            title=title,
            metadata=metadata,
        )
        return await self._transport.read(Agent, Query(method="PUT", path=_agent(agent), body=body, again=True))

    async def set(
        self,
        agent: str,
        *,
        description: str | None = None,
        instructions: str | None = None,
        model: str | None = None,
        tags: Sequence[str] | None = None,
        tools: Sequence[str] | None = None,
        workspace: str | None = None,
        env: Mapping[str, str | None] | None = None,
        tool_rules: Sequence[ToolRule] | None = None,
        disabled: bool | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Agent:
        """Change some of an agent. Variables are merged into those that are there; None removes one."""
        body = given(
            description=description,
            instructions=instructions,
            model=model,
            tags=tags,
            tools=tools,
            workspace=workspace,
            env=env,
            tool_rules=tool_rules,
            disabled=disabled,
            title=title,
            metadata=metadata,
        )
        return await self._transport.read(Agent, Query(method="PATCH", path=_agent(agent), body=body, again=True))

    async def remove(self, agent: str) -> None:
        """Remove an agent."""
        await self._transport.send(Query(method="DELETE", path=_agent(agent)))

    async def attach(self, agent: str, tool: str) -> Agent:
        """Give an agent a tool."""
        path = _agent(agent) + "/tools" + part("tool", tool)
        return await self._transport.read(Agent, Query(method="PUT", path=path, again=True))

    async def detach(self, agent: str, tool: str) -> Agent:
        """Take a tool from an agent."""
        path = _agent(agent) + "/tools" + part("tool", tool)
        return await self._transport.read(Agent, Query(method="DELETE", path=path))


def _agent(agent: str) -> str:
    return "/v1/agents" + part("agent", agent)


def _agent_body(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


class AsyncSecrets(_Resource):
    """Stored variables. Nobody can read their values back."""

    def list(self, *, agent: str | None = None, limit: int | None = None) -> AsyncIterator[Secret]:
        """Which variables are stored for the organisation, or for one agent."""
        return self._transport.pages(Secret, Query(path="/v1/secrets", params=given(agent=agent)), limit)

    async def put(self, name: str, value: str, *, agent: str | None = None, bound: Binding | None = None) -> None:
        """Store a variable. With ``bound`` it goes to those hosts and nowhere else: tools see a placeholder."""
        body = given(value=value, bound=bound)
        q = Query(method="PUT", path=_secret(name), params=given(agent=agent), body=body, again=True)
        await self._transport.send(q)

    async def remove(self, name: str, *, agent: str | None = None) -> None:
        """Remove a stored variable."""
        await self._transport.send(Query(method="DELETE", path=_secret(name), params=given(agent=agent)))


def _secret(name: str) -> str:
    return "/v1/secrets" + part("secret", name)


class AsyncEvents(_Resource):
    """What happens."""

    def watch(
        self,
        *,
        after: int | None = None,
        call: str | None = None,
        agent: str | None = None,
        user: str | None = None,
        tool: str | None = None,
        types: Sequence[EventType] = (),
    ) -> AsyncIterator[Event]:
        """Yield events without end, from now on or after a cursor; 0 begins with the oldest that is kept.

        A stream that is cut goes on after the last event: nothing is lost or repeated, or
        :class:`~haft.ConflictError` says that events are no longer kept.
        """
        params = given(call=call, agent=agent, user=user, tool=tool)
        params["type"] = [types] if isinstance(types, str) else [*types]
        return self._transport.follow(EventStream(self._transport.target.hide, "/v1/events", params, after, False))


class AsyncKeys(_Resource):
    """API keys."""

    def list(self, *, limit: int | None = None) -> AsyncIterator[Key]:
        """The keys of the organisation, without their text."""
        return self._transport.pages(Key, Query(path="/v1/keys"), limit)

    async def show(self, key_id: str) -> Key:
        """One key, without its text."""
        return await self._transport.read(Key, Query(path=_key(key_id)))

    async def issue(
        self,
        *,
        name: str | None = None,
        user: str | None = None,
        agent: str | None = None,
        roles: Sequence[str] | None = None,
        scope: Sequence[str] | None = None,
        expires_at: datetime | None = None,
        signed_only: bool = False,
    ) -> IssuedKey:
        """Make a key. Its text is shown this once, as :attr:`IssuedKey.secret`."""
        body = given(name=name, user=user, agent=agent, roles=roles, scope=scope, expires_at=expires_at)
        body |= given(signed_only=signed_only or None)
        return await self._transport.read(IssuedKey, Query(method="POST", path="/v1/keys", body=body))

    async def set(
        self,
        key_id: str,
        *,
        disabled: bool | None = None,
        name: str | None = None,
        expires_at: datetime | None = None,
    ) -> Key:
        """Change a key, such as disable it."""
        body = given(disabled=disabled, name=name, expires_at=expires_at)
        return await self._transport.read(Key, Query(method="PATCH", path=_key(key_id), body=body, again=True))

    async def rotate(self, key_id: str, *, overlap: float | None = None) -> IssuedKey:
        """Give a key a new text. The old one is good for ``overlap`` seconds more."""
        body = given(overlap_ms=None if overlap is None else overlap * 1000)
        return await self._transport.read(IssuedKey, Query(method="POST", path=_key(key_id) + "/rotate", body=body))

    async def remove(self, key_id: str) -> None:
        """Remove a key. It is refused from then on."""
        await self._transport.send(Query(method="DELETE", path=_key(key_id)))


def _key(key_id: str) -> str:
    return "/v1/keys" + part("key", key_id)


class AsyncWebhooks(_Resource):
    """Addresses that events are sent to. Receivers use :func:`haft.verify_webhook`."""

    def list(self, *, limit: int | None = None) -> AsyncIterator[Webhook]:
        """All webhooks."""
        return self._transport.pages(Webhook, Query(path="/v1/webhooks"), limit)

    async def add(
        self,
        url: str,
        *,
        types: Sequence[EventType] = (),
        tools: Sequence[str] = (),
        agents: Sequence[str] = (),
        users: Sequence[str] = (),
        description: str | None = None,
        disabled: bool = False,
    ) -> NewWebhook:
        """Have events sent to an address. The secret is shown this once."""
        body = _webhook_body(url, types, tools, agents, users, description, disabled)
        return await self._transport.read(NewWebhook, Query(method="POST", path="/v1/webhooks", body=body))

    async def show(self, webhook_id: str) -> Webhook:
        """A webhook, and how its deliveries go."""
        return await self._transport.read(Webhook, Query(path=_webhook(webhook_id)))

    async def put(
        self,
        webhook_id: str,
        url: str,
        *,
        types: Sequence[EventType] = (),
        tools: Sequence[str] = (),
        agents: Sequence[str] = (),
        users: Sequence[str] = (),
        description: str | None = None,
        disabled: bool = False,
    ) -> Webhook:
        """Replace what is said of a webhook; its secret and its place stay."""
        body = _webhook_body(url, types, tools, agents, users, description, disabled)
        return await self._transport.read(
            Webhook, Query(method="PUT", path=_webhook(webhook_id), body=body, again=True)
        )

    async def remove(self, webhook_id: str) -> None:
        """Remove a webhook with its dead letters."""
        await self._transport.send(Query(method="DELETE", path=_webhook(webhook_id)))

    def dead_letters(self, webhook_id: str, *, limit: int | None = None) -> AsyncIterator[DeadLetter]:
        """What could not be sent, oldest first."""
        return self._transport.pages(DeadLetter, Query(path=_webhook(webhook_id) + "/dead_letters"), limit)

    async def redeliver(self, webhook_id: str, *, letter: str | None = None) -> int:
        """Send dead letters again, and say how many were received."""
        q = Query(method="POST", path=_webhook(webhook_id) + "/redeliver", body=given(letter=letter), timeout=120.0)
        return member(int, (await self._transport.send(q))[0], "delivered")


def _webhook(webhook_id: str) -> str:
    return "/v1/webhooks" + part("webhook", webhook_id)


def _webhook_body(
    url: str,
    types: Sequence[str],
    tools: Sequence[str],
    agents: Sequence[str],
    users: Sequence[str],
    description: str | None,
    disabled: bool,
) -> dict[str, Any]:
    body = given(url=url, description=description, disabled=disabled or None)
    return body | given(
        types=[*types] or None, tools=[*tools] or None, agents=[*agents] or None, users=[*users] or None
    )


class AsyncAudit(_Resource):
    """The record of what was done, which proves itself."""

    def export(self) -> AsyncIterator[bytes]:
        """The audit of the organisation as JSON lines, in pieces that end anywhere.

        It is whole if this ends without an error.
        """
        return self._transport.lines(Query(path="/v1/audit", headers={"Accept": "application/jsonl"}))

    async def entries(self, *, limit: int | None = None) -> Sequence[dict[str, Any]]:
        """The last entries, oldest first."""
        raw, _ = await self._transport.send(Query(path="/v1/audit/entries", params=given(limit=limit)))
        return member(_Entries, raw, "data")

    async def keys(self) -> str:
        """The public keys with which exports are verified, as PEM."""
        raw, _ = await self._transport.send(Query(path="/v1/audit/keys", headers={"Accept": "*/*"}))
        return raw.decode("ascii", "replace")


_Entries = list[dict[str, Any]]
