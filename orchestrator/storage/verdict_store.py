"""The table of judges' verdicts on the episodes of a run folder.

The latest verdict per episode and judge counts. A torn part is ignored, and its answers are pending again. Parts
(``verdicts/part-00000001.parquet``) are written atomically, after the episodes that they judge are durable.
"""

import logging
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import polars as pl

from actors.playing.records import Columns
from envs.types import Ending
from orchestrator.storage import checksums, row_check, safe_write
from orchestrator.storage.episode_store import COMPRESSION, METADATA, turns
from orchestrator.storage.late_scan import TRIES, late_scan
from orchestrator.storage.part_files import describe_parts, is_usable, missing_files, part_numbers
from orchestrator.storage.planned_episodes import key_frame
from orchestrator.storage.schemas import VERDICTS

FOLDER = "verdicts"

log = logging.getLogger(__name__)


class VerdictStore:
    """The single writer of a run folder's verdicts. The caller must hold the folder's lock."""

    def __init__(self, folder: Path, rows: int = 5_000, seconds: float = 5.0) -> None:
        """Mend the folder (``mend_verdicts``).

        A part is due when ``rows`` verdicts wait, or when the oldest has waited ``seconds``.
        """
        self.folder, self.rows, self.seconds = Path(folder) / FOLDER, rows, seconds
        mend_verdicts(Path(folder))
        self._part_names = {path.name for path in _list_parts(self.folder)}
        self._waiting: list[pl.DataFrame] = []
        self._since = time.monotonic()

    def append(self, columns: Columns) -> None:
        """Buffer verdicts with the columns of ``VERDICTS``; rows that cannot be stored are set aside (``row_check``)."""
        if not self._waiting:
            self._since = time.monotonic()
        frames = row_check.make_frames(self.folder.parent, {FOLDER: columns}, {FOLDER: VERDICTS})
        self._waiting.append(frames[FOLDER])

    @property
    def due(self) -> bool:
        """Return True if the buffered verdicts should be flushed now."""
        old = time.monotonic() - self._since >= self.seconds
        return bool(self._waiting) and (old or sum(map(len, self._waiting)) >= self.rows)

    def flush(self) -> None:
        """Write the buffered verdicts to a part. Raises OSError (a full disk); the buffer is then kept."""
        if self._waiting:
            self._write(pl.concat(self._waiting))
            self._waiting = []

    def compact(self) -> None:
        """Merge all parts into one. A crash in between leaves duplicate rows, which readers ignore."""
        self.flush()
        self._forget_missing()
        old = _usable_parts(self.folder)
        if len(old) > 1:
            self._write(verdicts(self.folder.parent).collect())
            checksums.record_removals(self.folder.parent, old)
            for path in old:
                safe_write.remove(path)
            safe_write.flush_folder(self.folder)
            self._part_names -= {path.name for path in old}

    def _forget_missing(self) -> None:
        """Log the parts that somebody removed while this process holds the folder."""
        if gone := self._part_names - {path.name for path in _list_parts(self.folder)}:
            log.error("%s of %s was removed; its answers are read again", describe_parts(sorted(gone)), self.folder)
            checksums.record_removals(self.folder.parent, [self.folder / name for name in gone])
        self._part_names -= gone

    def _write(self, frame: pl.DataFrame) -> None:
        safe_write.make_folder(self.folder)
        path = self.folder / f"part-{self._next_number():08d}.parquet"
        safe_write.prepare_table(path, frame, **COMPRESSION, metadata=METADATA["verdicts"])
        checksums.record_sums(self.folder.parent, [path])
        safe_write.publish(path)
        self._part_names.add(path.name)

    def _next_number(self) -> int:
        folder = self.folder.parent
        return max(part_numbers(folder, checksums.read_sums(folder), (FOLDER,)), default=0) + 1


def mend_verdicts(folder: Path) -> None:
    """Move damaged parts to ``damaged/``, and record that they and missing ones are gone; needs the run folder's lock.

    A crash may leave a recorded sum whose part was never published, also by a merge after the last verdict.
    """
    for path in damaged_verdicts(folder):
        log.error("%s cannot be used and is moved to damaged/; its answers are read again", path)
        checksums.record_removals(folder, [path])
        safe_write.move_aside(folder, path)
    if f"{FOLDER}/" in checksums.removed_tables(folder):
        log.error("%s was removed; its answers are read again", folder / FOLDER)
        safe_write.make_folder(folder / FOLDER)  # else its parts would not count as missing below
    absent = [name for name in missing_files(folder) if name.startswith(f"{FOLDER}/")]
    checksums.record_removals(folder, [folder / name for name in absent])


def verdicts(folder: Path) -> pl.LazyFrame:
    """Scan the verdicts of a run folder (``VERDICTS``): the latest per judge and episode, in the order of writing."""
    return late_scan(VERDICTS, lambda: _verdicts(Path(folder) / FOLDER))


def _verdicts(folder: Path) -> pl.LazyFrame:
    good = _usable_parts(folder)
    if not good:
        return pl.LazyFrame(schema=VERDICTS)
    rows = pl.scan_parquet(good, schema=VERDICTS, missing_columns="insert", glob=False, hive_partitioning=False)
    return rows.unique(["key", "judge"], keep="last", maintain_order=True)


def damaged_verdicts(folder: Path) -> list[Path]:
    """Return the verdict parts that are ignored: torn, empty, foreign or of another schema."""
    verdict_folder = Path(folder) / FOLDER
    return sorted(set(_list_parts(verdict_folder)) - set(_usable_parts(verdict_folder)))


def judge_names(folder: Path) -> list[str]:
    """Return the names of the judges with verdicts in this run folder, sorted."""
    return verdicts(folder).select(pl.col("judge").unique().sort()).collect()["judge"].to_list()


class JudgeCounts(NamedTuple):
    """A judge's progress with the open-ended answers of a run."""

    answers: int
    judged: int
    """Answers that the judge was asked about."""
    verdicts: int
    calls: int
    """Requests to the judge, including those without a readable reply."""

    def sentence(self, judge: str) -> str:
        """Return ``qwen3-8b/ours-3fa9c1d2: 0 verdicts of 42 answers (20 without one, 60 calls; 22 not read yet)``."""
        unread = f"; {self.answers - self.judged:,} not read yet" if self.answers > self.judged else ""
        verdicts, answers, calls = (
            f"{count:,} {noun if count == 1 else f'{noun}s'}"
            for noun, count in (("verdict", self.verdicts), ("answer", self.answers), ("call", self.calls))
        )
        return f"{judge}: {verdicts} of {answers} ({self.judged - self.verdicts:,} without one, {calls}{unread})"


def judge_counts(folder: Path, episodes: pl.LazyFrame) -> dict[str, JudgeCounts]:
    """Return judge -> its counts over the answers among these ``episodes``; only judges with stored verdicts."""
    answers = episodes.filter(pl.col("ending") == Ending.ANSWERED).select("key")
    total = answers.select(pl.len()).collect().item()
    rows = verdicts(folder).join(answers, on="key", how="semi").group_by("judge")
    counts = rows.agg(pl.len(), pl.col("aggregate").count(), pl.col("attempts").cast(pl.Int64).sum()).sort("judge")
    return {judge: JudgeCounts(total, *values) for judge, *values in counts.collect().iter_rows()}


def pending_answers(answered: pl.LazyFrame, folder: Path, judge: str, again: bool = False) -> pl.DataFrame:
    """Return the keys of the open-ended answers in ``answered`` that this judge was not asked about.

    ``again`` adds the answers on which it gave no verdict.
    """
    read = verdicts(folder).filter(pl.col("judge") == judge)
    read = read.filter(pl.col("reason").is_null()) if again else read
    open_ended = answered.filter(pl.col("ending") == Ending.ANSWERED)
    return open_ended.join(read, on="key", how="anti").select("key").collect()


def final_replies(folder: Path, keys: Iterable[str]) -> dict[str, str]:
    """Return the model's full reply per key, reasoning included."""
    requested = key_frame(keys).lazy()
    replies = turns(folder).join(requested, on="key", how="semi").select("key", "reply")
    return dict(replies.collect().iter_rows())


def _list_parts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("part-*.parquet") if re.fullmatch(r"part-[0-9]{8,18}", path.stem))


def _usable_parts(folder: Path) -> list[Path]:
    """Return the usable parts. The sums are read after the names, since a sum is recorded before its part is published."""
    for _ in range(TRIES):
        parts = _list_parts(folder)
        sums = checksums.read_sums(folder.parent) if parts else {}
        good = [path for path in parts if is_usable(path, VERDICTS, sums)]
        if len(good) == len(parts) or parts == _list_parts(folder):
            break  # else a merge has deleted some and published its own: list again
    for path in (path for path in parts if path not in good):
        log.warning("%s cannot be used and is skipped; `proactive-sweep judge` reads its answers again", path)
    return good
