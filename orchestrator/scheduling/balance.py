"""Lets groups end together: a group that would end late gets more replicas, one that would end early gives some up.

The workers of a group end together too: none gets more than its share of the group's remaining episodes.
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
"""A replica is worth starting if its group's work ends earlier by at least this fraction of the replica's start time."""
MIN_LATENESS = 0.002
"""A group is late if its replicas leave undone, in replica-seconds, more than this fraction of the time to the end."""

SLACK_ROUNDS = 4.0
"""Rounds of a full engine that a group is assumed to waste when its last replica hands its GPUs over: leases end first."""


def ends_with_others(group: WorkerGroup) -> bool:
    """Return True if the group has GPUs and all its work is known; a judge's work is still being written."""
    return bool(group.demand.gpus) and group.demand.pool != JUDGES


def group_load(group: WorkerGroup, slots: Iterable[WorkerSlot], now: float) -> Load:
    """Return the group's replicas that stay, and its work without the leases of workers that are leaving."""
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
    """Return True if the group would end late and one more replica lets it end sooner.

    ``end``: seconds from now after which all groups can have ended.
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
    first_end = group.start_s + group.round_s  # when the new replica's first lease ends
    end_with_replica = max(first_end, finish_time([*ready, group.start_s], work))
    return finish_time(ready, work) - end_with_replica > MIN_GAIN * group.start_s


def is_late(load: Load, end: float) -> bool:
    return load.missing(end) > MIN_LATENESS * end


def choose_surplus(
    loads: Mapping[str, Load], lacking: Iterable[str], slots: Mapping[str, Mapping[int, WorkerSlot]], end: float
) -> list[WorkerSlot]:
    """Return workers that their groups can do without, enough to make room for the replicas that the ``lacking`` groups need."""
    leaving = sum(slot.group.demand.gpus for own in slots.values() for slot in own.values() if slot.leaving)
    surplus = list[WorkerSlot]()
    for name, count in Counter(choose_givers(loads, lacking, end, leaving)).items():
        ready = [slot for slot in slots[name].values() if slot.ready and not slot.leaving]
        surplus += sorted(ready, key=lambda slot: slot.leased_count)[:count]
    return surplus


def fair_lease_size(worker: WorkerSlot, slots: Collection[WorkerSlot], now: float) -> int:
    """Return the number of episodes in a worker's next lease, at most its share of the rest; 0 if the share is too small.

    ``slots``: its group's workers; the rest is shared by those that will be ready when it has played its leases.
    """
    group = worker.group
    size = group.lease_size(len(slots))
    if not group.has_rate:
        return size
    played_at = now + worker.leased_count / group.rate
    sharing = sum(slot.ready or slot.started_at + group.start_s <= played_at for slot in slots)
    share = -(-(group.queued_count + leased_count(slots)) // sharing) - worker.leased_count
    is_worth_it = share >= min(size, max(1, group.demand.concurrency // LEASE_SPREAD))
    return min(size, share) if is_worth_it or not worker.leases else 0
