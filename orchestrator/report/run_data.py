"""``RunData``: the planned episodes of one run folder, with the samples if the data folder is available."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import polars as pl

from envs.answers import as_text
from envs.samples import SkippedLines
from envs.types import UNSCORED, Ending, Mode, Sample
from orchestrator.report.scores.cell_resources import add_resources
from orchestrator.report.scores.metrics import move_answers_last, score, verdict_bit
from orchestrator.report.scores.package_measures import Samples, join_package_measures
from orchestrator.report.scores.precision_stops import add_anytime_intervals
from orchestrator.storage.episode_store import turns
from orchestrator.storage.verdict_store import verdicts
from sweeps.conditions import CONDITIONS, Condition
from sweeps.spec import Sweep

P = ParamSpec("P")
T = TypeVar("T")
CLUSTERS: dict[str, tuple[Callable[[Sample], str], str]] = {
    "object": (lambda sample: as_text(sample.answer), "samples of one scenario with the same right answer"),
    "picture": (lambda sample: sample.image, "samples of one scenario cut from the same picture or video"),
}
"""Name of a clustering -> key of a sample's cluster, and its description."""
AUTOMATIC = "automatic"
"""The clustering that uses a scenario's clusters if they widen its intervals (``report.measures.clustering``)."""
ACROSS, ALONG = ("left", "right", "zoom"), ("up", "down", "zoom")
"""Moves that COCO counts on each axis (``envs.coco``)."""


@dataclass(frozen=True)
class RunData:
    """Everything that a table or figure may use; equal folders give equal values."""

    folder: Path
    sweep: Sweep
    planned: pl.DataFrame
    """One row per planned cell: model, scenario, condition, protocol, cell, planned; also ``full`` if cells stop by precision."""
    episodes: pl.DataFrame
    """``EPISODES`` rows that belong to the plan."""
    samples: Samples = field(default_factory=dict)
    """The samples that were played; a scenario is missing if the data folder cannot be read or holds other samples of it."""
    judge: str = ""
    """Key of the judge whose verdicts are reported (``actors.playing.judge_runner.judge_key``)."""
    strict: bool = False
    """A missing verdict counts as three zeros, as in the package."""
    cluster: str = ""
    """Clustering of samples (``CLUSTERS``, or ``AUTOMATIC``); empty if samples count as independent."""
    notes: tuple[str, ...] = ()
    """Remarks on this run for the reader, one sentence each."""
    left_out: tuple[SkippedLines, ...] = ()
    """Bad lines of the data that were not played."""
    package_measures: pl.DataFrame | None = None
    """Measures of installed packages, one row per cell (``scores.package_measures``); None if none was requested."""
    asked: pl.DataFrame = field(default_factory=pl.DataFrame)
    """``EPISODES`` rows of conditions that play no game (``Condition.rules``), all orders; they are not in ``episodes``."""
    data: Path | None = None
    """The benchmark folder that a command names; None for the sweep's own."""
    cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Results of functions that are ``cached_per_run``."""

    @cached_property
    def rows(self) -> pl.DataFrame:
        """Return one row per planned cell (``scores.metrics.score``), with its resources (``scores.cell_resources``)."""
        stored, sweep = self.episodes.lazy(), self.sweep
        rows = score(stored, self.planned, self.verdicts.lazy(), self.strict, sweep.reference_conditions)
        rows = add_anytime_intervals(rows, stored, sweep.precision, sweep.seed)
        rows = join_package_measures(rows, self.package_measures)
        return move_answers_last(add_resources(rows, self.folder, sweep))

    @cached_property
    def verdicts(self) -> pl.DataFrame:
        """Return the ``VERDICTS`` rows of the reported judge on ``episodes``."""
        rows = verdicts(self.folder).filter(pl.col("judge") == self.judge)
        return rows.join(self.episodes.lazy().select("key"), on="key", how="semi").collect()

    @cached_property
    def judged(self) -> pl.DataFrame:
        """Return the open-ended answers that the judge has read; ``correct`` is its aggregate bit, null without a verdict."""
        bit = verdict_bit("aggregate", self.strict).alias("correct")
        answers = self.episodes.filter(pl.col("ending") == Ending.ANSWERED).drop("correct")
        return answers.join(self.verdicts.select("key", bit), on="key")

    @cached_property
    def scored(self) -> pl.DataFrame:
        """Return the episodes that the game scores; errors are left out, never zero, and the judge scores open-ended answers."""
        return self.episodes.filter(~pl.col("ending").is_in(UNSCORED)).drop_nulls("correct")

    @property
    def turns(self) -> pl.LazyFrame:
        """Return the ``TURNS`` rows of all episodes, in the order played."""
        return self.select_turns(self.episodes)

    def select_turns(self, episodes: pl.DataFrame) -> pl.LazyFrame:
        """Return the ``TURNS`` rows of these episodes, in the order played."""
        return turns(self.folder).join(episodes.lazy().select("key"), on="key", how="semi", maintain_order="left")

    @cached_property
    def last_turns(self) -> pl.DataFrame:
        """Return the last answered turn of every episode that has one, with the episode's columns.

        Further columns: turn, frame, image, reply, category, action, move; mode; ``across`` and ``along``, the moves made
        before the turn (``envs.types.State``).
        """
        own = ["key", "model", "scenario", "condition", "protocol", "cell", "sample_id", "seed", "ending", "correct"]
        last, stored = self.episodes.lazy().select(*own, (pl.col("turns") - 1).alias("turn")), turns(self.folder)
        moved = stored.filter(pl.col("move").is_not_null()).select("key", "move", pl.col("turn").alias("moved"))
        counts = last.join(moved, on="key").filter(pl.col("moved") < pl.col("turn")).group_by("key").agg(
            across=pl.col("move").is_in(ACROSS).sum().cast(pl.Int64), along=pl.col("move").is_in(ALONG).sum().cast(pl.Int64)
        )  # fmt: skip
        columns = ("key", "turn", "frame", "image", "reply", "category", "action", "move")
        answered = last.join(stored.select(columns), on=["key", "turn"]).join(counts, on="key", how="left")
        modes = {condition.name: condition.mode.value for condition in self.conditions.values()}
        mode = pl.col("condition").replace_strict(modes, default=Mode.PLAY.value, return_dtype=pl.String)
        return answered.with_columns(pl.col("across", "along").fill_null(0), mode=mode).sort("key").collect()

    @property
    def conditions(self) -> dict[str, Condition]:
        """Return the built-in conditions and those of the sweep, by name."""
        own = (*self.sweep.conditions, *self.sweep.replicated_conditions)
        return {**CONDITIONS, **{condition.name: condition for condition in own}}

    @property
    def unseen_conditions(self) -> list[str]:
        """Return the names of conditions that hide the sample's own first picture."""
        return [name for name, condition in self.conditions.items() if condition.picture != "own"]

    @property
    def baselines(self) -> frozenset[str]:
        return self.sweep.baselines

    def models_or_baselines(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows of models, or all rows if they are of baselines only."""
        models = rows.filter(~pl.col("model").is_in(list(self.baselines)))
        return rows if models.is_empty() else models

    def models_of_policy(self, policy: str) -> list[str]:
        """Return the names under which the sweep plays this built-in policy."""
        return [model.name for model in self.sweep.models if model.source == f"builtin:{policy}"]


def cached_per_run(function: Callable[Concatenate[RunData, P], T]) -> Callable[Concatenate[RunData, P], T]:
    """Cache a function per run and arguments, so that tables, page and figures compute its value once."""

    @wraps(function)
    def cached_function(run_data: RunData, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (function, args, tuple(kwargs.items()))
        if key not in run_data.cache:
            run_data.cache[key] = function(run_data, *args, **kwargs)
        return run_data.cache[key]  # type: ignore[no-any-return]

    return cached_function


def rank_of(column: str, order: Iterable[str]) -> pl.Expr:
    """Return the position of a column's values in ``order``; values that ``order`` lacks come last."""
    positions = {name: position for position, name in enumerate(order)}
    return pl.col(column).replace_strict(positions, default=len(positions), return_dtype=pl.Int64)
