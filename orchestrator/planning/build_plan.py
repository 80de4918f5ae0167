"""Builds the plan of a sweep from its data folder.

Equal sweeps over equal data give equal plans, with the same keys in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.bad_lines import Problem, left_out
from envs.samples import load as load_samples
from envs.samples import select
from envs.suggestion_pool import with_known
from envs.swapped import with_swapped
from envs.types import Sample
from orchestrator.datasets.staging import local
from orchestrator.planning.plan import Plan, planned
from sweeps.spec import Selection, Sweep

if TYPE_CHECKING:
    import polars as pl


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
        if sweep.draws_suggestions:
            found = {name: with_known(samples, folder) for name, samples in found.items()}
        if sweep.swaps_pictures:
            found = {name: with_swapped(samples, samples, sweep.seed) for name, samples in found.items()}
        return found

    def drawn(pick: Selection, pools: Mapping[str, list[Sample]]) -> dict[str, list[Sample]]:
        return {n: select(whole, pick.limit, pick.ids.get(n), pick.subset, sweep.seed) for n, whole in pools.items()}

    pools = pool(sweep.selection)
    samples = {}
    for protocol in sweep.protocols:
        pick = sweep.selects(protocol)
        samples[protocol] = drawn(pick, pools if pick.filtered == sweep.selection.filtered else pool(pick))
    return planned(sweep, samples, pools, left_out(bad))


def planned_cells(plan: Plan) -> list[dict[str, Any]]:
    """One row a cell: names and planned episodes; where cells stop by precision also ``full``, those of its whole set."""
    return [
        {
            "cell": cell.key,
            "model": cell.model.name,
            "scenario": cell.scenario,
            "condition": cell.condition.name,
            "protocol": cell.protocol.value,
            "planned": plan.size(index),
            **({"full": len(plan.drawn(cell))} if plan.precision else {}),
        }
        for index, cell in enumerate(plan.cells)
    ]


def planned_rows(plan: Plan) -> pl.DataFrame:
    """``planned_cells`` as a frame: what ``score`` needs to show cells that have nothing yet."""
    import polars as pl

    return pl.DataFrame(planned_cells(plan))


def planned_and_done(plan: Plan, folder: Path) -> list[dict[str, Any]]:
    """``planned_cells``, and in ``done`` how many episodes of each cell the run folder holds."""
    rows = planned_cells(plan)
    if not (folder / "episodes").is_dir():  # polars takes longer to import than a plan to make
        return [{**row, "done": 0} for row in rows]
    done = dict(belonging(plan, folder).group_by("cell").len().collect().iter_rows())
    return [{**row, "done": done.get(row["cell"], 0)} for row in rows]


def belonging(plan: Plan, folder: Path, model: str | None = None) -> pl.LazyFrame:
    """The stored episodes of a run folder that belong to this plan; of one model where it is named."""
    from orchestrator.storage.episode_store import episodes
    from orchestrator.storage.late_scan import late_scan
    from orchestrator.storage.planned_episodes import KEY, key_frame, planned_only

    keys = cache(lambda: key_frame(plan.all_keys(model)).lazy())  # a million take a second: if asked for, and once
    return planned_only(episodes(folder, model), late_scan(KEY, keys))
