"""What a disk refuses, as one sentence that says what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from orchestrator.storage.lock import RunFolderError

DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
"""What the system says of a disk that is full, limited, read-only or broken; polars has the number in its text."""
DENIED = (errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.EEXIST)
"""What it says of a place that is somebody else's, or of another kind than is wanted."""


@contextlib.contextmanager
def disk(folder: Path) -> Iterator[None]:
    """Turn the error of a disk that is full, failing or somebody else's into RunFolderError: one sentence, and what to do."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as problem:
        found = re.search(r"os error (\d+)", str(problem))
        number = int(found[1]) if found else getattr(problem, "errno", None)
        if number in DENIED and str(folder) in str(problem):
            raise RunFolderError(f"{folder} cannot be written ({problem}); copy it to a folder of your own") from None
        if number not in DISK:
            raise
        raise RunFolderError(
            f"{folder} cannot be written: {os.strerror(number)}. Make room; nothing that was stored is lost, and the same"
            " command goes on"
        ) from None
