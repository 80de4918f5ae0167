"""The work of a sweep on GPUs: the hours that no schedule can beat, and the rates that its scheduler starts with.

The scheduler ends at most 8% later in the simulated sweep of the paper; the rates behind the hours are far less certain.
Estimates are in no key and change no answer: a wrong one only costs time, and the scheduler corrects it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from envs.samples import OPEN_ENDED, paper_ids
from orchestrator.planning.build_plan import build_plan, cells_with_progress
from orchestrator.planning.plan import JUDGE, Plan, judge_group, worker_group
from orchestrator.scheduling.balance import PRECISION, Load, tight_end
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast.throughput import (
    ANSWERS,
    EPISODES,
    OBSERVED_FILE,
    VERDICTS,
    ObservedRate,
    Rate,
    gpu_types,
    mean_pictures,
    read_observed,
    replica_rate,
)
from orchestrator.scheduling.nodes import Node, build_nodes
from orchestrator.scheduling.resources import demands, shares
from sweeps.load import SweepError
from sweeps.spec import Cell, ModelSpec, Protocol, Sweep

Cells = Sequence[tuple[Cell, int]]
"""Cells, each with a number of episodes or open-ended answers."""


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


def count_work(sweep: Sweep, cells: Cells) -> Counter[str]:
    """Return group -> its episodes and answers, and for the judge the answers that it reads.

    An answer of several turns counts as one, because the number of turns is unknown.
    """
    counts = Counter[str]()
    for cell, number in cells:
        counts[worker_group(cell.model)] += number
        if cell.protocol.is_open_ended and sweep.judge:
            counts[judge_group(sweep.judge)] += number
    return counts


def replica_rates(sweep: Sweep, gpu_type: str, folders: Sequence[Path], cells: Cells) -> dict[str, Rate]:
    """Return the rate of each group on GPUs with work, including the judge's; raises SweepError for an unknown GPU type."""
    observed = {kind: read_observed(folders, gpu_type, kind) for kind in (EPISODES, ANSWERS, VERDICTS)}

    def rate(model: ModelSpec, kind: str, pictures: float = 1.0) -> Rate:
        return replica_rate(model, gpu_type, kind, observed[kind].get(model.name, ObservedRate()), pictures)

    counts, seconds, rates = count_work(sweep, cells), Counter[str](), dict[str, Rate]()
    for cell, number in cells:
        if cell.model.gpus:
            open_ended = cell.protocol.is_open_ended
            own = rate(cell.model, ANSWERS) if open_ended else rate(cell.model, EPISODES, mean_pictures(cell.condition))
            seconds[cell.model.name] += number / own.episodes  # type: ignore[assignment]
            rates[cell.model.name] = own
    rates = {name: own._replace(episodes=counts[name] / seconds[name]) for name, own in rates.items() if counts[name]}
    judge = sweep.judge if sweep.is_judged or sweep.serving_judge else None
    return {**rates, judge_group(judge): rate(judge.model, VERDICTS)} if judge and judge.model.gpus else rates


def estimate_demands(demands: Mapping[str, Demand], sweep: Sweep, gpu_type: str) -> dict[str, Demand]:
    """Return the demands with estimated rates, from the table and from measurements in sibling run folders.

    Unchanged for a GPU that is not in the table, and for sweeps without multiple choice: the length of answers is not known in
    advance, and with a rate that is far too high a worker would seem to hang. Their rates are learned while they play.
    """
    kind = gpu_type.partition("-")[0].lower()
    if Protocol.MCQA not in sweep.protocols or kind not in gpu_types():
        return dict(demands)
    rates = replica_rates(sweep, kind, sibling_runs(sweep), published_cells(sweep))
    models = {name: rate for name, rate in rates.items() if name in demands and not name.startswith(JUDGE)}
    return {**demands, **{n: replace(demands[n], rate=rate.episodes, start=rate.start) for n, rate in models.items()}}


def sibling_runs(sweep: Sweep) -> list[Path]:
    """Return the run folders with measurements that have the same parent folder as the sweep's own, which is included."""
    return sorted(path.parent for path in Path(sweep.output).parent.glob(f"*/{OBSERVED_FILE}"))


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
    fitting = sum(int(node.gpus // demand.gpus) for node in nodes if demand.accelerator in ("", node.accelerator))
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
