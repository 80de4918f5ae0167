"""The process of a worker, the files that it prints to, and the cause of an engine's error in them.

Ray writes each worker's stdout and stderr, its engine's children included, to two files on the worker's own node.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from actors.text.redaction import redact_environment

REFERS_TO_OUTPUT = "root cause"
"""vLLM's own error with these words only refers to a cause in the output (vLLM 0.26 to 0.32)."""
LAST_LINE = re.compile(r"(?:^|\] )((?:\w+\.)*\w*(?:Error|Exception): \S.*)$", re.MULTILINE)
"""The last line of a traceback, alone or after a logger's prefix; its other lines are indented."""
TAIL_BYTES = 64 * 1024
LONGEST = 400


class WorkerAddress(NamedTuple):
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


@contextmanager
def name_root_cause() -> Iterator[None]:
    """Replace an error whose cause is in this process's output by a RuntimeError with that cause."""
    sizes_before = {path: Path(path).stat().st_size for path in output_files()}
    try:
        yield
    except RuntimeError as problem:
        written = _written_since(sizes_before) if REFERS_TO_OUTPUT in str(problem) else ""
        causes = [line.strip() for line in LAST_LINE.findall(written) if REFERS_TO_OUTPUT not in line]
        if not causes:
            raise
        raise RuntimeError(causes[-1][:LONGEST]) from problem


def _written_since(sizes_before: dict[str, int]) -> str:
    """Return the end of what was written to each file beyond its earlier size, with secrets redacted."""
    parts = []
    for name, size in sizes_before.items():
        with Path(name).open("rb") as file:
            file.seek(max(size, Path(name).stat().st_size - TAIL_BYTES))
            parts.append(file.read(TAIL_BYTES).decode("utf-8", "replace"))
    return redact_environment("\n".join(parts))
