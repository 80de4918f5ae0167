"""Predicts where models that wait for GPUs will start, so that their weights can be prepared there meanwhile."""

import math
from collections import Counter
from typing import NamedTuple

from orchestrator.scheduling.placement import Placement


class LikelyStart(NamedTuple):
    """When and where the first replica of a group will probably start."""

    seconds: float
    """Time of the start, in seconds from now."""
    node: str
    group: str


def likely_starts(placement: Placement) -> list[LikelyStart]:
    """Return one start per group that waits for GPUs, soonest first.

    Wide groups choose before narrow ones, then groups with more work. Each takes the node that has room for it first, assuming
    that workers stay where they are until their group's work is done. Groups that need several nodes are left out.
    """
    free_at = _free_times(placement)
    starts = list[LikelyStart]()
    waiting = [group for group in placement.unstaffed_groups() if group.demand.gpus]
    for group in sorted(waiting, key=lambda group: (-group.demand.gpus, -placement.seconds_of_work(group))):
        width = max(1, math.ceil(group.demand.gpus))
        nodes = placement.nodes.of_kind(group.demand.accelerator)
        wide_nodes = [node.name for node in nodes if node.gpus >= width and node.name not in placement.closed]
        if not wide_nodes:
            continue
        node = min(wide_nodes, key=lambda name: free_at[name][width - 1])
        times = free_at[node]
        starts.append(LikelyStart(begin := times[width - 1], node, group.name))
        times[:width] = [begin + group.start_s + placement.seconds_of_work(group)] * width
        times.sort()
    return sorted(starts)


def _free_times(placement: Placement) -> dict[str, list[float]]:
    """Return node -> seconds until each of its GPUs is free, sorted."""
    slots = placement.slots.values()
    replicas, taken = Counter(slot.group.name for slot in slots), Counter[str]()
    times = {node.name: [0.0] * node.gpus for node in placement.nodes.nodes}
    for slot in slots:
        end = placement.seconds_of_work(slot.group) / replicas[slot.group.name]
        for name in slot.place.nodes:
            for _ in range(math.ceil(slot.place.share_of(name, slot.group.demand.gpus))):
                if name in times and taken[name] < len(times[name]):
                    times[name][taken[name]] = end
                    taken[name] += 1
    return {name: sorted(gpus) for name, gpus in times.items()}
