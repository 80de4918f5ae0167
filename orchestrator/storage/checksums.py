"""SHA-256 sums of the files of a run folder, recorded before each file gets its name.

A file whose bytes have another sum is damaged, even if it can be read. ``sums.sha256`` in the run folder has one line per
file, as ``sha256sum`` writes and checks them (``cd RUN && sha256sum -c --ignore-missing sums.sha256``). If the list is
complete, a part without a line is ignored. In a folder of an earlier version such a part counts if it can be decoded.
"""

import errno
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import polars as pl

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

Sums = Mapping[str, set[str]]
"""``episodes/part-00000001.parquet`` -> the sums that its bytes may have; two while a file is being replaced."""


def record_sums(folder: Path, files: Iterable[Path]) -> None:
    """Append the sums of files that are about to be published, and flush them. Raises OSError."""
    sums = [(_hash_file(safe_write.temporary_path(path)), path.relative_to(folder).as_posix()) for path in files]
    _append(folder, sums)


def record_removals(folder: Path, files: Iterable[Path]) -> None:
    """Record that files are about to be removed, so that they are not reported as missing. Raises OSError.

    Names without a file and without a sum are skipped.
    """
    names = {path.relative_to(folder).as_posix(): path.exists() for path in files}
    recorded = read_sums(folder) if names else {}
    if gone := [
        (GONE, name) for name, exists in names.items() if GONE not in recorded.get(name, () if exists else {GONE})
    ]:
        _append(folder, gone)


def _append(folder: Path, sums: Sequence[tuple[str, str]]) -> None:
    """Append lines; a folder that has neither a list nor parts gets a complete list (``COMPLETE``)."""
    if not (folder / NAME).exists() and not any(folder.glob("*/part-*")):
        sums = [(GONE, COMPLETE), *sums]
    safe_write.append(folder / NAME, "".join(f"{digest}  {name}\n" for digest, name in sums).encode("ascii"))


def write(path: Path, content: bytes) -> None:
    """Replace a file at the top of a run folder and record its sum. Raises OSError."""
    safe_write.prepare(path, content)
    record_sums(path.parent, [path])
    safe_write.publish(path)


def write_table(path: Path, frame: pl.DataFrame | pl.LazyFrame, **options: Any) -> None:
    """Replace a Parquet file and record its sum; ``options`` go to polars' ``write_parquet``. Raises OSError or PolarsError."""
    safe_write.prepare_table(path, frame, **options)
    record_sums(path.parent, [path])
    safe_write.publish(path)


def read_verified(path: Path) -> bytes:
    """Return the bytes of a file at the top of a run folder. Raises OSError, also if their sum is not the recorded one."""
    for _ in range(2):
        content = regular.read_bytes(path, LARGEST)
        recorded = read_sums(path.parent).get(path.name)
        if recorded is None or sha256(content).hexdigest() in recorded:
            return content  # else a writer may have replaced the file after it was read: try once more
    raise OSError(errno.EINVAL, f"it is damaged or was edited: {NAME} has another sum", str(path))


def read_sums(folder: Path) -> Sums:
    """Return the recorded sums; torn and foreign lines are skipped."""
    return _group_by_name(_read_lines(folder))


def parse_sums(content: bytes) -> Sums:
    """Return the sums in the bytes of a list."""
    return _group_by_name(_parse_lines(content))


def _group_by_name(lines: Iterable[tuple[str, str]]) -> Sums:
    sums: dict[str, set[str]] = {}
    for digest, name in lines:
        sums.setdefault(name, set()).add(digest)
    return sums


def sum_matches(path: Path, sums: Sums) -> bool:
    """Return True if a part's bytes match a recorded sum, or if none is recorded and the list is not complete."""
    recorded = sums.get(f"{path.parent.name}/{path.name}")
    if recorded is None:
        return COMPLETE not in sums
    return _hash_once(path, (status := path.stat()).st_mtime_ns, status.st_size, status.st_ino) in recorded


def damaged_files(folder: Path) -> list[str]:
    """Return the names of damaged files at the top of a run folder, and of removed tables."""
    names = sorted(name for name in read_sums(folder) if "/" not in name and (folder / name).exists())
    for _ in range(2):
        current = {name: _digest_or_empty(folder / name) for name in names}
        sums = read_sums(folder)  # read after the bytes, since a sum is recorded before its file is published
        names = [name for name in names if current[name] not in sums.get(name, {current[name]})]
    return names + removed_tables(folder)


def removed_tables(folder: Path, sums: Sums | None = None) -> list[str]:
    """Return the tables with recorded parts whose folder is gone, such as ``episodes/``; by default the sums are read."""
    recorded = read_sums(folder) if sums is None else sums
    tables = {name.partition("/")[0] for name in recorded if "/" in name}
    return sorted(f"{table}/" for table in tables if not (folder / table).is_dir())


def drop_stale_sums(folder: Path) -> None:
    """Keep only the current sum of each replaced file. The caller must hold the folder's lock."""
    lines, sums = _read_lines(folder), read_sums(folder)
    current = {name: _digest_or_empty(folder / name) for name in sums if "/" not in name}
    valid_lines = dict.fromkeys(line for line in lines if current.get(line[1]) not in sums[line[1]] - {line[0]})
    if len(valid_lines) < len(lines):
        text = "".join(f"{digest}  {name}\n" for digest, name in valid_lines)
        safe_write.write(folder / NAME, text.encode("ascii"))


def _read_lines(folder: Path) -> list[tuple[str, str]]:
    try:
        return _parse_lines(regular.read_bytes(folder / NAME, LARGEST))
    except OSError:
        return []


def _parse_lines(content: bytes) -> list[tuple[str, str]]:
    text = content.decode("ascii", errors="replace")
    whole_lines = text[: text.rfind("\n") + 1].splitlines()  # a torn last line may end inside a name
    return [(match[1], match[2]) for match in map(LINE.fullmatch, whole_lines) if match]


def _digest_or_empty(path: Path) -> str:
    try:
        return sha256(regular.read_bytes(path, LARGEST)).hexdigest()
    except OSError:
        return ""


@lru_cache(maxsize=4096)
def _hash_once(path: Path, *_state: int) -> str:
    """Return the sum of a file, hashing it once per state (time, size, inode)."""
    return _hash_file(path)


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
