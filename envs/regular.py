"""Reads files that somebody else named: it never waits for a pipe, and never reads a device or more than is allowed.

Whatever cannot be read so is an OSError whose ``strerror`` says why.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_file(path: Path) -> BinaryIO:
    """The file; raises OSError, also for a pipe, a device, a folder, and a name that no disk can hold."""
    try:
        mode = os.stat(path).st_mode
    except ValueError as problem:  # a zero byte in the name
        raise OSError(errno.EINVAL, str(problem), str(path)) from None
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a folder, a pipe or a device, not a file", str(path))
    return path.open("rb")


def read_bytes(path: Path, most: int) -> bytes:
    """All bytes of the file; raises OSError as ``open_file``, and where there are more than ``most``."""
    with open_file(path) as file:
        found = file.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EINVAL, f"it is larger than {most:,} bytes", str(path))
    return found
