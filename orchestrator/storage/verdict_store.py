"""The table of judges' verdicts on the episodes of a run folder.

The latest verdict per episode and judge counts. A torn part is ignored, and its answers are pending again. Parts
(``verdicts/part-00000001.parquet``) are written atomically, after the episodes that they judge are durable.
"""

import logging
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import polars as pl

from actors.playing.records import Columns
from envs.plural import pluralize
from envs.types import Ending
from orchestrator.storage.episode_store import key_frame, turns, write_part
from orchestrator.storage.part_files import Part, delete_parts, late_scan, list_parts, mend, next_number, read_parts
from orchestrator.storage.schemas import VERDICTS, make_frame

FOLDER = "verdicts"

log = logging.getLogger(__name__)


class VerdictStore:
    """The single writer of a run folder's verdicts. The caller must hold the folder's lock."""

    def __init__(self, folder: Path, rows: int = 5_000, seconds: float = 5.0) -> None:
        """Mend the folder. A part is due when ``rows`` verdicts wait, or when the oldest has waited ``seconds``."""
        self.folder, self.rows, self.seconds = Path(folder), rows, seconds
        mend(self.folder)
        self._waiting: list[pl.DataFrame] = []
        self._since = time.monotonic()

    def append(self, columns: Columns) -> None:
        """Buffer verdicts with the columns of ``VERDICTS``."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(make_frame(columns, VERDICTS))

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
        old = list_parts(self.folder).verdicts
        if len(old) > 1:
            self._write(verdicts(self.folder).collect())
            delete_parts(self.folder, old, [FOLDER])

    def _write(self, frame: pl.DataFrame) -> None:
        number = next_number(self.folder, [FOLDER])
        write_part(self.folder, Part(number, number), {FOLDER: frame})


def verdicts(folder: Path) -> pl.LazyFrame:
    """Scan the verdicts of a run folder (``VERDICTS``): the latest per judge and episode, in the order of writing."""
    return late_scan(VERDICTS, lambda: _verdicts(Path(folder)))


def _verdicts(folder: Path) -> pl.LazyFrame:
    files = read_parts(folder)
    for path in (path for path in files.bad if path.parent.name == FOLDER):
        log.warning("%s cannot be used and is skipped; `proactive-sweep judge` reads its answers again", path)
    if not files.verdicts:
        return pl.LazyFrame(schema=VERDICTS)
    paths = files.paths(FOLDER, files.verdicts)
    rows = pl.scan_parquet(paths, schema=VERDICTS, missing_columns="insert", glob=False, hive_partitioning=False)
    return rows.unique(["key", "judge"], keep="last", maintain_order=True)


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
        answers, judged, read, calls = self
        unread = f"; {answers - judged:,} not read yet" if answers > judged else ""
        details = f"{judged - read:,} without one, {pluralize(calls, 'call')}{unread}"
        return f"{judge}: {pluralize(read, 'verdict')} of {pluralize(answers, 'answer')} ({details})"


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
