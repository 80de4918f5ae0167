"""Disk errors as one sentence that says what to do."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from envs.errors import RunFolderError
from orchestrator.storage.safe_write import error_number

REMEDIES = {
    errno.ENOSPC: "Make room",
    errno.EDQUOT: "Make room",
    errno.EFBIG: "Make room",
    errno.EROFS: "Mount it writable again",
    errno.EIO: "Look after the disk",
}
"""Error numbers of a full, limited, read-only or broken disk -> what to do before the run is resumed."""
DENIED = (errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.EEXIST)
"""Error numbers of a path that belongs to another user or has the wrong kind."""


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn errors of a full, failing or inaccessible disk, and of a folder that was moved, into RunFolderError."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as problem:
        number = error_number(problem)
        if number == errno.ENOENT and not folder.exists():
            raise RunFolderError(
                f"{folder} was moved or removed while it was written. Move it back, and rerun the same command to resume"
            ) from None
        if number in DENIED and str(folder) in str(problem):
            raise RunFolderError(f"{folder} cannot be written ({problem}); copy it to a folder of your own") from None
        if number not in REMEDIES:
            raise
        raise RunFolderError(
            f"{folder} cannot be written: {os.strerror(number)}. {REMEDIES[number]}, and rerun the same command to resume;"
            " stored episodes are kept"
        ) from None
