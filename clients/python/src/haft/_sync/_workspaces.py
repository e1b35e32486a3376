# Made by tools/unasync.py of ../_async/_workspaces.py: change that one.
"""Directories that outlive calls."""

from __future__ import annotations

from collections.abc import Iterator

from .._files import PART_TIMEOUT
from .._models import File, Workspace, WorkspaceDiff, WorkspaceListing, WorkspaceSize
from .._request import Query, given, part
from ._transport import Transport


class Workspaces:
    """Directories that outlive calls, with their files and snapshots."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def add(
        self, name: str, *, shared: bool = False, quota: WorkspaceSize | None = None, source: str | None = None
    ) -> Workspace:
        """Add a workspace. With ``source`` it is a fork: it begins with the files of that one, or of a snapshot."""
        body = given(name=name, shared=shared or None, quota=quota) | given(**{"from": source})
        return self._transport.read(
            Workspace, Query(method="POST", path="/v1/workspaces", body=body, timeout=PART_TIMEOUT)
        )

    def list(self, *, limit: int | None = None) -> Iterator[Workspace]:
        """Workspaces by name."""
        return self._transport.pages(Workspace, Query(path="/v1/workspaces"), limit)

    def show(self, name: str) -> Workspace:
        """Show a workspace."""
        return self._transport.read(Workspace, Query(path=_path(name)))

    def remove(self, name: str) -> None:
        """Remove a workspace with its snapshots, or a snapshot. :class:`~haft.ConflictError` means a call uses it."""
        self._transport.send(Query(method="DELETE", path=_path(name)))

    def files(self, name: str, directory: str | None = None) -> WorkspaceListing:
        """List what is in a workspace, or in a directory of it and below."""
        return self._transport.read(
            WorkspaceListing, Query(path=_path(name) + "/files", params=given(dir=directory))
        )

    def read(self, name: str, path: str) -> bytes:
        """The content of a file."""
        q = Query(path=_path(name) + "/files/content", params={"path": path}, timeout=PART_TIMEOUT)
        return (self._transport.send(q))[0]

    def write(self, name: str, path: str, content: bytes | File) -> None:
        """Write a file, and the directories that it is in: bytes, or a file that was uploaded."""
        params = {"path": path}
        if isinstance(content, File):
            params["file"], content = content.id, b""
        self._transport.send(
            Query(
                method="PUT",
                path=_path(name) + "/files",
                params=params,
                body=content,
                headers={"Content-Type": "application/octet-stream"},
                again=True,
                timeout=PART_TIMEOUT,
            )
        )

    def delete(self, name: str, path: str) -> None:
        """Delete a file, or a directory with everything in it."""
        self._transport.send(Query(method="DELETE", path=_path(name) + "/files", params={"path": path}))

    def snapshot(self, name: str, snapshot: str) -> Workspace:
        """Keep the present state as ``name@snapshot``, to which nobody writes."""
        return self.add(f"{name}@{snapshot}")

    def restore(self, name: str, source: str) -> None:
        """Give a workspace the files of a snapshot, or of another one. Its own are lost."""
        q = Query(method="POST", path=_path(name) + "/restore", body={"from": source}, again=True, timeout=PART_TIMEOUT)
        self._transport.send(q)

    def diff(self, before: str, after: str) -> WorkspaceDiff:
        """Say what was changed from a workspace or snapshot to another one."""
        return self._transport.read(WorkspaceDiff, Query(path=_path(before) + "/diff", params={"to": after}))


def _path(name: str) -> str:
    return "/v1/workspaces" + part("workspace", name)
