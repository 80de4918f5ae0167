"""The episodes of one run folder as columns in memory, read anew when the folder has changed, also while the run writes."""

import logging
import zlib
from dataclasses import replace
from pathlib import Path

import polars as pl

from envs.errors import RunFolderError
from envs.types import ERRORS, Ending
from orchestrator.report.measures.endings import EndingKind, endings
from orchestrator.report.read_run import read_run
from orchestrator.report.run_data import RunData
from orchestrator.storage.part_files import hold_parts
from orchestrator.storage.run_folder import planned_cells, planned_episodes, stored_sweep
from orchestrator.storage.schemas import EPISODES, UNREADABLE
from orchestrator.storage.verdict_store import verdicts

MAPPED = "answered every picture"
"""Kind of a decision map, which has no single ending."""
KINDS = (*(kind.value for kind in EndingKind), MAPPED)
OUTCOMES = {"correct": 1, "not correct": 0, "without a score": -1}
"""Values of ``right`` by name; an error, or an answer that no judge has read, has no score."""
NOT_SCORED = OUTCOMES["without a score"]
NAMES = ("model", "scenario", "condition", "protocol")
"""Columns that the episodes of a cell share."""

log = logging.getLogger(__name__)


class RunIndex:
    """A run and its columns; ``version`` rises with every change."""

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        """``data`` is the benchmark folder if it has moved. Raises RunFolderError if there is no run."""
        self.folder, self.data = folder, data
        sweep = stored_sweep(folder)
        self.baselines = {model.name for model in sweep.models if model.backend == "builtin"}
        self.run = RunData(folder, sweep, pl.DataFrame(), EPISODES.to_frame())
        self.rows = _columns(self.run)
        self.planned = self.version = 0
        self._state: object = None

    def refresh(self) -> None:
        """Read the run if it has changed; a folder that cannot be read now is tried again at the next change."""
        state = self._folder_state()
        if state == self._state:
            return
        self._state = state
        try:
            with hold_parts([self.folder]):
                run = read_run(self.folder, self.data)
                run = replace(run, episodes=planned_episodes(self.folder).collect())  # in stored order, all conditions
                rows = _columns(run)
        except (RunFolderError, *UNREADABLE) as problem:
            log.info("%s is not read this time: %s", self.folder, problem)
            return
        self.planned = sum(cell["planned"] for cell in planned_cells(self.folder))
        self.run, self.rows, self.version = run, rows, self.version + 1

    def _folder_state(self) -> object:
        """Return a value that changes with the folder: the modification times of its parts and its plan."""
        tables = [path for name in ("episodes", "turns", "verdicts") for path in (self.folder / name).glob("*.parquet")]
        return sorted((str(path), _modified(path)) for path in (*tables, *self.folder.glob("plan.*")))


def _modified(path: Path) -> int:
    """Return when a file was written, in nanoseconds; 0 if it has gone."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _columns(run: RunData) -> pl.DataFrame:
    """Return key, ``NAMES`` and what the list filters and sorts; ``crc`` is the CRC-32 of the key, which a page can compute."""
    numbers = {kind: number for number, kind in enumerate(KINDS)}
    kinds = endings(run).select("key", "kind")
    judged = verdicts(run.folder).select("key", "aggregate").unique("key", keep="last", maintain_order=True).collect()
    rows = run.episodes.join(kinds, on="key", how="left", maintain_order="left")
    rows = rows.join(judged, on="key", how="left", maintain_order="left")
    score = pl.when(pl.col("ending") == Ending.ANSWERED).then("aggregate").otherwise("correct")
    kind = pl.when(pl.col("ending") == Ending.MAPPED).then(pl.lit(MAPPED)).otherwise("kind")
    return rows.select(
        "key",
        pl.col(*NAMES).fill_null(""),
        pl.col("sample_id").cast(pl.Int32, strict=False).fill_null(-1).alias("sample"),
        kind.replace_strict(numbers, return_dtype=pl.UInt8).alias("kind"),
        pl.when(~pl.col("ending").is_in(ERRORS)).then(score).cast(pl.Int8).fill_null(NOT_SCORED).alias("right"),
        pl.col("turns").clip(0, 65_535).cast(pl.UInt16),
        pl.Series("crc", [zlib.crc32(key.encode()) for key in rows["key"]], dtype=pl.UInt32),
    )
