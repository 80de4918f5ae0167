"""Writes files atomically: temporary name, fsync, rename, fsync of the folder.

A file is there whole or not at all, also after a crash at any step; and it is never more open than the folder it lies in.
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
"""Ending of a file that is not finished; one writer a folder, so a fixed name is enough."""


def temporary(path: Path) -> Path:
    """Where the bytes of ``path`` are written before it is published."""
    return path.with_name(path.name + TEMPORARY)


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def mode(folder: Path) -> int:
    """Permission bits of what is made in a folder: a run folder that we made is its owner's alone, one made before is as it is.

    The umask counts besides.
    """
    return folder.stat().st_mode & 0o777


def make_folder(path: Path) -> None:
    """Make a folder, no more open than the one it lies in; one that is there stays as it is."""
    path.mkdir(mode=mode(path.parent), exist_ok=True)


def make_folders(path: Path) -> None:
    """``make_folder``, with those above it that are not there."""
    if not path.parent.is_dir():
        make_folders(path.parent)
    make_folder(path)


def make_private(path: Path) -> None:
    """Make a folder of ours that is its owner's alone, also where an earlier version made it more open."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def opened(path: Path, flags: int) -> int:
    """A handle on a file of this folder, made where it is not there.

    Raises OSError, also for what is no file: it never waits for the reader of a pipe.
    """
    handle = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, mode(path.parent) & 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
    return handle


def publish(path: Path) -> None:
    """Give the finished temporary file its name; it replaces what was there in one step."""
    os.replace(temporary(path), path)
    sync(path.parent)


def prepare(path: Path, content: bytes) -> None:
    """Write a file's bytes under its temporary name, safe on the disk. Raises OSError."""
    with open(_made(path), "wb") as file:
        file.write(content)
    sync(temporary(path))


def prepare_table(path: Path, frame: pl.DataFrame | pl.LazyFrame, **how: Any) -> None:
    """The same for a Parquet file, a lazy frame's as its rows come; ``how`` is polars' ``write_parquet``'s.

    Raises OSError or PolarsError.
    """
    import polars as pl  # whoever has a table has loaded it

    write = frame.sink_parquet if isinstance(frame, pl.LazyFrame) else frame.write_parquet
    write(_made(path), **how)
    sync(temporary(path))


def write(path: Path, content: bytes) -> None:
    """Replace a whole file; raises OSError, and then the old one is untouched."""
    prepare(path, content)
    publish(path)


def write_table(path: Path, frame: pl.DataFrame, **how: Any) -> None:
    """Replace a whole Parquet file; raises OSError or PolarsError, as ``write``."""
    prepare_table(path, frame, **how)
    publish(path)


def _made(path: Path) -> Path:
    place = temporary(path)
    place.unlink(missing_ok=True)  # what a crash left, or a pipe of that name
    os.close(opened(place, os.O_WRONLY | os.O_EXCL))
    return place
