"""What a model reads of a call, in the words that the server uses for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypedDict

from ._errors import HaftError
from ._files import FilesLike
from ._inputs import CallOptions
from ._models import CallWorkspace, Event, Failure, Limits, Result

#: The most characters of what a tool printed, of a traceback, and places that do not fit.
_PRINTED = 50_000
_TAIL = 2000
_MISFITS = 20


class RunOptions(TypedDict, total=False):
    """How the calls of a framework's agent are made. See :class:`CallOptions` for those that are alike."""

    agent: str | None
    env: dict[str, str] | None
    turn: str | None
    sandbox: str | None
    limits: Limits | None
    deadline: datetime | None
    files: FilesLike | None
    workspace: CallWorkspace | str | None
    timeout: float | None
    #: Seconds to wait for a person who has to agree. The model reads that the call waits, if nobody did.
    approval_timeout: float
    #: Called with what happens to each call, such as ``tool_progress`` and ``tool_output``, as it happens.
    on_event: Callable[[Event], object] | None
    #: Called with each result: its files, its status, its call.
    on_result: Callable[[Result], object] | None


class HasId(Protocol):
    """Something of the server that has an id."""

    @property
    def id(self) -> str:
        """By which the server knows it."""


class ToolsetOptions(RunOptions, total=False):
    """Which tools a framework's agent gets, and how its calls are made."""

    #: List the built-in tools of the server, too. One that is named needs no asking.
    builtins: bool
    tag: str | None
    category: str | None
    #: The session in which ``run_code``, ``run_command`` and the like run. The model is not asked for it.
    session: HasId | str | None


#: Those options that are of no single call.
_OWN = ("approval_timeout", "on_event", "on_result", "builtins", "tag", "category", "session")


@dataclass(frozen=True)
class Outcome:
    """What a model reads of a call."""

    text: str
    #: The call has ended without a value.
    failed: bool = False
    #: All that is known of the call; None if the server could not be asked.
    result: Result | None = field(default=None, repr=False)


def call_options(options: RunOptions) -> CallOptions:
    """The options of each call."""
    return {k: v for k, v in options.items() if k not in _OWN}  # type: ignore[return-value]


def outcome_of(result: Result) -> Outcome:
    """What a model reads of a result."""
    if result.status == "pending_approval":
        text = (
            f"pending_approval: a person has to agree to this call before it runs (approval {result.approval_id}, "
            f"call {result.call_id}). It has not run. Do not call it again; go on without its result, or say what it "
            "waits for."
        )
    elif not result.final:
        text = f"{result.status}: the call has not ended (call {result.call_id}). Do not call it again."
    elif result.ok:
        text = _value(result)
    else:
        text = _failure(result, result.error)
    notes = [f"[file: {a.name!r}, {a.content_type!r}, {a.size} bytes]" for a in result.artifacts[:_MISFITS]]
    return Outcome("\n".join([text, *notes]) if notes else text, result.final and not result.ok, result)


def outcome_of_error(err: HaftError) -> Outcome:
    """What a model reads if there is no result. Errors of this client hold no key and no argument."""
    return Outcome(f"Error ({err.code}): {err}", True)


def _value(result: Result) -> str:
    if isinstance(result.value, str):
        return result.value
    if result.value is None and result.stdout.strip():
        return result.stdout[:_PRINTED].rstrip("\n")
    return json.dumps(result.value, ensure_ascii=False, separators=(",", ":"))


def _failure(result: Result, failure: Failure | None) -> str:
    if failure is None:
        return f"Error ({result.status}): the call failed"
    lines = [f"Error ({failure.kind}): {failure.message}"]
    lines += [
        f"- {m.pointer or 'the whole'}: {m.message}"
        for m in failure.misfits[:_MISFITS]
        if m.message not in failure.message
    ]
    if advice := _advice(result, failure):
        lines.append(advice)
    for name, text in (("Traceback", failure.traceback), ("stdout", result.stdout), ("stderr", result.stderr)):
        if text and text.strip():
            lines.append(f"{name}:\n{text.strip()[-_TAIL:]}")
    return "\n".join(lines)


def _advice(result: Result, failure: Failure) -> str:
    if result.status == "unknown":
        return "It may have run. Do not call it again before you know that it did not."
    after = f" after {failure.retry_after_ms / 1000:g} s" if failure.retry_after_ms else ""
    return {
        "same": f"The same call may succeed{after}.",
        "changed": f"Call it again{after} with arguments that fit.",
        "never": "Calling it again will not help.",
    }.get(failure.retry, "")


def without(parameters: Any, fixed: Any) -> Any:
    """A schema without the arguments that are given already."""
    if not fixed:
        return parameters
    left = {name: schema for name, schema in parameters["properties"].items() if name not in fixed}
    required = [name for name in parameters.get("required", []) if name not in fixed]
    return {**parameters, "properties": left, "required": required}
