"""What a server answers, and parts of what it is asked.

The names are those of the API. Fields that this version of the client does not
know are passed over, so that a newer server does not break it; times are aware
``datetime`` objects, durations milliseconds where their name ends with ``_ms``.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, cast

MessageRole: TypeAlias = Literal["user", "assistant", "tool", "summary"]
TurnStatus: TypeAlias = Literal["running", "waiting", "completed", "failed", "cancelled"]
Status: TypeAlias = Literal[
    "success",
    "error",
    "timeout",
    "limit",
    "validation_error",
    "permission_denied",
    "rate_limited",
    "queued",
    "running",
    "pending_approval",
    "denied_by_approver",
    "cancelled",
    "unknown",
]
Kind: TypeAlias = Literal["builtin", "python", "typescript", "javascript", "bash", "mcp", ""]
EventType: TypeAlias = Literal[
    "tool_queued",
    "tool_executing",
    "tool_retry",
    "tool_progress",
    "tool_output",
    "tool_completed",
    "approval_requested",
    "approval_decided",
]
ApprovalState: TypeAlias = Literal["pending", "approved", "denied", "expired", "used"]
Level: TypeAlias = Literal["none", "reduced", "namespaces", "kernel", "machine", ""]
MCPTransport: TypeAlias = Literal["stdio", "http", "sse", ""]
SandboxType: TypeAlias = Literal["local", "gvisor", "e2b", "modal", "process"]
#: Whose a policy is.
PolicyOf: TypeAlias = Literal["organisation", "server"]
#: The forms of the model vendors in which tools are listed.
Format: TypeAlias = Literal["openai", "openai-responses", "anthropic", "gemini", "mcp"]
#: The forms in which models call tools.
CallFormat: TypeAlias = Literal["openai", "openai-responses", "anthropic", "gemini"]


def final(status: str) -> bool:
    """Whether nothing more will happen to a call with this status."""
    return status not in ("queued", "running", "pending_approval")


@dataclass(frozen=True, kw_only=True)
class Misfit:
    """One place where something does not fit, by JSON Pointer (RFC 6901)."""

    pointer: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a call has no value, in words that a model can act on."""

    kind: str
    message: str
    #: Whether trying again can help: never, same, or changed.
    retry: str
    retry_after_ms: float | None = None
    severity: str | None = None
    #: The class of the exception, where there was one.
    type: str | None = None
    #: The tool's own lines.
    traceback: str | None = None
    #: Where arguments or value do not fit.
    misfits: list[Misfit] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file that a tool left for its caller."""

    #: May have slashes. It is what the tool said: never open it as a path, use :meth:`save`.
    name: str
    content_type: str
    size: int
    #: The content, if it came with the result.
    data: bytes | None = field(default=None, repr=False)
    #: The file that has the content, if it did not.
    file_id: str | None = None
    #: Fetches the content. It is no field: a copy does not have it.
    _content: ClassVar[Any] = None

    def read(self) -> bytes:
        """The content. With an :class:`~haft.AsyncClient` use :meth:`aread`."""
        return cast(bytes, self._of(False).read())

    def save(self, to: str | os.PathLike[str]) -> Path:
        """Write the content to a new file and return its path.

        ``to`` is the file, or a directory that is there: then it gets the name of the
        artifact, which cannot lead out of the directory. What is there already, a link
        also, is left alone: that is a :class:`FileExistsError`. With an
        :class:`~haft.AsyncClient` use :meth:`asave`.
        """
        return cast(Path, self._of(False).save(to))

    async def aread(self) -> bytes:
        """As :meth:`read`, of a result of an :class:`~haft.AsyncClient`."""
        return cast(bytes, await self._of(True).read())

    async def asave(self, to: str | os.PathLike[str]) -> Path:
        """As :meth:`save`, of a result of an :class:`~haft.AsyncClient`."""
        return cast(Path, await self._of(True).save(to))

    def _of(self, awaited: bool) -> Any:
        from ._errors import InvalidError

        if self._content is None or inspect.iscoroutinefunction(self._content.read) is not awaited:
            raise InvalidError(
                "read and save are for results of a Client, aread and asave for those of an AsyncClient, and "
                "none for copies"
            )
        return self._content

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_content"}


@dataclass(frozen=True, kw_only=True)
class CallFile:
    """A file that a call gives to its tool: the id of one that was added, or content."""

    id: str | None = None
    #: Where the tool finds it, relative to its working directory; the name of the file if it is left out.
    path: str | None = None
    data: bytes | None = field(default=None, repr=False)
    #: The digest of the content. The server sets it.
    sha256: str | None = None


@dataclass(frozen=True, kw_only=True)
class CallWorkspace:
    """The directory of a call that outlives it."""

    name: str
    #: Other calls may read it at the same time. Otherwise the call has it alone.
    read_only: bool = False
    #: It is the working directory of the tool.
    workdir: bool = False
    #: Which workspace had the name, and the workspaces that its files were copied from. The server says it.
    id: str = ""
    origins: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class WorkspaceSize:
    """How much is in a workspace, or may be in it."""

    bytes: int = 0
    #: Files, directories and links.
    inodes: int = 0


@dataclass(frozen=True, kw_only=True)
class WorkspaceUse:
    """What a call left in its workspace."""

    name: str
    used: WorkspaceSize
    quota: WorkspaceSize
    enforced: str


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A named directory that outlives calls, or a snapshot of one: then its name has an ``@``."""

    name: str
    #: Everybody in the organisation may use it.
    shared: bool = False
    quota: WorkspaceSize
    #: What was measured after the last change.
    used: WorkspaceSize
    #: Who enforces the quota: ``measured`` means that Haft measures, also while a call runs.
    enforced: str
    #: The workspaces that its files were copied from.
    origins: list[str] = field(default_factory=list)
    created_at: datetime
    changed_at: datetime


@dataclass(frozen=True, kw_only=True)
class WorkspaceEntry:
    """A file, a directory or a link in a workspace."""

    path: str
    #: ``file``, ``directory``, ``link`` or ``other``.
    kind: str
    size: int = 0
    modified_at: datetime


@dataclass(frozen=True, kw_only=True)
class WorkspaceListing:
    """What is in a directory of a workspace, by path."""

    entries: list[WorkspaceEntry]
    #: There are others.
    more: bool = False


@dataclass(frozen=True, kw_only=True)
class WorkspaceChange:
    """One difference between two states of a workspace."""

    path: str
    #: ``added``, ``changed`` or ``removed``.
    change: str
    before: int = 0
    after: int = 0


@dataclass(frozen=True, kw_only=True)
class WorkspaceDiff:
    """The differences between two states of a workspace, by path."""

    changes: list[WorkspaceChange]
    #: There are others.
    more: bool = False


@dataclass(frozen=True, kw_only=True)
class File:
    """Content that was added, or that a call left. It never changes."""

    id: str
    name: str
    content_type: str
    size: int
    #: How many bytes have arrived. The file can be used when all have.
    uploaded: int
    #: In hexadecimal, once all has arrived.
    sha256: str | None = None
    #: The call that left it.
    call_id: str | None = None
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, kw_only=True)
class Content:
    """One part of what a tool gave to be shown."""

    type: str
    text: str | None = None
    artifact: str | None = None
    uri: str | None = None
    name: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None
    mime_type: str | None = None
    audience: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one run used. None is unknown, and so is all of a call that did not run."""

    wall_ms: float
    cpu_ms: float | None = None
    max_rss_bytes: int | None = None
    max_processes: int | None = None
    disk_bytes: int | None = None
    stdout_bytes: int | None = None
    stderr_bytes: int | None = None
    network_ms: float | None = None
    sent_bytes: int | None = None
    received_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A control that this machine could not give, and why."""

    control: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """How a run was confined."""

    level: str
    controls: list[str] = field(default_factory=list)
    missing: list[Gap] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """Where a call ran."""

    provider: str
    isolation: Isolation
    #: Why it ran there, where there was a choice.
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """How long each part of a call took."""

    queue_ms: float | None = None
    validate_ms: float | None = None
    policy_ms: float | None = None
    approval_ms: float | None = None
    packages_ms: float | None = None
    cell: str | None = None
    setup_ms: float | None = None
    execute_ms: float | None = None
    serialise_ms: float | None = None
    total_ms: float


@dataclass(frozen=True, kw_only=True)
class Truncated:
    """What was cut: bytes left out, of the value characters, of artifacts files."""

    stdout: int | None = None
    stderr: int | None = None
    value: int | None = None
    artifacts: int | None = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """The one outcome of a call, or where it stands if it has none yet."""

    call_id: str
    tool: str
    #: Of the version that ran.
    digest: str | None = None
    status: Status
    #: What the tool gave back, as JSON, also if it does not fit, unless a validator refused it.
    value: Any
    #: Why there is no value.
    error: Failure | None = None
    stdout: str
    stderr: str
    #: What the tool gave to be shown, part by part, if it made parts.
    content: list[Content] = field(default_factory=list)
    #: Files that the tool left.
    artifacts: list[Artifact] = field(default_factory=list)
    usage: Usage
    sandbox: Sandbox
    #: Why it was slow.
    timeline: Timeline
    #: What was cut.
    truncated: Truncated | None = None
    #: When the call ended, or came to where it is.
    timestamp: datetime | None = None
    #: How often it was run; 0 means never.
    tries: int | None = None
    #: The value is that of an earlier call.
    cached: bool = False
    #: What the call waits for.
    approval_id: str | None = None
    #: What filters changed or warned about, by place and rule.
    notices: list[str] = field(default_factory=list)
    #: What the call left in its workspace.
    workspace: WorkspaceUse | None = None

    @property
    def ok(self) -> bool:
        """Whether the tool ran and gave a value."""
        return self.status == "success"

    @property
    def final(self) -> bool:
        """Whether nothing more will happen to the call."""
        return final(self.status)

    def unwrap(self) -> Any:
        """The value, or :class:`haft.CallError` if there is none."""
        if self.ok:
            return self.value
        from ._errors import CallError

        raise CallError(self)


@dataclass(frozen=True, kw_only=True)
class AnsweredCall:
    """One call of a model's answer, and what became of it."""

    #: The vendor's; empty where it gave none.
    id: str
    name: str
    result: Result


@dataclass(frozen=True, kw_only=True)
class ToolAnswers:
    """What became of the tool calls in a model's answer, the same for every vendor."""

    format: CallFormat
    #: Those to append to the conversation, in the form of the vendor.
    messages: list[Any]
    #: In the order of the answer.
    calls: list[AnsweredCall]


@dataclass(frozen=True, kw_only=True)
class Principal:
    """On whose behalf something is done."""

    org: str
    user: str | None = None
    agent: str | None = None
    roles: list[str] = field(default_factory=list)
    #: None is not confined; an empty list may do nothing.
    scope: list[str] | None = None
    #: None is not confined; else the actions that the credential is for.
    actions: list[str] | None = None
    #: Names the API key or token, and holds nothing of its secret.
    credential: str | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one run. What is None has its default: nothing runs without bounds."""

    #: Time on the clock.
    wall_ms: float | None = None
    #: The time to clean up after SIGTERM, when the run is stopped.
    grace_ms: float | None = None
    #: Time on a processor.
    cpu_ms: float | None = None
    #: With temporary files in memory.
    memory_bytes: int | None = None
    #: Processes and threads.
    processes: int | None = None
    open_files: int | None = None
    file_bytes: int | None = None
    disk_bytes: int | None = None
    inodes: int | None = None
    stdout_bytes: int | None = None
    stderr_bytes: int | None = None
    #: The encoded value.
    result_bytes: int | None = None
    artifacts: int | None = None
    artifact_bytes: int | None = None
    #: Sent to named hosts, and as much received.
    network_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Call:
    """What was asked for."""

    id: str | None = None
    tool: str
    digest: str | None = None
    args: Any = None
    principal: Principal
    idempotency_key: str | None = None
    deadline: datetime | None = None
    #: The files that the tool found, without their content.
    files: list[CallFile] = field(default_factory=list)
    workspace: CallWorkspace | None = None
    env: dict[str, str] = field(default_factory=dict, repr=False)
    sandbox: str | None = None
    #: Packages of the sandbox configuration that the call gets besides.
    template: str | None = None
    #: Packages that the session of the call was made with.
    requirements: Requirements | None = None
    limits: Limits | None = None
    parent: str | None = None
    turn: str | None = None
    chain: str | None = None
    trace: str | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is kept of a call."""

    #: Its arguments may be redacted.
    call: Call
    #: It cannot be replayed: some arguments were not kept.
    redacted: bool = False
    tool_id: str | None = None
    digest: str | None = None
    status: Status
    tries: int | None = None
    args_digest: str | None = None
    result_digest: str | None = None
    owner: str | None = None
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    #: There once the call has ended.
    result: Result | None = None

    @property
    def id(self) -> str:
        """The id of the call."""
        return self.call.id or ""

    @property
    def final(self) -> bool:
        """Whether nothing more will happen to the call."""
        return final(self.status)


@dataclass(frozen=True, kw_only=True)
class Annotations:
    """What the author of a tool claims of it: the hints of MCP. None claims nothing."""

    title: str | None = None
    readOnlyHint: bool | None = None
    destructiveHint: bool | None = None
    idempotentHint: bool | None = None
    openWorldHint: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """Packages that a tool needs."""

    pip: list[str] = field(default_factory=list)
    npm: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Lock:
    """The exact packages that a version runs with, by digest."""

    set: str | None = None
    pip: str | None = None
    npm: str | None = None


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """How often and when something is tried again."""

    strategy: str | None = None
    tries: int | None = None
    initial_ms: float | None = None
    max_ms: float | None = None
    stretch: float | None = None


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Calls in any stretch as long as within_ms; or a bucket of burst tokens that fills with per_second."""

    calls: int | None = None
    within_ms: float | None = None
    per_second: float | None = None
    burst: int | None = None


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a tool is expected to give back."""

    type: str | None = None
    validators: list[str] = field(default_factory=list)
    #: Fail a call whose value is not of the type that the source says.
    strict: bool = False
    max_chars: int | None = None


@dataclass(frozen=True, kw_only=True)
class Reaction:
    """What to do when a run of a tool has failed.

    Call again with other ``args``, give ``value``, or ``disable`` the tool.
    """

    #: Kinds of failure; empty means all.
    kinds: list[str] = field(default_factory=list)
    #: Classes of exceptions; empty means all failures.
    types: list[str] = field(default_factory=list)
    args: Any = None
    value: Any = None
    disable: bool = False


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a version is to be run. The defaults are the safe choice."""

    limits: Limits | None = None
    #: The hosts that the tool may reach. Empty means none.
    network: list[str] = field(default_factory=list)
    #: The stored variables that the tool cannot do without.
    secrets: list[str] = field(default_factory=list)
    #: The programs of the host that the tool may run, such as git.
    programs: list[str] = field(default_factory=list)
    #: List in the audit what each call touches.
    audit_files: bool = False
    #: Give back no files that the tool leaves in its working directory.
    no_artifacts: bool = False
    #: Run it as Letta does, with its conversions of arguments, ids and names.
    letta: bool = False
    #: Where it runs; None leaves the choice to the server.
    sandbox: str | None = None
    #: Refuse to run it with less.
    min_isolation: Level | None = None
    #: Every call waits for a person.
    requires_approval: bool = False
    #: Calls of one batch may run beside each other.
    parallel: bool = False
    #: A second run does no harm when nobody knows whether the first was.
    idempotent: bool = False
    #: Equal arguments give equal values.
    cacheable: bool = False
    #: How long values are kept; None means an hour.
    cache_ms: float | None = None
    #: Those of which a caller must have one.
    roles: list[str] = field(default_factory=list)
    #: How often a run that failed for a passing reason is repeated.
    retry: Backoff | None = None
    #: How often one user may call it.
    rate: Rate | None = None
    #: How many calls of it may run at once.
    concurrency: int | None = None
    #: The tool that is called when this one has failed for good.
    fallback: str | None = None
    #: What to do after failures; the first that fits counts.
    on_error: list[Reaction] = field(default_factory=list)
    output: Output | None = None


@dataclass(frozen=True, kw_only=True)
class HealthReason:
    """One thing that is wrong with a schema, and where."""

    path: str
    message: str


@dataclass(frozen=True, kw_only=True)
class SchemaHealth:
    """Whether model vendors accept a schema, and in which mode."""

    status: str
    reasons: list[HealthReason] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that was found in a source."""

    scanner: str
    rule: str
    severity: str
    #: The path of the file of the tool that it is in; None means the source.
    file: str | None = None
    line: int | None = None
    message: str


@dataclass(frozen=True, kw_only=True)
class Review:
    """What was found in a source, and what people say to it."""

    state: str | None = None
    findings: list[Finding] = field(default_factory=list)
    by: str | None = None
    reason: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One thing that a function is given by position."""

    name: str
    whole: bool = False


@dataclass(frozen=True, kw_only=True)
class ToolFile:
    """A file of a tool besides its source: a module or data."""

    path: str
    #: The content, if it is text.
    content: str | None = None
    #: The content, if it is not.
    content_base64: bytes | None = None
    #: The content is left out: lists of tools have the paths only.
    content_omitted: bool = False


@dataclass(frozen=True, kw_only=True)
class Version:
    """One immutable state of a tool."""

    number: int
    kind: Kind
    digest: str
    description: str
    source_code: str | None = None
    file: str | None = None
    files: list[ToolFile] = field(default_factory=list)
    function: str | None = None
    server: str | None = None
    origin: str | None = None
    pass_: list[Argument] = field(default_factory=list)
    injected: list[str] = field(default_factory=list)
    parameters: Any
    returns: Any = None
    schema_health: SchemaHealth
    requirements: Requirements | None = None
    lock: Lock | None = None
    settings: Settings | None = None
    annotations: Annotations | None = None
    review: Review | None = None
    author: str | None = None
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A name with a history of versions, of which one is current."""

    id: str
    org: str
    name: str
    category: str | None = None
    tags: list[str] = field(default_factory=list)
    #: What programs keep with it. Nothing is decided by it.
    metadata: dict[str, Any] = field(default_factory=dict)
    disabled: bool = False
    unavailable: str = ""
    created_at: datetime
    updated_at: datetime
    version: Version


@dataclass(frozen=True, kw_only=True)
class Added(Tool):
    """A tool, and what became of the draft that it was made of."""

    #: There was no such tool before.
    created: bool = False
    #: The draft is the version that is current.
    unchanged: bool = False
    #: The number of the version that waits for review.
    waiting: int | None = None
    #: How the schema differs from that of the version before.
    schema_changes: list[str] = field(default_factory=list)
    #: How the files differ from those of the version before.
    file_changes: list[str] = field(default_factory=list)
    #: The settings that the draft left out and that stay as they were.
    kept: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Variable:
    """Where a variable of a run comes from."""

    name: str
    #: call, agent or organisation.
    origin: str
    #: The origin of the one that has the name too and does not count.
    replaces: str | None = None
    #: Where it goes. The program never has it if there are any.
    hosts: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class TermsServer:
    """What an approver has to know of an MCP server."""

    name: str
    url: str | None = None
    command: list[str] = field(default_factory=list)
    mounts: list[MCPMount] = field(default_factory=list)
    network: list[str] = field(default_factory=list)
    #: Names of variables.
    env: list[str] = field(default_factory=list)
    #: Names of headers.
    headers: list[str] = field(default_factory=list)
    requirements: Requirements | None = None


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What changes the effect of a call besides its arguments."""

    #: The version that runs.
    digest: str
    agent: str | None = None
    #: The variables of the run, those of the call first. Values are never shown.
    env: list[Variable] = field(default_factory=list)
    #: How many variables are not listed.
    more_env: int | None = None
    #: The credentials webhook is asked for more when the call runs.
    credentials_webhook: bool = False
    requirements: Requirements | None = None
    lock: Lock | None = None
    organisation_requirements: Requirements | None = None
    #: The programs of the host that the tool may run.
    programs: list[str] = field(default_factory=list)
    #: The hosts that it wants to reach.
    network: list[str] = field(default_factory=list)
    #: What rules of policy bound them to.
    network_within: list[list[str]] = field(default_factory=list)
    sandbox: str | None = None
    min_isolation: Level | None = None
    limits: Limits | None = None
    #: The files that the tool finds, by path and digest.
    files: list[CallFile] = field(default_factory=list)
    workspace: CallWorkspace | None = None
    server: TermsServer | None = None
    #: The digest of the terms, with the values of the variables.
    binds: str


@dataclass(frozen=True, kw_only=True)
class Approval:
    """A person's answer to one call: this version with these arguments on these terms, once."""

    id: str
    call_id: str
    tool: str
    state: ApprovalState
    #: The digest of the version, the arguments and the terms that were shown.
    binds: str
    args: Any = None
    #: What else changes the effect. None means that the request is of an older Haft.
    terms: Terms | None = None
    requester: Principal
    approver: Principal | None = None
    reason: str | None = None
    #: What asks for it.
    rule: str | None = None
    #: The approver changed the arguments.
    edited: bool = False
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class ChildArgs:
    """Prefilled arguments of one child of a tool rule."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ToolRule:
    """Constrains the order of an agent's calls within one turn."""

    type: str
    tool_name: str
    args: dict[str, Any] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)
    child_arg_nodes: list[ChildArgs] = field(default_factory=list)
    child_output_mapping: dict[str, str] = field(default_factory=dict)
    default_child: str | None = None
    require_output_mapping: bool = False
    max_count_limit: int | None = None
    prompt_template: str | None = None


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A program that calls tools. Of its environment only names are shown."""

    id: str
    org: str
    name: str
    #: What people call it.
    title: str = ""
    description: str = ""
    #: What its model gets before everything else.
    instructions: str = ""
    #: The name of the model that it uses.
    model: str = ""
    tags: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    #: The workspace of its calls which name none: a name, or "NAME:ro".
    workspace: str = ""
    #: The sandbox of its calls for which neither call nor tool names one.
    sandbox: str = ""
    env: dict[str, str] = field(default_factory=dict, repr=False)
    tool_rules: list[ToolRule] = field(default_factory=list)
    disabled: bool = False
    #: What programs keep with it.
    metadata: dict[str, Any] = field(default_factory=dict)
    #: The user who added it.
    created_by: str = ""
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class Block:
    """A text that an agent has before it in every request to its model. Several agents can have the same one."""

    id: str
    org: str
    #: What tools call it.
    label: str
    value: str
    description: str = ""
    #: How many characters the value may have.
    limit: int
    #: Tools cannot change it.
    read_only: bool = False
    created_at: datetime
    updated_at: datetime
    #: Counts the writes.
    version: int


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A text in the archive of an agent, which it finds by search."""

    id: str
    agent_id: str
    text: str
    tags: list[str] = field(default_factory=list)
    created_at: datetime
    #: How well it fits a search.
    score: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Model:
    """A language model that agents can be given."""

    #: What agents call it.
    name: str
    #: The name that its vendor gave it.
    model: str
    #: Whose API it has.
    provider: str = ""
    #: How many tokens it reads; 0 if that is not known.
    context_tokens: int = 0
    #: It is that of agents that name none.
    default: bool = False
    #: Why it cannot be used.
    unavailable: str = ""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call that a model asks for."""

    id: str
    tool: str
    args: Any = None
    call_id: str = ""
    #: Why the arguments cannot be read.
    malformed: str = ""


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of the conversation of an agent."""

    id: str
    agent_id: str
    turn_id: str
    #: Counts the messages of the agent from 1.
    seq: int
    role: MessageRole
    #: Of the tool that is answered, or of the agent that sent a message to this one.
    name: str = ""
    text: str = ""
    #: What the model showed of its reasoning.
    reasoning: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    #: Which tool call a message of a tool answers.
    tool_call_id: str = ""
    call_id: str = ""
    status: Status | None = None
    #: The number of the last message that a summary stands for.
    replaces_seq: int = 0
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a turn may take. What is left out is what the server allows."""

    max_steps: int | None = None
    max_tokens: int | None = None
    max_time_ms: float | None = None
    #: In millionths of the unit in which the prices of models are.
    max_cost_micros: int | None = None


@dataclass(frozen=True, kw_only=True)
class TurnUsage:
    """What a turn took so far."""

    steps: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cost_micros: int = 0
    #: How long it was worked on.
    time_ms: float = 0


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What an agent does with one message, until it has answered."""

    id: str
    agent_id: str
    status: TurnStatus
    #: Why it ended, such as ``end_turn``.
    stop_reason: str = ""
    #: What went wrong, for people.
    error: str = ""
    model: str
    #: The turn in which another agent sent the message, and how many such turns are above this one.
    parent_id: str = ""
    depth: int = 0
    budget: Budget = field(default_factory=Budget)
    usage: TurnUsage
    #: What it waits for.
    approval_ids: list[str] = field(default_factory=list)
    created_at: datetime
    ended_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Replied:
    """A turn, and the messages of it."""

    turn: Turn
    messages: list[Message]

    @property
    def text(self) -> str:
        """What the agent said last."""
        return next((m.text for m in reversed(self.messages) if m.role == "assistant"), "")


@dataclass(frozen=True, kw_only=True)
class TurnEvent:
    """What is seen of a turn while it goes on. One of its fields is set."""

    #: A piece of the text that the model writes, and of its reasoning. The message has all of it.
    delta: str = ""
    thinking: str = ""
    #: One that is kept.
    message: Message | None = None
    #: Of a call that has ended, and of one that runs.
    result: Result | None = None
    event: Event | None = None
    #: What happened to the model or to the turn.
    notice: str = ""
    #: How it stands; the last event has it.
    turn: Turn | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call of a plan."""

    id: str
    tool: str
    #: {"$from": "step.value/path"} stands for what an earlier step gave.
    args: Any = None
    #: Steps that must have ended first.
    after: list[str] = field(default_factory=list)
    #: An expression in CEL; if it is false the step is skipped.
    if_: str | None = None
    #: stop, continue or skip.
    on_error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Calls whose arguments may refer to earlier results."""

    steps: list[Step] = field(default_factory=list)
    input: Any = None
    #: That of every step whose tool is a script.
    workspace: CallWorkspace | None = None
    background: bool = False


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What became of a step."""

    id: str
    state: str
    call_id: str | None = None
    result: Result | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Chain:
    """One run of a plan."""

    id: str
    principal: Principal
    turn: str | None = None
    plan: Plan
    steps: list[StepResult] = field(default_factory=list)
    status: Status
    error: Failure | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened to a call."""

    #: Counts the events of one call, from 1 and without gaps.
    seq: int
    #: Orders the events of all calls: what a watch goes on after.
    cursor: int
    type: EventType
    time: datetime
    call_id: str
    tool: str
    principal: Principal
    data: Any = None


@dataclass(frozen=True, kw_only=True)
class OAuth:
    """How a secret becomes a token."""

    token_url: str
    grant: str
    client_id: str
    scope: str | None = None
    audience: str | None = None
    post: bool = False


@dataclass(frozen=True, kw_only=True)
class Binding:
    """The hosts that a secret goes to, and how."""

    hosts: list[str] = field(default_factory=list)
    header: str | None = None
    prefix: str | None = None
    query: str | None = None
    basic: str | None = None
    oauth: OAuth | None = None


@dataclass(frozen=True, kw_only=True)
class Secret:
    """What there is to say of a stored variable. Nobody gets its value."""

    name: str
    fingerprint: str
    bound: Binding | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class Key:
    """An API key, without its text."""

    id: str
    org: str
    name: str | None = None
    user: str | None = None
    agent: str | None = None
    roles: list[str] = field(default_factory=list)
    #: None is not confined; an empty list may do nothing.
    scope: list[str] | None = None
    signed_only: bool = False
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    disabled: bool = False
    rotated_at: datetime | None = None
    overlap_until: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class IssuedKey(Key):
    """An API key with its text, which is shown this once."""

    secret: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """An address that events are sent to."""

    id: str
    org: str
    url: str
    description: str | None = None
    types: list[str] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)
    disabled: bool = False
    disabled_reason: str | None = None
    position: int
    failing_since: datetime | None = None
    failure: str | None = None
    delivered_at: datetime | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class NewWebhook(Webhook):
    """A webhook with its secret, which is shown this once."""

    secret: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """An event that could not be delivered."""

    id: str
    webhook_id: str
    event: Event
    tries: int
    failure: str
    died_at: datetime


@dataclass(frozen=True, kw_only=True)
class UsageSum:
    """What calls used that have ended. cpu_ms is None if nobody measured any of them."""

    start: datetime | None = None
    tool: str | None = None
    user: str | None = None
    agent: str | None = None
    calls: int
    by_status: dict[str, int]
    cached: int
    wall_ms: float
    cpu_ms: float | None = None
    max_rss_bytes: int | None = None
    network_ms: float = 0
    output_bytes: int


@dataclass(frozen=True, kw_only=True)
class Self:
    """Whom the server takes the client for."""

    principal: Principal
    operator: bool = False
    actions: list[str] = field(default_factory=list)
    expires_at: datetime | None = None
    version: str


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A tool that a vendor would refuse, and why."""

    name: str
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Schemas:
    """Tools in the form of a model vendor."""

    #: What goes into ``tools`` of a request to the vendor.
    tools: list[Any] = field(default_factory=list)
    #: What the vendor would refuse.
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class OutputPart:
    """A piece of what a tool printed while it ran."""

    stream: str
    text: str


@dataclass(frozen=True, kw_only=True)
class SessionWorkspace:
    """The workspace of a session."""

    name: str
    #: Others may read it at the same time. Otherwise the session has it alone.
    read_only: bool = False


@dataclass(frozen=True, kw_only=True)
class Session:
    """A sandbox that lives for many calls."""

    id: str
    org: str
    #: Who made it. Nobody else can use it.
    owner: str
    #: What its owner calls it.
    name: str | None = None
    created_at: datetime
    #: When it ends at the latest.
    expires_at: datetime
    #: After how long without use it ends.
    idle_timeout_ms: float
    used_at: datetime
    #: Whether something is done in it now.
    busy: bool
    isolation: Isolation
    #: The kind of sandbox that it runs in.
    sandbox: str | None = None
    #: What is at /workspace, until the session ends.
    workspace: SessionWorkspace | None = None
    #: The packages that it was made with besides those of the organisation.
    requirements: Requirements | None = None


@dataclass(frozen=True, kw_only=True)
class SessionFile:
    """A file or directory of a session, as the session says."""

    path: str
    name: str
    #: file, dir, symlink or other.
    type: str
    size: int
    mode: int
    modified_at: datetime
    #: Where a symlink leads.
    target: str | None = None


@dataclass(frozen=True, kw_only=True)
class SessionDir:
    """What a directory of a session has."""

    files: list[SessionFile]
    #: Whether there are more files than these.
    cut: bool = False


@dataclass(frozen=True, kw_only=True)
class SessionChange:
    """What happened to a file of a session."""

    #: create, write or remove.
    type: str
    #: The file as it is after that, or as it was before it was removed.
    file: SessionFile


@dataclass(frozen=True, kw_only=True)
class SessionVariable:
    """A variable of an interpreter, with the beginning of its value."""

    name: str
    type: str
    text: str


@dataclass(frozen=True, kw_only=True)
class SessionContext:
    """An interpreter of a session."""

    name: str
    language: str
    #: Whether code runs in it: then its variables are not known.
    busy: bool = False
    variables: list[SessionVariable]


@dataclass(frozen=True, kw_only=True)
class CodeError:
    """Why code or a command failed."""

    kind: str
    #: The type of an exception.
    type: str | None = None
    message: str
    traceback: str | None = None


@dataclass(frozen=True, kw_only=True)
class CodeShown:
    """One thing that code displayed."""

    text: str | None = None
    json: Any = None
    #: Its rows, with columns and index.
    table: Any = None
    #: The names of artifacts that have its images and documents.
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class CodeResult:
    """What became of code or of a command in a session."""

    call_id: str
    #: success, error, timeout or limit.
    status: Status
    #: The value of the last expression.
    value: Any = None
    stdout: str
    stderr: str
    #: The status that it ended with, if it chose one.
    exit_code: int | None = None
    error: CodeError | None = None
    #: What it displayed besides its value.
    results: list[CodeShown] = field(default_factory=list)
    #: The names of the artifacts.
    files: list[str] = field(default_factory=list)
    #: What is missing here, and why.
    notes: list[str] = field(default_factory=list)
    #: The files that it left in ``out``, and the images and documents that it displayed.
    artifacts: list[Artifact] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return self.status == "success"


@dataclass(frozen=True, kw_only=True)
class SandboxTemplate:
    """Packages under a name, for calls that name it."""

    name: str
    requirements: Requirements | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class SandboxConfig:
    """How calls run in sandboxes of a type, where their tools do not say."""

    id: str
    org: str
    type: SandboxType
    description: str | None = None
    #: Calls for which nobody names a sandbox run in this one.
    default: bool = False
    #: Code and data of calls may leave the machine of the server, for sandboxes of this type.
    allow_remote: bool = False
    #: Those of tools that name none.
    limits: Limits | None = None
    #: The hosts that tools may reach which name none themselves.
    network: list[str] = field(default_factory=list)
    #: Packages that every tool has besides its own.
    requirements: Requirements | None = None
    #: Packages that a call gets besides if it names the template.
    templates: list[SandboxTemplate] = field(default_factory=list)
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class MCPMount:
    """A directory of the host inside a command's sandbox."""

    dir: str
    #: Its path in the sandbox; None means the same.
    inside: str | None = None
    writable: bool = False


@dataclass(frozen=True, kw_only=True)
class MCPOAuth:
    """The settings of OAuth 2.1. What is None is discovered and registered."""

    client_id: str | None = None
    #: It is kept encrypted and not shown again.
    client_secret: str | None = field(default=None, repr=False)
    scopes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class MCPProblem:
    """Why a tool of a server cannot be called."""

    tool: str
    reasons: list[str]


@dataclass(frozen=True, kw_only=True)
class MCPState:
    """What is known of an MCP server."""

    #: When its tools were listed last.
    listed_at: datetime | None = None
    #: Names that list.
    listing: str | None = None
    protocol: str | None = None
    title: str | None = None
    #: How many tools it has.
    tools: int
    invalid: list[MCPProblem] = field(default_factory=list)
    #: Why it could not be listed.
    error: str | None = None
    #: A person has to agree first.
    login_needed: bool = False


@dataclass(frozen=True, kw_only=True)
class MCPServer:
    """An upstream server whose tools an organisation uses, each under the server's name."""

    id: str
    org: str
    name: str
    transport: MCPTransport
    command: list[str] = field(default_factory=list)
    url: str | None = None
    #: Values are not shown.
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    env: dict[str, str] = field(default_factory=dict, repr=False)
    oauth: MCPOAuth | None = None
    network: list[str] = field(default_factory=list)
    mounts: list[MCPMount] = field(default_factory=list)
    requirements: Requirements | None = None
    limits: Limits | None = None
    connect_ms: float | None = None
    list_ms: float | None = None
    disabled: bool = False
    state: MCPState | None = None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, kw_only=True)
class MCPChange:
    """What became of a server's tools when they were listed, by their names here."""

    server: MCPServer
    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    #: Those that a person has to look at first.
    waiting: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A document that says who may do what."""

    #: YAML, as it was written.
    text: str
    #: Changes with every write.
    revision: str


@dataclass(frozen=True, kw_only=True)
class Considered:
    """One rule, and what became of it."""

    rule: str
    effect: str
    #: Where it stands in its document.
    line: int | None = None
    matched: bool
    why: str


@dataclass(frozen=True, kw_only=True)
class PolicyProblem:
    """A rule that could not be evaluated, which denies."""

    rule: str
    message: str


@dataclass(frozen=True, kw_only=True)
class PolicyNetwork:
    """The hosts that a rule lets tools reach."""

    rule: str
    hosts: list[str]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What policy says about a call, and why."""

    #: allow, deny or ask.
    effect: str
    #: The rule that decided.
    rule: str | None = None
    reason: str
    problems: list[PolicyProblem] = field(default_factory=list)
    #: All rules, in their order.
    considered: list[Considered] = field(default_factory=list)
    #: Who has to agree.
    asks: list[dict[str, Any]] = field(default_factory=list)
    rates: list[dict[str, Any]] = field(default_factory=list)
    concurrency: list[dict[str, Any]] = field(default_factory=list)
    quotas: list[dict[str, Any]] = field(default_factory=list)
    networks: list[PolicyNetwork] = field(default_factory=list)
    min_isolation: str | None = None
    #: JSON Pointers of arguments that must not be seen.
    redact: list[str] = field(default_factory=list)
