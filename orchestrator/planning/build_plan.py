"""Builds the plan of a sweep from its data folder.

Equal sweeps over equal data give equal plans, with the same keys in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from envs.bad_lines import Problem, left_out
from envs.samples import load as load_samples
from envs.samples import select
from envs.suggestion_pool import with_known
from envs.types import Sample
from orchestrator.datasets.staging import local
from orchestrator.planning.plan import Plan, planned
from orchestrator.storage.episode_store import episodes
from orchestrator.storage.planned_episodes import planned_only
from sweeps.spec import Selection, Sweep


def build_plan(sweep: Sweep) -> Plan:
    """Load the samples that the sweep names and number its episodes; raises BadData or SweepError.

    Bad lines raise, or with ``skip_bad`` are the plan's ``left_out``.
    """
    folder = local(sweep)
    bad: dict[str, list[Problem]] = {}

    def loaded(name: str, filtered: bool) -> list[Sample]:
        bad[name] = []
        return load_samples(folder, name, filtered, bad[name] if sweep.skip_bad else None)

    def pool(pick: Selection) -> dict[str, list[Sample]]:
        found = {name: loaded(name, pick.filtered) for name in sweep.scenarios}
        if not sweep.draws_suggestions:
            return found
        return {name: with_known(samples, folder) for name, samples in found.items()}

    def drawn(pick: Selection, pools: Mapping[str, list[Sample]]) -> dict[str, list[Sample]]:
        return {n: select(whole, pick.limit, pick.ids.get(n), pick.subset, sweep.seed) for n, whole in pools.items()}

    pools = pool(sweep.selection)
    samples = {}
    for protocol in sweep.protocols:
        pick = sweep.selects(protocol)
        samples[protocol] = drawn(pick, pools if pick.filtered == sweep.selection.filtered else pool(pick))
    return planned(sweep, samples, pools, left_out(bad))


def planned_rows(plan: Plan) -> pl.DataFrame:
    """One row a cell: names and planned episodes, what ``score`` needs to show cells that have nothing yet."""
    return pl.DataFrame(
        {
            "cell": [cell.key for cell in plan.cells],
            "model": [cell.model.name for cell in plan.cells],
            "scenario": [cell.scenario for cell in plan.cells],
            "condition": [cell.condition.name for cell in plan.cells],
            "protocol": [cell.protocol.value for cell in plan.cells],
            "planned": [len(plan.drawn(cell)) for cell in plan.cells],
        }
    )


def planned_and_done(plan: Plan, folder: Path) -> pl.DataFrame:
    """``planned_rows``, and in ``done`` how many episodes of each cell the run folder holds."""
    rows = planned_rows(plan)
    if not (folder / "episodes").is_dir():
        return rows.with_columns(pl.lit(0, pl.Int64).alias("done"))
    done = belonging(plan, folder).group_by("cell").agg(pl.len().cast(pl.Int64).alias("done")).collect()
    return rows.join(done, on="cell", how="left", maintain_order="left").with_columns(pl.col("done").fill_null(0))


def belonging(plan: Plan, folder: Path) -> pl.LazyFrame:
    """The stored episodes of a run folder that belong to this plan."""
    return planned_only(episodes(folder), plan.all_keys())
