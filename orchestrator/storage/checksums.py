"""SHA-256 sums of the files of a run folder, noted before each gets its name.

A file whose bytes have another sum is damaged, however well it reads. ``sums.sha256`` in the run folder has a line a
file, as ``sha256sum`` writes and checks them (``cd RUN && sha256sum -c --ignore-missing sums.sha256``). A file
without a line, of an earlier version or a copied folder, is checked by its form alone.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import polars as pl

from envs import regular
from orchestrator.storage import atomic_write

NAME = "sums.sha256"
LINE = re.compile(r"([0-9a-f]{64})  (\w+/part-[0-9-]+\.parquet|[\w.]+)")
LARGEST = 1 << 30
"""Bytes that a file beside the parts may have; the keys of a million episodes take some ten million."""

Sums = Mapping[str, set[str]]
"""``episodes/part-00000001.parquet`` -> what its bytes may be; two while a file is being replaced."""


def note(folder: Path, files: Iterable[Path]) -> None:
    """Note the sums of files that are about to get their names; on the disk before they have them. Raises OSError."""
    named = [(_sum(atomic_write.temporary(path)), path.relative_to(folder).as_posix()) for path in files]
    with open(atomic_write.opened(folder / NAME, os.O_WRONLY | os.O_APPEND), "a", encoding="ascii") as file:
        file.writelines(f"{found}  {name}\n" for found, name in named)
        file.flush()
        os.fsync(file.fileno())


def write(path: Path, content: bytes) -> None:
    """``atomic_write.write`` of a file that lies in a run folder itself, with its sum. Raises OSError."""
    atomic_write.prepare(path, content)
    note(path.parent, [path])
    atomic_write.publish(path)


def write_table(path: Path, frame: pl.DataFrame | pl.LazyFrame, **how: Any) -> None:
    """The same for a Parquet file; ``how`` is polars' ``write_parquet``'s. Raises OSError or PolarsError."""
    atomic_write.prepare_table(path, frame, **how)
    note(path.parent, [path])
    atomic_write.publish(path)


def content(path: Path) -> bytes:
    """The bytes of a file that lies in a run folder itself; raises OSError, also where they are not those that were written."""
    for _ in range(2):
        found = regular.content(path, LARGEST)
        known = read(path.parent).get(path.name)
        if known is None or sha256(found).hexdigest() in known:
            return found  # else a writer may have replaced it between the two, and its sums
    raise OSError(errno.EINVAL, f"it is damaged or was edited: {NAME} has another sum", str(path))


def read(folder: Path) -> Sums:
    """The sums that were noted; torn and foreign lines are skipped."""
    found: dict[str, set[str]] = {}
    for noted, name in _lines(folder):
        found.setdefault(name, set()).add(noted)
    return found


def agrees(path: Path, sums: Sums) -> bool:
    """Whether a part's bytes are those that were written, as far as that is known."""
    known = sums.get(f"{path.parent.name}/{path.name}")
    return known is None or _sum_of(path, (status := path.stat()).st_mtime_ns, status.st_size, status.st_ino) in known


def damaged(folder: Path) -> list[str]:
    """Names of the files beside the parts that are there and not as they were written, and of tables that are gone."""
    names = sorted(name for name in read(folder) if "/" not in name and (folder / name).exists())
    for _ in range(2):
        now = {name: _now(folder / name) for name in names}
        sums = read(folder)  # after the bytes: a file has its line before its name
        names = [name for name in names if now[name] not in sums.get(name, {now[name]})]
    return names + removed(folder)


def removed(folder: Path) -> list[str]:
    """Tables of which parts were noted and whose folder is not there any more, as ``episodes/``."""
    tables = {name.partition("/")[0] for name in read(folder) if "/" in name}
    return sorted(f"{table}/" for table in tables if not (folder / table).is_dir())


def settle(folder: Path) -> None:
    """Leave the one sum that counts of each file that was replaced since; whoever calls it has the folder's lock."""
    lines, sums = _lines(folder), read(folder)
    now = {name: _now(folder / name) for name in sums if "/" not in name}
    kept = dict.fromkeys(line for line in lines if now.get(line[1]) not in sums[line[1]] - {line[0]})
    if len(kept) < len(lines):
        text = "".join(f"{found}  {name}\n" for found, name in kept)
        atomic_write.write(folder / NAME, text.encode("ascii"))


def _lines(folder: Path) -> list[tuple[str, str]]:
    try:
        text = regular.content(folder / NAME, LARGEST).decode("ascii", errors="replace")
    except OSError:
        return []
    return [(match[1], match[2]) for match in map(LINE.fullmatch, text.splitlines()) if match]


def _now(path: Path) -> str:
    try:
        return sha256(regular.content(path, LARGEST)).hexdigest()
    except OSError:
        return ""


@lru_cache(maxsize=4096)
def _sum_of(path: Path, *_state: int) -> str:
    """The sum of a file in this state: a process that reads a folder again and again hashes each part once."""
    return _sum(path)


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
