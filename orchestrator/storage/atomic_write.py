"""Writes files atomically: temporary name, fsync, rename, fsync of the folder.

A file is there whole or not at all, also after a crash at any step.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

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


def publish(path: Path) -> None:
    """Give the finished temporary file its name; it replaces what was there in one step."""
    os.replace(temporary(path), path)
    sync(path.parent)


def write(path: Path, content: bytes) -> None:
    """Replace a whole file; raises OSError, and then the old one is untouched."""
    temporary(path).write_bytes(content)
    sync(temporary(path))
    publish(path)


def write_table(path: Path, frame: pl.DataFrame, **how: Any) -> None:
    """Replace a whole Parquet file; ``how`` is polars' ``write_parquet``'s. Raises OSError or PolarsError, as ``write``."""
    frame.write_parquet(temporary(path), **how)
    sync(temporary(path))
    publish(path)
