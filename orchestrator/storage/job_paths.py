"""Paths inside a Ray job's copy of the checkout, which is deleted with the job and must not hold results."""

import os
from pathlib import Path

from envs.errors import RunFolderError

COPIES = "working_dir_files"
"""Folder in which Ray unpacks the ``--working-dir`` of jobs."""


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
