"""What a process printed is read back bounded and without secrets: its first lines and its last, never all of it.

Ray gives each worker's stdout and stderr, its engine's children included, to two files on the worker's own node.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

HEAD_BYTES, TAIL_BYTES = 64 * 1024, 192 * 1024
"""Bytes that are kept of a file: how it began, and how it ended."""
SECRET = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")
"""Names of environment variables whose values are nobody's business."""
MIN_SECRET_LENGTH = 8
"""Characters from which on a value counts as a secret: ``0`` or ``none`` would blot out half a log."""


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


def hidden(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The text with ``***`` for every value of an environment variable that is named like a secret."""
    for name, value in environment.items():
        if SECRET.search(name.upper()) and len(value) >= MIN_SECRET_LENGTH:
            text = text.replace(value, "***")
    return text


def last_words(text: str, lines: int = 5) -> list[str]:
    """The last lines that say something; Ray's own marks (``:actor_name:``) say nothing."""
    said = [line.rstrip() for line in text.splitlines()]
    return [line for line in said if line and not line.startswith((":", "=="))][-lines:]


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
    said = hidden(raw.decode("utf-8", "replace"))
    return f"== {path.suffix.lstrip('.') or path.name}\n{said}" + ("" if said.endswith("\n") else "\n")
