"""Reads back what a worker process printed: its first and its last bytes, without secrets, never all of it.

Ray gives each worker's stdout and stderr, its engine's children included, to two files on the worker's own node.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from actors.redaction import redact_environment

HEAD_BYTES, TAIL_BYTES = 64 * 1024, 192 * 1024
"""Bytes that are kept of a file: how it began, and how it ended."""


@dataclass(frozen=True, slots=True)
class WorkerAddress:
    """Where a worker lives, and which files of its node hold what it prints."""

    host: str
    pid: int
    node: str
    """Ray's name of it."""
    devices: str
    """Ids of its GPUs, joined by commas."""
    streams: tuple[str, ...]


def streams() -> tuple[str, ...]:
    """The files that this process's stdout and stderr go to; empty where they are no files."""
    found = dict.fromkeys(os.readlink(f"/proc/self/fd/{number}") for number in (1, 2))
    return tuple(path for path in found if os.path.isfile(path))


def excerpt(paths: Iterable[str]) -> str:
    """The kept part of these files, one after the other, secrets hidden; a file that cannot be read is named instead."""
    return "".join(_one(Path(path)) for path in paths)


def last_lines(text: str, lines: int = 5) -> list[str]:
    """The last lines that are neither empty nor Ray's own marks (``:actor_name:``)."""
    shown = [line.rstrip() for line in text.splitlines()]
    return [line for line in shown if line and not line.startswith((":", "=="))][-lines:]


def _one(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            raw = file.read(HEAD_BYTES + TAIL_BYTES if size <= HEAD_BYTES + TAIL_BYTES else HEAD_BYTES)
            if size > HEAD_BYTES + TAIL_BYTES:
                file.seek(-TAIL_BYTES, os.SEEK_END)
                raw += f"\n... {size - HEAD_BYTES - TAIL_BYTES:,} bytes left out ...\n".encode() + file.read(TAIL_BYTES)
    except OSError as problem:
        return f"== {path.name} cannot be read: {problem.strerror}\n"
    shown = redact_environment(raw.decode("utf-8", "replace"))
    return f"== {path.suffix.lstrip('.') or path.name}\n{shown}" + ("" if shown.endswith("\n") else "\n")
