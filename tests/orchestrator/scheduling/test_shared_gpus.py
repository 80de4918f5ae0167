"""Engines on parts of a GPU share it: no GPU is overbooked, no wide model starves, and every sweep ends."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from orchestrator.scheduling.balance import workers_to_evict
from orchestrator.scheduling.commands import Demand, Start
from orchestrator.scheduling.nodes import Node, Nodes, Place
from orchestrator.scheduling.scheduler import Scheduler
from sweeps.load import SweepError, build
from tests.orchestrator.scheduling.test_placement import build_schedule
from tests.simulated_schedule import FaultModel, simulate


def test_part_goes_to_fullest_shared_gpu_before_free_one():
    nodes = Nodes([Node("a", 1), Node("b", 2, "H200")])
    assert nodes.tightest_fit(0.5) == Place("a") and nodes.tightest_fit(0.5, "H200") == Place("b")
    assert nodes.reserve(Place("a"), 0.5, worker=7) == Place("a", 7)
    nodes.take(Place("b", 8), 0.75)

    assert nodes.free == {"a": 0, "b": 1}
    assert nodes.tightest_fit(0.25) == Place("b", 8) and nodes.tightest_fit(0.5) == Place("a", 7)
    assert nodes.tightest_fit(0.5, without={"a"}) == nodes.tightest_fit(1) == Place("b")
    assert nodes.tightest_fit(2) is None
    nodes.take(Place("a", 7), -0.5)
    assert nodes.free == {"a": 1, "b": 1} and list(nodes.shared) == [8], "without a worker it is a whole one again"


def held_gpus(schedule: Scheduler) -> dict[object, Fraction]:
    """Return the GPUs held per node, without shared ones, and per shared GPU."""
    gpus: dict[object, Fraction] = {}
    for slot in schedule.slots.values():
        key = slot.place.node if slot.place.shared is None else slot.place.shared
        gpus[key] = gpus.get(key, Fraction(0)) + Fraction(slot.group.demand.gpus)
    return gpus


def test_two_halves_share_a_gpu_and_a_whole_one_takes_another():
    schedule = build_schedule({"h": (range(9), Demand(4, 0.5, 2)), "w": (range(9), Demand(4, 1, 1))}, 2, cpus=8)
    starts = schedule.on_begin()

    assert sorted((start.group, start.place.shared) for start in starts if isinstance(start, Start)) == [
        ("h", 2), ("h", 2), ("w", None),
    ]  # fmt: skip
    assert held_gpus(schedule) == {"node-0": 1, 2: 1}, "and 4 CPUs are beside each GPU, not beside each half"


def test_whole_model_evicts_workers_of_one_shared_gpu():
    """Four halves on two GPUs have endless work; those of one GPU leave and are not replaced meanwhile."""
    schedule = build_schedule({"h": (range(4000), Demand(0, 0.5, rate=1.0))}, 2)
    schedule.on_begin()
    for slot in list(schedule.slots):
        schedule.on_ready(slot, 1.0)
    slots = list(schedule.slots.values())

    assert {slot.place.shared for slot in slots} == {1, 3} and len(slots) == 4
    leaving = workers_to_evict(slots, schedule.nodes, Demand(gpus=1))
    assert len(leaving) == 2 and len({slot.place.shared for slot in leaving}) == 1
    assert len(workers_to_evict(slots, schedule.nodes, Demand(gpus=2))) == 4
    assert workers_to_evict(slots, schedule.nodes, Demand(gpus=0.5)) == [], "who is as wide stays"


@pytest.mark.parametrize("seed", range(6))
def test_mixed_sweep_plays_every_episode_once_without_overbooking(seed):
    """Ten models on 0.25 to 4 GPUs each play on nodes of 4 and 1 GPUs while a share of their workers dies or hangs."""
    chance = Random(seed)
    nodes = [Node("big", 4), Node("small", 1)]
    sizes = [0.25, 0.5, 0.5, 0.5, 1, 1, 2, 4, 0.25, 0.5]
    work = {
        f"m{n}": Demand(0, size, rate=chance.uniform(0.5, 4.0), start=chance.uniform(5, 60), concurrency=8)
        for n, size in enumerate(sizes)
    }
    pending = {name: range(1000 * n, 1000 * n + chance.randint(1, 400)) for n, name in enumerate(work)}
    run = simulate(pending, work, 5, FaultModel(seed, deaths=0.15, silent=0.2, skew=0.4), nodes)

    total = sum(len(queue) for name, queue in pending.items() if name not in run.abandoned)
    assert (len(run.delivered) + len(run.given_up), run.duplicates) == (total, 0)
    assert {replica.work.gpus for replica in run.replicas} >= {0.25, 0.5, 1, 2}
    for moment in sorted({replica.began for replica in run.replicas}):
        used: dict[object, Fraction] = {}
        for replica in run.replicas:
            if replica.began <= moment < replica.ended:
                key = replica.start.place.node, replica.start.place.shared
                used[key] = used.get(key, Fraction(0)) + Fraction(replica.work.gpus)
        wholes = {node: sum(1 if shared is not None else part for (n, shared), part in used.items() if n == node)
                  for node in ("big", "small")}  # fmt: skip
        assert wholes["big"] <= 4 and wholes["small"] <= 1
        assert all(part <= 1 for (_, shared), part in used.items() if shared is not None)


def sweep(gpus, **options):
    entry = {"name": "m", "source": "a/b", "gpus": gpus, **options}
    return build({"name": "t", "data": "d", "model": [entry], "protocol": "oeg", "judge": {"model": "rule-judge"}}, "f")


@pytest.mark.parametrize("gpus", [0.3, 0.75, 1.5, 65, -1, True, "0.5", "a"])
def test_other_gpu_parts_are_refused(gpus):
    with pytest.raises(SweepError, match=r"gpus = .*write a whole number, at most 64, or 0\.5 or 0\.25"):
        sweep(gpus)


def test_requested_memory_must_fit_gpu_part():
    with pytest.raises(SweepError, match=r"with gpus = 0\.5, write at most 0\.5"):
        sweep(0.5, options={"gpu_memory_utilization": 0.6})
    assert sweep(0.5, options={"gpu_memory_utilization": 0.4}).models[0].gpus == 0.5
    assert isinstance(sweep(2.0).models[0].gpus, int)
