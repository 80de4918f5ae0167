"""A disk that loses power: what was not flushed may be lost, torn, or out of order, as POSIX allows it.

Files are real ones, in a run folder of the test. Every call that changes or flushes names passes here and is counted, so that a
process can be killed, or the disk be full or slow, at any of them. Bytes count as durable when their file was flushed, names when
their folder was.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

Image = dict[str, bytes | None]
"""Path below the run folder -> its bytes; None for a folder."""


def full_path(name: Any, folder: int | None) -> Any:
    """Return the path of a name in an open folder."""
    return name if folder is None else f"{os.readlink(f'/proc/self/fd/{folder}')}/{name}"


class SimulatedDisk:
    """The run folder's disk."""

    def __init__(
        self,
        folder: Path,
        before_operation: Callable[[int, str], None],
        after_rename: Callable[[Path], None] = lambda path: None,
        before_unlink: Callable[[Path], None] = lambda path: None,
    ) -> None:
        """
        Args:
            before_operation: gets the number and kind of each operation before it is carried out, and may raise.
            after_rename: gets the new path of a file.
            before_unlink: gets the path of a file that is about to be removed.
        """
        self.folder, self.before_operation = Path(os.path.realpath(folder)), before_operation
        self.after_rename, self.before_unlink = after_rename, before_unlink
        self.operations = 0
        self.skip_flushes: set[int] = set()
        """Numbers of flushes that the disk only pretends to carry out."""
        self._next_file = 0
        self._files: dict[str, int] = {}
        """Path -> its file, as long as it has the name."""
        self._flushed: dict[int, bytes] = {}
        """File -> its bytes at the last flush."""
        self._flushed_names: dict[str, dict[str, int]] = {}
        """Folder -> its names and their files at its last flush."""
        self._names_of_file: dict[int, bytes] = {}

    @contextlib.contextmanager
    def mounted(self) -> Iterator[None]:
        """Send the calls of ``os`` for this folder through the disk in a block."""
        real = {name: getattr(os, name) for name in ("fsync", "replace", "rename", "unlink", "mkdir", "open")}
        for name in real:
            setattr(os, name, getattr(self, f"_{name}")(real[name]))
        try:
            yield
        finally:
            for name, function in real.items():
                setattr(os, name, function)

    # -- the calls -------------------------------------------------------------------------------------------------------
    def _fsync(self, real: Any) -> Any:
        def fsync(handle: int) -> None:
            path = os.readlink(f"/proc/self/fd/{handle}")
            if self._is_inside(path):
                self._count("fsync")
                if self.operations not in self.skip_flushes:
                    self._flush(path)
            else:
                real(handle)

        return fsync

    def _replace(self, real: Any) -> Any:
        def replace(source: Any, target: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None) -> None:
            options = {"src_dir_fd": src_dir_fd, "dst_dir_fd": dst_dir_fd}
            real_source, real_target = source, target
            source, target = full_path(source, src_dir_fd), full_path(target, dst_dir_fd)
            if self._is_inside(target):
                self._count("rename")
                self._file(source)
            real(real_source, real_target, **options)
            if str(source) == str(self.folder):
                self._forget()
            if self._is_inside(target):
                self._files[str(target)] = self._files.pop(str(source))
                self.after_rename(Path(target))

        return replace

    _rename = _replace

    def _unlink(self, real: Any) -> Any:
        def unlink(name: Any, *, dir_fd: int | None = None) -> None:
            path = full_path(name, dir_fd)
            if self._is_inside(path) and os.path.lexists(path):
                self._count("unlink")
                self.before_unlink(Path(path))
            real(name, dir_fd=dir_fd)
            self._files.pop(str(path), None)

        return unlink

    def _mkdir(self, real: Any) -> Any:
        def mkdir(name: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            path = full_path(name, dir_fd)
            if self._is_inside(path) and not os.path.isdir(path):
                self._count("mkdir")
            real(name, mode, dir_fd=dir_fd)

        return mkdir

    def _open(self, real: Any) -> Any:
        def open_file(name: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            path = full_path(name, dir_fd)
            if flags & os.O_CREAT and self._is_inside(path) and not os.path.lexists(path):
                self._count("create")
            return int(real(name, flags, mode, dir_fd=dir_fd))

        return open_file

    def _count(self, kind: str) -> None:
        self.operations += 1
        self.before_operation(self.operations, kind)

    def _is_inside(self, path: Any) -> bool:
        text = os.fspath(path)
        return isinstance(text, str) and f"{text}/".startswith(f"{self.folder}/")

    def _file(self, path: Any) -> int:
        if str(path) not in self._files:
            self._next_file += 1
            self._files[str(path)] = self._next_file
        return self._files[str(path)]

    def _flush(self, path: str) -> None:
        if os.path.isdir(path):
            self._flushed_names[path] = {name: self._file(f"{path}/{name}") for name in os.listdir(path)}
        else:
            self._flushed[self._file(path)] = Path(path).read_bytes()

    def durable_files(self, folder: str) -> dict[str, tuple[int, bytes]]:
        """Return the names in a folder that survive a loss of power now, each with its file's number and flushed bytes."""
        names = self._flushed_names.get(f"{self.folder}/{folder}", {})
        return {name: (file, self._flushed[file]) for name, file in names.items() if file in self._flushed}

    def move_to(self, folder: Path) -> None:
        """Become the disk of another machine, on which this folder may be; all that it holds is durable."""
        self.folder = Path(os.path.realpath(folder))
        self._forget()

    def _forget(self) -> None:
        self._files.clear()
        self._flushed.clear()
        self._flushed_names.clear()
        for path in (self.folder, *self.folder.rglob("*")) if self.folder.is_dir() else ():
            self._flush(str(path))

    # -- crashes ---------------------------------------------------------------------------------------------------------
    def image(self) -> Image:
        """Return what a killed process leaves: every byte that it has written."""
        paths = sorted(self.folder.rglob("*"))
        return {str(p.relative_to(self.folder)): None if p.is_dir() else p.read_bytes() for p in paths}

    def image_after_power_loss(self, chance: Random) -> Image:
        """Return one of the states in which a machine may find the folder after it lost power."""
        image: Image = {}
        self._lose(str(self.folder), chance, image)
        return image

    def _lose(self, folder: str, chance: Random, image: Image) -> None:
        """Choose for every name of a folder whether its last changes were kept, and for every file which bytes."""
        flushed = self._flushed_names.get(folder, {})
        current = {name: self._file(f"{folder}/{name}") for name in os.listdir(folder)} if os.path.isdir(folder) else {}
        for name in sorted({*flushed, *current}):
            before, now = flushed.get(name), current.get(name)
            file = before if before == now or chance.random() < 0.5 else now
            path = f"{folder}/{name}"
            if file is None:
                continue
            if file == now and os.path.isdir(path):
                image[os.path.relpath(path, self.folder)] = None
                self._lose(path, chance, image)
            elif file == now:
                image[os.path.relpath(path, self.folder)] = self._surviving_bytes(file, Path(path).read_bytes(), chance)
            elif file in self._flushed:
                image[os.path.relpath(path, self.folder)] = self._flushed[file]
            else:
                image[os.path.relpath(path, self.folder)] = b""

    def _surviving_bytes(self, file: int, written: bytes, chance: Random) -> bytes:
        flushed = self._flushed.get(file, b"")
        if flushed == written or not written.startswith(flushed):
            return flushed
        return written[: chance.randint(len(flushed), len(written))]

    def restore(self, image: Image) -> None:
        """Put the folder into this state; all of it is durable from then on."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        for name, content in image.items():
            path = self.folder / name
            if content is None:
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(content)
        self._forget()


FAULTS = {
    "disk full": (errno.ENOSPC,),
    "disk fails": (errno.EROFS, errno.EIO, errno.EDQUOT, errno.EACCES),
    "rename fails": (errno.EPERM, errno.EIO),
}
"""Fault -> the errors that it may give: a read-only or broken disk, a spent quota, a file of another user."""
FAILED_OPERATIONS = 3
"""Operations in a row that a fault lets fail."""


def find_failure(fault: str, first: int, choice: float, number: int, kind: str) -> OSError | None:
    """Return the error of an operation, or None: removing a file needs no space, and a rename fails alone."""
    hits = kind == "rename" if fault == "rename fails" else kind != "unlink"
    if not hits or not first <= number < first + (10 if fault == "rename fails" else FAILED_OPERATIONS):
        return None
    code = FAULTS[fault][int(10 * choice) % len(FAULTS[fault])]
    return OSError(code, os.strerror(code))
