"""The Parquet parts of a run folder: which of them count, and which are damaged, merged or incomplete."""

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import polars as pl

from orchestrator.storage import checksums, safe_write
from orchestrator.storage.late_scan import TRIES
from orchestrator.storage.schemas import TABLES, UNREADABLE, earlier_schema

SMALL_BYTES, TOGETHER = 1 << 16, 256
"""Parts of at most ``SMALL_BYTES`` are decoded together, ``TOGETHER`` at once."""


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


def list_parts(folder: Path, decode: bool = False, sums: checksums.Sums | None = None) -> PartFiles:
    """Sort the part files by their use; ``decode`` decodes every file, else only those without a sum are decoded.

    ``sums`` are read by default; a writer that holds the folder may pass them.
    """
    names = _list_names(folder)
    parts_by_name = {name: part for name in set().union(*names.values()) if (part := Part.parse(name))}
    if sums is None:
        sums = checksums.read_sums(folder)  # read after the names, since a sum is recorded before its part is published
    good = {
        table: _find_usable(folder / table, names[table] & parts_by_name.keys(), schema, sums, decode)
        for table, schema in TABLES.items()
    }
    with_options = {name.removeprefix("options/") for name in sums if name.startswith("options/")}
    complete_options = good["options"] | (parts_by_name.keys() - names["options"] - with_options)
    pairs = good["episodes"] & good["turns"] & complete_options
    live = sorted(parts_by_name[name] for name in pairs)
    merged = find_merged(parts_by_name.values(), live)
    replaced = {part.name for part in merged}
    lone = {table: good[table] - names["episodes"] - replaced for table in ("turns", "options")}
    not_bad = {"episodes": pairs, **{table: pairs | lone_names for table, lone_names in lone.items()}}
    bad = [
        folder / table / name
        for table in TABLES
        for name in sorted(names[table] - not_bad[table] - (replaced & good[table]))
    ]
    lone_files = [folder / table / name for table, lone_names in lone.items() for name in sorted(lone_names)]
    return PartFiles(sorted(set(live) - set(merged)), bad, lone_files, merged)


def has_options(part: Part, sums: checksums.Sums) -> bool:
    """Return True if a part was written with options."""
    return f"options/{part.name}" in sums


def find_merged(parts: Iterable[Part], merges: Iterable[Part]) -> list[Part]:
    """Return the parts that lie inside another one of ``merges``, in order."""
    unique, containers, reach = set(parts), set(merges), 0
    merged = []
    for part in sorted(unique | containers, key=lambda part: (part.first, -part.last)):  # containers before contents
        if part.last <= reach and part in unique:
            merged.append(part)
        if part in containers:
            reach = max(reach, part.last)
    return merged


def list_parts_during_run(folder: Path) -> PartFiles:
    """List the parts while a writer may merge some: a part is bad only if two listings agree."""
    files = list_parts(folder)
    for _ in range(TRIES):
        if not files.bad or files.bad == (relisted := list_parts(folder)).bad:
            break
        files = relisted
    return files


def damaged_parts(folder: Path) -> list[Path]:
    """Return the part files that count as absent: torn, empty, foreign, of another schema, or unpaired."""
    return list_parts_during_run(Path(folder)).bad


def part_names(folder: Path) -> list[str]:
    """Return the part files of all tables by their names in ``sums.sha256``, damaged ones included."""
    return [
        f"{table}/{path.name}" for table in (*TABLES, "verdicts") for path in (folder / table).glob("part-*.parquet")
    ]


def missing_files(folder: Path, sums: checksums.Sums | None = None) -> list[str]:
    """Return listed files that are gone although they were neither merged nor removed by this package.

    ``sums`` are read by default. Parts count only if the list is complete: earlier versions did not record removals.
    """
    sums = checksums.read_sums(folder) if sums is None else sums
    present = set(part_names(folder))
    absent = [
        name
        for name, recorded in sums.items()
        if name != checksums.COMPLETE and checksums.GONE not in recorded and name not in present
    ]
    merged = {part.name for part in find_merged(_parse_parts(absent), _parse_parts(present))}
    missing = []
    for name in absent:
        table, _, file = name.rpartition("/")
        if table not in (*TABLES, "verdicts") and (folder / name).exists():
            continue
        is_merged = table in TABLES and file in merged
        if not table or (checksums.COMPLETE in sums and not is_merged and (folder / table).is_dir()):
            missing.append(name)
    return missing


def _parse_parts(names: Iterable[str]) -> list[Part]:
    files = {name.rpartition("/")[2] for name in names}  # tables share names
    return [part for file in files if (part := Part.parse(file))]


def part_numbers(folder: Path, sums: checksums.Sums, tables: Collection[str] = tuple(TABLES)) -> Iterator[int]:
    """Yield the numbers of all parts, past ones included, since a recorded sum belongs to one part forever.

    These are the parts in the folder, those in ``damaged/`` (a repaired file can be put back), and those with a sum: after
    a crash, a sum may be recorded whose part was never published.
    """
    patterns = [*(f"{table}/*part-*" for table in tables), *(f"damaged/{table}-part-*" for table in tables)]
    files = (path.name for pattern in patterns for path in folder.glob(pattern))
    recorded = (name.partition("/") for name in sums)
    for name in {*files, *(file for table, _, file in recorded if table in tables)}:
        match = re.search(r"part-(?:[0-9]{8,18}-)?([0-9]{8,18})\.parquet", name)
        if match:
            yield int(match[1])


def _find_usable(folder: Path, names: Set[str], schema: pl.Schema, sums: checksums.Sums, decode: bool) -> set[str]:
    """Return the names of a table's valid parts; small ones with a sum are decoded together, since each alone takes 1 ms."""
    small = [
        name
        for name in sorted(names if decode else ())
        if f"{folder.name}/{name}" in sums and _is_small(folder / name, sums)
    ]
    batches = (small[first : first + TOGETHER] for first in range(0, len(small), TOGETHER))
    decoded = {name for batch in batches if _are_readable([folder / name for name in batch], schema) for name in batch}
    return decoded | {name for name in names - decoded if is_usable(folder / name, schema, sums, decode)}


def _is_small(path: Path, sums: checksums.Sums) -> bool:
    """Return True if this is a file of at most ``SMALL_BYTES`` whose sum matches."""
    try:
        status = os.stat(path)
        return stat.S_ISREG(status.st_mode) and status.st_size <= SMALL_BYTES and checksums.sum_matches(path, sums)
    except OSError:
        return False


def _are_readable(paths: Sequence[Path], schema: pl.Schema) -> bool:
    """Return True if all of these files can be decoded and have this schema."""
    try:
        rows = pl.scan_parquet(list(paths), glob=False, hive_partitioning=False).collect()
    except UNREADABLE:
        return False
    return rows.schema in (schema, earlier_schema(schema))


def is_usable(path: Path, schema: pl.Schema, sums: checksums.Sums, decode: bool = False) -> bool:
    """Return True if this is a valid part; a part without a sum is decoded. Pipes and folders are not opened."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or not status.st_size or not checksums.sum_matches(path, sums):
            return False
        lazy = not decode and f"{path.parent.name}/{path.name}" in sums
        stored_schema = scan_part(path).collect_schema() if lazy else scan_part(path).collect().schema
    except UNREADABLE:
        return False
    return stored_schema in (schema, earlier_schema(schema))


def scan_part(path: Path) -> pl.LazyFrame:
    """Scan one file, without reading column values from its path."""
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def _list_names(folder: Path) -> dict[str, set[str]]:
    """List the Parquet files of each table, episodes first, since the writer writes them last."""
    for _ in range(3):
        names = {table: {path.name for path in (folder / table).glob("*.parquet")} for table in TABLES}
        if names["episodes"] <= names["turns"]:
            break  # else a merge may just have deleted a pair between the two listings
    return names


def describe_parts(names: Sequence[str]) -> str:
    """Return the name of a single part, or words for several: ``each of 3 parts from ... to ...``."""
    return names[0] if len(names) == 1 else f"each of {len(names)} parts from {names[0]} to {names[-1]}"


def delete_parts(folder: Path, parts: Iterable[Part]) -> None:
    """Delete parts, episodes before turns, so that no reader sees an episode without turns."""
    for table in (name for name in TABLES if (folder / name).is_dir()):
        for part in parts:
            safe_write.remove(folder / table / part.name)
        safe_write.flush_folder(folder / table)
