"""The table of judges' verdicts on the episodes of a run folder.

The latest verdict per episode and judge counts. A torn part is ignored, and its answers are pending again. Parts
(``verdicts/part-00000001.parquet``) are written atomically, after the episodes that they judge are durable.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import polars as pl

from actors.playing.judge import reads_nothing
from actors.playing.records import Columns
from envs.plural import pluralize
from envs.types import Ending
from orchestrator.storage.episode_store import key_frame, turns
from orchestrator.storage.part_files import PartFiles, list_parts, scan_parts, scan_table
from orchestrator.storage.part_writer import PartWriter, delete_parts
from orchestrator.storage.schemas import VERDICTS

FOLDER = "verdicts"


class VerdictStore(PartWriter):
    """The single writer of a run folder's verdicts. The caller must hold the folder's lock, and flush when a part is due."""

    schemas = {FOLDER: VERDICTS}

    def append(self, columns: Columns) -> None:
        """Buffer verdicts with the columns of ``VERDICTS``."""
        self._add(FOLDER, columns)

    def compact(self) -> None:
        """Merge all parts into one. A crash in between leaves duplicate rows, which readers ignore."""
        self.flush()
        old = list_parts(self.folder).verdicts
        if len(old) > 1:
            self._write({FOLDER: verdicts(self.folder).collect()})
            delete_parts(self.folder, old, [FOLDER])


def verdicts(folder: Path) -> pl.LazyFrame:
    """Scan the verdicts of a run folder (``VERDICTS``): the latest per judge and episode, in the order of writing."""
    return scan_table(Path(folder), FOLDER, VERDICTS, _latest)


def _latest(files: PartFiles) -> pl.LazyFrame:
    rows = scan_parts(files, FOLDER, files.verdicts).drop("part")
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

    Answers on which it gave no verdict are included with ``again``, or if it has given hardly any verdict so far: then the
    judge was broken, and may work now.
    """
    read = verdicts(folder).filter(pl.col("judge") == judge)
    read = read.filter(pl.col("reason").is_null()) if again or not reads_answers(folder, judge) else read
    open_ended = answered.filter(pl.col("ending") == Ending.ANSWERED)
    return open_ended.join(read, on="key", how="anti").select("key").collect()


def reads_answers(folder: Path, judge: str) -> bool:
    """Return True if this judge has given verdicts in the run folder, on enough of the answers that it was asked about."""
    counts = pl.col("aggregate").count(), pl.len()
    read, judged = verdicts(folder).filter(judge=judge).select(counts).collect().row(0)
    return judged > 0 and not reads_nothing(read, judged)


def final_replies(folder: Path, keys: Iterable[str]) -> dict[str, str]:
    """Return the model's full reply per key, reasoning included."""
    replies = turns(folder).join(key_frame(keys).lazy(), on="key", how="semi").select("key", "reply")
    return dict(replies.collect().iter_rows())
