"""``Run``: a run folder as polars frames, read-only."""

from functools import cached_property
from pathlib import Path
from typing import Any, Self

import polars as pl

from envs.plural import pluralize
from orchestrator.object_store.run_location import readable_folder
from orchestrator.report.comparisons.run_comparison import compare_runs
from orchestrator.report.read_run import read_run
from orchestrator.storage import episode_store, run_folder, verdict_store
from orchestrator.storage.run_folder import stored_sweep
from orchestrator.storage.status import read_status
from sweeps.spec import Sweep


class Run:
    """A run folder; each frame is read once, so call ``open_run`` again to see newer episodes."""

    def __init__(self, folder: Path, data: Path | None = None, judge: str = "") -> None:
        self.folder, self.data, self.judge = folder, data, judge
        self.sweep: Sweep = stored_sweep(folder)

    def __repr__(self) -> str:
        cells = self.status()["cells"]
        finished, planned = (sum(cell[name] for cell in cells) for name in ("finished", "planned"))
        return f"<Run {self.folder}: {pluralize(len(cells), 'cell')}, {finished:,} of {pluralize(planned, 'episode')}>"

    def status(self) -> dict[str, Any]:
        """Return the current progress, as ``proactive-sweep status --json`` prints it."""
        return read_status(self.folder)

    @cached_property
    def episodes(self) -> pl.DataFrame:
        """One row per episode of the plan, sorted by key (columns: docs/run-folder.md)."""
        return run_folder.planned_episodes(self.folder).collect().sort("key")

    @cached_property
    def turns(self) -> pl.DataFrame:
        """One row per turn of these episodes, in the order played."""
        return self._of_plan(episode_store.turns(self.folder)).sort("key", "turn")

    @cached_property
    def verdicts(self) -> pl.DataFrame:
        """One row per open-ended answer and judge; empty for multiple choice."""
        return self._of_plan(verdict_store.verdicts(self.folder)).sort("key", "judge")

    @cached_property
    def results(self) -> pl.DataFrame:
        """One row per planned cell: planned, finished, errors, acc with its 95% interval, ps, shares, loops, judged bits."""
        return read_run(self.folder, self.data, self.judge).rows

    @cached_property
    def options(self) -> pl.DataFrame:
        """One row per option of every question under ``every-state``, with its log-probability."""
        rows = self._of_plan(episode_store.options(self.folder))
        return rows.sort("key", "turn", pl.col("position") < 0, "position")

    def compare(self, *others: Self) -> pl.DataFrame:
        """Return the difference of every other run from this one, on the same samples.

        One row per run, model, scenario, condition and protocol, with the columns of ``measures.paired.compare``:
        ``difference``, its interval, ``p_holm`` and more. Raises RunFolderError.
        """
        folders = (self.folder, *(run.folder for run in others))
        return compare_runs([read_run(folder, self.data, self.judge) for folder in folders]).cells

    def _of_plan(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """Read the rows of the plan's episodes."""
        return rows.join(self.episodes.lazy().select("key"), on="key", how="semi").collect()


def open_run(folder: str | Path, data: str | Path | None = None, judge: str = "") -> Run:
    """Open a run folder, or a local copy of ``s3://BUCKET/FOLDER`` after updating it.

    ``data`` is the benchmark folder if it has moved; ``judge`` is the judge whose verdicts ``results`` counts (default: the
    sweep's own). Raises RunFolderError if there is no run.
    """
    return Run(readable_folder(str(folder)), None if data is None else Path(data), judge)
