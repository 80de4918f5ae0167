"""Reads the end of a worker process's output, without secrets.

Ray writes each worker's stdout and stderr, its engine's children included, to two files on the worker's own node.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from actors.text.redaction import redact_environment

TAIL_BYTES = 64 * 1024
"""Maximum bytes that are read of a file's end."""


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


def read_tails(paths: Iterable[str]) -> str:
    """Return the ends of these files with secrets redacted, or a note for an unreadable file."""
    return "".join(_read_tail(Path(path)) for path in paths)


def last_lines(text: str, lines: int = 40) -> list[str]:
    """Return the last lines that are neither empty nor Ray's own marks (``:actor_name:``)."""
    stripped = [line.rstrip() for line in text.splitlines()]
    return [line for line in stripped if line and not line.startswith((":actor_name:", ":job_id:"))][-lines:]


def _read_tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError as problem:
        return f"{path.name} cannot be read: {problem.strerror}\n"
    return redact_environment(text) + ("" if text.endswith("\n") else "\n")
