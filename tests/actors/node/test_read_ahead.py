"""Weights that were read ahead are in the kernel's page cache, and only if they fit the free memory."""

import ctypes
import mmap
import os
from pathlib import Path

import pytest

from actors.node.load_queue import MEMORY_MARGIN_BYTES
from actors.node.read_ahead import BLOCK_BYTES, read_ahead

SIZES = (3 * BLOCK_BYTES // 2, 5000)


def resident_pages(path: Path) -> tuple[int, int]:
    """Return the pages of a file that are in memory, and all of its pages."""
    size = path.stat().st_size
    pages = -(-size // mmap.PAGESIZE)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size) as view:
        states, address = (ctypes.c_ubyte * pages)(), ctypes.addressof(ctypes.c_char.from_buffer(view))
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), states) == 0, os.strerror(
            ctypes.get_errno()
        )
        return sum(state & 1 for state in states), pages


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{number}.safetensors" for number in range(len(SIZES))]
    for path, size in zip(paths, SIZES, strict=True):
        path.write_bytes(os.urandom(size))
        drop(path)
    return paths


def drop(path: Path) -> None:
    """Have the kernel forget a file's pages, where its file system is on a disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_files_are_in_memory_afterwards(files):
    assert read_ahead(files) == sum(SIZES)
    for path in files:
        in_memory, pages = resident_pages(path)
        assert in_memory == pages


@pytest.mark.parametrize(("missing", "size"), [(0, sum(SIZES)), (1, 0)])
def test_files_are_left_on_the_disk_if_memory_is_short(files, missing, size):
    before = resident_pages(files[0])
    assert read_ahead(files, lambda: sum(SIZES) + MEMORY_MARGIN_BYTES - missing) == size
    assert resident_pages(files[0]) == ((before[1], before[1]) if size else before)


def test_a_missing_file_raises(tmp_path):
    with pytest.raises(OSError, match="absent"):
        read_ahead([tmp_path / "absent.bin"])
