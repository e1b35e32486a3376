"""What a server answers, and parts of what it is asked.

The names are those of the API. Fields that this version of the client does not
know are passed over, so that a newer server does not break it; times are aware
``datetime`` objects, durations milliseconds where their name ends with ``_ms``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

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

    message: str
    pointer: str


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a call has no value, in words that a model can act on."""

    kind: str
    message: str
    retry: str
    misfits: list[Misfit] = field(default_factory=list)
    retry_after_ms: float | None = None
    severity: str | None = None
    traceback: str | None = None
    type: str | None = None


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file that a tool left for its caller."""

    content_type: str
    name: str
    size: int
    data: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Content:
    """One part of what a tool gave to be shown."""

    type: str
    artifact: str | None = None
    audience: list[str] = field(default_factory=list)
    description: str | None = None
    mime_type: str | None = None
    name: str | None = None
    size: int | None = None
    text: str | None = None
    title: str | None = None
    uri: str | None = None


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What one run used."""

    cpu_ms: float
    max_rss_bytes: int
    wall_ms: float
    disk_bytes: int | None = None
    max_processes: int | None = None
    stderr_bytes: int | None = None
    stdout_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A control that this machine could not give, and why."""

    control: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """How a run was confined."""

    controls: list[str] = field(default_factory=list)
    level: str
    missing: list[Gap] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Sandbox:
    """Where a call ran."""

    isolation: Isolation
    provider: str


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """How long each part of a call took."""

    total_ms: float
    approval_ms: float | None = None
    cell: str | None = None
    execute_ms: float | None = None
    packages_ms: float | None = None
    policy_ms: float | None = None
    queue_ms: float | None = None
    serialise_ms: float | None = None
    setup_ms: float | None = None
    validate_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class Truncated:
    """What was cut: bytes left out, of the value characters, of artifacts files."""

    artifacts: int | None = None
    stderr: int | None = None
    stdout: int | None = None
    value: int | None = None


@dataclass(frozen=True, kw_only=True)
class Result:
    """The one outcome of a call, or where it stands if it has none yet."""

    call_id: str
    sandbox: Sandbox
    status: Status
    stderr: str
    stdout: str
    timeline: Timeline
    tool: str
    usage: Usage
    value: Any
    approval_id: str | None = None
    artifacts: list[Artifact] = field(default_factory=list)
    cached: bool = False
    content: list[Content] = field(default_factory=list)
    digest: str | None = None
    error: Failure | None = None
    notices: list[str] = field(default_factory=list)
    tries: int | None = None
    truncated: Truncated | None = None

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
class Principal:
    """On whose behalf something is done."""

    org: str
    agent: str | None = None
    roles: list[str] = field(default_factory=list)
    #: None is not confined; an empty list may do nothing.
    scope: list[str] | None = None
    user: str | None = None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one run. What is None has its default: nothing runs without bounds."""

    artifact_bytes: int | None = None
    artifacts: int | None = None
    cpu_ms: float | None = None
    disk_bytes: int | None = None
    file_bytes: int | None = None
    inodes: int | None = None
    memory_bytes: int | None = None
    open_files: int | None = None
    processes: int | None = None
    result_bytes: int | None = None
    stderr_bytes: int | None = None
    stdout_bytes: int | None = None
    wall_ms: float | None = None


@dataclass(frozen=True, kw_only=True)
class Call:
    """What was asked for."""

    principal: Principal
    tool: str
    args: Any = None
    chain: str | None = None
    deadline: datetime | None = None
    digest: str | None = None
    env: dict[str, str] = field(default_factory=dict, repr=False)
    id: str | None = None
    idempotency_key: str | None = None
    limits: Limits | None = None
    parent: str | None = None
    sandbox: str | None = None
    trace: str | None = None
    turn: str | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """What is kept of a call."""

    call: Call
    created_at: datetime
    status: Status
    args_digest: str | None = None
    digest: str | None = None
    ended_at: datetime | None = None
    owner: str | None = None
    redacted: bool = False
    result: Result | None = None
    result_digest: str | None = None
    started_at: datetime | None = None
    tool_id: str | None = None
    tries: int | None = None

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

    destructiveHint: bool | None = None
    idempotentHint: bool | None = None
    openWorldHint: bool | None = None
    readOnlyHint: bool | None = None
    title: str | None = None


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """Packages that a tool needs."""

    npm: list[str] = field(default_factory=list)
    pip: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Lock:
    """The exact packages that a version runs with, by digest."""

    npm: str | None = None
    pip: str | None = None
    set: str | None = None


@dataclass(frozen=True, kw_only=True)
class Backoff:
    """How often and when something is tried again."""

    initial_ms: float | None = None
    max_ms: float | None = None
    strategy: str | None = None
    stretch: float | None = None
    tries: int | None = None


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A bucket of burst tokens that fills with per_second."""

    burst: int | None = None
    per_second: float | None = None


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a tool is expected to give back."""

    max_chars: int | None = None
    type: str | None = None
    validators: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a version is to be run. The defaults are the safe choice."""

    cache_ms: float | None = None
    cacheable: bool = False
    concurrency: int | None = None
    fallback: str | None = None
    idempotent: bool = False
    limits: Limits | None = None
    min_isolation: Level | None = None
    network: list[str] = field(default_factory=list)
    output: Output | None = None
    parallel: bool = False
    rate: Rate | None = None
    requires_approval: bool = False
    retry: Backoff | None = None
    roles: list[str] = field(default_factory=list)
    sandbox: str | None = None
    secrets: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class HealthReason:
    """One thing that is wrong with a schema, and where."""

    message: str
    path: str


@dataclass(frozen=True, kw_only=True)
class SchemaHealth:
    """Whether model vendors accept a schema, and in which mode."""

    status: str
    reasons: list[HealthReason] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that was found in a source."""

    message: str
    rule: str
    scanner: str
    severity: str
    line: int | None = None


@dataclass(frozen=True, kw_only=True)
class Review:
    """What was found in a source, and what people say to it."""

    at: datetime | None = None
    by: str | None = None
    findings: list[Finding] = field(default_factory=list)
    reason: str | None = None
    state: str | None = None


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One thing that a function is given by position."""

    name: str
    whole: bool = False


@dataclass(frozen=True, kw_only=True)
class Version:
    """One immutable state of a tool."""

    created_at: datetime
    description: str
    digest: str
    kind: Kind
    number: int
    parameters: Any
    schema_health: SchemaHealth
    annotations: Annotations | None = None
    author: str | None = None
    function: str | None = None
    injected: list[str] = field(default_factory=list)
    lock: Lock | None = None
    origin: str | None = None
    pass_: list[Argument] = field(default_factory=list)
    requirements: Requirements | None = None
    returns: Any = None
    review: Review | None = None
    server: str | None = None
    settings: Settings | None = None
    source_code: str | None = None


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A name with a history of versions, of which one is current."""

    created_at: datetime
    id: str
    name: str
    org: str
    updated_at: datetime
    version: Version
    category: str | None = None
    disabled: bool = False
    tags: list[str] = field(default_factory=list)


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
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Approval:
    """A person's answer to one call: this version with these arguments, once."""

    binds: str
    call_id: str
    created_at: datetime
    expires_at: datetime
    id: str
    requester: Principal
    state: ApprovalState
    tool: str
    approver: Principal | None = None
    args: Any = None
    decided_at: datetime | None = None
    edited: bool = False
    reason: str | None = None
    rule: str | None = None


@dataclass(frozen=True, kw_only=True)
class ChildArgs:
    """Prefilled arguments of one child of a tool rule."""

    name: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ToolRule:
    """Constrains the order of an agent's calls within one turn."""

    tool_name: str
    type: str
    args: dict[str, Any] = field(default_factory=dict)
    child_arg_nodes: list[ChildArgs] = field(default_factory=list)
    child_output_mapping: dict[str, str] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)
    default_child: str | None = None
    max_count_limit: int | None = None
    prompt_template: str | None = None
    require_output_mapping: bool = False


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A program that calls tools. Of its environment only names are shown."""

    created_at: datetime
    id: str
    name: str
    org: str
    updated_at: datetime
    disabled: bool = False
    env: dict[str, str] = field(default_factory=dict, repr=False)
    tool_rules: list[ToolRule] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call of a plan."""

    id: str
    tool: str
    after: list[str] = field(default_factory=list)
    args: Any = None
    if_: str | None = None
    on_error: str | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Calls whose arguments may refer to earlier results."""

    steps: list[Step] = field(default_factory=list)
    background: bool = False
    input: Any = None


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What became of a step."""

    id: str
    state: str
    call_id: str | None = None
    reason: str | None = None
    result: Result | None = None


@dataclass(frozen=True, kw_only=True)
class Chain:
    """One run of a plan."""

    created_at: datetime
    id: str
    plan: Plan
    principal: Principal
    status: Status
    steps: list[StepResult] = field(default_factory=list)
    updated_at: datetime
    error: Failure | None = None
    turn: str | None = None


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing that happened to a call."""

    call_id: str
    cursor: int
    principal: Principal
    seq: int
    time: datetime
    tool: str
    type: EventType
    data: Any = None


@dataclass(frozen=True, kw_only=True)
class OAuth:
    """How a secret becomes a token."""

    client_id: str
    grant: str
    token_url: str
    audience: str | None = None
    post: bool = False
    scope: str | None = None


@dataclass(frozen=True, kw_only=True)
class Binding:
    """The hosts that a secret goes to, and how."""

    hosts: list[str] = field(default_factory=list)
    basic: str | None = None
    header: str | None = None
    oauth: OAuth | None = None
    prefix: str | None = None
    query: str | None = None


@dataclass(frozen=True, kw_only=True)
class Secret:
    """What there is to say of a stored variable. Nobody gets its value."""

    created_at: datetime
    fingerprint: str
    name: str
    updated_at: datetime
    bound: Binding | None = None


@dataclass(frozen=True, kw_only=True)
class Key:
    """An API key, without its text."""

    created_at: datetime
    id: str
    org: str
    agent: str | None = None
    disabled: bool = False
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    name: str | None = None
    overlap_until: datetime | None = None
    roles: list[str] = field(default_factory=list)
    rotated_at: datetime | None = None
    #: None is not confined; an empty list may do nothing.
    scope: list[str] | None = None
    signed_only: bool = False
    user: str | None = None


@dataclass(frozen=True, kw_only=True)
class IssuedKey(Key):
    """An API key with its text, which is shown this once."""

    secret: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """An address that events are sent to."""

    created_at: datetime
    id: str
    org: str
    position: int
    updated_at: datetime
    url: str
    agents: list[str] = field(default_factory=list)
    delivered_at: datetime | None = None
    description: str | None = None
    disabled: bool = False
    disabled_reason: str | None = None
    failing_since: datetime | None = None
    failure: str | None = None
    tools: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    users: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class NewWebhook(Webhook):
    """A webhook with its secret, which is shown this once."""

    secret: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """An event that could not be delivered."""

    died_at: datetime
    event: Event
    failure: str
    id: str
    tries: int
    webhook_id: str


@dataclass(frozen=True, kw_only=True)
class UsageSum:
    """What calls used that have ended."""

    by_status: dict[str, int]
    cached: int
    calls: int
    cpu_ms: float
    output_bytes: int
    wall_ms: float
    agent: str | None = None
    start: datetime | None = None
    tool: str | None = None
    user: str | None = None


@dataclass(frozen=True, kw_only=True)
class Self:
    """Whom the server takes the client for."""

    actions: list[str] = field(default_factory=list)
    principal: Principal
    version: str
    expires_at: datetime | None = None
    operator: bool = False


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
