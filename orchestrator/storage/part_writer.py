"""How parts are written, merged away and mended. The caller must hold the folder's lock.

A part's options and turns get their names first; the rename of its episodes is the commit.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl

from actors.playing.records import Columns
from orchestrator.storage import checksums, safe_write, schemas
from orchestrator.storage.part_files import Part, list_parts
from orchestrator.storage.schemas import TABLES, make_frame

WRITE_ORDER = ("options", "turns", "episodes", "verdicts")
"""Tables in the order in which a part's files get their names."""
METADATA = {
    table: {schemas.METADATA: json.dumps({doc.column: doc.meaning for doc in schemas.column_docs(row)})}
    for table, row in schemas.ROWS.items()
}
"""Table -> the metadata of its parts: what each column means."""

log = logging.getLogger(__name__)


class PartWriter:
    """The single writer of some tables of a run folder: it buffers rows, and writes them as parts."""

    schemas: Mapping[str, pl.Schema]
    """Table -> its columns; the first table has a row per episode or verdict."""

    def __init__(self, folder: Path, rows: int = 5_000, seconds: float = 5.0) -> None:
        """Mend the folder. A part is due when ``rows`` rows wait, or when the oldest has waited ``seconds``."""
        self.folder, self.rows, self.seconds = Path(folder), rows, seconds
        mend(self.folder)
        self._next_number = next_number(self.folder, self.schemas)
        self._clear_buffer()

    @property
    def due(self) -> bool:
        """Return True if the buffered rows should be flushed now."""
        is_old = self._buffered > 0 and time.monotonic() - self._since >= self.seconds
        return self._buffered >= self.rows or is_old

    def flush_old(self) -> None:
        """Flush if a part is due; the driver calls it regularly."""
        if self.due:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows to a part. Raises OSError (a full disk); the buffer is then kept."""
        if self._buffered:
            frames = {table: make_frame(columns, self.schemas[table]) for table, columns in self._buffer.items()}
            self._write({table: frame for table, frame in frames.items() if table != "options" or frame.height})
            self._clear_buffer()

    def _add(self, table: str, columns: Columns) -> None:
        if not self._buffered:
            self._since = time.monotonic()
        for name, values in self._buffer[table].items():
            values.extend(columns[name])

    def _write(self, frames: Mapping[str, pl.DataFrame | pl.LazyFrame]) -> None:
        write_part(self.folder, Part(self._next_number, self._next_number), frames)
        self._next_number += 1

    @property
    def _buffered(self) -> int:
        return len(next(iter(self._buffer.values()))["key"])

    def _clear_buffer(self) -> None:
        self._buffer: dict[str, Columns] = {
            table: {name: [] for name in schema} for table, schema in self.schemas.items()
        }


def write_part(folder: Path, part: Part, frames: Mapping[str, pl.DataFrame | pl.LazyFrame]) -> None:
    """Prepare all files of a part, and give them their names in ``WRITE_ORDER``. Raises OSError."""
    paths = {table: folder / table / part.name for table in WRITE_ORDER if table in frames}
    for table, path in paths.items():
        safe_write.make_folder(path.parent)
        safe_write.prepare(path, frames[table], METADATA[table])
    checksums.publish(folder, *paths.values())


def next_number(folder: Path, tables: Iterable[str]) -> int:
    """Return a number that no part of these tables ever had, since a recorded sum belongs to one part forever."""
    listed = (name.partition("/") for name in checksums.read_sums(folder))
    names = {path.name for table in tables for path in folder.glob(f"{table}/part-*.parquet")}
    parts = map(Part.parse, names | {file for table, _, file in listed if table in tables})
    return 1 + max((part.last for part in parts if part), default=0)


def mend(folder: Path) -> None:
    """Move files that do not count to ``damaged/``; what they held is pending again.

    A crash may leave temporary files, turns without episodes, parts that a merge has replaced, and sums of files that never
    got their names.
    """
    for place in (folder / table for table in WRITE_ORDER if (folder / table).is_dir()):
        safe_write.flush_folder(place)  # makes every rename durable, also that of a part whose flush failed afterwards
        for stale in place.glob(f"part-*{safe_write.TEMPORARY}"):
            safe_write.remove(stale)
    files, absent = list_parts(folder), [name for name in checksums.missing_files(folder) if "/" in name]
    for path in files.bad:
        log.error("%s cannot be used and is moved to damaged/; what it held is pending again", path)
    if len(absent) > len(TABLES):  # a crash leaves no more
        log.error("%d parts of %s were removed; what they held is pending again", len(absent), folder)
    checksums.record_removals(folder, [*files.bad, *files.lone, *(folder / name for name in absent)])
    for path in (*files.bad, *files.lone):
        safe_write.move_aside(folder, path)
    delete_parts(folder, files.merged)


def delete_parts(folder: Path, parts: Iterable[Part], tables: Iterable[str] = TABLES) -> None:
    """Delete parts, episodes before turns, so that no reader sees an episode without turns."""
    for place in (folder / table for table in tables if (folder / table).is_dir()):
        paths = [place / part.name for part in parts]
        checksums.record_removals(folder, paths)
        for path in paths:
            safe_write.remove(path)
        safe_write.flush_folder(place)
