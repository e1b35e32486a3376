"""Functions that run on a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .._errors import NotFoundError, ReviewError
from .._inputs import CallOptions
from .._models import Added, Format, Result
from .._tool import LocalTool, Options
from ._io import Lock

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._client import AsyncClient

P = ParamSpec("P")
R = TypeVar("R")


class _Registration:
    """What became of a source. Calls that come at once register it once."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.added: Added | None = None


class AsyncRemoteTool(LocalTool[P, R]):
    """A function that is a tool of a server, where it runs when it is called."""

    def __init__(self, function: Callable[P, R], options: Options, client: AsyncClient) -> None:
        super().__init__(function, options)
        #: Whose server it is.
        self.client = client
        self._registration = _Registration()
        self._call_options: CallOptions = {}

    def with_options(self, **options: Unpack[CallOptions]) -> AsyncRemoteTool[P, R]:
        """The same tool, whose calls are made with these options."""
        other = AsyncRemoteTool(self.function, self.options, self.client)
        other._draft = self._draft
        other._registration = self._registration
        other._call_options = {**self._call_options, **options}
        return other

    async def register(self, *, again: bool = False) -> Added:
        """Give the server the source, once, or ``again``."""
        state = self._registration
        async with state.lock:
            if state.added is None or again:
                state.added = await self.client.tools.put(self.draft)
            return state.added

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the tool on the server: :meth:`remote`. Only :meth:`local` runs the function here."""
        if self._runs_here():
            return self.local(*args, **kwargs)
        return await self.remote(*args, **kwargs)

    async def remote(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the tool on the server and return its value, which is JSON.

        Raises:
            CallError: there is no value; :attr:`~haft.CallError.result` says why.
        """
        return (await self.run(*args, **kwargs)).unwrap()

    async def run(self, *args: P.args, **kwargs: P.kwargs) -> Result:
        """Call the tool on the server and return all that is known of the call."""
        arguments = self.arguments(*args, **kwargs)
        return await self.client.calls.run(self.name, arguments, **await self._pinned())

    async def start(self, *args: P.args, **kwargs: P.kwargs) -> Result:
        """Have the server call the tool and do not wait: ``client.calls.wait(result.call_id)`` does."""
        arguments = self.arguments(*args, **kwargs)
        return await self.client.calls.start(self.name, arguments, **await self._pinned())

    async def _pinned(self) -> CallOptions:
        """The options of a call of the version that this source is: another program may register another one."""
        added = await self.register()
        if added.waiting:
            raise ReviewError(
                f"version {added.waiting} of {added.name} waits for review: somebody has to accept it first"
            )
        return {"digest": added.version.digest, **self._call_options}

    async def schema(self, format: Format | None = None, *, strict: bool = False) -> Any:
        """The schema of the arguments, or the tool in the form of a model vendor."""
        added = await self.register()
        if format is None:
            return added.version.parameters
        found = await self.client.tools.schemas(format, strict=strict, name=[added.name])
        if not found.tools:
            why = "; ".join(r for s in found.skipped for r in s.reasons)
            raise NotFoundError(f"{added.name} cannot be given to {format}: {why or 'it is disabled'}")
        return found.tools[0]
