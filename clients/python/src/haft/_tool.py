"""Functions that are tools."""

from __future__ import annotations

import functools
import inspect
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, overload

from . import _source
from ._errors import InvalidError
from ._models import Annotations, Limits, Requirements, Settings, ToolFile
from ._source import Use

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
R = TypeVar("R")

_REMOTE = ("remote", "run", "start", "schema", "register", "with_options")
_DEPRECATED = "a plain call of {0} runs it outside of the sandbox, and will not any more: call {0}.local(…)"
#: A tool is called here, because somebody asked for it.
_HERE: ContextVar[bool] = ContextVar("haft_tool_called_here", default=False)
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What is given to a server to become a version of a tool. What is left out is read from the source."""

    source_code: str
    source_type: str | None = None
    #: What tracebacks call the source; the name of the tool if it is left out.
    file: str | None = None
    #: Modules and data that lie beside the source when it runs.
    files: list[ToolFile] = field(default_factory=list)
    name: str | None = None
    function: str | None = None
    description: str | None = None
    category: str | None = None
    tags: list[str] = field(default_factory=list)
    annotations: Annotations | None = None
    settings: Settings | None = None
    requirements: Requirements | None = None
    parameters: Mapping[str, Any] | None = None
    args_json_schema: Mapping[str, Any] | None = None
    returns: Mapping[str, Any] | None = None
    #: Find the newest packages that fit the requirements.
    relock: bool = False
    #: Refuse a source whose function or parameters have no description.
    descriptions_required: bool = False
    #: Keep the settings, requirements and files of the tool that it replaces, where the draft has none.
    keep_settings: bool = False
    #: What is not kept although the draft leaves it empty, such as ``requires_approval``.
    named_settings: list[str] = field(default_factory=list)
    #: Refuse to add a version to a tool that exists.
    new: bool = False
    #: The digest that the current version must have.
    if_digest: str | None = None


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a decorator says of a tool. See :func:`tool`."""

    name: str | None = None
    description: str | None = None
    category: str | None = None
    tags: Sequence[str] = ()
    timeout: float | None = None
    memory: int | str | None = None
    network: Sequence[str] = ()
    secrets: Sequence[str] = ()
    requirements: Sequence[str] = ()
    approval: bool = False
    idempotent: bool = False
    parallel: bool | None = None
    cacheable: bool = False
    sandbox: str | None = None
    annotations: Annotations | None = None
    settings: Settings | None = None
    uses: Sequence[Use] = ()
    local: bool = False

    def __post_init__(self) -> None:
        for name in ("tags", "network", "secrets", "requirements", "uses"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"{name} is a list of texts, and not one text")

    def merged(self, stateful: bool = False) -> Settings | None:
        """The settings, with what has a name of its own; ``stateful`` tools change something elsewhere."""
        base = self.settings or Settings()
        limits = base.limits or Limits()
        if self.timeout is not None:
            limits = replace(limits, wall_ms=self.timeout * 1000)
        if self.memory is not None:
            limits = replace(limits, memory_bytes=_size(self.memory))
        out = replace(
            base,
            limits=None if limits == Limits() else limits,
            network=[*base.network, *self.network],
            secrets=[*base.secrets, *self.secrets],
            requires_approval=base.requires_approval or self.approval,
            idempotent=base.idempotent or self.idempotent,
            parallel=base.parallel or self._beside(stateful),
            cacheable=base.cacheable or self.cacheable,
            sandbox=self.sandbox or base.sandbox,
        )
        return None if out == Settings() else out

    def _beside(self, stateful: bool) -> bool:
        """Whether calls may run beside each other: nobody sees their order, unless they reach outside."""
        if self.parallel is not None:
            return self.parallel
        return not (stateful or self.settings or self.network or self.secrets)


def _size(size: int | str) -> int:
    """Bytes, also written as such as 512MiB."""
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"(\d{1,12})\s*([KMG]i?B)?", size.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError("memory is a number of bytes, or such as 512MiB")
    return int(match[1]) * _UNITS[(match[2] or "").upper()]


class LocalTool(Generic[P, R]):
    """A function that is described as a tool. :meth:`local` runs it here; a plain call never does.

    Reading the source waits until it is needed, because what the function uses may stand
    below it in the file.
    """

    __name__: str

    def __init__(self, function: Callable[P, R], options: Options) -> None:
        _source.check(function)
        #: The function itself.
        self.function = function
        #: What the decorator said.
        self.options = options
        self._draft: Draft | None = None
        functools.update_wrapper(self, function)
        # Who unwraps a tool would run the function here. What it is like is seen without that.
        del self.__wrapped__  # type: ignore[attr-defined]
        self.__signature__ = inspect.signature(function)
        self.__globals__ = getattr(inspect.unwrap(function), "__globals__", {})

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Refused: agent frameworks call what they are given, and it would run outside of the sandbox."""
        if self._runs_here():
            return self.local(*args, **kwargs)
        raise InvalidError(
            f"{self.name} is a tool of no server yet: client.register({self.name}) gives one that runs in the "
            f"sandbox, and {self.name}.local(…) runs the function here"
        )

    def local(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function here, in this process and outside of every sandbox, with the tools that it calls."""
        token = _HERE.set(True)
        try:
            return self.function(*args, **kwargs)
        finally:
            _HERE.reset(token)

    def _runs_here(self) -> bool:
        """Whether a plain call runs here: from within :meth:`local`, or because the decorator says so."""
        if self.options.local and not _HERE.get():
            warnings.warn(_DEPRECATED.format(self.name), DeprecationWarning, stacklevel=3)
        return self.options.local or _HERE.get()

    def __get__(self, instance: object, owner: type | None = None) -> LocalTool[P, R]:
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _REMOTE:
                raise AttributeError(f"{self.name} is not at a server yet: client.register({self.name}) gives it there")
            raise AttributeError(f"a tool has no attribute {name}")

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self.options.name or str(inspect.unwrap(self.function).__name__)

    @property
    def source(self) -> str:
        """What is sent: the function with what it needs. Raises :class:`~haft.SourceError`."""
        return self.draft.source_code

    @property
    def draft(self) -> Draft:
        """What is given to a server. It is put together once."""
        if self._draft is None:
            o = self.options
            inner = _source.check(self.function)
            self._draft = Draft(
                source_code=_source.collect(self.function, o.uses, is_decorator),
                source_type="python",
                name=o.name,
                function=inner.__name__,
                description=o.description,
                category=o.category,
                tags=list(o.tags),
                annotations=o.annotations,
                settings=o.merged(stateful="agent_state" in inspect.signature(inner).parameters),
                requirements=Requirements(pip=list(o.requirements)) if o.requirements else None,
            )
        return self._draft

    def arguments(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """The arguments of a call by name. What is left out is the server's to fill in or to miss."""
        try:
            bound = inspect.signature(self.function).bind_partial(*args, **kwargs)
        except TypeError as err:
            raise TypeError(f"{self.name}: {err}") from None
        return dict(bound.arguments)

    def __repr__(self) -> str:
        return f"<haft tool {self.name}>"


def is_decorator(obj: Any) -> bool:
    """Whether something is a decorator of ours."""
    return getattr(obj, "__haft_decorator__", False) is True


def local(function: Callable[..., Any]) -> LocalTool[..., Any]:
    """The tool that a function is or becomes."""
    return function if isinstance(function, LocalTool) else LocalTool(function, Options())


class ToolOptions(TypedDict, total=False):
    """What a decorator may say of a tool. See :func:`tool`."""

    name: str | None
    description: str | None
    category: str | None
    tags: Sequence[str]
    timeout: float | None
    memory: int | str | None
    network: Sequence[str]
    secrets: Sequence[str]
    requirements: Sequence[str]
    approval: bool
    idempotent: bool
    parallel: bool | None
    cacheable: bool
    sandbox: str | None
    annotations: Annotations | None
    settings: Settings | None
    uses: Sequence[Use]
    local: bool


@overload
def tool(function: Callable[P, R], /) -> LocalTool[P, R]: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[P, R]], LocalTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Describe a function as a tool. Nothing is sent before it is registered or called.

    Args:
        name: The name of the tool; that of the function if it is left out.
        description: What a model reads; the docstring if it is left out.
        category: Where it is listed.
        tags: By which it is found, and which policies name.
        timeout: Seconds that one run may take.
        memory: Bytes that one run may have, also as text such as ``"512MiB"``.
        network: The hosts that it may reach. It has no network without them.
        secrets: The stored variables that it cannot do without.
        requirements: The packages of PyPI that it needs, such as ``"numpy>=2"``.
        approval: Every call waits until a person agrees.
        idempotent: A second run does no harm when nobody knows whether the first was.
        parallel: Calls of one answer of a model may run beside each other. Left out, they may
            if the tool has no network, no secrets and no other settings, and does not take the
            state of an agent: then nobody can see in which order they run.
        cacheable: Equal arguments give equal values.
        sandbox: Where it runs; left out, the server chooses.
        annotations: What is claimed of it: the hints of MCP.
        settings: All other settings. What has a name of its own here goes before.
        uses: Functions and classes that it uses, and variables of its module by their name
            as text: their sources are taken along. Imports of its module come by themselves.
        local: Plain calls run the function here, as they did before, and warn. Deprecated:
            call ``tool.local()``.

    Raises:
        SourceError: this can never be a tool, such as a method or a lambda.
    """
    described = Options(**options)
    if function is not None:
        return LocalTool(function, described)
    return lambda f: LocalTool(f, described)


tool.__haft_decorator__ = True  # type: ignore[attr-defined]
