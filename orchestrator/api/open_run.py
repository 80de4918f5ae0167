"""``Run``: a run folder as polars frames and viewable episodes, read-only."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import polars as pl

from envs.errors import RunFolderError
from envs.plural import pluralize
from orchestrator.object_store.run_location import readable_folder
from orchestrator.report.comparisons.run_comparison import compare_runs
from orchestrator.report.html.episode_view import replay_episode
from orchestrator.report.read_run import read_run, read_runs
from orchestrator.report.run_data import RunData
from orchestrator.storage import episode_store, run_folder, verdict_store
from orchestrator.storage.run_folder import stored_sweep
from orchestrator.storage.status import read_status
from sweeps.spec import Sweep


class Run:
    """A run folder; each frame is read once, so call ``open_run`` again to see newer episodes."""

    def __init__(self, folder: Path, data: Path | None = None, judge: str = "") -> None:
        """See ``open_run``."""
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

    @property
    def results(self) -> pl.DataFrame:
        """One row per planned cell: planned, finished, errors, acc with its 95% interval, ps, shares, loops, judged bits."""
        return self._read.rows

    @cached_property
    def options(self) -> pl.DataFrame:
        """One row per option of every question under ``every-state``, with its log-probability."""
        rows = self._of_plan(episode_store.options(self.folder))
        return rows.sort("key", "turn", pl.col("position") < 0, "position")

    def replay(self, key: str) -> pl.DataFrame:
        """Replay an episode from its stored replies: one row per turn, with question, options and parsed action.

        Columns: turn, frame, image, prompt, options (suggestions, abstention, categories, as lettered), reply, option,
        category, action, move. Raises RunFolderError if the episode or its samples are missing, or if this version parses
        a reply differently.
        """
        row, turns = self._episode(key)
        questions, reason = replay_episode(self._read, row, turns)
        if reason and not questions:
            raise RunFolderError(f"{key}: {reason}")
        columns = ("reply", "option", "category", "action", "move")
        rows = [
            {
                **{name: turn[name] for name in ("turn", "frame", "image")},
                "prompt": questions[turn["turn"]].view.prompt,
                "options": [*questions[turn["turn"]].view.options, *questions[turn["turn"]].view.categories],
                **{name: turn[name] for name in columns},
            }
            for turn in turns
        ]
        return pl.DataFrame(rows, schema_overrides={"options": pl.List(pl.String), "move": pl.String})

    def compare(self, *others: Self) -> pl.DataFrame:
        """Return the difference of every other run from this one, on the same samples.

        One row per run, model, scenario, condition and protocol, with the columns of ``paired_tests.compare_pairs``:
        ``difference``, its interval, ``p_holm`` and more. Raises RunFolderError.
        """
        return compare_runs(read_runs([self.folder, *(run.folder for run in others)], self.data, self.judge)).cells

    @cached_property
    def _read(self) -> RunData:
        return read_run(self.folder, self.data, self.judge)

    def _of_plan(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """Read the rows of the plan's episodes."""
        return rows.join(self.episodes.lazy().select("key"), on="key", how="semi").collect()

    def _episode(self, key: str) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
        rows = self.episodes.filter(pl.col("key") == key)
        if not rows.height:
            close = get_close_matches(key, self.episodes["key"].to_list(), n=1)
            hint = f"did you mean {close[0]!r}?" if close else '`.episodes["key"]` lists them'
            raise RunFolderError(f"{self.folder} has no episode {key!r}; {hint}")
        return rows.row(0, named=True), self.turns.filter(pl.col("key") == key).to_dicts()


def open_run(folder: str | Path, data: str | Path | None = None, judge: str = "") -> Run:
    """Open a run folder, or a local copy of ``s3://BUCKET/FOLDER`` after updating it.

    ``data`` is the benchmark folder if it has moved; ``judge`` is the judge whose verdicts ``results`` counts (default: the
    sweep's own). Raises RunFolderError if there is no run.
    """
    return Run(readable_folder(str(folder)), None if data is None else Path(data), judge)
