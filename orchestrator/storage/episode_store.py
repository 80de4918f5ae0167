"""The store of finished episodes and their turns: two tables of Parquet parts in a run folder.

Every finished episode is stored exactly once, or is still pending: torn, foreign and unpaired parts count as absent.

``episodes/part-N.parquet`` and ``turns/part-N.parquet`` are a pair: turns are written first, the episodes part is the
commit. A merged pair is called ``part-FIRST-LAST`` and replaces, from the rename of its episodes part on, all pairs
whose numbers lie in that range: the name is the manifest (docs/decisions/0002-two-tables.md).
"""

from __future__ import annotations

import logging
import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from actors.playing.records import Columns, EpisodeBatch, EpisodeRow, TurnRow
from orchestrator.storage import atomic_write, checksums, lock, row_check
from orchestrator.storage.late_scan import TRIES, late_scan
from orchestrator.storage.schemas import schema

EPISODES, TURNS = schema(EpisodeRow), schema(TurnRow)
TABLES = {"episodes": EPISODES, "turns": TURNS}
LATER = ("cached_tokens", "pictures", "cached_pictures", "read_as", "judged")
EARLIER = {
    table: pl.Schema({name: kind for name, kind in columns.items() if name not in LATER})
    for table, columns in TABLES.items()
}
"""Schemas of earlier versions; columns that they lack are read as nulls."""
LARGE = 100_000
"""Episodes from which on a part is no longer merged."""
UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """A pair of files; ``first`` and ``last`` are equal unless parts were merged."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """File name in both folders."""
        return f"part-{self.first:08d}" + ("" if self.first == self.last else f"-{self.last:08d}") + ".parquet"

    def is_inside(self, merged: Part) -> bool:
        """Return True if ``merged`` is a merge that holds this part's rows."""
        return self != merged and merged.first <= self.first and self.last <= merged.last


class EpisodeStore:
    """The single writer of a run folder. Raises RunFolderError if another process holds the folder."""

    def __init__(self, folder: Path, rows: int = 20_000, seconds: float = 5.0) -> None:
        """Take the lock, delete temporary files of a crash, and move damaged parts to ``damaged/``.

        A part is written when ``rows`` episodes wait, or when the oldest has waited ``seconds`` at the next
        ``append`` or ``flush_old``.
        """
        self.folder, self.rows, self.seconds = Path(folder), rows, seconds
        lock.acquire(self.folder, "store")
        try:
            self._parts = self._open_parts()
        except BaseException:
            lock.release(self.folder, "store")
            raise
        self._next = max(_part_numbers(self.folder), default=0) + 1
        self._clear_buffer()

    def append(self, batch: EpisodeBatch) -> None:
        """Buffer finished episodes and their turns. Raises ValueError for wrong columns, lengths or duplicate keys."""
        tables = {"episodes": batch.episodes, "turns": batch.turns}
        keys = _check_columns(tables)
        if not self._keys.isdisjoint(keys):
            self.flush()  # no key twice in a part: which turns are whose stays clear, and readers keep the first part's
        self._keys |= keys
        if not self._buffered:
            self._since = time.monotonic()
        for table, columns in self._buffer.items():
            for name, values in columns.items():
                values.extend(tables[table][name])
        if self._buffered >= self.rows:
            self.flush()
        self.flush_old()

    def flush_old(self) -> None:
        """Flush if the oldest buffered episode has waited long enough; the driver calls it regularly."""
        if self._buffered and time.monotonic() - self._since >= self.seconds:
            self.flush()

    def flush(self) -> None:
        """Write the buffered episodes to a part; rows that cannot be stored are set aside (``row_check``).

        Raises OSError (a full disk); the buffer is then kept.
        """
        if not self._buffered:
            return
        frames, _ = row_check.make_frames(self.folder, self._buffer, TABLES)
        if frames["episodes"].height:
            self._commit(Part(self._next, self._next), frames)
            self._next += 1
        self._clear_buffer()

    def finished_episodes(self) -> pl.DataFrame:
        """Return the columns key and cell of every durable episode."""
        self._forget_missing()
        return _episodes(self.folder, self._parts).select("key", "cell").collect()

    def discard(self, keys: Collection[str]) -> None:
        """Make these episodes pending again, by rewriting each part that holds one; their turns are ignored from then on."""
        self.flush()
        self._forget_missing()
        for part in self._parts:
            path = self.folder / "episodes" / part.name
            rows = pl.read_parquet(path, glob=False, hive_partitioning=False)
            remaining = rows.filter(~pl.col("key").is_in(list(keys)))
            if remaining.height < rows.height:
                _write_temporary(remaining, path)
                checksums.record_sums(self.folder, [path])
                atomic_write.publish(path)

    def compact(self) -> None:
        """Merge neighboring small parts.

        A crash neither loses nor doubles rows: until the merged episodes part has its name, only the old parts count;
        afterwards they are ignored, deleted or not.
        """
        self.flush()
        self._forget_missing()
        for group in self._groups():
            merged = Part(group[0].first, group[-1].last)
            self._commit(merged, {"episodes": _episodes(self.folder, group), "turns": _turns(self.folder, group)})
            heights = [_row_count(self.folder / "episodes" / part.name) for part in (*group, merged)]
            if double := sum(heights[:-1]) - heights[-1]:
                log.error("%d episodes were there twice in %s", double, self.folder)
            self._parts = sorted(set(self._parts) - set(group))
            _delete_parts(self.folder, group)

    def close(self) -> None:
        """Flush, and release the folder."""
        try:
            self.flush()
        finally:
            lock.release(self.folder, "store")

    @property
    def _buffered(self) -> int:
        return len(self._buffer["episodes"]["key"])

    def _clear_buffer(self) -> None:
        self._buffer: dict[str, Columns] = {table: {name: [] for name in schema} for table, schema in TABLES.items()}
        self._keys: set[str] = set()
        self._since = time.monotonic()

    def _forget_missing(self) -> None:
        """Drop parts that somebody removed while this process holds the folder; their episodes are pending again."""
        there = {part for part in self._parts if all((self.folder / table / part.name).is_file() for table in TABLES)}
        if gone := [part.name for part in self._parts if part not in there]:
            log.error("%s of %s was removed; its episodes are pending again", _describe_parts(gone), self.folder)
        self._parts = sorted(there)

    def _commit(self, part: Part, frames: Mapping[str, pl.DataFrame | pl.LazyFrame]) -> None:
        """Write a part; the rename of its episodes, after its turns, is the commit."""
        paths = {table: self.folder / table / part.name for table in ("turns", "episodes")}
        for table, path in paths.items():
            atomic_write.make_folder(path.parent)  # somebody may have removed it
            _write_temporary(frames[table], path)
        checksums.record_sums(self.folder, paths.values())
        for path in paths.values():
            atomic_write.publish(path)
        self._parts = sorted({*self._parts, part})

    def _groups(self) -> list[list[Part]]:
        """Return runs of two or more neighboring small parts to merge into a large one."""
        groups: list[list[Part]] = [[]]
        rows = 0
        for part in self._parts:
            height = _row_count(self.folder / "episodes" / part.name)
            group = groups[-1]
            if group and (rows >= LARGE or height >= LARGE or part.first != group[-1].last + 1):
                groups.append(group := [])
                rows = 0
            if height < LARGE:
                group.append(part)
                rows += height
        return [group for group in groups if len(group) > 1]

    def _open_parts(self) -> list[Part]:
        """Return the usable parts after reading every byte; other files are moved aside or deleted."""
        for table in checksums.removed_tables(self.folder):
            log.error("%s of %s was removed; what it held is pending again", table, self.folder)
        for table in TABLES:
            atomic_write.make_folder(self.folder / table)
            for stale in (self.folder / table).glob(f"part-*{atomic_write.TEMPORARY}"):
                stale.unlink()
        scan = _scan_folder(self.folder, decode=True)
        for path in scan.bad:
            log.error("%s cannot be used and is moved to damaged/; its episodes are pending again", path)
        if len(scan.lone) > 1:  # a crash leaves one
            names = _describe_parts([path.name for path in scan.lone])
            log.error("%s of episodes/ in %s was removed; its episodes are pending again", names, self.folder)
        for path in (*scan.bad, *scan.lone):
            move_aside(self.folder, path)
        _delete_parts(self.folder, scan.merged)
        return scan.parts


def episodes(folder: Path, model: str | None = None) -> pl.LazyFrame:
    """Scan the episodes of a run folder (``EPISODES``), each key once; unusable parts are skipped with a warning.

    ``model`` restricts the scan to one model. Safe during a run: parts are listed when the frame is collected.
    """
    return late_scan(EPISODES, lambda: _episodes(Path(folder), _usable_parts(Path(folder)), model))


def turns(folder: Path) -> pl.LazyFrame:
    """Scan the turns of the stored episodes (``TURNS``), in the order played."""
    return late_scan(TURNS, lambda: _turns(Path(folder), _usable_parts(Path(folder))))


def damaged_parts(folder: Path) -> list[Path]:
    """Return the part files that count as absent: torn, empty, foreign, of another schema, or unpaired."""
    return _stable_scan(Path(folder)).bad


@dataclass(frozen=True, slots=True)
class _FolderScan:
    parts: list[Part]
    """What counts, in order."""
    bad: list[Path]
    """What cannot be used, with the other half of its pair."""
    lone: list[Path]
    """Turns whose episodes were never committed: what a crash between the two renames leaves."""
    merged: list[Part]
    """What a merge has replaced."""


def _usable_parts(folder: Path) -> list[Part]:
    scan = _stable_scan(folder)
    for path in scan.bad:
        log.warning("%s cannot be used and is skipped; `proactive-sweep run` plays its episodes again", path)
    return scan.parts


def _stable_scan(folder: Path) -> _FolderScan:
    """Scan during a run: a part is bad only if two scans agree, since a merge may happen within one."""
    scan = _scan_folder(folder)
    for _ in range(TRIES):
        if not scan.bad or scan.bad == (rescan := _scan_folder(folder)).bad:
            break
        scan = rescan
    return scan


def _scan_folder(folder: Path, decode: bool = False) -> _FolderScan:
    """Sort the files of both folders by their sums; ``decode`` also decodes every file, not just those without a sum."""
    names = _list_files(folder)
    parts_by_name = {name: part for name in set().union(*names.values()) if (part := _parse_part(name))}
    sums = checksums.read_sums(folder)  # after the names: a part has its line before its name
    good = {
        table: {n for n in names[table] & parts_by_name.keys() if _is_usable(folder / table / n, decode, sums)}
        for table in TABLES
    }
    pairs = good["episodes"] & good["turns"]
    live = sorted(parts_by_name[name] for name in pairs)
    merges = [part for part in live if part.first < part.last]
    merged = [part for part in parts_by_name.values() if any(part.is_inside(merge) for merge in merges)]
    replaced = {part.name for part in merged}
    lone = good["turns"] - names["episodes"] - replaced
    spare = {"episodes": pairs, "turns": pairs | lone}
    bad = [
        folder / table / name
        for table in TABLES
        for name in sorted(names[table] - spare[table] - (replaced & good[table]))
    ]
    return _FolderScan(sorted(set(live) - set(merged)), bad, [folder / "turns" / name for name in sorted(lone)], merged)


def _list_files(folder: Path) -> dict[str, set[str]]:
    """List the Parquet files of each folder, episodes first, since the writer writes them last."""
    for _ in range(3):
        names = {table: {path.name for path in (folder / table).glob("*.parquet")} for table in TABLES}
        if names["episodes"] <= names["turns"]:
            break  # else a merge may just have deleted a pair between the two listings
    return names


def _parse_part(name: str) -> Part | None:
    match = re.fullmatch(r"part-([0-9]{8,18})(?:-([0-9]{8,18}))?\.parquet", name)
    if not match:
        return None
    part = Part(int(match[1]), int(match[2] or match[1]))
    return part if part.first <= part.last and part.name == name else None


def _is_usable(path: Path, decode: bool, sums: checksums.Sums) -> bool:
    """Return True if this is a valid part; a part without a sum is decoded. Pipes and folders are not opened."""
    table = path.parent.name
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return False
        if not checksums.sum_matches(path, sums):
            return False
        lazy = not decode and f"{table}/{path.name}" in sums
        schema = _scan(path).collect_schema() if lazy else _scan(path).collect().schema
    except UNREADABLE:
        return False
    return schema in (TABLES[table], EARLIER[table])


def _scan_parts(folder: Path, table: str, parts: Sequence[Part]) -> pl.LazyFrame:
    """Scan all rows in the order of the parts; column ``part`` is the part's index in that order."""
    files = [str(folder / table / part.name) for part in parts]
    read = {"missing_columns": "insert", "glob": False, "hive_partitioning": False, "include_file_paths": "part"}
    rows = pl.scan_parquet(files, schema=TABLES[table], **read)  # type: ignore[arg-type]
    return rows.with_columns(pl.col("part").cast(pl.Enum(files)).to_physical())


def _episodes(folder: Path, parts: Sequence[Part], model: str | None = None) -> pl.LazyFrame:
    if not parts:
        return pl.LazyFrame(schema=EPISODES)
    named = pl.lit(True) if model is None else pl.col("model") == model  # before keys are compared, which name it too
    rows = _scan_parts(folder, "episodes", parts).drop("part").filter(named)
    return rows.unique("key", keep="first", maintain_order=True)


def _turns(folder: Path, parts: Sequence[Part]) -> pl.LazyFrame:
    """Scan the turns from the part that holds the episode, so that a key in two parts does not mix their turns."""
    if not parts:
        return pl.LazyFrame(schema=TURNS)
    owners = (
        _scan_parts(folder, "episodes", parts).select("key", "part").unique("key", keep="first", maintain_order=True)
    )
    owned = _scan_parts(folder, "turns", parts).join(owners, on=["key", "part"], how="semi", maintain_order="left")
    return owned.drop("part")


def _scan(path: Path) -> pl.LazyFrame:
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def _row_count(path: Path) -> int:
    return int(_scan(path).select(pl.len()).collect().item())


def _describe_parts(names: Sequence[str]) -> str:
    """Return part names in one line, however many."""
    return names[0] if len(names) == 1 else f"each of {len(names)} parts from {names[0]} to {names[-1]}"


def _part_numbers(folder: Path) -> Iterable[int]:
    """Yield every number that a part has or had before it was moved aside, so that a repaired file can be put back."""
    for subfolder in (*TABLES, "damaged"):
        for path in (folder / subfolder).glob("*part-*"):
            match = re.search(r"part-(?:[0-9]{8,18}-)?([0-9]{8,18})\.parquet", path.name)
            if match:
                yield int(match[1])


def _check_columns(tables: dict[str, Columns]) -> set[str]:
    for table, expected in TABLES.items():
        columns = tables[table]
        if columns.keys() != expected.keys():
            raise ValueError(f"{table} must have the columns {', '.join(expected)}, not {', '.join(columns)}")
        if len({len(values) for values in columns.values()}) > 1:
            raise ValueError(f"the columns of {table} differ in length")
    keys = set(tables["episodes"]["key"])
    if len(keys) < len(tables["episodes"]["key"]):
        raise ValueError("a batch holds an episode twice")
    return keys


def _write_temporary(frame: pl.DataFrame | pl.LazyFrame, path: Path) -> None:
    """Write a part under its temporary name and flush it."""
    atomic_write.prepare_table(path, frame, compression="zstd", compression_level=3)


def _delete_parts(folder: Path, parts: Iterable[Part]) -> None:
    """Delete parts, episodes before turns, so that no reader sees an episode without turns."""
    for table in TABLES:
        for part in parts:
            (folder / table / part.name).unlink(missing_ok=True)
        atomic_write.fsync(folder / table)


def move_aside(folder: Path, path: Path) -> None:
    """Move a file to ``damaged/`` under a new name."""
    damaged_folder = folder / "damaged"
    atomic_write.make_folder(damaged_folder)
    number = 0
    while (aside := damaged_folder / f"{path.parent.name}-{path.name}{f'.{number}' if number else ''}").exists():
        number += 1
    path.rename(aside)
