"""The store of finished episodes and their turns: two tables of Parquet parts in a run folder.

Every finished episode is stored exactly once, or is still pending: a torn, foreign or unpaired part counts as absent.

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

from actors.records import Columns, EpisodeBatch, EpisodeRow, TurnRow
from orchestrator.storage import atomic_write, checksums, lock, row_check
from orchestrator.storage.late_scan import TRIES, late_scan
from orchestrator.storage.schemas import schema

EPISODES, TURNS = schema(EpisodeRow), schema(TurnRow)
TABLES = {"episodes": EPISODES, "turns": TURNS}
LATER = ("cached_tokens", "pictures", "cached_pictures", "read_as", "judged")
EARLIER = {t: pl.Schema({n: kind for n, kind in now.items() if n not in LATER}) for t, now in TABLES.items()}
"""As earlier versions wrote a table; read with nulls in the place of what they lack."""
LARGE = 100_000
"""Episodes from which on a part is left as it is when small ones are merged."""
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

    def inside(self, other: Part) -> bool:
        """Whether ``other`` is a merge that holds this part's rows."""
        return self != other and other.first <= self.first and self.last <= other.last


class EpisodeStore:
    """The single writer of a run folder; raises RunFolderError when another process has it."""

    def __init__(self, folder: Path, rows: int = 20_000, seconds: float = 5.0) -> None:
        """Take the lock, sweep what a crash left, move damaged parts to ``damaged/``.

        A part is written when ``rows`` episodes wait, or when the oldest has waited ``seconds`` at the next
        ``append`` or ``flush_old``.
        """
        self.folder, self.rows, self.seconds = Path(folder), rows, seconds
        lock.acquire(self.folder, "store")
        try:
            self._parts = self._opened()
        except BaseException:
            lock.release(self.folder, "store")
            raise
        self._next = max(_numbers(self.folder), default=0) + 1
        self._empty()

    def append(self, batch: EpisodeBatch) -> None:
        """Buffer finished episodes and their turns; raises ValueError for wrong columns, lengths or a key twice."""
        tables = {"episodes": batch.episodes, "turns": batch.turns}
        keys = _checked(tables)
        if not self._keys.isdisjoint(keys):
            self.flush()  # no key twice in a part: which turns are whose stays clear, and readers keep the first part's
        self._keys |= keys
        if not self._waiting:
            self._since = time.monotonic()
        for table, columns in self._buffer.items():
            for name, values in columns.items():
                values.extend(tables[table][name])
        if self._waiting >= self.rows:
            self.flush()
        self.flush_old()

    def flush_old(self) -> None:
        """Make durable what has waited long enough; a driver calls it now and then, so that a slow model loses little."""
        if self._waiting and time.monotonic() - self._since >= self.seconds:
            self.flush()

    def flush(self) -> None:
        """Make durable what was appended, less the rows that no column takes (``row_check``).

        Raises OSError (a full disk), and then nothing is lost: the buffer stays.
        """
        if not self._waiting:
            return
        frames, _ = row_check.frames(self.folder, self._buffer, TABLES)
        if frames["episodes"].height:
            self._commit(Part(self._next, self._next), frames)
            self._next += 1
        self._empty()

    def finished(self) -> pl.DataFrame:
        """Columns key and cell of every durable episode."""
        self._forget_missing()
        return _episodes(self.folder, self._parts).select("key", "cell").collect()

    def take_back(self, keys: Collection[str]) -> None:
        """Make these episodes pending again: one rename a part that held one, and their turns count for nothing from then on."""
        self.flush()
        self._forget_missing()
        for part in self._parts:
            path = self.folder / "episodes" / part.name
            rows = pl.read_parquet(path, glob=False, hive_partitioning=False)
            kept = rows.filter(~pl.col("key").is_in(list(keys)))
            if kept.height < rows.height:
                _written(kept, path)
                checksums.note(self.folder, [path])
                atomic_write.publish(path)

    def compact(self) -> None:
        """Merge neighbouring small parts.

        Rows are neither lost nor doubled by a crash: until the merged episodes part has its name, only the old parts
        count; from then on they count for nothing, whether or not they are deleted yet.
        """
        self.flush()
        self._forget_missing()
        for group in self._groups():
            whole = Part(group[0].first, group[-1].last)
            self._commit(whole, {"episodes": _episodes(self.folder, group), "turns": _turns(self.folder, group)})
            heights = [_height(self.folder / "episodes" / part.name) for part in (*group, whole)]
            if double := sum(heights[:-1]) - heights[-1]:
                log.error("%d episodes were there twice in %s", double, self.folder)
            self._parts = sorted(set(self._parts) - set(group))
            _delete(self.folder, group)

    def close(self) -> None:
        """Flush, and let the folder go."""
        try:
            self.flush()
        finally:
            lock.release(self.folder, "store")

    @property
    def _waiting(self) -> int:
        return len(self._buffer["episodes"]["key"])

    def _empty(self) -> None:
        self._buffer: dict[str, Columns] = {table: {name: [] for name in schema} for table, schema in TABLES.items()}
        self._keys: set[str] = set()
        self._since = time.monotonic()

    def _forget_missing(self) -> None:
        """Leave out parts that somebody removed while this process has the folder: their episodes are pending again."""
        there = {part for part in self._parts if all((self.folder / table / part.name).is_file() for table in TABLES)}
        if gone := [part.name for part in self._parts if part not in there]:
            log.error("%s of %s was removed; its episodes are pending again", _named(gone), self.folder)
        self._parts = sorted(there)

    def _commit(self, part: Part, frames: Mapping[str, pl.DataFrame | pl.LazyFrame]) -> None:
        """Turns first: from the second rename on the part is there, before it there is nothing."""
        paths = {table: self.folder / table / part.name for table in ("turns", "episodes")}
        for table, path in paths.items():
            atomic_write.make_folder(path.parent)  # somebody may have removed it
            _written(frames[table], path)
        checksums.note(self.folder, paths.values())
        for path in paths.values():
            atomic_write.publish(path)
        self._parts = sorted({*self._parts, part})

    def _groups(self) -> list[list[Part]]:
        """Runs of two or more neighbours to merge: small ones, until together they are large."""
        groups: list[list[Part]] = [[]]
        rows = 0
        for part in self._parts:
            height = _height(self.folder / "episodes" / part.name)
            group = groups[-1]
            if group and (rows >= LARGE or height >= LARGE or part.first != group[-1].last + 1):
                groups.append(group := [])
                rows = 0
            if height < LARGE:
                group.append(part)
                rows += height
        return [group for group in groups if len(group) > 1]

    def _opened(self) -> list[Part]:
        """The parts that count, after every byte of them was read; what does not count is moved aside or deleted."""
        for table in checksums.removed(self.folder):
            log.error("%s of %s was removed; what it held is pending again", table, self.folder)
        for table in TABLES:
            atomic_write.make_folder(self.folder / table)
            for stale in (self.folder / table).glob(f"part-*{atomic_write.TEMPORARY}"):
                stale.unlink()
        found = _scan_folder(self.folder, whole=True)
        for path in found.bad:
            log.error("%s cannot be used and is moved to damaged/; its episodes are pending again", path)
        if len(found.lone) > 1:  # a crash leaves one
            names = _named([path.name for path in found.lone])
            log.error("%s of episodes/ in %s was removed; its episodes are pending again", names, self.folder)
        for path in (*found.bad, *found.lone):
            move_aside(self.folder, path)
        _delete(self.folder, found.merged)
        return found.parts


def episodes(folder: Path, model: str | None = None) -> pl.LazyFrame:
    """The episodes of a run folder (``EPISODES``), each key once; parts that cannot be used are skipped with a warning.

    Of one model where it is named: others then take no memory. Safe beside a running writer: the parts are listed when
    the frame is collected.
    """
    return late_scan(EPISODES, lambda: _episodes(Path(folder), _found(Path(folder)), model))


def turns(folder: Path) -> pl.LazyFrame:
    """The turns of those episodes (``TURNS``), in the order played; turns of anything else count for nothing."""
    return late_scan(TURNS, lambda: _turns(Path(folder), _found(Path(folder))))


def damaged(folder: Path) -> list[Path]:
    """Files among the parts that count as absent: torn, empty, foreign, of another schema, or without their pair."""
    return _settled(Path(folder)).bad


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


def _found(folder: Path) -> list[Part]:
    found = _settled(folder)
    for path in found.bad:
        log.warning("%s cannot be used and is skipped; `proactive-sweep run` plays its episodes again", path)
    return found.parts


def _settled(folder: Path) -> _FolderScan:
    """A scan beside a writer: what is bad is so twice, else a merge was between the names, the sums and the bytes."""
    found = _scan_folder(folder)
    for _ in range(TRIES):
        if not found.bad or found.bad == (again := _scan_folder(folder)).bad:
            break
        found = again
    return found


def _scan_folder(folder: Path, whole: bool = False) -> _FolderScan:
    """Sort the files of both folders by their sums; ``whole`` also decodes all of them, which those without a sum need."""
    names = _names(folder)
    known = {name: part for name in set().union(*names.values()) if (part := _part(name))}
    kept = checksums.read(folder)  # after the names: a part has its line before its name
    good = {
        table: {n for n in names[table] & known.keys() if _usable(folder / table / n, whole, kept)} for table in TABLES
    }
    pairs = good["episodes"] & good["turns"]
    live = sorted(known[name] for name in pairs)
    merges = [part for part in live if part.first < part.last]
    merged = [part for part in known.values() if any(part.inside(other) for other in merges)]
    replaced = {part.name for part in merged}
    lone = good["turns"] - names["episodes"] - replaced
    spare = {"episodes": pairs, "turns": pairs | lone}
    bad = [
        folder / table / name
        for table in TABLES
        for name in sorted(names[table] - spare[table] - (replaced & good[table]))
    ]
    return _FolderScan(sorted(set(live) - set(merged)), bad, [folder / "turns" / name for name in sorted(lone)], merged)


def _names(folder: Path) -> dict[str, set[str]]:
    """The Parquet files of each folder. Episodes are listed first, since the writer writes them last."""
    for _ in range(3):
        names = {table: {path.name for path in (folder / table).glob("*.parquet")} for table in TABLES}
        if names["episodes"] <= names["turns"]:
            break  # else a merge may just have deleted a pair between the two listings
    return names


def _part(name: str) -> Part | None:
    match = re.fullmatch(r"part-([0-9]{8,18})(?:-([0-9]{8,18}))?\.parquet", name)
    if not match:
        return None
    part = Part(int(match[1]), int(match[2] or match[1]))
    return part if part.first <= part.last and part.name == name else None


def _usable(path: Path, whole: bool, kept: checksums.Sums) -> bool:
    """Whether this is a part as the writer writes them, decoded where it has no sum; pipes and folders are not even opened."""
    table = path.parent.name
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return False
        if not checksums.agrees(path, kept):
            return False
        lazy = not whole and f"{table}/{path.name}" in kept
        schema = _scan(path).collect_schema() if lazy else _scan(path).collect().schema
    except UNREADABLE:
        return False
    return schema in (TABLES[table], EARLIER[table])


def _scans(folder: Path, table: str, parts: Sequence[Part]) -> pl.LazyFrame:
    """All rows in the order of the parts; column ``part`` is the place of the row's part in that order."""
    files = [str(folder / table / part.name) for part in parts]
    read = {"missing_columns": "insert", "glob": False, "hive_partitioning": False, "include_file_paths": "part"}
    rows = pl.scan_parquet(files, schema=TABLES[table], **read)  # type: ignore[arg-type]
    return rows.with_columns(pl.col("part").cast(pl.Enum(files)).to_physical())


def _episodes(folder: Path, parts: Sequence[Part], model: str | None = None) -> pl.LazyFrame:
    if not parts:
        return pl.LazyFrame(schema=EPISODES)
    named = pl.lit(True) if model is None else pl.col("model") == model  # before keys are compared, which name it too
    rows = _scans(folder, "episodes", parts).drop("part").filter(named)
    return rows.unique("key", keep="first", maintain_order=True)


def _turns(folder: Path, parts: Sequence[Part]) -> pl.LazyFrame:
    """Turns of the part that has the episode: a key that two parts hold must not mix the turns of both."""
    if not parts:
        return pl.LazyFrame(schema=TURNS)
    owners = _scans(folder, "episodes", parts).select("key", "part").unique("key", keep="first", maintain_order=True)
    owned = _scans(folder, "turns", parts).join(owners, on=["key", "part"], how="semi", maintain_order="left")
    return owned.drop("part")


def _scan(path: Path) -> pl.LazyFrame:
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def _height(path: Path) -> int:
    return int(_scan(path).select(pl.len()).collect().item())


def _named(names: Sequence[str]) -> str:
    """Parts in one line, however many."""
    return names[0] if len(names) == 1 else f"each of {len(names)} parts from {names[0]} to {names[-1]}"


def _numbers(folder: Path) -> Iterable[int]:
    """Every number that a part has, or had before it was moved aside: a repaired file can go back to its place."""
    for place in (*TABLES, "damaged"):
        for path in (folder / place).glob("*part-*"):
            match = re.search(r"part-(?:[0-9]{8,18}-)?([0-9]{8,18})\.parquet", path.name)
            if match:
                yield int(match[1])


def _checked(tables: dict[str, Columns]) -> set[str]:
    for table, wanted in TABLES.items():
        columns = tables[table]
        if columns.keys() != wanted.keys():
            raise ValueError(f"{table} must have the columns {', '.join(wanted)}, not {', '.join(columns)}")
        if len({len(values) for values in columns.values()}) > 1:
            raise ValueError(f"the columns of {table} differ in length")
    keys = set(tables["episodes"]["key"])
    if len(keys) < len(tables["episodes"]["key"]):
        raise ValueError("a batch holds an episode twice")
    return keys


def _written(frame: pl.DataFrame | pl.LazyFrame, path: Path) -> None:
    """Gather a part's bytes under its temporary name, safe on the disk."""
    atomic_write.prepare_table(path, frame, compression="zstd", compression_level=3)


def _delete(folder: Path, parts: Iterable[Part]) -> None:
    """Episodes before turns, so that no reader meets an episode that has lost its turns."""
    for table in TABLES:
        for part in parts:
            (folder / table / part.name).unlink(missing_ok=True)
        atomic_write.sync(folder / table)


def move_aside(folder: Path, path: Path) -> None:
    """To ``damaged/``, under a name that nothing has yet."""
    place = folder / "damaged"
    atomic_write.make_folder(place)
    number = 0
    while (aside := place / f"{path.parent.name}-{path.name}{f'.{number}' if number else ''}").exists():
        number += 1
    path.rename(aside)
