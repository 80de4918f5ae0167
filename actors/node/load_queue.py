"""Lets a node's engines load together, except one that must load alone; the kernel frees a lock when its process ends."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

MEMORY_MARGIN_BYTES = 2 * 2**30
"""Bytes that a process takes in addition to the weights."""


def free_memory() -> int:
    """Return the bytes of host memory that are free without swapping."""
    return int(psutil.virtual_memory().available)


@contextmanager
def loading_turn(model: str, report: Callable[[str], None], alone: bool = False) -> Iterator[None]:
    """Hold the node's loading lock, shared with other engines unless this one must load ``alone``."""
    mode = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
    with (Path(tempfile.gettempdir()) / f"proactive-sweep-loading-{os.getuid()}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"{model} waits for its turn to load")
            fcntl.flock(lock, mode)
        yield
