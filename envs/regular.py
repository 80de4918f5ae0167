"""Reads files with untrusted names, and untrusted JSON: never waits for a pipe, never reads a device, and has a limit.

Every failure of a file is an OSError whose ``strerror`` gives the reason.
"""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO


def open_file(path: Path) -> BinaryIO:
    """Open a regular file; raises OSError, also for a pipe, a device, a folder, and an invalid name."""
    try:
        mode = os.stat(path).st_mode
    except ValueError as problem:  # a zero byte in the name
        raise OSError(errno.EINVAL, str(problem), str(path)) from None
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a folder, a pipe or a device, not a file", str(path))
    return path.open("rb")


def read_bytes(path: Path, most: int) -> bytes:
    """Read a regular file of at most ``most`` bytes; raises OSError like ``open_file``, and for a larger one."""
    with open_file(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EINVAL, f"it is larger than {most:,} bytes", str(path))
    return content


def parse_json(text: str | bytes) -> Any:
    """Parse JSON text; raises ValueError if it is not JSON, not UTF-8, or nested too deeply for Python's parser."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON nested too deeply") from None


def parse_fields(content: bytes) -> dict[str, Any] | None:
    """Return a JSON object; None for any other content."""
    try:
        fields = parse_json(content)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None
