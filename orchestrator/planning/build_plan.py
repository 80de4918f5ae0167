"""Builds the plan of a sweep from its data folder.

Equal sweeps over equal data give equal plans, with the same keys in the same order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.foreign_suggestions import folder_suggestions, with_swapped_pictures
from envs.samples import load_samples, read_samples, select_samples, skipped_lines
from envs.types import Sample
from orchestrator.datasets.staging import fetch_lines
from orchestrator.planning.plan import Plan, make_plan
from sweeps.spec import Selection, Sweep

if TYPE_CHECKING:
    import polars as pl


def build_plan(sweep: Sweep) -> Plan:
    """Load the samples that the sweep selects and number its episodes; raises BadData or SweepError.

    A bad line raises BadData; with ``skip_bad`` it is listed in the plan's ``left_out``.
    """
    folder = fetch_lines(sweep)
    read = cache(read_samples)  # each file is parsed once

    def load_pools(selection: Selection) -> dict[str, list[Sample]]:
        pools = {name: load_samples(folder, name, selection.filtered, sweep.skip_bad, read) for name in sweep.scenarios}
        if sweep.draws_suggestions:
            drawn_from = folder_suggestions(folder, read)
            pools = {name: [replace(s, suggestion_pool=drawn_from) for s in own] for name, own in pools.items()}
        if any(condition.picture == "swapped" for condition in sweep.conditions):
            pools = {name: with_swapped_pictures(samples, samples, sweep.seed) for name, samples in pools.items()}
        return pools

    pools, samples = load_pools(sweep.selection), {}
    for protocol in sweep.protocols:
        selection = sweep.selection_for(protocol)
        loaded = pools if selection.filtered == sweep.selection.filtered else load_pools(selection)
        samples[protocol] = {
            name: select_samples(pool, selection.limit, selection.ids.get(name), selection.subset, sweep.seed)
            for name, pool in loaded.items()
        }
    bad_lines = ((name, read(folder, name)[1]) for name in sweep.scenarios)
    return make_plan(sweep, samples, pools, [skipped_lines(name, lines) for name, lines in bad_lines if lines])


def planned_cells(plan: Plan) -> list[dict[str, Any]]:
    """Return one row per cell: its names and its number of planned episodes.

    If the sweep has a precision rule, ``full`` is the number of episodes without stops.
    """
    return [
        {
            "cell": cell.key,
            "model": cell.model.name,
            "scenario": cell.scenario,
            "condition": cell.condition.name,
            "protocol": cell.protocol.value,
            "planned": plan.size(index),
            **({"full": len(plan.cell_samples(cell))} if plan.precision else {}),
        }
        for index, cell in enumerate(plan.cells)
    ]


def cells_with_progress(plan: Plan, folder: Path) -> list[dict[str, Any]]:
    """Return ``planned_cells`` with each cell's number of stored episodes in ``done``."""
    rows = planned_cells(plan)
    if not (folder / "episodes").is_dir():  # avoids importing polars, which takes longer than planning
        return [{**row, "done": 0} for row in rows]
    done = dict(stored_episodes(plan, folder).group_by("cell").len().collect().iter_rows())
    return [{**row, "done": done.get(row["cell"], 0)} for row in rows]


def stored_episodes(plan: Plan, folder: Path, model: str | None = None) -> pl.LazyFrame:
    """Return a scan of the stored episodes that belong to this plan, of all models or of one."""
    import polars as pl

    from orchestrator.storage.episode_store import KEY, episodes, filter_planned, key_frame

    keys = cache(lambda: key_frame(plan.all_keys(model)))  # computed at most once: a million keys take a second
    return filter_planned(episodes(folder, model), pl.defer(keys, schema=KEY))
