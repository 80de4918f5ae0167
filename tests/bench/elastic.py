"""The simulated makespan of the paper's sweep on a cluster that changes, beside one that knew every change from the start.

``python -m tests.bench.elastic [SCENE ...]`` plays the published benchmark on H200s with the real scheduler on a virtual clock,
which learns of a change when it happens, or at its notice. No schedule that knew all changes ends before the bound: the time
at which the GPUs that were there could have done all work, with a start of each replica that a model needs to end by then.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from orchestrator.scheduling.balance import PRECISION
from orchestrator.scheduling.commands import Command, Demand, Start
from orchestrator.scheduling.forecast.forecast import count_fitting
from orchestrator.scheduling.nodes import Node, build_nodes
from orchestrator.scheduling.scheduler import Scheduler
from tests.bench.schedule import paper_groups
from tests.simulated_schedule import FaultModel, Simulation, Work, true_works

HOUR = 3600.0
WAIT_S = 48 * HOUR
"""Seconds that a sweep waits for nodes: the default of ``cluster.wait_hours`` or more."""
EIGHT = build_nodes(64)
MIDDLE = 2500.0
"""Seconds in which eight nodes play about half."""


@dataclass(frozen=True)
class Change:
    """The nodes from a moment on."""

    at: float
    nodes: tuple[Node, ...]
    notice: float = 0.0
    """Seconds before in which Ray announces which nodes will leave."""


def hold(nodes: Sequence[Node], gpus: int) -> tuple[Node, ...]:
    """Return the nodes with so many GPUs of each held by another job."""
    return tuple(node._replace(held=gpus) for node in nodes)


SCENES: dict[str, tuple[Change, ...]] = {
    "nothing changes": (Change(0, EIGHT),),
    "seven nodes join the first": (Change(0, EIGHT[:1]), Change(MIDDLE, EIGHT)),
    "nodes of an autoscaler come one by one": (
        Change(0, ()),
        *(Change(300 + 60 * number, EIGHT[: number + 1]) for number in range(8)),
    ),
    "two of eight nodes die": (Change(0, EIGHT), Change(MIDDLE, EIGHT[:6])),
    "half of the nodes are drained": (Change(0, EIGHT), Change(MIDDLE, EIGHT[:4], notice=120)),
    "all spot nodes leave and come back": (Change(0, EIGHT), Change(MIDDLE, ()), Change(MIDDLE + HOUR, EIGHT)),
    "another job holds half of each node and frees it": (Change(0, hold(EIGHT, 4)), Change(MIDDLE, EIGHT)),
}


class ElasticSimulation(Simulation):
    """A simulation whose nodes change."""

    def __init__(self, changes: Sequence[Change], works: Mapping[str, Work], schedule: Scheduler) -> None:
        super().__init__(schedule, works)
        self.left = len(changes)
        """Changes that are to come."""
        for change in changes:
            self.at(change.at - change.notice, partial(self._announce, change))
            self.at(change.at, partial(self._change, change))

    def is_stuck(self) -> bool:
        return not self.left and super().is_stuck()

    def _start(self, start: Start) -> None:
        super()._start(start)
        self.schedule.on_placed(start.slot, self.now)

    def _announce(self, change: Change) -> Sequence[Command]:
        staying = {node.name for node in change.nodes}
        leaving = [node.name for node in self.schedule.nodes.nodes if node.name not in staying]
        return self.schedule.drain(leaving, self.now) if change.notice else []

    def _change(self, change: Change) -> Sequence[Command]:
        self.left -= 1
        names = {node.name for node in change.nodes}
        commands = self.schedule.on_nodes(change.nodes, math.inf, self.now)
        for slot in [slot for slot, replica in self.living.items() if replica.start.place.node not in names]:
            self.end(slot)
            commands += self.schedule.on_death(slot, "its node is lost", self.now)
        return commands


def available(changes: Sequence[Change], end: float) -> float:
    """Return the GPU-seconds that the cluster has for us until ``end``."""
    ends = [*(change.at for change in changes[1:]), math.inf]
    return sum(
        sum(node.gpus - node.held for node in change.nodes) * max(0.0, min(until, end) - change.at)
        for change, until in zip(changes, ends, strict=True)
    )


def bound(changes: Sequence[Change], works: Mapping[str, Work], demands: Mapping[str, Demand]) -> float:
    """Return the seconds before which no schedule ends that knew all changes."""
    loads = [
        replace(work, replicas=max(1, *(count_fitting(demands[name], change.nodes, {}) for change in changes))).load
        for name, work in works.items()
    ]
    low, high = 0.0, 1000 * HOUR
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        is_enough = sum(load.gpu_seconds(middle) for load in loads) <= available(changes, middle)
        low, high = (low, middle) if is_enough else (middle, high)
    return low


@cache
def paper() -> tuple[Mapping[str, Sequence[int]], Mapping[str, Demand], Mapping[str, Work]]:
    """Return the paper's episodes, demands and works by model."""
    queues, demands = paper_groups()
    return queues, demands, true_works(queues, demands, FaultModel())


def play(changes: Sequence[Change]) -> dict[str, Any]:
    """Return makespan and bound in seconds, their ratio, and the episodes that were planned, delivered and delivered twice."""
    queues, demands, works = paper()
    schedule = Scheduler(queues, demands, math.inf, 0, changes[0].nodes, wait=WAIT_S)
    simulation = ElasticSimulation(changes[1:], works, schedule)
    makespan, least = simulation.run(queues).makespan, bound(changes, works, demands)
    return {
        "makespan": round(makespan),
        "bound": round(least),
        "ratio": round(makespan / least, 3),
        "planned": sum(map(len, queues.values())),
        "delivered": len(simulation.delivered),
        "twice": simulation.duplicates,
        "abandoned": simulation.abandoned,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.bench.elastic")
    parser.add_argument("scenes", nargs="*", default=[*SCENES], help="parts of their names (default: all)")
    parts = parser.parse_args().scenes
    for scene in SCENES:
        if any(part in scene for part in parts):
            print(json.dumps({"scene": scene, **play(SCENES[scene])}), flush=True)
