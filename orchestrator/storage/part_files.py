"""The Parquet parts of a run folder: which of them count, and how a writer mends the folder.

A part counts if each of its files has its recorded sum and schema, and no merged part has replaced it.
"""

import contextlib
import logging
import os
import re
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self, TypeVar

import polars as pl

from orchestrator.storage import checksums, safe_write
from orchestrator.storage.late_scan import TRIES
from orchestrator.storage.schemas import TABLES, UNREADABLE, VERDICTS, is_schema_of

Read = TypeVar("Read")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A pair of files, or three if it has options; ``first`` and ``last`` are equal unless parts were merged."""

    first: int
    last: int

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """Return the part with this file name; None if it is not a part's name."""
        match = re.fullmatch(r"part-([0-9]{8,18})(?:-([0-9]{8,18}))?\.parquet", name)
        if not match:
            return None
        part = cls(int(match[1]), int(match[2] or match[1]))
        return part if part.first <= part.last and part.name == name else None

    @property
    def name(self) -> str:
        """File name, the same in every table's folder."""
        return f"part-{self.first:08d}" + ("" if self.first == self.last else f"-{self.last:08d}") + ".parquet"

    def is_inside(self, merged: Self) -> bool:
        """Return True if ``merged`` is another part whose range includes this one, so that it holds its rows."""
        return self != merged and merged.first <= self.first and self.last <= merged.last


@dataclass(frozen=True, slots=True)
class PartFiles:
    """The part files of a run folder, sorted by their use."""

    parts: list[Part]
    """The parts that count, in order."""
    bad: list[Path]
    """Unusable files, and the other files of the same parts."""
    lone: list[Path]
    """Turns and options whose episodes were never committed, as after a crash between the renames."""
    merged: list[Part]
    """The parts that a merge has replaced."""


def list_parts(folder: Path) -> PartFiles:
    """Sort the part files by their use. A writer may merge some meanwhile: a file is bad only if two listings agree."""
    files = _list_once(folder)
    for _ in range(TRIES):
        if not files.bad or files.bad == (relisted := _list_once(folder)).bad:
            break
        files = relisted
    return files


def _list_once(folder: Path) -> PartFiles:
    """List episodes first, since a writer publishes them last, and the sums at the end: they precede the files."""
    names = {table: {path.name for path in (folder / table).glob("*.parquet")} for table in TABLES}
    sums = checksums.read_sums(folder)
    good = {
        table: {name for name in names[table] if is_usable(folder / table / name, schema, sums)}
        for table, schema in TABLES.items()
    }
    parts = {name: part for name in set().union(*names.values()) if (part := Part.parse(name))}
    without_options = parts.keys() - names["options"] - {name.removeprefix("options/") for name in sums}
    complete_parts = sorted(
        parts[name] for name in good["episodes"] & good["turns"] & (good["options"] | without_options)
    )
    merged = _find_inside(parts.values(), complete_parts)
    counted = {part.name for part in (*complete_parts, *merged)}
    lone = {
        name
        for name in parts.keys() - counted - names["episodes"]
        if all(name in good[table] for table in TABLES if name in names[table])
    }
    uncounted = [(table, name) for table in TABLES for name in sorted(names[table] - counted)]
    return PartFiles(
        sorted(set(complete_parts) - set(merged)),
        [folder / table / name for table, name in uncounted if name not in lone],
        [folder / table / name for table, name in uncounted if name in lone],
        merged,
    )


def _find_inside(parts: Iterable[Part], containers: Iterable[Part]) -> list[Part]:
    """Return the parts that lie inside another one of ``containers``, in order."""
    merges = [part for part in containers if part.first < part.last]
    return sorted(part for part in parts if any(part.is_inside(merge) for merge in merges))


def list_verdicts(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the parts of verdicts that count, and those that are damaged; a writer may merge some meanwhile."""
    for _ in range(TRIES):
        paths = sorted((folder / "verdicts").glob("*.parquet"))
        sums = checksums.read_sums(folder)  # after the names, since a sum is recorded before its part is published
        good = [path for path in paths if Part.parse(path.name) and is_usable(path, VERDICTS, sums)]
        if len(good) == len(paths) or paths == sorted((folder / "verdicts").glob("*.parquet")):
            break
    return good, [path for path in paths if path not in good]


def damaged_parts(folder: Path) -> list[Path]:
    """Return the files of all tables that count as absent: torn, empty, foreign, of another schema, or unpaired."""
    return [*list_parts(Path(folder)).bad, *list_verdicts(Path(folder))[1]]


def read_consistently(folder: Path, read: Callable[[], Read]) -> Read:
    """Return what ``read()`` returns, called again if a writer replaced or removed parts meanwhile: then tables fit together."""
    for _ in range(TRIES):
        before = _states(folder)
        content = read()
        if before.items() <= _states(folder).items():
            break
    return content


def _states(folder: Path) -> dict[Path, tuple[int, int]]:
    states = {}
    for path in (path for table in (*TABLES, "verdicts") for path in (folder / table).glob("part-*.parquet")):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            states[path] = (status.st_ino, status.st_mtime_ns)
    return states


def has_options(part: Part, sums: checksums.Sums) -> bool:
    """Return True if a part was written with options."""
    return f"options/{part.name}" in sums


def is_usable(path: Path, schema: pl.Schema, sums: checksums.Sums) -> bool:
    """Return True if this is a valid part; pipes and folders are not opened. A part without a sum must be decodable."""
    recorded = sums.get(f"{path.parent.name}/{path.name}")
    if recorded is None and checksums.COMPLETE in sums:
        return False
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return False
        digest, stored = _inspect_once(path, status.st_mtime_ns, status.st_size, status.st_ino)
        if recorded is None:
            scan_part(path).collect()
    except UNREADABLE:
        return False
    return is_schema_of(stored, schema) and (recorded is None or digest in recorded)


@lru_cache(maxsize=1 << 14)
def _inspect_once(path: Path, *_state: int) -> tuple[str, pl.Schema]:
    """Return sum and schema of a file, read once per state (time, size, inode)."""
    return checksums.hash_file(path), scan_part(path).collect_schema()


def scan_part(path: Path) -> pl.LazyFrame:
    """Scan one file, without reading column values from its path."""
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def missing_parts(folder: Path) -> list[str]:
    """Return listed part files that are gone although they were neither merged nor removed by this package.

    The lists of earlier versions do not have all removals.
    """
    sums = checksums.read_sums(folder)
    if checksums.COMPLETE not in sums:
        return []
    parts = {name: Part.parse(name.partition("/")[2]) for name in sums if "/" in name}
    present = [part for name, part in parts.items() if part and (folder / name).is_file()]
    absent = [name for name in parts if sums[name][-1] != checksums.GONE and not (folder / name).exists()]
    inside = {part.name for part in _find_inside(filter(None, (parts[name] for name in absent)), present)}
    return [name for name in absent if name.partition("/")[2] not in inside or name.startswith("verdicts/")]


def next_number(folder: Path, tables: Iterable[str]) -> int:
    """Return a number that no part of these tables ever had, since a recorded sum belongs to one part forever."""
    listed = (name.partition("/") for name in checksums.read_sums(folder))
    names = {path.name for table in tables for path in folder.glob(f"{table}/part-*.parquet")}
    parts = map(Part.parse, names | {file for table, _, file in listed if table in tables})
    return 1 + max((part.last for part in parts if part), default=0)


def mend(folder: Path) -> None:
    """Move files that do not count to ``damaged/``; what they held is pending again. The caller must hold the folder's lock.

    A crash may leave temporary files, turns without episodes, parts that a merge has replaced, and sums of files that never
    got their names.
    """
    for place in [folder / table for table in (*TABLES, "verdicts") if (folder / table).is_dir()]:
        safe_write.flush_folder(place)  # makes every rename durable, also that of a part whose flush failed afterwards
        for stale in place.glob(f"part-*{safe_write.TEMPORARY}"):
            safe_write.remove(stale)
    files, (_, bad_verdicts) = list_parts(folder), list_verdicts(folder)
    for path in (*files.bad, *bad_verdicts):
        log.error("%s cannot be used and is moved to damaged/; what it held is pending again", path)
    absent = missing_parts(folder)
    if len(absent) > len(TABLES):  # a crash leaves no more
        log.error("%d parts of %s were removed; what they held is pending again", len(absent), folder)
    aside = [*files.bad, *files.lone, *bad_verdicts]
    checksums.record_removals(folder, [*aside, *(folder / name for name in absent)])
    for path in aside:
        safe_write.move_aside(folder, path)
    delete_parts(folder, files.merged)


def delete_parts(folder: Path, parts: Iterable[Part], tables: Iterable[str] = TABLES) -> None:
    """Delete parts, episodes before turns, so that no reader sees an episode without turns."""
    for place in [folder / table for table in tables if (folder / table).is_dir()]:
        paths = [place / part.name for part in parts]
        checksums.record_removals(folder, paths)
        for path in paths:
            safe_write.remove(path)
        safe_write.flush_folder(place)
