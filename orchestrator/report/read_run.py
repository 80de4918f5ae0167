"""Reads a run folder into ``RunData``, without a model, a cluster or the data folder."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from envs.errors import RunFolderError
from envs.installed import PackageError
from envs.samples import BadData
from orchestrator.planning.named_by_user import plan_from_folder
from orchestrator.planning.plan import Plan
from orchestrator.report.run_data import AUTOMATIC, CLUSTERS, RunData
from orchestrator.report.scores.judge_agreement import choose_judge
from orchestrator.report.scores.metrics import PLANNED_COLUMNS
from orchestrator.report.scores.package_measures import Samples, package_measures
from orchestrator.report.scores.precision_stops import describe_stops
from orchestrator.storage.control_log import read_control_state
from orchestrator.storage.episode_store import episodes, filter_planned, turns
from orchestrator.storage.reused import sentences
from orchestrator.storage.run_folder import PLAN, planned_cells, planned_keys, read_bad_lines, stored_sweep
from orchestrator.storage.status import find_faults
from sweeps.conditions import CONDITIONS
from sweeps.load import SweepError, limited_products
from sweeps.packages import missing_rules
from sweeps.spec import Protocol, Sweep


def read_run(
    folder: Path, data: Path | None = None, judge: str = "", strict: bool = False, cluster: str = AUTOMATIC
) -> RunData:
    """Read a run folder, with the samples of the benchmark folder ``data``, by default that of the sweep.

    The verdicts are those of the judge whose key is ``judge`` or begins so; by default the sweep's own, or the only one.
    With ``strict``, a missing one counts as three zeros, as in the package. ``cluster`` is ``RunData.cluster``, or none.
    Raises RunFolderError for a folder that is no run, if ``judge`` matches no judge, or without the samples for ``cluster``.
    """
    sweep = stored_sweep(folder)
    planned = _planned_frame(folder, sweep)
    named = episodes(folder).drop_nulls(PLANNED_COLUMNS[:4])
    stored = named.join(planned.lazy(), on="cell", how="semi", maintain_order="left").collect()
    sweep_with_data = sweep if data is None else sweep.model_copy(update={"data": str(data)})
    samples, notes = _load_samples(folder, sweep_with_data, stored)
    belonging = filter_planned(stored.lazy(), planned_keys(folder)).collect().sort("key")
    cluster = "" if cluster == "none" else cluster
    _check_cluster(cluster, belonging, samples)
    left_out = read_bad_lines(folder)
    notes += [
        *describe_stops(sweep.precision, planned, stored.height - belonging.height),
        *(f"{name} {problem}" for name, problem in find_faults(folder).items()),
        *(f"left out: {reason}" for reason in (*limited_products(sweep), *left_out)),
        *sentences(folder),
        *_unfinished_notes(folder, sweep, planned, belonging),
    ]
    judge = choose_judge(folder, sweep, judge)
    rules = [condition for condition in sweep.conditions if condition.rules]
    is_asked = pl.col("condition").is_in([copy.name for source in rules for copy in sweep.replicates.expand(source)])
    is_copy = pl.col("condition").is_in([condition.name for condition in sweep.replicated_conditions])
    planned, played = (rows.filter(~(is_copy | is_asked)) for rows in (planned, belonging))
    measured, failed = package_measures(sweep.measures, played.lazy(), turns(folder))
    return RunData(
        folder, sweep, planned, played, samples, judge, strict, cluster, (*notes, *failed), left_out, measured,
        belonging.filter(is_asked), data,
    )  # fmt: skip


def _check_cluster(cluster: str, episodes: pl.DataFrame, samples: Samples) -> None:
    """Raise RunFolderError for an unknown clustering, or without the samples that it needs."""
    if cluster and cluster not in (AUTOMATIC, *CLUSTERS):
        raise RunFolderError(f"there is no clustering {cluster!r}; type --cluster {' or --cluster '.join(CLUSTERS)}")
    if missing := sorted(set(episodes["scenario"]) - samples.keys()) if cluster in CLUSTERS else []:
        raise RunFolderError(
            f"--cluster {cluster} needs the samples of {missing[0]}, which were not found; type --data DIR with their folder"
        )


def _unfinished_notes(folder: Path, sweep: Sweep, planned: pl.DataFrame, stored: pl.DataFrame) -> Iterator[str]:
    """Yield sentences on unfinished cells that were canceled or paused, and on conditions of an extra that is missing."""
    done = dict(stored.group_by("cell").len().iter_rows())
    unfinished = [cell for cell, size in planned.select("cell", "planned").iter_rows() if done.get(cell, 0) < size]
    yield from read_control_state(folder).sentences(unfinished)
    yield from missing_rules(sweep.conditions)


def _planned_frame(folder: Path, sweep: Sweep) -> pl.DataFrame:
    """Return the planned cells; raises RunFolderError if the sweep has no such condition or protocol."""
    cells, names = planned_cells(folder), {*CONDITIONS}
    names.update(condition.name for condition in (*sweep.conditions, *sweep.replicated_conditions))
    if unknown := [row["cell"] for row in cells if row["condition"] not in names or row["protocol"] not in [*Protocol]]:
        raise RunFolderError(
            f"{folder / PLAN} plans {unknown[0]}, which its sweep does not; rerun the same `run` command with --update"
        )
    columns = [*PLANNED_COLUMNS, *(["full"] if any("full" in cell for cell in cells) else [])]
    rows = [{"full": cell["planned"], **cell} for cell in cells]
    return pl.DataFrame(rows, schema={name: pl.Int64 if name in ("planned", "full") else pl.String for name in columns})


def _load_samples(folder: Path, sweep: Sweep, stored: pl.DataFrame) -> tuple[Samples, list[str]]:
    """Return the samples (of scenarios whose data are the ones that were played), and notes."""
    try:
        plan = plan_from_folder(folder, sweep)
    except (BadData, PackageError, SweepError, RunFolderError, OSError) as problem:
        return {}, [f"the data folder is not available ({problem}), so wrong guesses are not told from early ones"]
    played = {str(name): part["key"] for (name,), part in stored.select("scenario", "key").group_by("scenario")}
    usable = {name: samples for name, samples in plan.samples_by_id.items() if _is_played(plan, name, played.get(name))}
    notes = [
        f"{sweep.data} holds other samples of {name} than were played, or is read by another version: they are not used"
        for name in plan.samples_by_id
        if name not in usable
    ]
    return usable, notes


def _is_played(plan: Plan, scenario: str, played: pl.Series | None) -> bool:
    """Return True if any planned episode of the scenario was played, or none at all; a match is usually in the first cell."""
    cells = (index for index, cell in enumerate(plan.cells) if cell.scenario == scenario)
    return played is None or any(played.is_in(list(plan.keys(index))).any() for index in cells)
