"""SHA-256 sums of the files of a run folder, recorded before each file gets its name; other bytes are damage.

``sums.sha256`` has one line per file, as ``sha256sum`` writes and checks them (``cd RUN && sha256sum -c --ignore-missing
sums.sha256``). If the list is complete, a part without a line is foreign; the lists of versions 0.1 and 0.2 are not.
"""

import errno
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path

from envs import regular
from orchestrator.storage import safe_write

NAME = "sums.sha256"
LINE = re.compile(r"([0-9a-f]{64})  (\w+/part-[0-9-]+\.parquet|[\w.]+)")
COMPLETE = "manifest"
"""The name in the first line of a complete list: one that names every part that the folder ever had."""
GONE = "0" * 64
"""Stands in place of a sum once this package has removed the file."""
LARGEST = 1 << 30
"""Most bytes of a file that is not a part; the keys of a million episodes take some ten million."""
KEPT_SUMS = 4
"""Sums of a replaced file that count: its own, and those of writers that were killed before the file had its name."""

Sums = Mapping[str, tuple[str, ...]]
"""``episodes/part-00000001.parquet`` -> the sums that its bytes may have, oldest first; ``GONE`` is last if it was removed."""


def publish(folder: Path, *files: Path) -> None:
    """Record the sums of prepared files, and give the files their names in this order. Raises OSError."""
    _append(folder, {path.relative_to(folder).as_posix(): hash_file(safe_write.temporary_path(path)) for path in files})
    for path in files:
        safe_write.publish(path)


def record_removals(folder: Path, files: Iterable[Path]) -> None:
    """Record that listed files are about to be removed, so that they are not reported as missing. Raises OSError."""
    sums, names = read_sums(folder), [path.relative_to(folder).as_posix() for path in files]
    if gone := {name: GONE for name in names if sums.get(name, (GONE,))[-1] != GONE}:
        _append(folder, gone)


def _append(folder: Path, sums: Mapping[str, str]) -> None:
    """Append lines; a folder that has neither a list nor parts gets a complete list (``COMPLETE``)."""
    if not (folder / NAME).exists() and not any(folder.glob("*/part-*.parquet")):
        sums = {COMPLETE: GONE, **sums}
    safe_write.append(folder / NAME, "".join(f"{digest}  {name}\n" for name, digest in sums.items()).encode("ascii"))


def write(path: Path, content: "safe_write.Content") -> None:
    """Replace a file at the top of a run folder and record its sum; tables as in ``safe_write.prepare``."""
    safe_write.prepare(path, content)
    publish(path.parent, path)


def read_verified(path: Path) -> bytes:
    """Return the bytes of a file at the top of a run folder. Raises OSError, also if their sum is not the recorded one."""
    for _ in range(2):
        content = regular.read_bytes(path, LARGEST)
        recorded = read_sums(path.parent).get(path.name)
        if recorded is None or sha256(content).hexdigest() in recorded:
            return content  # else a writer may have replaced the file after it was read: try once more
    raise OSError(errno.EINVAL, f"it is damaged or was edited: {NAME} has another sum", str(path))


def damaged_files(folder: Path) -> list[str]:
    """Return the names of files at the top of a run folder whose bytes have another sum."""
    damaged = []
    for name in sorted(read_sums(folder)):
        if "/" not in name and os.path.lexists(folder / name):
            try:
                read_verified(folder / name)
            except OSError:
                damaged.append(name)
    return damaged


def missing_files(folder: Path) -> list[str]:
    """Return the listed files that are gone, and that this package has not removed; parts only if the list is complete."""
    sums = read_sums(folder)
    present = [name for name, digests in sums.items() if digests[-1] != GONE and ("/" not in name or COMPLETE in sums)]
    return [name for name in present if not (folder / name).exists()]


def read_sums(folder: Path) -> Sums:
    """Return the recorded sums; torn and foreign lines are skipped. The list is parsed once per state."""
    try:
        status = os.stat(path := folder / NAME)
        return _read_once(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError:
        return {}


@lru_cache(maxsize=16)
def _read_once(path: Path, *_state: int) -> Sums:
    content = regular.read_bytes(path, LARGEST)
    whole_lines = content[: content.rfind(b"\n") + 1].decode("ascii", errors="replace").splitlines()
    sums: dict[str, dict[str, None]] = {}
    for match in filter(None, map(LINE.fullmatch, whole_lines)):
        digests = sums.setdefault(match[2], {})
        digests.pop(match[1], None)  # the newest is last
        digests[match[1]] = None
    return {name: tuple(digests)[-KEPT_SUMS:] for name, digests in sums.items()}


def hash_file(path: Path) -> str:
    """Return the sum of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
