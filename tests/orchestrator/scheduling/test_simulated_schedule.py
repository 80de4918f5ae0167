"""The full paper sweep on a virtual clock: near a bound that no schedule beats, with and without faults."""

from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.forecast.forecast import lower_bound, published_cells
from orchestrator.scheduling.forecast.throughput import count_work, replica_rate
from orchestrator.scheduling.nodes import Node
from sweeps.load import load
from tests.simulated_schedule import FaultModel, Work, simulate

PAPER = Path("sweeps/paper.toml")
WIDE = {"llava-ov-72b", "qwen2.5-vl-32b", "qwen2.5-vl-72b", "internvl3-38b", "internvl3-78b"}
"""Models that cannot run on one GPU."""
EACH = 8
"""Only every eighth episode is simulated, and takes eight times as long: the same schedule in an eighth of the steps."""


@cache
def paper(each):
    """Return the paper's episodes with three pictures each, so that work outweighs starts even on 64 GPUs."""
    sweep, numbers = load(PAPER, []), count()
    counts, models = count_work(sweep, published_cells(sweep)), [model for model in sweep.models if model.gpus]
    rates = {m.name: replica_rate(m, "h200", pictures=3.0) for m in models}
    demands = {
        m.name: Demand(0, m.gpus, 64, 64, rate=rates[m.name].episodes / each, start=rates[m.name].start) for m in models
    }
    return {name: [next(numbers) for _ in range(counts[name] // each)] for name in demands}, demands


def simulate_paper(gpus, seed, deaths=0.0):
    pending, demands = paper(EACH)
    run = simulate(pending, demands, gpus, FaultModel(seed, deaths, silent=0.2, skew=0.4, slowdown=0.05))
    fitting = {ordinal for name, queue in pending.items() if name not in run.abandoned for ordinal in queue}
    assert (run.delivered, run.duplicates, run.given_up) == (fitting, 0, set()), "every episode exactly once"
    assert set(run.abandoned) == (WIDE if gpus == 1 else set())
    return run


@pytest.mark.parametrize(("gpus", "deaths", "limit"), [(1, 0.0, 1.10), (8, 0.0, 1.10), (8, 0.1, 1.25), (64, 0.1, 1.25)])
def test_the_paper_ends_near_the_bound_even_where_workers_die(gpus, deaths, limit):
    assert 1.0 <= simulate_paper(gpus, 0, deaths).ratio <= limit


@pytest.mark.long
def test_dead_and_silent_workers_are_replaced():
    pending, demands = paper(each=1)
    run = simulate(pending, demands, 64, FaultModel(9, deaths=0.3, silent=1.0, skew=0.4, slowdown=0.05))

    assert len(run.delivered) + len(run.given_up) == sum(map(len, pending.values())) and not run.duplicates
    assert len(run.given_up) < 100 and not run.abandoned, "only what died alone twice, by chance"


@pytest.mark.parametrize("seed", range(30))
def test_nothing_beats_the_bound(seed):
    pending = {f"m{i}": range(1000 * i, 1000 * i + 37 * (seed + i) % 900 + 1) for i in range(5)}
    demands = {
        name: Demand(0, 1 + (seed + i) % 2, concurrency=8, rate=0.5 + i, start=10.0 * i)
        for i, name in enumerate(pending)
    }
    run = simulate(pending, demands, 2 + seed % 5, FaultModel(seed, 0.1 * (seed % 2), 0.5, 0.5, 0.1))

    assert run.makespan >= run.bound
    assert len(run.delivered) == sum(map(len, pending.values()))


def test_the_bound_respects_limits_of_replicas_shares_and_nodes():
    pending, demand = {"m": range(1000)}, Demand(0, 2, replicas=3, rate=1.0, start=20.0)
    three_nodes = [Node("a", 3), Node("b", 3), Node("c", 2)]
    limited = simulate(pending, {"m": demand}, 8)
    shared = simulate(pending, {"m": replace(demand, pool="judges")}, 8, shares={"judges": 4})
    split = simulate(pending, {"m": replace(demand, replicas=64)}, 8, nodes=three_nodes)

    assert limited.bound == 20 + 1000 / 3 > 2 * 1020 / 8
    assert shared.bound == 20 + 1000 / 2, "two GPUs each, four in all"
    assert split.bound == 20 + 1000 / 3, "one replica a node: none lies on two"
    assert all(1.0 <= run.ratio < 1.05 for run in (limited, shared, split))


def test_the_bound_by_hand():
    works = [work.load for work in (Work(100, 4, 2.0, 30.0), Work(60, 1, 1.0, 20.0), Work(0, 1, 1.0, 1e6))]
    assert lower_bound(works, 8) == pytest.approx((4 * (2 * 30 + 50) + (2 * 20 + 60)) / 8, rel=1e-3), "two each"
    assert lower_bound(works, 800) == 30.5, "one start and one episode take no less on more GPUs"
    assert lower_bound([], 8) == 0.0
