"""The GPUs that a sweep's pending work could use, to ask the cluster's autoscaler for them."""

from collections.abc import Mapping

from orchestrator.scheduling.placement import Placement
from orchestrator.scheduling.state import LEASES_PER_WORKER, WorkerGroup

STARTS_OF_WORK = 4.0
"""A replica is worth asking for if it has work for at least so many times its start time."""
MAX_BUNDLES = 1000

Bundle = dict[str, float]
"""Resource (with Ray's name) -> amount that one replica needs."""


def wanted_bundles(placement: Placement, limits: Mapping[str, float]) -> list[Bundle]:
    """Return one bundle per replica that pending work could use, widest first.

    Replicas that run already are included. ``limits``: pool -> GPUs that the sweep may use at most. CPUs are left out, because
    the nodes determine how many there are per GPU.
    """
    room = dict(limits)
    bundles = list[Bundle]()
    for group in sorted(placement.groups.values(), key=lambda group: -group.demand.gpus):
        gpus, pool = group.demand.gpus, group.demand.pool
        for _ in range(_wanted_replicas(placement, group) if gpus else 0):
            if room.get(pool, gpus) < gpus:
                break
            room[pool] = room.get(pool, float("inf")) - gpus
            kind = group.demand.accelerator
            bundles.append({"GPU": gpus} | ({f"accelerator_type:{kind}": 0.001} if kind else {}))
    return bundles[:MAX_BUNDLES]


def _wanted_replicas(placement: Placement, group: WorkerGroup) -> int:
    work, standing = placement.remaining(group), placement.required_replicas(group)
    if group.abandoned or not work:
        return standing
    if group.start_s:
        worth_starting = work / group.rate / (STARTS_OF_WORK * group.start_s)
    else:
        worth_starting = work / (LEASES_PER_WORKER * group.demand.concurrency)
    return min(group.demand.replicas, max(1, standing, int(worth_starting)))
