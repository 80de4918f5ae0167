"""Reads the output of a worker process: its first and last bytes, without secrets.

Ray writes each worker's stdout and stderr, its engine's children included, to two files on the worker's own node.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from actors.text.redaction import redact_environment

HEAD_BYTES, TAIL_BYTES = 64 * 1024, 192 * 1024
"""Maximum bytes of a file's beginning and of its end."""


@dataclass(frozen=True, slots=True)
class WorkerAddress:
    """The process of a worker, and its output files on its node."""

    host: str
    pid: int
    node: str
    """Ray's node id."""
    devices: str
    """Ids of its GPUs, joined by commas."""
    streams: tuple[str, ...]


def output_files() -> tuple[str, ...]:
    """Return the files of this process's stdout and stderr; empty if they are not files."""
    paths = dict.fromkeys(os.readlink(f"/proc/self/fd/{number}") for number in (1, 2))
    return tuple(path for path in paths if os.path.isfile(path))


def read_excerpt(paths: Iterable[str]) -> str:
    """Return both ends of these files with secrets redacted, or a note for an unreadable file."""
    return "".join(_read_ends(Path(path)) for path in paths)


def last_lines(text: str, lines: int = 5) -> list[str]:
    """Return the last lines that are neither empty nor Ray's own marks (``:actor_name:``)."""
    stripped = [line.rstrip() for line in text.splitlines()]
    return [line for line in stripped if line and not line.startswith((":", "=="))][-lines:]


def _read_ends(path: Path) -> str:
    try:
        with path.open("rb") as file:
            omitted = os.fstat(file.fileno()).st_size - HEAD_BYTES - TAIL_BYTES
            raw = file.read(HEAD_BYTES)
            if omitted > 0:
                file.seek(omitted, os.SEEK_CUR)
                raw += f"\n... {omitted:,} bytes left out ...\n".encode()
            raw += file.read(TAIL_BYTES)
    except OSError as problem:
        return f"== {path.name} cannot be read: {problem.strerror}\n"
    text = redact_environment(raw.decode("utf-8", "replace"))
    return f"== {path.suffix.lstrip('.') or path.name}\n{text}" + ("" if text.endswith("\n") else "\n")
