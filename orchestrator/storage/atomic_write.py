"""Writes files atomically: temporary name, fsync, rename, fsync of the folder.

After a crash at any step a file is complete or absent. A file is never more accessible than its folder.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

TEMPORARY = ".tmp"
"""Suffix of an unfinished file. A folder has one writer, so a fixed name is enough."""


def temporary_path(path: Path) -> Path:
    """Return the path to which the bytes of ``path`` are written before they are published."""
    return path.with_name(path.name + TEMPORARY)


def fsync(path: Path) -> None:
    """Flush a file's bytes, or a folder's names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def permission_bits(folder: Path) -> int:
    """Return the permission bits for a new file or folder inside a folder; the umask applies as well."""
    return folder.stat().st_mode & 0o777


def make_folder(path: Path) -> None:
    """Make a folder with the permissions of its parent, unless it exists."""
    path.mkdir(mode=permission_bits(path.parent), exist_ok=True)


def make_folders(path: Path) -> None:
    """Make a folder and its missing parents."""
    if not path.parent.is_dir():
        make_folders(path.parent)
    make_folder(path)


def make_private(path: Path) -> None:
    """Make a folder that only its owner can access, and restrict it if it exists."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def open_regular_file(path: Path, flags: int) -> int:
    """Open a file, creating it if needed, and return its handle.

    Raises OSError, also if the path is a pipe or a device; opening never blocks.
    """
    handle = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, permission_bits(path.parent) & 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
    return handle


def publish(path: Path) -> None:
    """Rename the finished temporary file to its name, replacing an existing file in one step."""
    os.replace(temporary_path(path), path)
    fsync(path.parent)


def prepare(path: Path, content: bytes) -> None:
    """Write a file's bytes under its temporary name and flush them. Raises OSError."""
    with open(_create_temporary(path), "wb") as file:
        file.write(content)
    fsync(temporary_path(path))


def prepare_table(path: Path, frame: pl.DataFrame | pl.LazyFrame, **options: Any) -> None:
    """Write a Parquet file under its temporary name and flush it; ``options`` go to polars' ``write_parquet``.

    Raises OSError or PolarsError.
    """
    import polars as pl  # whoever has a frame has loaded it already

    write = frame.sink_parquet if isinstance(frame, pl.LazyFrame) else frame.write_parquet
    write(_create_temporary(path), **options)
    fsync(temporary_path(path))


def write(path: Path, content: bytes) -> None:
    """Replace a file. Raises OSError, and then the old file is unchanged."""
    prepare(path, content)
    publish(path)


def write_table(path: Path, frame: pl.DataFrame, **options: Any) -> None:
    """Replace a Parquet file. Raises OSError or PolarsError, and then the old file is unchanged."""
    prepare_table(path, frame, **options)
    publish(path)


def move_aside(folder: Path, path: Path) -> None:
    """Move a file of a run folder to ``damaged/`` under a new name."""
    damaged_folder = folder / "damaged"
    make_folder(damaged_folder)
    number = 0
    while (aside := damaged_folder / f"{path.parent.name}-{path.name}{f'.{number}' if number else ''}").exists():
        number += 1
    path.rename(aside)


def _create_temporary(path: Path) -> Path:
    temporary = temporary_path(path)
    temporary.unlink(missing_ok=True)  # left by a crash, or a pipe with that name
    os.close(open_regular_file(temporary, os.O_WRONLY | os.O_EXCL))
    return temporary
