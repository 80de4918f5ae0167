"""Turns errors of unusable disks into one sentence each, and refuses paths in a copy of the checkout that Ray deletes."""

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
COPIES = "working_dir_files"
"""Folder in which Ray unpacks the ``--working-dir`` of jobs, a copy of the checkout that is deleted with the job."""
RESUME = "rerun the same command to resume"


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turn errors of a full, failing or inaccessible disk, and of a folder that was moved, into RunFolderError."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as problem:
        number = error_number(problem)
        if number == errno.ENOENT and not folder.exists():
            reason, remedy = "it was moved or removed meanwhile", f"move it back, and {RESUME}"
        elif number in DENIED and str(folder) in str(problem):
            reason, remedy = str(problem), "copy it to a folder of your own, and name that folder instead"
        elif number in BROKEN:
            reason, remedy = os.strerror(number), f"make room or repair the disk, and {RESUME}"
        else:
            raise
        raise RunFolderError(f"{folder} cannot be written ({reason}); {remedy}: stored episodes are kept") from None


def durable_path(output: str) -> Path:
    """Return a run folder's path. Raises RunFolderError if it is inside a job's copy of the checkout."""
    if _in_copy(output):
        raise RunFolderError(
            f"{output} would lie in this job's copy of the checkout, which Ray throws away with the job; pass an --output "
            "that is absolute and on shared storage, or s3://BUCKET/FOLDER"
        )
    return Path(output)


def check_data_path(data: str) -> None:
    """Raise RunFolderError if the data path points into a job's copy of the checkout and does not exist."""
    if "://" not in data and not Path(data).exists() and _in_copy(data):
        raise RunFolderError(
            f"{data} is not in this job's copy of the checkout; name the data by an absolute path that every node sees, "
            "as in --set data=/shared/ProactiveBench/test"
        )


def _in_copy(path: str) -> bool:
    return COPIES in Path(os.path.realpath(path)).parts
