"""The work of a sweep on GPUs: the hours that no schedule can beat, and the rates that its scheduler starts with.

The scheduler ends at most 8% later in the simulated sweep of the paper; the rates behind the hours are far less certain.
Estimates are in no key and change no answer: a wrong one only costs time, and the scheduler corrects it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from envs.samples import OPEN_ENDED, paper_ids
from orchestrator.planning.build_plan import build_plan, cells_with_progress
from orchestrator.planning.plan import JUDGE, Plan
from orchestrator.scheduling.balance import PRECISION, Load, tight_end
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast.throughput import SPEEDS, Cells, count_work, gpu_kind, replica_rates, sibling_runs
from orchestrator.scheduling.nodes import Node, build_nodes
from orchestrator.scheduling.resources import demands, shares
from sweeps.load import SweepError
from sweeps.spec import Cell, Protocol, Sweep


# -- the work and its rates ---------------------------------------------------------------------------------------------
def published_cells(sweep: Sweep) -> Cells:
    """Return all cells of a sweep with their published samples, by the shipped ids; scenarios of packages have none."""
    return [(cell, _published_samples(sweep, cell)) for cell in sweep.cells()]


def _published_samples(sweep: Sweep, cell: Cell) -> int:
    selection, scenario = sweep.selection_for(cell.protocol), cell.scenario
    if scenario in selection.ids:
        return len(selection.ids[scenario])
    published = len(paper_ids().get(scenario, ()))
    count = min(published, OPEN_ENDED) if selection.subset == "open-ended" else published
    return count if selection.limit is None else min(count, selection.limit)


def pending_cells(sweep: Sweep, plan: Plan) -> Cells:
    """Return the cells of the plan with episodes that are not in the run folder yet."""
    rows = zip(plan.cells, cells_with_progress(plan, Path(sweep.output)), strict=True)
    return [(cell, row["planned"] - row["done"]) for cell, row in rows if row["done"] < row["planned"]]


def estimate_demands(demands: Mapping[str, Demand], sweep: Sweep, gpu_type: str) -> dict[str, Demand]:
    """Return the demands with estimated rates, from the table and from measurements in sibling run folders.

    Unchanged for a GPU that is not in the table, and for sweeps without multiple choice: the length of answers is not known in
    advance, and with a rate that is far too high a worker would seem to hang. Their rates are learned while they play.
    """
    kind = gpu_kind(gpu_type)
    if Protocol.MCQA not in sweep.protocols or kind not in SPEEDS:
        return dict(demands)
    rates = replica_rates(sweep, kind, sibling_runs(sweep), published_cells(sweep))
    models = {name: rate for name, rate in rates.items() if name in demands and not name.startswith(JUDGE)}
    return {**demands, **{n: replace(demands[n], rate=rate.episodes, start=rate.start) for n, rate in models.items()}}


# -- the bound ----------------------------------------------------------------------------------------------------------
def lower_bound(loads: Sequence[Load], gpus: int) -> float:
    """Return the seconds that no schedule beats on this many GPUs, if each model with work starts at least once.

    They are those of all GPUs together (``tight_end``), or of the longest model alone with all replicas that it may have.
    """
    pending = [load for load in loads if load.work]
    alone = [load.start + load.work / load.further for load in pending]
    together = tight_end(pending, gpus) * (1 - PRECISION) if gpus else 0.0
    return max([together, *alone])


def count_fitting(demand: Demand, nodes: Sequence[Node], shares: Mapping[str, float]) -> int:
    """Return how many replicas the demand, the pool's share and the nodes allow at once; 0 if one does not fit."""
    if not demand.gpus:
        return demand.replicas
    usable = (node for node in nodes if gpu_kind(demand.accelerator) in ("", gpu_kind(node.accelerator)))
    fitting = sum(int(node.gpus // demand.gpus) for node in usable)
    share = shares.get(demand.pool, demand.gpus * demand.replicas)
    return max(0, min(demand.replicas, fitting, int(share // demand.gpus)))


def forecast_lines(sweep: Sweep, gpus: int, gpu_type: str) -> list[str]:
    """Return what ``plan --gpus`` prints; without the data folder, all work on the published benchmark counts.

    Raises BadData, and SweepError for an unknown GPU type or if neither a model nor the judge needs a GPU.
    """
    has_data = "://" in sweep.data or Path(sweep.data).is_dir()
    plan = build_plan(sweep) if has_data else None
    cells = pending_cells(sweep, plan) if plan else published_cells(sweep)
    others = [model.name for model in sweep.models_and_judge if not model.gpus]
    if len(others) == len(sweep.models_and_judge):
        raise SweepError("no model of this sweep needs a GPU; remove --gpus")
    rates, counts = replica_rates(sweep, gpu_type, sibling_runs(sweep), cells), count_work(sweep, cells)
    groups, nodes, pools = demands(sweep, 0, gpus), build_nodes(gpus, gpu_type), shares(sweep, gpus)
    replicas = {name: count_fitting(groups[name], nodes, pools) for name in rates}
    full = {name: -(-counts[name] // groups[name].concurrency) for name in rates}  # more would not fill their engines
    fitting = {name: rate for name, rate in rates.items() if replicas[name]}
    loads = [
        Load(groups[name].gpus, counts[name] / rate.episodes, rate.start, min(replicas[name], full[name]))
        for name, rate in fitting.items()
    ]
    hours = lower_bound(loads, gpus) / 3600
    too_wide = [f"{name} needs {groups[name].gpu_text}" for name, count in replicas.items() if not count]
    notes: dict[str, list[str]] = {
        "rates that are off by a factor of 1.5 to 3": [name for name, rate in fitting.items() if not rate.measured],
        "not counted, without GPU": others,
        "left out": [*too_wide, *map(str, plan.left_out if plan else ())],
    }
    return [
        f"{sum(counts[name] for name in fitting):,} episodes and verdicts on {gpus} {gpu_type.upper()}",
        f"at least     {hours:.2f} h",
        f"GPU-hours    {gpus * hours:.1f}",
        *(f"{note}: {', '.join(names)}" for note, names in notes.items() if names),
        *([] if plan else ["the data folder does not exist: all episodes of the published benchmark are counted"]),
    ]
