"""What calls are asked for with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

from ._files import FilesLike
from ._models import CallWorkspace, Limits
from ._request import new_key


class CallOptions(TypedDict, total=False):
    """What may be said of a call besides tool and arguments."""

    #: The agent that calls, by name or id. The key must be for it.
    agent: str | None
    #: Added to the environment of the run.
    env: Mapping[str, str] | None
    #: A second call with the same key and arguments gets the result of the first. Every
    #: call has one; give your own to make a call once across restarts of your program.
    idempotency_key: str | None
    #: Groups the calls of one loop of an agent, which its tool rules look at.
    turn: str | None
    #: The version to run; the current one if it is left out.
    digest: str | None
    sandbox: str | None
    limits: Limits | None
    deadline: datetime | None
    #: What the tool finds in its working directory: a path, an open file, a :class:`~haft.File`
    #: or its id, several of them, or ``{"name": content}``, which may also be bytes.
    files: FilesLike | None
    #: A directory that outlives the call: its name, ``NAME:ro`` to only read it, or more.
    workspace: CallWorkspace | str | None
    #: Seconds to wait for the server; those of the client if it is left out.
    timeout: float | None


@dataclass(frozen=True, kw_only=True)
class NewCall:
    """One call of a batch."""

    tool: str
    args: Any = field(default_factory=dict)
    agent: str | None = None
    env: Mapping[str, str] | None = field(default=None, repr=False)
    idempotency_key: str | None = None
    turn: str | None = None
    digest: str | None = None
    sandbox: str | None = None
    limits: Limits | None = None
    deadline: datetime | None = None
    #: What the tool finds in its working directory, as in :class:`CallOptions`.
    files: FilesLike | None = field(default=None, repr=False)
    #: A directory that outlives the call, as in :class:`CallOptions`.
    workspace: CallWorkspace | str | None = None


def workspace_of(given: CallWorkspace | str | None) -> CallWorkspace | None:
    """The workspace of a call, of which the name may be given: NAME or NAME:ro."""
    if isinstance(given, str):
        return CallWorkspace(name=given.removesuffix(":ro"), read_only=given.endswith(":ro"))
    return given


def call_body(tool: str, args: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The body that asks for a call."""
    body = {"tool": tool, "args": {} if args is None else args}
    body.update((k, v) for k, v in options.items() if v is not None and k not in ("timeout", "files"))
    if workspace := workspace_of(options.get("workspace")):
        body["workspace"] = workspace
    body.setdefault("idempotency_key", new_key())
    return body
