"""Functions that are tools."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypedDict, TypeVar, overload

from . import _source
from ._models import Annotations, Limits, Requirements, Settings, ToolFile
from ._source import Use

if TYPE_CHECKING:
    from typing_extensions import Unpack

P = ParamSpec("P")
R = TypeVar("R")

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


@dataclass(frozen=True, kw_only=True)
class Draft:
    """What is given to a server to become a version of a tool. What is left out is read from the source."""

    source_code: str
    source_type: str | None = None
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
    parallel: bool = False
    cacheable: bool = False
    sandbox: str | None = None
    annotations: Annotations | None = None
    settings: Settings | None = None
    uses: Sequence[Use] = ()

    def __post_init__(self) -> None:
        for name in ("tags", "network", "secrets", "requirements", "uses"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"{name} is a list of texts, and not one text")

    def merged(self) -> Settings | None:
        """The settings, with what has a name of its own."""
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
            parallel=base.parallel or self.parallel,
            cacheable=base.cacheable or self.cacheable,
            sandbox=self.sandbox or base.sandbox,
        )
        return None if out == Settings() else out


def _size(size: int | str) -> int:
    """Bytes, also written as such as 512MiB."""
    if isinstance(size, int):
        return size
    match = re.fullmatch(r"(\d{1,12})\s*([KMG]i?B)?", size.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError("memory is a number of bytes, or such as 512MiB")
    return int(match[1]) * _UNITS[(match[2] or "").upper()]


class LocalTool(Generic[P, R]):
    """A function that is described as a tool. It can be called here as before.

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

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> LocalTool[P, R]:
        return self

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ("remote", "run", "start", "schema", "register", "with_options"):
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
                settings=o.merged(),
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
    parallel: bool
    cacheable: bool
    sandbox: str | None
    annotations: Annotations | None
    settings: Settings | None
    uses: Sequence[Use]


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
        parallel: Calls of one batch may run beside each other.
        cacheable: Equal arguments give equal values.
        sandbox: Where it runs; left out, the server chooses.
        annotations: What is claimed of it: the hints of MCP.
        settings: All other settings. What has a name of its own here goes before.
        uses: Functions and classes that it uses, and variables of its module by their name
            as text: their sources are taken along. Imports of its module come by themselves.

    Raises:
        SourceError: this can never be a tool, such as a method or a lambda.
    """
    described = Options(**options)
    if function is not None:
        return LocalTool(function, described)
    return lambda f: LocalTool(f, described)


tool.__haft_decorator__ = True  # type: ignore[attr-defined]
