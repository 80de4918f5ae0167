"""The process of a worker, and the files that it prints to.

Ray writes each worker's stdout and stderr, its engine's children included, to two files on the worker's own node.
"""

import os
from dataclasses import dataclass


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
