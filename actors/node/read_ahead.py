"""Reads a model's weights into the node's free memory (the kernel's page cache) before a GPU is free for it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from actors.node.load_queue import MEMORY_MARGIN_BYTES, free_memory

BLOCK_BYTES = 16 * 2**20


def read_ahead(files: Sequence[Path], free: Callable[[], int] = free_memory) -> int:
    """Read files whole, so that they are in memory when they are read next; return the bytes, 0 if they do not fit.

    No memory is reserved: the kernel drops the files when a program needs it. Raises OSError.
    """
    size = sum(file.stat().st_size for file in files)
    if size + MEMORY_MARGIN_BYTES > free():
        return 0
    block = bytearray(BLOCK_BYTES)
    for file in files:
        with file.open("rb", buffering=0) as stream:
            while stream.readinto(block):
                pass
    return size
