"""Disk errors as one sentence that says what to do."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from envs.errors import RunFolderError
from orchestrator.storage.safe_write import error_number

BROKEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
"""Error numbers of a full, limited, read-only or broken disk."""
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
            reason, remedy = "it was moved or removed meanwhile", "move it back"
        elif number in DENIED and str(folder) in str(problem):
            reason, remedy = str(problem), "copy it to a folder of your own"
        elif number in BROKEN:
            reason, remedy = os.strerror(number), "make room or repair the disk"
        else:
            raise
        raise RunFolderError(
            f"{folder} cannot be written ({reason}); {remedy}, and rerun the same command to resume: stored episodes are kept"
        ) from None
