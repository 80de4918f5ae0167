"""The store of finished episodes, their turns and options: tables of Parquet parts in a run folder.

Every finished episode is stored exactly once, or is still pending: torn, foreign and unpaired parts count as absent.

``episodes/part-N.parquet`` and ``turns/part-N.parquet`` are a pair: turns are written first, the episodes part is the
commit. ``options/part-N.parquet`` precedes both if the part has an episode of ``every-state``. A merged pair is called
``part-FIRST-LAST``; once its episodes part is renamed to that, it replaces all pairs whose numbers lie in the range: the
name is the manifest (docs/decisions/0002-two-tables.md).
"""

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from actors.playing.records import Columns, EpisodeBatch
from orchestrator.storage import checksums, lock, row_check, safe_write
from orchestrator.storage.late_scan import late_scan
from orchestrator.storage.part_files import (
    Part,
    delete_parts,
    describe_parts,
    has_options,
    list_parts,
    list_parts_during_run,
    missing_files,
    part_numbers,
    scan_part,
)
from orchestrator.storage.schemas import EPISODES, OPTIONS, PAIRED, ROWS, TABLES, TURNS, UNREADABLE, parquet_metadata

LARGE = 100_000
"""A part with this many episodes is large: it is not merged further."""
MOST_SMALL = 128
"""A running sweep merges its small parts once it has this many; after days, thousands would take seconds to list."""
COMPRESSION: dict[str, Any] = {"compression": "zstd", "compression_level": 3}
METADATA = {table: parquet_metadata(row) for table, row in ROWS.items()}
"""Table -> the metadata of its parts: what each column means."""

log = logging.getLogger(__name__)


class EpisodeStore:
    """The single writer of a run folder's episodes. Raises RunFolderError if another process holds the folder."""

    def __init__(self, folder: Path, rows: int = 20_000, seconds: float = 5.0) -> None:
        """Take the lock, delete temporary files of a crash, and move damaged parts to ``damaged/``.

        A part is written when ``rows`` episodes wait, or when the oldest has waited ``seconds`` at the next
        ``append`` or ``flush_old``.
        """
        self.folder, self.rows, self.seconds = Path(folder), rows, seconds
        self._row_counts: dict[Part, int] = {}
        self._merge_failed = False
        lock.acquire(self.folder, "store")
        try:
            sums = checksums.read_sums(self.folder)
            self._parts = self._open_parts(sums)
        except BaseException:
            lock.release(self.folder, "store")
            raise
        self._next_number = max(part_numbers(self.folder, sums), default=0) + 1
        self._clear_buffer()

    def append(self, batch: EpisodeBatch) -> None:
        """Buffer finished episodes and their turns. Raises ValueError for wrong columns, lengths or duplicate keys."""
        tables = {"episodes": batch.episodes, "turns": batch.turns, "options": batch.options}
        keys = row_check.check_columns(tables)
        if not self._keys.isdisjoint(keys):
            self.flush()  # a part never holds a key twice; readers keep the first part's rows
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
        frames = row_check.make_frames(self.folder, self._buffer, TABLES)
        if frames["options"].is_empty():
            del frames["options"]
        if frames["episodes"].height:
            self._commit(Part(self._next_number, self._next_number), frames)
            self._next_number += 1
        self._clear_buffer()
        self._merge_during_run()

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
                safe_write.prepare_table(path, remaining, **COMPRESSION, metadata=METADATA["episodes"])
                checksums.record_sums(self.folder, [path])
                safe_write.publish(path)
                self._row_counts.pop(part, None)

    def compact(self) -> None:
        """Merge neighboring small parts.

        A crash neither loses nor doubles rows: until the merged episodes part has its name, only the old parts count;
        afterwards they are ignored, deleted or not.
        """
        self.flush()
        self._forget_missing()
        for group in self._groups():
            self._merge(group)

    def _merge_during_run(self) -> None:
        """Merge neighboring small parts once they are many or add up to a large one; stop merging if the disk is full."""
        try:
            small = 0 if self._merge_failed else sum(self._row_count(part) < LARGE for part in self._parts)
            for group in self._groups() if small > 1 else ():
                if small >= MOST_SMALL or sum(map(self._row_count, group)) >= LARGE:
                    self._merge(group)
        except UNREADABLE as problem:
            self._merge_failed = True
            log.warning("parts of %s are merged at the end only: %s", self.folder, problem)

    def _merge(self, group: Sequence[Part]) -> None:
        merged = Part(group[0].first, group[-1].last)
        frames = {"episodes": _episodes(self.folder, group), "turns": _owned(self.folder, "turns", group)}
        sums = checksums.read_sums(self.folder)
        if any(has_options(part, sums) for part in group):
            frames["options"] = _owned(self.folder, "options", group)
        self._commit(merged, frames)
        if duplicates := sum(map(self._row_count, group)) - self._row_count(merged):
            log.error("%d episodes were stored twice in %s", duplicates, self.folder)
        self._parts = sorted(set(self._parts) - set(group))
        delete_parts(self.folder, group)

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
        sums = checksums.read_sums(self.folder)
        tables = {part: TABLES if has_options(part, sums) else PAIRED for part in self._parts}
        present = {p for p in tables if all((self.folder / table / p.name).is_file() for table in tables[p])}
        if gone := [part.name for part in self._parts if part not in present]:
            log.error("%s of %s was removed; its episodes are pending again", describe_parts(gone), self.folder)
        self._parts = sorted(present)

    def _commit(self, part: Part, frames: Mapping[str, pl.DataFrame | pl.LazyFrame]) -> None:
        """Write a part; the rename of its episodes, after its options and turns, is the commit."""
        paths = {
            table: self.folder / table / part.name for table in ("options", "turns", "episodes") if table in frames
        }
        for table, path in paths.items():
            safe_write.make_folder(path.parent)  # somebody may have removed it
            safe_write.prepare_table(path, frames[table], **COMPRESSION, metadata=METADATA[table])
        checksums.record_sums(self.folder, paths.values())
        for path in paths.values():
            safe_write.publish(path)
        self._parts = sorted({*self._parts, part})

    def _row_count(self, part: Part) -> int:
        """Return the number of episodes of a part; its file is read once."""
        if part not in self._row_counts:
            rows = scan_part(self.folder / "episodes" / part.name)
            self._row_counts[part] = int(rows.select(pl.len()).collect().item())
        return self._row_counts[part]

    def _groups(self) -> list[list[Part]]:
        """Return sequences of two or more neighboring small parts, each to be merged into one part."""
        groups: list[list[Part]] = [[]]
        rows = 0
        for part in self._parts:
            row_count = self._row_count(part)
            group = groups[-1]
            if group and (rows >= LARGE or row_count >= LARGE or part.first != group[-1].last + 1):
                groups.append(group := [])
                rows = 0
            group.append(part)
            rows += row_count
        return [group for group in groups if len(group) > 1]

    def _open_parts(self, sums: checksums.Sums) -> list[Part]:
        """Return the usable parts after reading every byte; other files are moved aside or deleted."""
        for table in checksums.removed_tables(self.folder, sums):
            log.error("%s of %s was removed; what it held is pending again", table, self.folder)
            if table.rstrip("/") in TABLES:
                safe_write.make_folder(self.folder / table)
        for table in PAIRED:
            safe_write.make_folder(self.folder / table)
        for table in (name for name in TABLES if (self.folder / name).is_dir()):
            # makes every rename durable, also that of a part whose flush failed afterwards
            safe_write.flush_folder(self.folder / table)
            for stale in (self.folder / table).glob(f"part-*{safe_write.TEMPORARY}"):
                safe_write.remove(stale)
        files = list_parts(self.folder, decode=True, sums=sums)
        for path in files.bad:
            log.error("%s cannot be used and is moved to damaged/; its episodes are pending again", path)
        if len(lone := sorted({path.name for path in files.lone})) > 1:  # a crash leaves one
            names = describe_parts(lone)
            log.error("%s of episodes/ in %s was removed; its episodes are pending again", names, self.folder)
        checksums.record_removals(self.folder, [*files.bad, *files.lone])
        for path in (*files.bad, *files.lone):
            safe_write.move_aside(self.folder, path)
        delete_parts(self.folder, files.merged)
        recorded = None if files.bad or files.lone else sums
        absent = [name for name in missing_files(self.folder, recorded) if name.partition("/")[0] in TABLES]
        checksums.record_removals(self.folder, [self.folder / name for name in absent])
        return files.parts


def episodes(folder: Path, model: str | None = None) -> pl.LazyFrame:
    """Scan the episodes of a run folder (``EPISODES``), each key once; unusable parts are skipped with a warning.

    ``model`` restricts the scan to one model. Safe during a run: parts are listed when the frame is collected.
    """
    return late_scan(EPISODES, lambda: _episodes(Path(folder), _usable_parts(Path(folder)), model))


def turns(folder: Path) -> pl.LazyFrame:
    """Scan the turns of the stored episodes (``TURNS``), in the order played."""
    return late_scan(TURNS, lambda: _owned(Path(folder), "turns", _usable_parts(Path(folder))))


def options(folder: Path) -> pl.LazyFrame:
    """Scan the options of the stored episodes of ``every-state`` (``OPTIONS``)."""
    return late_scan(OPTIONS, lambda: _owned(Path(folder), "options", _usable_parts(Path(folder))))


def _usable_parts(folder: Path) -> list[Part]:
    files = list_parts_during_run(folder)
    for path in files.bad:
        log.warning("%s cannot be used and is skipped; `proactive-sweep run` plays its episodes again", path)
    return files.parts


def _scan_parts(folder: Path, table: str, parts: Sequence[Part]) -> pl.LazyFrame:
    """Scan all rows in the order of the parts; column ``part`` is the part's index in that order."""
    files = [str(folder / table / part.name) for part in parts]
    read = {"missing_columns": "insert", "glob": False, "hive_partitioning": False, "include_file_paths": "part"}
    rows = pl.scan_parquet(files, schema=TABLES[table], **read)  # type: ignore[arg-type]
    return rows.with_columns(pl.col("part").cast(pl.Enum(files)).to_physical())


def _episodes(folder: Path, parts: Sequence[Part], model: str | None = None) -> pl.LazyFrame:
    if not parts:
        return pl.LazyFrame(schema=EPISODES)
    rows = _scan_parts(folder, "episodes", parts).drop("part")
    if model is not None:
        rows = rows.filter(model=model)  # may precede ``unique``, since a key names its model
    return rows.unique("key", keep="first", maintain_order=True)


def _owned(folder: Path, table: str, parts: Sequence[Part]) -> pl.LazyFrame:
    """Scan turns or options from the part that holds the episode, so that a key in two parts does not mix their rows."""
    if table == "options":
        sums = checksums.read_sums(folder)
        parts = [part for part in parts if has_options(part, sums) or (folder / table / part.name).is_file()]
    if not parts:
        return pl.LazyFrame(schema=TABLES[table])
    owners = (
        _scan_parts(folder, "episodes", parts).select("key", "part").unique("key", keep="first", maintain_order=True)
    )
    owned = _scan_parts(folder, table, parts).join(owners, on=["key", "part"], how="semi", maintain_order="left")
    return owned.drop("part")
