"""The store of finished episodes, their turns and options: tables of Parquet parts in a run folder.

Every finished episode is stored exactly once, or is still pending: torn, foreign and unpaired parts count as absent.

``episodes/part-N.parquet`` and ``turns/part-N.parquet`` are a pair: turns are written first, the episodes part is the
commit. ``options/part-N.parquet`` precedes both if the part has an episode of ``every-state``. A merged pair is called
``part-FIRST-LAST``; once its episodes part is renamed to that, it replaces all pairs whose numbers lie in the range: the
name is the manifest (docs/decisions/0002-two-tables.md).
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from pathlib import Path

import polars as pl

from actors.playing.records import EpisodeBatch
from orchestrator.storage import safe_write
from orchestrator.storage.part_files import Part, PartFiles, list_parts, scan_part, scan_parts, scan_table
from orchestrator.storage.part_writer import PartWriter, delete_parts, write_part
from orchestrator.storage.schemas import EPISODES, OPTIONS, TABLES, TURNS, UNREADABLE

LARGE = 100_000
"""A part with this many episodes is not merged further."""
MOST_SMALL = 128
"""After so many new parts, a running sweep merges small ones; after days, thousands would take seconds to list."""

KEY = pl.Schema({"key": pl.String})
CHUNK = 50_000
"""Most keys that are held as Python strings at the same time."""

log = logging.getLogger(__name__)


class EpisodeStore(PartWriter):
    """The single writer of a run folder's episodes. The caller must hold the folder's lock."""

    schemas = TABLES

    def __init__(self, folder: Path, rows: int = 20_000, seconds: float = 5.0) -> None:
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(folder, rows, seconds)
        for table in ("episodes", "turns"):
            safe_write.make_folder(self.folder / table)
        self._unmerged = 0

    def append(self, batch: EpisodeBatch) -> None:
        """Buffer finished episodes and their turns; write a part if it is due."""
        if not self._keys.isdisjoint(batch.episodes["key"]):
            self.flush()  # a part never holds a key twice; readers keep the first part's rows
        self._keys.update(batch.episodes["key"])
        for table, columns in (("episodes", batch.episodes), ("turns", batch.turns), ("options", batch.options)):
            self._add(table, columns)
        self.flush_old()

    def flush(self) -> None:
        """Write the buffered episodes to a part. Raises OSError (a full disk); the buffer is then kept."""
        if not self._buffered:
            return
        super().flush()
        self._unmerged += 1
        if self._unmerged >= MOST_SMALL:
            try:
                self.compact()
            except UNREADABLE as problem:
                log.warning("parts of %s are merged later: %s", self.folder, problem)

    def finished_episodes(self) -> pl.DataFrame:
        """Return the columns key and model of every durable episode."""
        return episodes(self.folder).select("key", "model").collect()

    def discard(self, keys: Collection[str]) -> None:
        """Make these episodes pending again, by rewriting each part that holds one; their turns are ignored from then on."""
        self.flush()
        for part in list_parts(self.folder).parts:
            rows = scan_part(self.folder / "episodes" / part.name).collect()
            remaining = rows.filter(~pl.col("key").is_in(list(keys)))
            if remaining.height < rows.height:
                write_part(self.folder, part, {"episodes": remaining})

    def compact(self) -> None:
        """Merge neighboring small parts.

        A crash neither loses nor doubles rows: until the merged episodes part has its name, only the old parts count;
        afterwards they are ignored, deleted or not.
        """
        self._unmerged = 0
        self.flush()
        files = list_parts(self.folder)
        for group in _group_small(files):
            self._merge(files, group)

    def _merge(self, files: PartFiles, group: Sequence[Part]) -> None:
        frames = {"episodes": _episodes(files, group), "turns": _owned(files, "turns", group)}
        if files.paths("options", group):
            frames["options"] = _owned(files, "options", group)
        write_part(self.folder, Part(group[0].first, group[-1].last), frames)
        delete_parts(self.folder, group)

    close = flush  # the store may be used again

    def _clear_buffer(self) -> None:
        super()._clear_buffer()
        self._keys: set[str] = set()


def _group_small(files: PartFiles) -> list[list[Part]]:
    """Return sequences of two or more neighboring small parts, each to be merged into one part."""
    groups: list[list[Part]] = [[]]
    rows = 0
    for part in files.parts:
        count = int(scan_part(files.folder / "episodes" / part.name).select(pl.len()).collect().item())
        group = groups[-1]
        if group and (rows >= LARGE or count >= LARGE or part.first != group[-1].last + 1):
            groups.append(group := [])
            rows = 0
        group.append(part)
        rows += count
    return [group for group in groups if len(group) > 1]


def episodes(folder: Path, model: str | None = None) -> pl.LazyFrame:
    """Scan the episodes of a run folder (``EPISODES``), of all models or of one, each key once. Safe during a run."""
    return scan_table(Path(folder), "episodes", EPISODES, lambda files: _episodes(files, files.parts, model))


def turns(folder: Path) -> pl.LazyFrame:
    """Scan the turns of the stored episodes (``TURNS``), in the order played."""
    return scan_table(Path(folder), "turns", TURNS, lambda files: _owned(files, "turns", files.parts))


def options(folder: Path) -> pl.LazyFrame:
    """Scan the options of the stored episodes of ``every-state`` (``OPTIONS``)."""
    return scan_table(Path(folder), "options", OPTIONS, lambda files: _owned(files, "options", files.parts))


def _episodes(files: PartFiles, parts: Sequence[Part], model: str | None = None) -> pl.LazyFrame:
    rows = scan_parts(files, "episodes", parts).drop("part")
    if model is not None:
        rows = rows.filter(model=model)  # may precede ``unique``, since a key names its model
    return rows.unique("key", keep="first", maintain_order=True)


def _owned(files: PartFiles, table: str, parts: Sequence[Part]) -> pl.LazyFrame:
    """Scan turns or options from the part that holds the episode, so that a key in two parts does not mix their rows."""
    parts = [part for part in parts if files.paths(table, [part])]
    owners = scan_parts(files, "episodes", parts).select("key", "part").unique("key", keep="first", maintain_order=True)
    owned = scan_parts(files, table, parts).join(owners, on=["key", "part"], how="semi", maintain_order="left")
    return owned.drop("part")


def filter_planned(stored: pl.LazyFrame, planned: pl.LazyFrame | None) -> pl.LazyFrame:
    """Return the rows of ``stored`` (``EPISODES``, in stored order) that belong to a plan with these keys (column ``key``).

    If the keys are unknown, the newest episode per cell and sample belongs.
    """
    if planned is None:
        return stored.unique(["cell", "sample_id"], keep="last", maintain_order=True)
    return stored.join(planned, on="key", how="semi")


def key_frame(keys: Iterable[str]) -> pl.DataFrame:
    """Return the keys as one column ``key``, made in chunks: a key takes half as much memory in polars as in Python."""
    remaining, frames = iter(keys), [KEY.to_frame()]
    while chunk := list(islice(remaining, CHUNK)):
        frames.append(pl.DataFrame({"key": chunk}, schema=KEY))
    return pl.concat(frames)
