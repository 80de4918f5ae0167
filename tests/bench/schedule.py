"""The simulated makespan of the paper's sweep beside the tight bound and a malleable LPT schedule, by number of GPUs.

``python -m tests.bench.schedule GPUS [SEED]`` plays the published benchmark on H200s with the real scheduler on a virtual
clock. Without a seed its estimates are right; with one, rates and starts are wrong (log-normal, sigma 0.1) and each replica is
up to 5% slower.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from actors.engine.in_flight import choose_in_flight
from orchestrator.scheduling.balance import Load
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast.forecast import published_cells
from orchestrator.scheduling.forecast.throughput import count_work, replica_rates
from orchestrator.scheduling.nodes import NODE_GPUS, build_nodes
from orchestrator.scheduling.resources import MAX_REPLICAS
from sweeps.load import load
from tests.simulated_schedule import FaultModel, Work, simulate, true_works

PAPER = Path(__file__).parents[2] / "sweeps/paper.toml"
TARGETS = 25
"""Ends, up to 1.5 times the bound, for which the LPT schedule is tried."""


def paper_groups() -> tuple[dict[str, Sequence[int]], dict[str, Demand]]:
    """Return the episodes and the demand of each model of the paper on GPUs."""
    sweep = load(PAPER, [])
    cells, numbers = published_cells(sweep), count()
    counts, rates = count_work(sweep, cells), replica_rates(sweep, "h200", [], cells)
    models = [model for model in sweep.models if model.gpus]
    queues = {m.name: [next(numbers) for _ in range(counts[m.name])] for m in models}
    in_flight = {m.name: choose_in_flight(m) for m in models}
    demands = {
        m.name: Demand(0, m.gpus, MAX_REPLICAS, in_flight[m.name], rate=rates[m.name].episodes, start=rates[m.name].start)
        for m in models
    }  # fmt: skip
    return queues, demands


def malleable_lpt(works: Mapping[str, Work], gpus: int, bound: float) -> float:
    """Return the shortest makespan of a longest-first list schedule in which each model has as many replicas as an end needs.

    No start waits for another, and no disk is shared.
    """
    return min(_list_schedule(works, gpus, bound * (1 + 0.5 * step / (TARGETS - 1))) for step in range(TARGETS))


def _list_schedule(works: Mapping[str, Work], gpus: int, end: float) -> float:
    jobs = list[tuple[int, float]]()
    for work in works.values():
        seconds = work.episodes / work.rate
        replicas = Load(work.gpus, seconds, work.start, MAX_REPLICAS).lacking(end)
        if replicas > MAX_REPLICAS:
            return float("inf")
        jobs += [(int(work.gpus), work.start + seconds / replicas)] * int(replicas)
    nodes = [[0.0] * node.gpus for node in build_nodes(gpus)]
    for width, seconds in sorted(jobs, reverse=True):
        node = min((node for node in nodes if len(node) >= width), key=lambda free: free[width - 1])
        node[:width] = [node[width - 1] + seconds] * width
        node.sort()
    return max(node[-1] for node in nodes)


def main(gpus: int, seed: int | None) -> dict[str, Any]:
    queues, demands = paper_groups()
    faults = FaultModel() if seed is None else FaultModel(seed, skew=0.1, slowdown=0.05)
    works = true_works(queues, demands, faults)
    run = simulate(queues, demands, gpus, faults, build_nodes(gpus, width=NODE_GPUS), works=works)
    played = sum(work.gpus * work.episodes / work.rate for work in works.values())
    lpt = malleable_lpt(works, gpus, run.bound)
    return {
        "makespan": run.makespan,
        "bound": run.bound,
        "ratio": run.ratio,
        "lpt": run.makespan / lpt,
        "useful": played / (gpus * run.makespan),
        "starts": len(run.replicas),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.schedule")
    parser.add_argument("gpus", type=int)
    parser.add_argument("seed", type=int, nargs="?", help="of wrong estimates (default: right ones)")
    print(json.dumps(main(**vars(parser.parse_args()))))
