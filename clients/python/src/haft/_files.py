"""Files of this machine: what is read to be sent, and where what comes is written."""

from __future__ import annotations

import io
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

from ._errors import InvalidError
from ._models import CallFile, File

#: Content: the path of a file, bytes, or a file that was opened in binary mode.
Upload: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | IO[bytes]
#: A file of a call: content, or a file that the server has, also by its id (``file_…``).
FileLike: TypeAlias = Upload | File | CallFile
#: The files of a call: one, several, or several by the path where the tool finds them.
FilesLike: TypeAlias = FileLike | Sequence[FileLike] | Mapping[str, FileLike]

#: How many bytes of a file one request carries.
PART = 4 << 20
#: How many bytes of files a call carries; what is larger is added before.
MAX_INLINE = 1 << 20
#: Seconds that files are kept that were added for one call.
CALL_TTL = 24 * 3600
#: Seconds that one part may take.
PART_TIMEOUT = 120.0


class Source:
    """Content of which any part can be read."""

    def __init__(self, content: Upload) -> None:
        self.name: str | None = None
        self._own = True
        if isinstance(content, (bytes, bytearray, memoryview)):
            self._file: IO[bytes] = io.BytesIO(content)
        elif isinstance(content, (str, os.PathLike)):
            path = Path(content)
            if not stat.S_ISREG(path.stat().st_mode):
                raise InvalidError("a file to send is not a regular file")
            self.name = path.name
            self._file = path.open("rb")
        elif isinstance(content, io.TextIOBase) or not callable(getattr(content, "read", None)):
            raise InvalidError("a file to send is a path, bytes, or a file that was opened with mode 'rb'")
        else:
            self._take(content)
        self._base = self._file.tell()
        self._file.seek(0, io.SEEK_END)
        self.size = self._file.tell() - self._base

    def _take(self, file: IO[bytes]) -> None:
        name = getattr(file, "name", None)
        self.name = os.path.basename(name) if isinstance(name, str) else None  # noqa: PTH119, it may be no path
        self._own = not getattr(file, "seekable", bool)()
        self._file = file
        if self._own:  # a pipe, say: the size has to be known first
            self._file = cast(IO[bytes], tempfile.SpooledTemporaryFile(max_size=PART))  # noqa: SIM115
            shutil.copyfileobj(file, self._file)
            self._file.seek(0)

    def read(self, at: int, size: int) -> bytes:
        """Read a part, of at most ``size`` bytes."""
        size = min(size, self.size - at)
        self._file.seek(self._base + at)
        parts = bytearray()
        while len(parts) < size:
            piece = self._file.read(size - len(parts))
            if not piece:
                raise InvalidError("the file to send became shorter while it was read")
            parts += piece
        return bytes(parts)

    def close(self) -> None:
        """Close what was opened here. A file of the caller is where it was before."""
        if self._own:
            self._file.close()
        else:
            self._file.seek(self._base)


def listed(files: FilesLike) -> Iterator[tuple[str | None, FileLike]]:
    """Yield files with the paths that were given for them."""
    if isinstance(files, Mapping):
        yield from files.items()
    elif isinstance(files, Sequence) and not isinstance(files, (str, bytes, bytearray, memoryview)):
        yield from ((None, file) for file in files)
    else:
        yield None, cast(FileLike, files)


def kept(file: FileLike, path: str | None) -> CallFile | None:
    """A file as a call names it, if it needs nothing to be read."""
    if isinstance(file, CallFile):
        return CallFile(id=file.id, path=path or file.path, data=file.data)
    if isinstance(file, File):
        return CallFile(id=file.id, path=path)
    if isinstance(file, str) and re.fullmatch(r"file_[0-9a-z]+", file) and not os.path.lexists(file):
        return CallFile(id=file, path=path)
    return None


def id_of(file: Any) -> str:
    """The id of a file, or of what has one."""
    return file.id if isinstance(file, File) else file


def create(to: str | os.PathLike[str], name: str) -> tuple[Path, IO[bytes]]:
    """Make a new file to save to. A name that a server gave leads to nowhere but below the directory."""
    path = Path(to)
    if path.is_dir() or os.fspath(to).endswith(("/", os.sep)):
        path.mkdir(parents=True, exist_ok=True)
        path = _below(path, name)
    # Mode x makes the file or fails: it neither follows a link nor writes over anything.
    return path, path.open("xb")


def _below(directory: Path, name: str) -> Path:
    parts = name.split("/")
    wrong = re.search(r"[\0\\]", name) or re.match(r"[A-Za-z]:", name) or (os.name == "nt" and ":" in name)
    if wrong or any(p.startswith(".") or not p.strip(" .") for p in parts):
        raise InvalidError(
            "the name of what is to be saved is hidden, or no path below the directory: give the path of a file"
        )
    for part in parts[:-1]:
        directory /= part
        if directory.is_symlink():
            raise InvalidError("a part of the path to save to is a link, which is not followed")
        directory.mkdir(exist_ok=True)
    return directory / parts[-1]
