"""A judged sweep on a cluster that grows from 8 to 64 GPUs and shrinks again: every GPU is used, none is counted twice."""

from collections import Counter

import pytest

from orchestrator.scheduling.nodes import build_nodes
from orchestrator.scheduling.resources import demands, shares
from orchestrator.scheduling.scheduler import Scheduler
from sweeps.load import build
from tests.orchestrator.scheduling.test_scheduler import World

MODEL, JUDGE = "internvl3-8b", "judge:qwen3-8b"
CPUS_PER_NODE = 32


def judged_sweep(protocol: str):
    return build(
        {"name": "t", "data": "d", "models": [MODEL], "protocol": protocol, "judge": {"model": "qwen3-8b"}}, "t"
    )


def start(sweep, gpus: int, episodes: int = 200_000) -> Scheduler:
    pending = {MODEL: range(episodes), JUDGE: ()}
    cpus = CPUS_PER_NODE * gpus // 8
    return Scheduler(pending, demands(sweep, cpus, gpus), cpus, gpus, build_nodes(gpus), shares(sweep, gpus))


def resize(scheduler: Scheduler, sweep, gpus: int, now: float):
    """Report the new nodes with the demands and shares of that size, as the driver does, then the loss of the dead."""
    cpus, nodes = CPUS_PER_NODE * gpus // 8, build_nodes(gpus)
    commands = scheduler.on_nodes(nodes, cpus, now, demands(sweep, cpus, gpus), shares(sweep, gpus))
    names = {node.name for node in nodes}
    lost = [slot for slot, worker in scheduler.slots.items() if worker.place.node not in names]
    for slot in lost:
        commands += scheduler.on_death(slot, "its node is gone", now)
    return commands


def ready_all(scheduler: Scheduler, now: float) -> None:
    for slot in [slot for slot, worker in scheduler.slots.items() if not worker.ready]:
        scheduler.on_ready(slot, now)


def gpus_in_use(scheduler: Scheduler) -> dict[str, float]:
    used = Counter[str]()
    for worker in scheduler.slots.values():
        used[worker.group.name] += worker.group.demand.gpus
    return dict(used)


def test_joined_gpus_are_used_and_shares_of_the_dead_are_dropped():
    sweep = judged_sweep("oeg-multi")
    scheduler = start(sweep, 8)
    scheduler.on_begin()
    ready_all(scheduler, 60.0)
    assert gpus_in_use(scheduler) == {MODEL: 7, JUDGE: 1}

    resize(scheduler, sweep, 64, 100.0)
    ready_all(scheduler, 160.0)
    assert gpus_in_use(scheduler) == {MODEL: 56, JUDGE: 8}
    assert scheduler.shares == {"models": 56}

    resize(scheduler, sweep, 8, 200.0)
    ready_all(scheduler, 260.0)
    assert gpus_in_use(scheduler) == {MODEL: 7, JUDGE: 1}
    assert scheduler.shares == {"models": 7} and scheduler.nodes.free == {"node-0": 0}


@pytest.mark.parametrize("seed", range(3))
def test_no_episode_is_lost_or_doubled_while_the_cluster_grows_and_shrinks(seed):
    from random import Random

    sweep, rng = judged_sweep("oeg"), Random(seed)
    scheduler = start(sweep, 8, episodes=20_000)
    world = World(scheduler, rng)
    world.take(scheduler.on_begin())
    for step in range(100_000):
        if scheduler.done:
            break
        if step in (20, 60, 120):
            gpus = {20: 64, 60: 8, 120: 24}[step]
            nodes, cpus = build_nodes(gpus), CPUS_PER_NODE * gpus // 8
            world.take(scheduler.on_nodes(nodes, cpus, 0.0, demands(sweep, cpus, gpus), shares(sweep, gpus)))
            names = {node.name for node in nodes}
            for slot in [slot for slot, worker in scheduler.slots.items() if worker.place.node not in names]:
                if slot in world.alive:
                    world.kill(slot)
            assert sum(gpus_in_use(scheduler).values()) <= gpus
        else:
            world.step()

    assert scheduler.done and step > 120
    assert world.delivered == Counter(range(20_000)) and not world.given_up
