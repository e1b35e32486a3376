# Made by tools/unasync.py of ../_async/_rules.py: change that one.
"""What an organisation says about all its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._json import member
from .._models import (
    Decision,
    Limits,
    MCPChange,
    MCPMount,
    MCPOAuth,
    MCPServer,
    MCPTransport,
    Policy,
    PolicyOf,
    Requirements,
    SandboxConfig,
    SandboxType,
)
from .._request import Query, given, part
from ._resources import _Resource

#: Seconds that listing the tools of a server may take.
_LISTING = 120.0


class Policies(_Resource):
    """The documents that say who may do what."""

    def show(self, of: PolicyOf = "organisation") -> Policy:
        """A policy, as it was written."""
        q = Query(path=_policy(of), headers={"Accept": "application/yaml"})
        raw, headers = self._transport.send(q)
        return Policy(text=raw.decode("utf-8", "replace"), revision=_revision(headers))

    def put(
        self, text: str, *, of: PolicyOf = "organisation", if_revision: str | None = None, new: bool = False
    ) -> Policy:
        """Replace a policy. One that is wrong changes nothing.

        With ``if_revision`` only that one is replaced, and with ``new`` none is: else it is
        :class:`~haft.ConflictError`.
        """
        headers = {"Content-Type": "application/yaml"}
        if if_revision is not None:
            headers["If-Match"] = f'"{if_revision}"'
        if new:
            headers["If-None-Match"] = "*"
        again = if_revision is None and not new
        q = Query(method="PUT", path=_policy(of), body=text.encode(), headers=headers, again=again)
        _, answer = self._transport.send(q)
        return Policy(text=text, revision=_revision(answer))

    def explain(
        self,
        tool: str,
        args: Any = None,
        *,
        agent: str | None = None,
        user: str | None = None,
        roles: Sequence[str] | None = None,
        turn: str | None = None,
    ) -> Decision:
        """Say what policy would decide about a call, and why. Nothing is called.

        Only administrators ask what holds for another ``user`` or for ``roles``.
        """
        body = given(tool=tool, args={} if args is None else args, agent=agent, user=user, roles=roles, turn=turn)
        q = Query(method="POST", path="/v1/policies/explain", body=body, again=True)
        return self._transport.read(Decision, q)


def _policy(of: str) -> str:
    return "/v1/policies" + part("policy", of)


def _revision(headers: Mapping[str, str]) -> str:
    return headers.get("etag", "").strip('"')


class SandboxConfigs(_Resource):
    """How calls run where their tools do not say: one configuration for each type of sandbox."""

    def list(self, *, limit: int | None = None) -> Iterator[SandboxConfig]:
        """Configurations by type."""
        return self._transport.pages(SandboxConfig, Query(path="/v1/sandbox_configs"), limit)

    def add(
        self,
        type: SandboxType,
        *,
        description: str | None = None,
        limits: Limits | None = None,
        network: Sequence[str] = (),
        requirements: Requirements | None = None,
    ) -> SandboxConfig:
        """Add a configuration; one of that type must not exist."""
        body = {"type": type, **_config_body(description, limits, network, requirements)}
        return self._transport.read(SandboxConfig, Query(method="POST", path="/v1/sandbox_configs", body=body))

    def show(self, ref: str) -> SandboxConfig:
        """A configuration, by type or id."""
        return self._transport.read(SandboxConfig, Query(path=_config(ref)))

    def put(
        self,
        ref: str,
        *,
        description: str | None = None,
        limits: Limits | None = None,
        network: Sequence[str] = (),
        requirements: Requirements | None = None,
    ) -> SandboxConfig:
        """Replace a configuration, or add it for that type."""
        body = _config_body(description, limits, network, requirements)
        return self._transport.read(SandboxConfig, Query(method="PUT", path=_config(ref), body=body, again=True))

    def remove(self, ref: str) -> None:
        """Remove a configuration."""
        self._transport.send(Query(method="DELETE", path=_config(ref)))


def _config(ref: str) -> str:
    return "/v1/sandbox_configs" + part("sandbox configuration", ref)


def _config_body(
    description: str | None, limits: Limits | None, network: Sequence[str], requirements: Requirements | None
) -> dict[str, Any]:
    return given(description=description, limits=limits, network=[*network] or None, requirements=requirements)


class MCPServers(_Resource):
    """Upstream MCP servers, whose tools are called like all others."""

    def list(self, *, limit: int | None = None) -> Iterator[MCPServer]:
        """Servers by name."""
        return self._transport.pages(MCPServer, Query(path="/v1/mcp_servers"), limit)

    def show(self, server: str) -> MCPServer:
        """A server, by name or id, and why some of its tools cannot be called."""
        return self._transport.read(MCPServer, Query(path=_server(server)))

    def put(
        self,
        server: str,
        *,
        url: str | None = None,
        command: Sequence[str] = (),
        transport: MCPTransport | None = None,
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        oauth: MCPOAuth | None = None,
        network: Sequence[str] = (),
        mounts: Sequence[MCPMount] = (),
        requirements: Requirements | None = None,
        limits: Limits | None = None,
        connect_ms: float | None = None,
        list_ms: float | None = None,
        disabled: bool = False,
    ) -> MCPChange:
        """Replace a server, or add it under that name, and list its tools.

        Values of ``headers`` and ``env`` are not shown again, and an empty one keeps what is
        there. A server that cannot be listed is kept, and its state says why.
        """
        body = given(url=url, transport=transport, headers=headers, env=env, oauth=oauth, requirements=requirements)
        body |= given(limits=limits, connect_ms=connect_ms, list_ms=list_ms, disabled=disabled or None)
        body |= given(command=[*command] or None, network=[*network] or None, mounts=[*mounts] or None)
        q = Query(method="PUT", path=_server(server), body=body, timeout=_LISTING)
        return self._transport.read(MCPChange, q)

    def refresh(self, server: str, *, accept: bool = False) -> MCPChange:
        """List the tools of a server again. What is new or changed waits for review, unless ``accept``."""
        body = given(accept=accept or None)
        q = Query(method="POST", path=_server(server) + "/refresh", body=body, timeout=_LISTING)
        return self._transport.read(MCPChange, q)

    def remove(self, server: str) -> None:
        """Remove a server with its tools and credentials."""
        self._transport.send(Query(method="DELETE", path=_server(server)))

    def login(self, server: str, redirect_uri: str) -> str:
        """Begin a login, and return the link that a person has to open; it is empty if none is wanted.

        The authorisation server then sends the person to ``redirect_uri``, an address of yours
        on this machine or with https.
        """
        body = {"redirect_uri": redirect_uri}
        q = Query(method="POST", path=_server(server) + "/login", body=body, timeout=_LISTING)
        return member(str, (self._transport.send(q))[0], "link")

    def finish_login(
        self,
        server: str,
        *,
        state: str,
        code: str | None = None,
        iss: str | None = None,
        error: str | None = None,
    ) -> None:
        """End a login with what came to the redirect."""
        body = given(state=state, code=code, iss=iss, error=error)
        q = Query(method="POST", path=_server(server) + "/login/finish", body=body, timeout=_LISTING)
        self._transport.send(q)


def _server(server: str) -> str:
    return "/v1/mcp_servers" + part("server", server)
