"""The Parquet parts of a run folder: which of them count, and how they are read.

A part counts if each of its files has its recorded sum and schema, and no merged part has replaced it.
"""

import contextlib
import logging
import os
import re
import resource
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Self

import polars as pl
from polars.io.plugins import register_io_source

from orchestrator.storage import checksums
from orchestrator.storage.schemas import TABLES, UNREADABLE, VERDICTS, is_schema_of

SCHEMAS = {**TABLES, "verdicts": VERDICTS}
TRIES = 10
"""Attempts to list and read the files; merges are seconds apart, so a file that is missing every time is an error."""
HANDLES = Path("/proc/self/fd")
"""Folder with the open files of this process, on Linux."""
SKIPPED = "%s cannot be used and is skipped; rerun the command that wrote it to replace its rows"

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

    folder: Path
    parts: list[Part]
    """The parts of episodes that count, in order."""
    verdicts: list[Part]
    """The parts of verdicts that count, in order."""
    bad: list[Path]
    """Unusable files, and the other files of the same parts."""
    lone: list[Path]
    """Turns and options whose episodes were not committed, as after a crash between the renames."""
    merged: list[Part]
    """The parts that a merge has replaced."""
    optional: frozenset[str]
    """Names of the parts with options."""
    handles: dict[str, str] = field(default_factory=dict)
    """Path -> path of the open file, if the listing is held."""

    def paths(self, table: str, parts: Iterable[Part]) -> list[str]:
        """Return the files of these parts in a table; a part without options has none there."""
        names = [part.name for part in parts if table != "options" or part.name in self.optional]
        return [self.handles.get(path, path) for path in (str(self.folder / table / name) for name in names)]


_held: dict[Path, PartFiles] = {}


@contextlib.contextmanager
def hold_parts(folders: Iterable[Path]) -> Iterator[None]:
    """Let every reader in a block see the tables as they are now: their files stay open, whatever a writer does meanwhile."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.ExitStack() as stack:
        for folder in {*folders} - _held.keys() if HANDLES.is_dir() else ():
            _held[folder] = _open_parts(folder, stack)
            stack.callback(_held.pop, folder, None)
        yield


def _open_parts(folder: Path, stack: contextlib.ExitStack) -> PartFiles:
    """Open the files of a listing; list again if a writer merged some meanwhile."""
    for _ in range(TRIES):
        files = list_parts(folder)
        paths = [path for table in TABLES for path in files.paths(table, files.parts)]
        paths += files.paths("verdicts", files.verdicts)
        with contextlib.ExitStack() as opened, contextlib.suppress(FileNotFoundError):
            handles = {path: f"{HANDLES}/{opened.enter_context(open(path, 'rb')).fileno()}" for path in paths}
            if list_parts(folder) == files:
                stack.push(opened.pop_all())
                return replace(files, handles=handles)
    return files


def list_parts(folder: Path) -> PartFiles:
    """Sort the part files by their use. A writer may merge some meanwhile: a file is bad only if two listings agree."""
    files = _list_once(folder)
    for _ in range(TRIES):
        if not files.bad or files.bad == (relisted := _list_once(folder)).bad:
            break
        files = relisted
    return files


def _list_once(folder: Path) -> PartFiles:
    """List episodes before turns, since a writer publishes them last, and read the sums at the end: they precede the files."""
    names = {table: _list_names(folder / table) for table in SCHEMAS}
    sums = checksums.read_sums(folder)
    parts = {name: part for name in set().union(*names.values()) if (part := Part.parse(name))}
    good = {
        table: {name for name in names[table] & parts.keys() if is_usable(folder / table / name, sums)}
        for table in SCHEMAS
    }
    without_options = parts.keys() - names["options"] - {name.removeprefix("options/") for name in sums}
    complete = {parts[name] for name in good["episodes"] & good["turns"] & (good["options"] | without_options)}
    merges = [part for part in complete if part.first < part.last]
    named = {parts[name] for table in TABLES for name in names[table] & parts.keys()}
    merged = {part for part in named if any(map(part.is_inside, merges))}
    counted = {table: {part.name for part in complete | merged} for table in TABLES} | {"verdicts": good["verdicts"]}
    unused = [folder / table / name for table in SCHEMAS for name in sorted(names[table] - counted[table])]
    uncommitted = parts.keys() - names["episodes"]
    lone = [path for path in unused if path.parent.name in ("turns", "options") and path.name in uncommitted]
    bad = [path for path in unused if path not in lone]
    verdicts, optional = sorted(parts[name] for name in good["verdicts"]), frozenset(names["options"])
    return PartFiles(folder, sorted(complete - merged), verdicts, bad, lone, sorted(merged), optional)


def _list_names(folder: Path) -> set[str]:
    """Return the names of a table's files; a folder that the disk does not list raises OSError, since it is not empty."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return {name for name in os.listdir(folder) if name.endswith(".parquet")}
    return set()


def is_usable(path: Path, sums: checksums.Sums) -> bool:
    """Return True if this is a valid part; pipes and folders are not opened. A part without a sum must be decodable."""
    recorded = sums.get(f"{path.parent.name}/{path.name}")
    if recorded is None and checksums.COMPLETE in sums:
        return False
    with contextlib.suppress(*UNREADABLE):
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            return False
        state = status.st_mtime_ns, status.st_size, status.st_ino
        if recorded is None:
            scan_part(path).collect()
        elif _hash_once(path, *state) not in recorded:
            return False  # damage is not decoded: a length in it may ask for all of the memory
        return _fits_table(path, *state)
    return False


@lru_cache(maxsize=1 << 14)
def _hash_once(path: Path, *_state: int) -> str:
    """Return the sum of a file, read once per state (time, size, inode)."""
    return checksums.hash_file(path)


@lru_cache(maxsize=1 << 14)
def _fits_table(path: Path, *_state: int) -> bool:
    """Return True if a file has its table's schema; read once per state."""
    return is_schema_of(scan_part(path).collect_schema(), SCHEMAS[path.parent.name])


def scan_part(path: Path) -> pl.LazyFrame:
    """Scan one file, without reading column values from its path."""
    return pl.scan_parquet(path, glob=False, hive_partitioning=False)


def scan_parts(files: PartFiles, table: str, parts: Iterable[Part]) -> pl.LazyFrame:
    """Scan all rows in the order of the parts; column ``part`` is the part's index in that order."""
    if not (paths := files.paths(table, parts)):
        return pl.LazyFrame(schema={**SCHEMAS[table], "part": pl.UInt32})
    read = {"missing_columns": "insert", "glob": False, "hive_partitioning": False, "include_file_paths": "part"}
    rows = pl.scan_parquet(paths, schema=SCHEMAS[table], **read)  # type: ignore[arg-type]
    return rows.with_columns(pl.col("part").cast(pl.Enum(paths)).to_physical())


def scan_table(folder: Path, table: str, schema: pl.Schema, scan: Callable[[PartFiles], pl.LazyFrame]) -> pl.LazyFrame:
    """Return a lazy frame whose parts are listed when it is collected; columns and predicates are pushed down into ``scan``.

    A part that cannot be used is skipped with a warning. A file that disappears between listing and reading is no error: its
    replacement exists and is found by listing again.
    """

    def rows(
        columns: list[str] | None, predicate: pl.Expr | None, count: int | None, batch: int | None
    ) -> Iterator[pl.DataFrame]:
        for left in reversed(range(TRIES)):
            try:
                files = _held[folder] if folder in _held else list_parts(folder)
                for path in (path for path in files.bad if (path.parent.name == "verdicts") == (table == "verdicts")):
                    log.warning(SKIPPED, path)
                frame = scan(files) if count is None else scan(files).head(count)
                frame = frame if predicate is None else frame.filter(predicate)
                yield (frame if columns is None else frame.select(columns)).collect()
                return
            except FileNotFoundError:
                if not left:
                    raise

    return register_io_source(rows, schema=schema)
