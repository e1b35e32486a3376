# Made by tools/unasync.py of ../_async/_sessions.py: change that one.
"""Sandboxes that live for many calls."""

from __future__ import annotations

import os
from collections.abc import Iterator, Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any

from .._errors import NotFoundError, UnavailableError
from .._files import PART_TIMEOUT, Source, Upload, create
from .._inputs import workspace_of
from .._json import decode, member
from .._models import (
    CodeResult,
    OutputPart,
    Result,
    Session,
    SessionChange,
    SessionContext,
    SessionDir,
    SessionWorkspace,
)
from .._request import Query, given, part
from .._sse import FileStream
from ._calls import Calls
from ._io import in_thread
from ._transport import Transport


class Sessions:
    """Sandboxes that live for many calls: variables, files and processes stay between them."""

    def __init__(self, transport: Transport, timeout: float) -> None:
        self._transport = transport
        self._timeout = timeout

    def create(
        self,
        name: str | None = None,
        *,
        timeout: float | None = None,
        idle: float | None = None,
        language: str | None = None,
        tty: bool = False,
        workspace: str | None = None,
        requirements: Sequence[str] = (),
        sandbox: str | None = None,
    ) -> OpenSession:
        """Make a session. Close it, or use it as a context manager: then it ends.

        Args:
            name: What you call it; it gets a name if this is left out.
            timeout: Seconds that it lives at the most; left out, what the server has.
            idle: Seconds without use after which it ends; left out, what the server has.
            language: The language of an interpreter to start with it.
            tty: Commands of the session may have terminals.
            workspace: A workspace that it has at /workspace until it ends: NAME, or NAME:ro to only read it.
            requirements: Packages that its code can import, such as "pandas>=2"; "npm:NAME" for those of npm.
            sandbox: The sandbox that it runs in, such as gvisor; left out, the one that a call gets.
        """
        named = workspace_of(workspace)
        npm = [r.removeprefix("npm:") for r in requirements if r.startswith("npm:")]
        pip = [r for r in requirements if not r.startswith("npm:")]
        body = given(
            name=name,
            timeout_seconds=timeout,
            idle_seconds=idle,
            language=language,
            tty=tty or None,
            sandbox=sandbox,
            workspace=SessionWorkspace(name=named.name, read_only=named.read_only) if named else None,
            requirements=given(pip=pip or None, npm=npm or None) or None,
        )
        q = Query(method="POST", path="/v1/sessions", body=body, timeout=self._timeout)
        return self._of(self._transport.read(Session, q))

    def list(self) -> Sequence[Session]:
        """Your sessions, the oldest first; all of the organisation for somebody who sees all calls."""
        return member(_Sessions, (self._transport.send(Query(path="/v1/sessions")))[0], "sessions")

    def get(self, session: str) -> OpenSession:
        """A session that there is, by its id or the name that you gave it."""
        for known in self.list():
            if session in (known.id, known.name):
                return self._of(known)
        raise NotFoundError("there is no such session")

    def end(self, session: Session | str) -> None:
        """End a session with all that is in it."""
        name = session.id if isinstance(session, Session) else session
        self._transport.send(Query(method="DELETE", path="/v1/sessions" + part("session", name), again=True))

    def _of(self, info: Session) -> OpenSession:
        return OpenSession(self._transport, info, Calls(self._transport, self._timeout))


class OpenSession:
    """A sandbox that lives for many calls."""

    def __init__(self, transport: Transport, info: Session, calls: Calls) -> None:
        #: What the server said last of the session.
        self.info = info
        self._transport = transport
        self._path = "/v1/sessions" + part("session", info.id)
        self._calls = calls
        #: The files of the session.
        self.files = SessionFiles(transport, self._path)

    @property
    def id(self) -> str:
        return self.info.id

    def __repr__(self) -> str:
        return f"<haft.OpenSession {self.info.id}>"

    def __enter__(self) -> OpenSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
            return
        with suppress(Exception):  # what went wrong before is what matters; the session ends by itself
            self.close()

    def close(self) -> None:
        """End the session with all that is in it. One that has ended is no error."""
        with suppress(NotFoundError):
            self._transport.send(Query(method="DELETE", path=self._path, again=True))

    def extend(self, *, timeout: float | None = None, idle: float | None = None) -> Session:
        """Let the session live longer, or less long: seconds from now on."""
        body = given(timeout_seconds=timeout, idle_seconds=idle)
        self.info = self._transport.read(Session, Query(method="PATCH", path=self._path, body=body))
        return self.info

    def run_code(
        self, code: str, language: str = "python", *, context: str | None = None, timeout: float | None = None
    ) -> CodeResult:
        """Run code in an interpreter of the session, which keeps variables and imports.

        Code that fails is no error: look at :attr:`CodeResult.error`. A call that did not run it
        raises :class:`~haft.CallError`.

        Args:
            code: The code.
            language: python, javascript, typescript or bash.
            context: The interpreter, by a name of yours; left out, the one of the language.
            timeout: Seconds after which the code is interrupted.
        """
        args = given(session=self.id, language=language, code=code, context=context, timeout_seconds=timeout)
        return _outcome(self._calls.run("run_code", args))

    def run_command(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        timeout: float | None = None,
        on_output: Callable[[OutputPart], object] | None = None,
    ) -> CodeResult:
        """Run a command to its end: a line for Bash, or a program and its arguments.

        Args:
            command: The command.
            cwd: The working directory; ``/work`` if it is left out.
            env: Added to its environment.
            stdin: What it reads from its standard input.
            timeout: Seconds after which it is stopped.
            on_output: Called with what it prints, as it comes.
        """
        args = _command(self.id, command, cwd=cwd, env=env, stdin=stdin, timeout_seconds=timeout)
        if on_output is None:
            return _outcome(self._calls.run("run_command", args))
        started = Command(self._transport, self._calls, self._calls.start("run_command", args))
        try:
            for piece in started.output():
                on_output(piece)
        except BaseException:
            with suppress(Exception):  # what went wrong before is what matters
                started.cancel()
            raise
        return started.wait()

    def start_command(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        timeout: float | None = None,
        input: bool = False,
        tty: bool = False,
    ) -> Command:
        """Start a command and do not wait for it. With ``input`` or ``tty`` it can be sent input."""
        args = _command(self.id, command, cwd=cwd, env=env, stdin=stdin, timeout_seconds=timeout)
        args |= given(input=input or None, tty=tty or None)
        return Command(self._transport, self._calls, self._calls.start("run_command", args))

    def contexts(self) -> Sequence[SessionContext]:
        """The interpreters of the session, with their variables."""
        q = Query(path=self._path + "/contexts")
        return member(_Contexts, (self._transport.send(q))[0], "contexts")

    def restart(self, context: str = "python") -> None:
        """End an interpreter with all that it started. The next code that names it begins anew."""
        path = self._path + "/contexts" + part("context", context)
        self._transport.send(Query(method="DELETE", path=path))


class Command:
    """A command that was started in a session."""

    def __init__(self, transport: Transport, calls: Calls, started: Result) -> None:
        self._transport = transport
        self._calls = calls
        #: The call that the command is.
        self.call_id = started.call_id

    def output(self) -> Iterator[OutputPart]:
        """What the command prints, from its beginning until it ends."""
        return self._calls.output(self.call_id)

    def ready(self) -> None:
        """Wait until the command takes input, or has ended."""
        for event in self._calls.events(self.call_id):
            if event.type == "tool_progress":
                return

    def send(
        self,
        data: bytes | str = b"",
        *,
        close: bool = False,
        signal: str | None = None,
        size: tuple[int, int] | None = None,
    ) -> None:
        """Send input, the end of the input, a signal such as ``SIGINT``, or rows and columns of its terminal."""
        raw = data.encode() if isinstance(data, str) else bytes(data)
        rows, cols = size or (None, None)
        body = given(data=raw or None, close=close or None, signal=signal, rows=rows, cols=cols)
        path = "/v1/calls" + part("call", self.call_id) + "/input"
        self._transport.send(Query(method="POST", path=path, body=body))

    def wait(self, *, timeout: float | None = None) -> CodeResult:
        """Wait until the command has ended."""
        return _outcome(self._calls.wait(self.call_id, timeout=timeout))

    def cancel(self) -> None:
        """Stop the command with what it has started."""
        self._calls.cancel(self.call_id)


class SessionFiles:
    """The files of a session. Paths are absolute, or relative to ``/work``."""

    def __init__(self, transport: Transport, path: str) -> None:
        self._transport = transport
        self._path = path + "/files"

    def list(self, path: str = "/work", *, depth: int = 1) -> SessionDir:
        """What a directory has, and those in it down to ``depth``; with depth 0, the one file."""
        return self._transport.read(SessionDir, Query(path=self._path, params={"path": path, "depth": depth}))

    def read(self, path: str) -> bytes:
        """The content of a file. Secrets of the session's calls are masked."""
        q = Query(path=self._path + "/content", params={"path": path}, timeout=PART_TIMEOUT)
        return (self._transport.send(q))[0]

    def download(self, path: str, to: str | os.PathLike[str]) -> Path:
        """Write the content to a new file of this machine, or into a directory, and return its path."""
        made, file = in_thread(create, to, PurePosixPath(path).name)
        try:
            with file:
                q = Query(path=self._path + "/content", params={"path": path}, timeout=PART_TIMEOUT)
                for piece in self._transport.lines(q):
                    in_thread(file.write, piece)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
        return made

    def write(self, path: str, content: Upload) -> None:
        """Make a file, with the directories that it needs: of bytes, a path of this machine, or an open file."""
        source = in_thread(Source, content)
        try:
            body = in_thread(source.read, 0, source.size)
        finally:
            source.close()
        q = Query(
            method="PUT",
            path=self._path + "/content",
            params={"path": path},
            body=body,
            headers={"Content-Type": "application/octet-stream"},
            again=True,
            timeout=PART_TIMEOUT,
        )
        self._transport.send(q)

    @contextmanager
    def watch(self, path: str = "/work") -> Iterator[Iterator[SessionChange]]:
        """Watch what happens to the files of a directory, and of those in it, as long as the block runs.

        It gives the changes, from the beginning of the block on. A connection that is cut is an
        :class:`~haft.UnavailableError`: watch again, and list the directory.
        """
        stream = FileStream(self._transport.target.hide, self._path + "/watch", path)
        with self._transport.opened(stream.query(), stream) as changes:
            yield changes

    def make_dir(self, path: str) -> None:
        """Make a directory, and those that lead to it."""
        self._transport.send(Query(method="PUT", path=self._path + "/directory", params={"path": path}))

    def move(self, path: str, to: str) -> None:
        """Give a file or directory another name."""
        body = {"from": path, "to": to}
        self._transport.send(Query(method="POST", path=self._path + "/move", body=body))

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in it."""
        self._transport.send(Query(method="DELETE", path=self._path, params={"path": path}))


def _command(session: str, command: str | Sequence[str], **more: Any) -> dict[str, Any]:
    """The arguments of ``run_command``."""
    if isinstance(command, str):
        return given(session=session, command=command, **more)
    return given(session=session, argv=[*command], **more)


def _outcome(result: Result) -> CodeResult:
    """What became of code or of a command."""
    value = result.unwrap()
    if not isinstance(value, dict):
        raise UnavailableError("the server gave no result of code")
    code = decode(CodeResult, {**value, "call_id": result.call_id, "artifacts": []})
    return replace(code, artifacts=result.artifacts)


_Sessions = list[Session]
_Contexts = list[SessionContext]
