"""A Ray job runs in a copy of the checkout that is thrown away with it: nothing that must last is written there."""

from __future__ import annotations

import os
from pathlib import Path

from orchestrator.storage.lock import RunFolderError

COPIES = "working_dir_files"
"""Folder in which Ray unpacks the ``--working-dir`` of jobs."""


def lasting(output: str) -> Path:
    """A run folder's path; raises RunFolderError when it lies in a job's copy of the checkout."""
    path = Path(output)
    if _in_copy(path):
        raise RunFolderError(
            f"{output} would lie in this job's copy of the checkout, which Ray throws away with the job; pass an --output "
            "that is absolute and on shared storage, or s3://BUCKET/FOLDER"
        )
    return path


def reachable(data: str) -> None:
    """Raises RunFolderError when the data are looked for in a job's copy of the checkout and are not in it."""
    path = Path(data)
    if "://" not in data and not path.exists() and _in_copy(path):
        raise RunFolderError(
            f"{data} is not in this job's copy of the checkout; name the data by an absolute path that every node sees, "
            "as in --set data=/shared/ProactiveBench/test"
        )


def _in_copy(path: Path) -> bool:
    """``Path.resolve`` raises RuntimeError where links run in a circle; who opens the path says so in a sentence."""
    return COPIES in Path(os.path.realpath(path)).parts
