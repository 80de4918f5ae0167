"""The one place that opens files for writing: atomically, and inside a run folder never through a link.

A file gets its bytes under a temporary name, is flushed, and renamed: after a crash it is complete or absent. A file is never
more accessible than its folder. A full disk is waited out for ``PATIENCE_S``.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from envs.errors import RunFolderError

if TYPE_CHECKING:
    import polars as pl

    Content = bytes | pl.DataFrame | pl.LazyFrame

TEMPORARY = ".tmp"
"""Suffix of an unfinished file. A folder has one writer, so a fixed name is enough."""
MARK = "sweep.resolved.toml"
"""The file that makes a folder a run folder."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FULL = (errno.ENOSPC, errno.EDQUOT)
PATIENCE_S, PAUSE_S = 60.0, 1.0
"""How long writes wait for room in all, counted from the first one that finds the disk full, and between two tries."""
NO_FOLDER_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.ENOSYS)
"""Error numbers of file systems that cannot flush a folder (CIFS, FUSE); they write its names at once."""

log = logging.getLogger(__name__)
_full_since: float | None = None


def refuse_links(folder: Path) -> None:
    """Raise RunFolderError if a run folder contains a link, a pipe or a device; the folder itself may be a link."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISDIR(mode := os.lstat(path).st_mode) and not stat.S_ISREG(mode):
                    raise _link_error(path)


def _link_error(path: str | Path) -> RunFolderError:
    return RunFolderError(
        f"{path} is a link, a pipe or a device, and nothing outside a run folder is written; remove it, or put the file there"
    )


@contextlib.contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """Open a folder in a block; raises RunFolderError if it is reached by a link below its run folder."""
    parts = folder.parts
    places = list(accumulate(parts, os.path.join, initial=folder.anchor or "."))
    depth = next((depth for depth, place in enumerate(places) if os.path.lexists(f"{place}/{MARK}")), len(parts))
    handle = os.open(places[depth], FOLDER)
    try:
        for name in parts[depth:]:
            if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                raise _link_error(folder)
            outer, handle = handle, os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=handle)
            os.close(outer)
        yield handle
    except OSError as problem:
        if isinstance(problem.filename, str) and "/" not in problem.filename:  # a name in the open folder
            problem.filename = str(folder / problem.filename)
        raise
    finally:
        os.close(handle)


def open_file(path: Path, flags: int) -> int:
    """Open a file to write in place, also a new one; never wait. Raises RunFolderError for a link, OSError for a pipe."""
    flags |= os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    with open_folder(path.parent) as folder:
        try:
            handle = os.open(path.name, flags, _permission_bits(folder) & 0o666, dir_fd=folder)
        except OSError as problem:
            raise _link_error(path) if problem.errno == errno.ELOOP else problem from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
    return handle


def _permission_bits(folder: int) -> int:
    """Return the permission bits for a new file or folder inside an open folder; the umask applies as well."""
    return os.fstat(folder).st_mode & 0o777


def make_folder(path: Path) -> None:
    """Make a folder with the permissions of its parent, which must be there, unless it exists."""
    if not path.is_dir():
        with open_folder(path.parent) as parent, contextlib.suppress(FileExistsError):
            os.mkdir(path.name, _permission_bits(parent), dir_fd=parent)


def flush_folder(path: Path) -> None:
    """Flush a folder's names to the disk, where the file system can do so."""
    with open_folder(path) as folder:
        _flush_names(folder)


def _flush_names(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as problem:
        if problem.errno not in NO_FOLDER_FLUSH:
            raise


def error_number(problem: BaseException) -> int | None:
    """Return the number of an OSError; polars gives it only in its message."""
    match = re.search(r"os error (\d+)", str(problem))
    return int(match[1]) if match else getattr(problem, "errno", None)


def _wait_for_room(write: Callable[..., None]) -> Callable[..., None]:
    """Repeat a write on a full disk until there is room, or ``PATIENCE_S`` have passed since the first failure of any write."""

    @functools.wraps(write)
    def repeat(path: Path, *content: Any) -> None:
        global _full_since
        while True:
            try:
                write(path, *content)
                _full_since = None
                return
            except Exception as problem:
                if error_number(problem) not in FULL:
                    raise
                if _full_since is None:
                    log.warning("the disk is full (%s); waiting up to %.0f s for room", path, PATIENCE_S)
                    _full_since = time.monotonic()
                if time.monotonic() - _full_since >= PATIENCE_S:
                    raise
            time.sleep(PAUSE_S)

    return repeat


@_wait_for_room
def append(path: Path, lines: bytes) -> None:
    """Append whole lines and flush them; cut off an incomplete last line first, as a power failure leaves it. Raises OSError."""
    handle = open_file(path, os.O_RDWR | os.O_APPEND)
    try:
        size = os.fstat(handle).st_size
        while size and os.pread(handle, 1, size - 1) != b"\n":
            size -= 1
        os.ftruncate(handle, size)
        try:
            if os.write(handle, lines) < len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, size)
            raise
    finally:
        os.close(handle)


def temporary_path(path: Path) -> Path:
    """Return the path to which the bytes of ``path`` are written before they are published."""
    return path.with_name(path.name + TEMPORARY)


@_wait_for_room
def prepare(path: Path, content: Content, metadata: dict[str, str] | None = None) -> None:
    """Write a file under its temporary name, replacing an older one, and flush it. Raises OSError or PolarsError.

    A table is written as Parquet, with this ``metadata``.
    """
    name = temporary_path(path).name
    with open_folder(path.parent) as folder:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=folder)  # left by a crash, or a pipe with that name
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        handle = os.open(name, flags, _permission_bits(folder) & 0o666, dir_fd=folder)
    with open(handle, "wb") as file:
        if isinstance(content, bytes):
            file.write(content)
        else:
            _write_table(file, content, metadata)
        file.flush()
        os.fsync(handle)


def _write_table(file: IO[bytes], table: pl.DataFrame | pl.LazyFrame, metadata: dict[str, str] | None) -> None:
    """Write a table; an error of the disk is raised as OSError also where polars hides its number, as in a footer."""
    write = table.write_parquet if hasattr(table, "write_parquet") else table.sink_parquet
    try:
        write(file, metadata=metadata)
    except Exception:
        file.write(bytes(1 << 16))  # a disk that took no footer takes these bytes no more either
        file.flush()
        raise


def publish(path: Path) -> None:
    """Rename the finished temporary file to its name, replacing an existing file in one step."""
    with open_folder(path.parent) as folder:
        os.replace(temporary_path(path).name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        _flush_names(folder)


def write(path: Path, content: Content) -> None:
    """Replace a file as ``prepare`` and ``publish`` do. Raises OSError or PolarsError; the old file is then unchanged."""
    prepare(path, content)
    publish(path)


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    with contextlib.suppress(FileNotFoundError), open_folder(path.parent) as folder:
        os.unlink(path.name, dir_fd=folder)


def move_aside(folder: Path, path: Path) -> None:
    """Move a file of a run folder to ``damaged/`` under a new name."""
    make_folder(damaged := folder / "damaged")
    number = 0
    while (aside := damaged / f"{path.parent.name}-{path.name}{f'.{number}' if number else ''}").exists():
        number += 1
    with open_folder(path.parent) as source, open_folder(damaged) as target:
        os.rename(path.name, aside.name, src_dir_fd=source, dst_dir_fd=target)
