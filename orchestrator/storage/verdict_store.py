"""The table of verdicts of a run folder, beside the episodes that they are about.

Of each episode and judge the latest verdict counts. A torn file counts for nothing: its answers are pending again.
``verdicts/part-00000001.parquet`` and so on, each written whole; the episodes are durable before a verdict on them is.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from actors.records import Columns, VerdictRow
from envs.types import Ending
from orchestrator.storage import atomic_write, checksums, row_check
from orchestrator.storage.episode_store import UNREADABLE, move_aside, turns
from orchestrator.storage.late_scan import TRIES, late_scan
from orchestrator.storage.planned_episodes import key_frame
from orchestrator.storage.schemas import schema

FOLDER = "verdicts"
VERDICTS = schema(VerdictRow)
WITHOUT_STRICT = pl.Schema({name: kind for name, kind in VERDICTS.items() if not name.startswith("strict_")})
"""As verdicts were written before they had strict bits; read with nulls in their place."""

log = logging.getLogger(__name__)


class VerdictStore:
    """The single writer of a run folder's verdicts; whoever makes one holds the folder's lock already."""

    def __init__(self, folder: Path, rows: int = 5_000, seconds: float = 5.0) -> None:
        """Damaged parts go to ``damaged/``.

        A part is written when ``rows`` verdicts wait, or the oldest has waited ``seconds`` at the next ``append``.
        """
        self.folder, self.rows, self.seconds = Path(folder) / FOLDER, rows, seconds
        for path in damaged_verdicts(Path(folder)):
            log.error("%s cannot be used and is moved to damaged/; its answers are read again", path)
            move_aside(self.folder.parent, path)
        if f"{FOLDER}/" in checksums.removed(self.folder.parent):
            log.error("%s was removed; its answers are read again", self.folder)
        self._there = {path.name for path in _parts(self.folder)}
        self._waiting: list[pl.DataFrame] = []
        self._since = time.monotonic()

    def append(self, columns: Columns) -> None:
        """Buffer verdicts, with exactly the names of ``VERDICTS``; one that no column takes is set aside (``row_check``)."""
        if not self._waiting:
            self._since = time.monotonic()
        frames, _ = row_check.frames(self.folder.parent, {FOLDER: columns}, {FOLDER: VERDICTS})
        self._waiting.append(frames[FOLDER])

    @property
    def due(self) -> bool:
        """Whether what waits should be made durable now."""
        old = time.monotonic() - self._since >= self.seconds
        return bool(self._waiting) and (old or sum(map(len, self._waiting)) >= self.rows)

    def flush(self) -> None:
        """Make durable what was appended. Raises OSError (a full disk), and then nothing is lost: the buffer stays."""
        if self._waiting:
            self._write(pl.concat(self._waiting))
            self._waiting = []

    def compact(self) -> None:
        """Merge all parts into one; a crash in between leaves rows twice, and readers take each once."""
        self.flush()
        self._forget_missing()
        old = _good(self.folder)
        if len(old) > 1:
            self._write(verdicts(self.folder.parent).collect())
            for path in old:
                path.unlink(missing_ok=True)
            atomic_write.sync(self.folder)
            self._there -= {path.name for path in old}

    def _forget_missing(self) -> None:
        """Say which parts somebody removed while this process has the folder."""
        if gone := self._there - {path.name for path in _parts(self.folder)}:
            log.error("%d parts of %s were removed; their answers are read again", len(gone), self.folder)
        self._there -= gone

    def _write(self, frame: pl.DataFrame) -> None:
        atomic_write.make_folder(self.folder)
        path = self.folder / f"part-{self._next_number():08d}.parquet"
        atomic_write.prepare_table(path, frame, compression="zstd", compression_level=3)
        checksums.note(self.folder.parent, [path])
        atomic_write.publish(path)
        self._there.add(path.name)

    def _next_number(self) -> int:
        """A number that no part has, nor had before it was moved aside: a sum is of one part for ever."""
        aside = (self.folder.parent / "damaged").glob(f"{FOLDER}-part-*")
        noted = [name for name in checksums.read(self.folder.parent) if name.startswith(f"{FOLDER}/")]
        names = [path.name for path in (*_parts(self.folder), *aside)] + noted
        return max((int(found) for name in names for found in re.findall(r"part-([0-9]{8,18})", name)), default=0) + 1


def verdicts(folder: Path) -> pl.LazyFrame:
    """The verdicts of a run folder (``VERDICTS``): the latest of each judge on each episode, in the order of writing."""
    return late_scan(VERDICTS, lambda: _verdicts(Path(folder) / FOLDER))


def _verdicts(folder: Path) -> pl.LazyFrame:
    good = _good(folder)
    if not good:
        return pl.LazyFrame(schema=VERDICTS)
    rows = pl.scan_parquet(good, schema=VERDICTS, missing_columns="insert", glob=False, hive_partitioning=False)
    return rows.unique(["key", "judge"], keep="last", maintain_order=True)


def damaged_verdicts(folder: Path) -> list[Path]:
    """Files among the parts of verdicts that count for nothing: torn, empty, foreign or of another schema."""
    place = Path(folder) / FOLDER
    return sorted(set(_parts(place)) - set(_good(place)))


def judges(folder: Path) -> list[str]:
    """The judges that read something in this run folder, by name."""
    return verdicts(folder).select(pl.col("judge").unique().sort()).collect()["judge"].to_list()


def pending(answered: pl.LazyFrame, folder: Path, judge: str, again: bool = False) -> pl.DataFrame:
    """Keys of the answers that this judge has not read; ``again`` adds those that it could not give a verdict on.

    ``answered`` are stored episodes; those that ended in an answer to read count, multiple choice does not.
    """
    read = verdicts(folder).filter(pl.col("judge") == judge)
    read = read.filter(pl.col("reason").is_null()) if again else read
    open_ended = answered.filter(pl.col("ending") == Ending.ANSWERED)
    return open_ended.join(read, on="key", how="anti").select("key").collect()


def answers(folder: Path, keys: Iterable[str]) -> dict[str, str]:
    """Key -> the whole reply of the model, reasoning included."""
    wanted = key_frame(keys).lazy()
    replies = turns(folder).join(wanted, on="key", how="semi").select("key", "reply")
    return dict(replies.collect().iter_rows())


def _parts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("part-*.parquet") if re.fullmatch(r"part-[0-9]{8,18}", path.stem))


def _good(folder: Path) -> list[Path]:
    """The parts that count; the sums are read after the names, for a part has its line before its name."""
    for _ in range(TRIES):
        parts = _parts(folder)
        sums = checksums.read(folder.parent) if parts else {}
        good = [path for path in parts if _usable(path, sums)]
        if len(good) == len(parts) or parts == _parts(folder):
            break  # else a merge has deleted some meanwhile, and its own part is there
    for path in (path for path in parts if path not in good):
        log.warning("%s cannot be used and is skipped; `proactive-sweep judge` reads its answers again", path)
    return good


def _usable(path: Path, sums: checksums.Sums) -> bool:
    """Whether a part's bytes are those that were written; one without a sum, of an earlier version, must read whole."""
    try:
        good = path.is_file() and checksums.agrees(path, sums)
        known = good and pl.scan_parquet(path, glob=False).collect_schema() in (VERDICTS, WITHOUT_STRICT)
        if known and f"{FOLDER}/{path.name}" not in sums:
            pl.read_parquet(path, glob=False)
        return known
    except UNREADABLE:
        return False
