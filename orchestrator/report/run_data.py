"""``RunData``: a run folder read once, with the episodes that its plan asks for and the samples if they are at hand.

Nothing here needs a model, a cluster or the data folder; where the data folder is there it only makes some answers exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from inspect import signature
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import polars as pl

from envs.bad_lines import LeftOut
from envs.installed import PackageError
from envs.samples import BadData
from envs.types import UNSCORED, Mode, Sample
from orchestrator.planning.build_plan import build_plan
from orchestrator.planning.plan import Plan
from orchestrator.report.cell_resources import with_resources
from orchestrator.report.clusters import CLUSTERS
from orchestrator.report.judge_agreement import chosen
from orchestrator.report.metrics import PLANNED, score
from orchestrator.report.own_measures import joined, own_measures
from orchestrator.report.stopped import stopped_cells, told, with_anytime
from orchestrator.report.wording import counted
from orchestrator.storage import lock
from orchestrator.storage.checksums import damaged
from orchestrator.storage.control_log import standing
from orchestrator.storage.episode_store import episodes, turns
from orchestrator.storage.planned_episodes import planned_only
from orchestrator.storage.reused import sentences
from orchestrator.storage.run_folder import RunFolderError, bad_lines, planned_cells, planned_keys, stored_sweep
from orchestrator.storage.verdict_store import verdicts
from sweeps.conditions import CONDITIONS, Condition
from sweeps.load import SweepError
from sweeps.spec import Sweep

P = ParamSpec("P")
Made = TypeVar("Made")
Samples = Mapping[str, Mapping[int, Sample]]
"""Scenario -> id -> sample."""
ACROSS, ALONG = ("left", "right", "zoom"), ("up", "down", "zoom")
"""Moves that COCO counts on each axis (``envs.coco``)."""


@dataclass(frozen=True)
class RunData:
    """All that a table or figure may use; equal folders give equal values."""

    folder: Path
    sweep: Sweep
    planned: pl.DataFrame
    """One row a planned cell: model, scenario, condition, protocol, cell, planned; and ``full`` where cells stop by precision."""
    episodes: pl.DataFrame
    """``EPISODES`` rows that belong to the plan."""
    samples: Samples = field(default_factory=dict)
    """The samples that were played; a scenario is missing where the data folder is, or holds other samples."""
    judge: str = ""
    """Whose verdicts are shown (``actors.judge_runner.judge_key``)."""
    strict: bool = False
    """Whether a verdict that could not be had counts as the package's three zeros."""
    cluster: str = ""
    """By what samples are drawn in clusters (``orchestrator.report.clusters``); empty takes them as independent."""
    notes: tuple[str, ...] = ()
    """What a reader should know about this run, one sentence each."""
    left_out: tuple[LeftOut, ...] = ()
    """Bad lines of the data that were not played."""
    own: pl.DataFrame | None = None
    """Measures of installed packages, one row a cell (``orchestrator.report.own_measures``); None where none is asked for."""
    replicates: pl.DataFrame = field(default_factory=pl.DataFrame)
    """Answered ``EPISODES`` rows of replicates: ``condition`` is the one that they repeat, beside it ``order`` and ``draw``."""
    maps: pl.DataFrame = field(default_factory=pl.DataFrame)
    """``EPISODES`` rows of decision maps (``Condition.every_frame``), which are no part of ``episodes``."""
    planned_maps: pl.DataFrame = field(default_factory=pl.DataFrame)
    """Rows as ``planned``, of these."""
    made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What ``once`` has made of this run."""

    @cached_property
    def rows(self) -> pl.DataFrame:
        """One row a planned cell (``orchestrator.report.metrics.score``), with what it took (``cell_resources``)."""
        stored = self.episodes.lazy()
        rows = score(stored, self.planned, self.verdicts.lazy(), self.strict)
        rows = joined(with_anytime(rows, stored, self.sweep.precision, self.sweep.seed), self.own)
        return with_resources(rows, self.folder, self.sweep)

    @cached_property
    def verdicts(self) -> pl.DataFrame:
        """``VERDICTS`` rows of the judge that the report is about, on these episodes."""
        found = verdicts(self.folder).join(self.episodes.lazy().select("key"), on="key", how="semi")
        return found.filter(pl.col("judge") == self.judge).collect()

    @cached_property
    def scored(self) -> pl.DataFrame:
        """The episodes of multiple choice that answered: errors are no zeros."""
        return self.episodes.filter(~pl.col("ending").is_in(UNSCORED))

    @property
    def turns(self) -> pl.LazyFrame:
        """``TURNS`` rows of these episodes, in the order played."""
        return self.turns_of(self.episodes)

    def turns_of(self, episodes: pl.DataFrame) -> pl.LazyFrame:
        """``TURNS`` rows of some episodes, in the order played."""
        return turns(self.folder).join(episodes.lazy().select("key"), on="key", how="semi", maintain_order="left")

    @cached_property
    def last(self) -> pl.DataFrame:
        """The last answered turn of every episode that has one, beside the episode's own columns.

        More columns: turn, frame, image, reply, category, action, move; mode; ``across`` and ``along``, the moves made before it
        (``envs.types.State``).
        """
        own = ["key", "model", "scenario", "condition", "protocol", "cell", "sample_id", "seed", "ending", "correct"]
        mine = self.episodes.lazy().select(*own, (pl.col("turns") - 1).alias("turn"))
        stored = turns(self.folder)  # both joins leave out what is of no episode here
        ends = mine.select("key", pl.col("turn").alias("end"))
        moved = stored.select("key", "turn", "move").filter(pl.col("move").is_not_null())
        moves = moved.join(ends, on="key").filter(pl.col("turn") < pl.col("end"))
        made = moves.group_by("key").agg(
            pl.col("move").is_in(ACROSS).sum().cast(pl.Int64).alias("across"),
            pl.col("move").is_in(ALONG).sum().cast(pl.Int64).alias("along"),
        )
        modes = {condition.name: condition.mode.value for condition in self.conditions.values()}
        mode = pl.col("condition").replace_strict(modes, default=Mode.PLAY.value, return_dtype=pl.String).alias("mode")
        said = stored.select("key", "turn", "frame", "image", "reply", "category", "action", "move")
        found = mine.join(said, on=["key", "turn"]).join(made, on="key", how="left")
        return found.with_columns(mode, pl.col("across", "along").fill_null(0)).sort("key").collect()

    @property
    def conditions(self) -> dict[str, Condition]:
        """The conditions that the sweep may name."""
        mine = (*self.sweep.conditions, *self.sweep.repeated)
        return {**CONDITIONS, **{condition.name: condition for condition in mine}}

    @property
    def unseen(self) -> list[str]:
        """Names of the conditions that hide the sample's own picture."""
        return [name for name, condition in self.conditions.items() if condition.unseen]

    @property
    def baselines(self) -> frozenset[str]:
        """Names of the policies that need no model."""
        return frozenset(model.name for model in self.sweep.models if model.backend == "builtin")

    def playing(self, policy: str) -> list[str]:
        """Names of the models that are this built-in policy."""
        return [model.name for model in self.sweep.models if model.source == f"builtin:{policy}"]


def once(
    function: Callable[Concatenate[RunData, P], Made],
) -> Callable[Concatenate[RunData, P], Made]:
    """The same function, made once of each run and arguments; tables, page and figures share what it gives."""

    parameters = signature(function)

    @wraps(function)
    def kept(run_data: RunData, /, *args: P.args, **kwargs: P.kwargs) -> Made:
        given = parameters.bind(run_data, *args, **kwargs)
        given.apply_defaults()
        place = (function, *list(given.arguments.values())[1:])
        if place not in run_data.made:
            run_data.made[place] = function(run_data, *args, **kwargs)
        return run_data.made[place]  # type: ignore[no-any-return]

    return kept


def read(folder: Path, data: Path | None = None, judge: str = "", strict: bool = False, cluster: str = "") -> RunData:
    """What a run folder holds; raises RunFolderError when it is none, or when ``judge`` read nothing there.

    ``data`` is where the benchmark lies now; left out, it is where the sweep had it. ``judge`` is whose verdicts count,
    by key or by the start of one; left out, the sweep's own, or the only one. ``strict`` takes the package's zeros.
    ``cluster`` names the clusters that intervals and tests count with; it needs the samples of what was played.
    """
    folder = Path(folder)
    if cluster and cluster not in CLUSTERS:
        raise RunFolderError(f"there is no cluster {cluster!r}; type --cluster {' or --cluster '.join(CLUSTERS)}")
    sweep, planned = stored_sweep(folder), _planned(folder)
    stored = (
        episodes(folder).join(planned.lazy().select("cell"), on="cell", how="semi", maintain_order="left").collect()
    )
    samples, plan, notes = _samples(sweep if data is None else sweep.model_copy(update={"data": str(data)}), stored)
    belonging = _belonging(stored, planned_keys(folder), plan, samples).collect().sort("key")
    notes += _not_counted(sweep, planned, stored.height - belonging.height)
    notes += [f"{name} is damaged or was edited; the same `run` command writes it anew" for name in damaged(folder)]
    if missing := sorted(set(belonging["scenario"]) - samples.keys()) if cluster else []:
        raise RunFolderError(
            f"--cluster {cluster} needs the samples of {missing[0]}, which are not at hand; name their folder: --data DIR"
        )
    left_out = bad_lines(folder)
    notes += [f"left out: {one}" for one in left_out] + sentences(folder)
    notes += _held(folder, planned, belonging)
    judge = chosen(folder, sweep, judge)
    mapped = pl.col("condition").is_in([condition.name for condition in sweep.conditions if condition.every_frame])
    maps = [rows.filter(mapped) for rows in (belonging, planned)]
    names = [condition.name for condition in sweep.repeated]
    planned, played = (rows.filter(~pl.col("condition").is_in(names) & ~mapped) for rows in (planned, belonging))
    more = _replicates(sweep, belonging)
    own, failed = own_measures(sweep.measures, played.lazy(), turns(folder))
    notes += failed
    return RunData(
        folder, sweep, planned, played, samples, judge, strict, cluster, tuple(notes), left_out, own, more, *maps
    )


def opened(
    run: RunData | Path, data: Path | None = None, judge: str = "", strict: bool = False, cluster: str = ""
) -> RunData:
    """A run that is read already, or ``read`` of its folder."""
    return run if isinstance(run, RunData) else read(run, data, judge, strict, cluster)


def several(
    runs: Sequence[RunData | Path], data: Path | None = None, judge: str = "", strict: bool = False, cluster: str = ""
) -> list[RunData]:
    """Runs that are compared, each read once (``opened``); raises RunFolderError where one is named twice."""
    lock.named_once(run.folder if isinstance(run, RunData) else run for run in runs)
    return [opened(run, data, judge, strict, cluster) for run in runs]


def _replicates(sweep: Sweep, episodes: pl.DataFrame) -> pl.DataFrame:
    rows = [
        (one.name, condition.name, one.order, one.draw)
        for condition in sweep.conditions
        for one in sweep.replicates.of(condition)
        if one.is_replicate
    ]
    schema = {"condition": pl.String, "repeats": pl.String, "order": pl.Int64, "draw": pl.Int64}
    known = pl.DataFrame(rows, schema=schema, orient="row")
    found = episodes.filter(~pl.col("ending").is_in(UNSCORED)).join(known, on="condition")
    return found.drop("condition").rename({"repeats": "condition"})


def _held(folder: Path, planned: pl.DataFrame, stored: pl.DataFrame) -> list[str]:
    """What was cancelled or paused before it was finished."""
    done = dict(stored.group_by("cell").len().iter_rows())
    unfinished = [cell for cell, size in planned.select("cell", "planned").iter_rows() if done.get(cell, 0) < size]
    return standing(folder).sentences(unfinished)


def _not_counted(sweep: Sweep, planned: pl.DataFrame, others: int) -> list[str]:
    """What stopped by precision, and what is stored beyond the plan."""
    notes = told(sweep.precision, planned.to_dicts())
    if stopped := stopped_cells(planned):
        notes.append(
            f"intervals of accuracy, suggestions and loops of {counted(len(stopped), 'stopped cell')} hold at any stop, for the"
            " whole set of samples; those of shares of answers, of budgets and of paired tests take the number as given"
        )
    if others:
        kind = "after a stop or of an earlier configuration" if stopped else "of an earlier configuration"
        notes.append(f"{others:,} episodes {kind} are left out")
    return notes


def _planned(folder: Path) -> pl.DataFrame:
    cells = planned_cells(folder)
    names = [*PLANNED, *(["full"] if any("full" in cell for cell in cells) else [])]
    rows = [{"full": cell["planned"], **cell} for cell in cells]
    return pl.DataFrame(rows, schema={name: pl.Int64 if name in ("planned", "full") else pl.String for name in names})


def _samples(sweep: Sweep, stored: pl.DataFrame) -> tuple[Samples, Plan | None, list[str]]:
    """Samples by scenario, as far as the data folder holds what was played, and the plan over it."""
    try:
        plan = build_plan(sweep)
    except (BadData, PackageError, SweepError, OSError) as problem:
        return {}, None, [f"the data folder is not at hand ({problem}), so views are judged by the oracle's path"]
    played = dict(stored.group_by("scenario").agg("key").rows())
    scenarios = dict.fromkeys(cell.scenario for cell in plan.cells)
    known = {name for name in scenarios if name not in played or _played(plan, name, pl.Series(played[name]))}
    notes = [
        f"{sweep.data} holds other samples of {name} than were played, or is read by another version: they are not used"
        for name in scenarios
        if name not in known
    ]
    return {name: found for name, found in plan.played.items() if name in known}, plan, notes


def _played(plan: Plan, scenario: str, stored: pl.Series) -> bool:
    """Whether any planned episode of a scenario is among these keys; the first of its cells tells mostly."""
    cells = (index for index, cell in enumerate(plan.cells) if cell.scenario == scenario)
    return any(stored.is_in(list(plan.keys(index))).any() for index in cells)


def _belonging(stored: pl.DataFrame, asked: pl.LazyFrame | None, plan: Plan | None, known: Samples) -> pl.LazyFrame:
    """What belongs to the plan that the folder holds; in a folder without one, to that of the data folder, as far as it goes."""
    if asked is not None:
        return planned_only(stored.lazy(), asked)
    cells = enumerate(plan.cells) if plan else ()
    keys = [key for index, cell in cells if plan and cell.scenario in known for key in plan.keys(index)]
    return planned_only(stored.lazy(), keys, scenarios=known)
