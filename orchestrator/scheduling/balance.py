"""Groups end together: one that would end late gets replicas, one that would end early lets some go.

So do a group's workers: none takes more than its share of what is left.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from orchestrator.scheduling.commands import JUDGES
from orchestrator.scheduling.state import (
    LEASE_SPREAD,
    LEASES_PER_WORKER,
    WorkerGroup,
    WorkerSlot,
    finish_time,
    leased_count,
)
from orchestrator.scheduling.tight_end import Load, choose_givers

MIN_GAIN = 0.01
"""Fraction of a replica's start time by which it must end its group's work earlier to be worth starting."""
MIN_LATENESS = 0.002
"""Fraction of the time to the end, in replica-seconds, by which a group must be late to get another replica."""

SLACK_ROUNDS = 4.0
"""Rounds of a full engine that are left of a GPU's time when it is handed over, of which the next replica makes little use."""


def ends_with_others(group: WorkerGroup) -> bool:
    """Return True if all its work is known and on GPUs; that of a judge is still being written."""
    return bool(group.demand.gpus) and group.demand.pool != JUDGES


def group_load(group: WorkerGroup, slots: Iterable[WorkerSlot], now: float) -> Load:
    """Return the group's work, without what leaving workers play, and its replicas that stay."""
    staying = [slot for slot in slots if not slot.leaving]
    starting = Counter(max(0.0, slot.started_at + group.start_s - now) for slot in staying if not slot.ready)
    return Load(
        gpus=group.demand.gpus,
        work=(group.queued_count + leased_count(staying)) / group.rate,
        start=group.start_s,
        further=max(0, group.demand.replicas - len(staying)),
        ready=len(staying) - starting.total(),
        starting=tuple(starting.items()),
        slack=SLACK_ROUNDS * group.round_s,
    )


def replica_pays(group: WorkerGroup, slots: Mapping[int, WorkerSlot], now: float, end: float) -> bool:
    """Return True if the group would end late, and ends sooner with one more replica.

    ``end``: seconds until all groups can have ended.
    """
    if not slots:
        return True
    if len(slots) >= group.demand.replicas or group.queued_count <= len(slots) * LEASES_PER_WORKER:
        return False
    load = group_load(group, slots.values(), now)
    if ends_with_others(group) and group.has_rate and not is_late(load, end):
        return False
    ready = [0.0 if slot.ready else max(0.0, slot.started_at + group.start_s - now) for slot in slots.values()]
    work = load.work + leased_count(slot for slot in slots.values() if slot.leaving) / group.rate
    first_end = group.start_s + group.round_s  # of the new replica's first lease
    sooner = max(first_end, finish_time([*ready, group.start_s], work))
    return finish_time(ready, work) - sooner > MIN_GAIN * group.start_s


def is_late(load: Load, end: float) -> bool:
    return load.missing(end) > MIN_LATENESS * end


def choose_surplus(
    loads: Mapping[str, Load], lacking: Iterable[str], slots: Mapping[str, Mapping[int, WorkerSlot]], end: float
) -> list[WorkerSlot]:
    """Return workers that their groups can do without, as many as make room for the replicas that groups lack."""
    leaving = sum(slot.group.demand.gpus for own in slots.values() for slot in own.values() if slot.leaving)
    surplus = list[WorkerSlot]()
    for name, count in Counter(choose_givers(loads, lacking, end, leaving)).items():
        ready = [slot for slot in slots[name].values() if slot.ready and not slot.leaving]
        surplus += sorted(ready, key=lambda slot: slot.leased_count)[:count]
    return surplus


def fair_lease_size(worker: WorkerSlot, slots: Collection[WorkerSlot], now: float) -> int:
    """Return the episodes of a worker's next lease, at most its share of what is left; 0 for a share not worth a lease.

    ``slots``: its group's workers; those that are ready before it has played its leases have a share.
    """
    group = worker.group
    size = group.lease_size(len(slots))
    if group.demand.slow_batches or not group.has_rate:
        return size
    played_at = now + worker.leased_count / group.rate
    sharing = sum(slot.ready or slot.started_at + group.start_s <= played_at for slot in slots)
    share = -(-(group.queued_count + leased_count(slots)) // sharing) - worker.leased_count
    is_worth_it = share >= min(size, max(1, group.demand.concurrency // LEASE_SPREAD))
    return min(size, share) if is_worth_it or not worker.leases else 0
