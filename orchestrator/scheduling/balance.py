"""Who gets a replica and who gives one up, so that groups end together and wide replicas find room.

A group that would end late gets more replicas, one that would end early gives some up. The workers of a group end together too:
none gets more than its share of the group's remaining episodes.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from orchestrator.scheduling.commands import JUDGES, Demand
from orchestrator.scheduling.nodes import Nodes
from orchestrator.scheduling.state import (
    LEASE_SPREAD,
    LEASES_PER_WORKER,
    WorkerGroup,
    WorkerSlot,
    finish_time,
    leased_count,
)

PRECISION = 1e-4
"""Largest relative error of the tight end."""
MIN_GAIN = 0.01
"""A replica is worth starting if its group's work ends earlier by at least this fraction of the replica's start time."""
MIN_LATENESS = 0.002
"""A group is late if its replicas leave undone, in replica-seconds, more than this fraction of the time to the end."""

SLACK_ROUNDS = 4.0
"""Rounds of a full engine that a group is assumed to waste when its last replica hands its GPUs over: leases end first."""


# -- the tight end ----------------------------------------------------------------------------------------------------
class Load(NamedTuple):
    """One group's work and the replicas that share it; times are seconds from now."""

    gpus: float
    """GPUs of one replica."""
    work: float
    """Remaining work in replica-seconds."""
    start: float
    """Seconds that one more replica takes to start."""
    further: int
    """The largest number of replicas that may be added."""
    ready: int = 0
    """Number of replicas that play."""
    starting: tuple[tuple[float, int], ...] = ()
    """Pairs of the seconds until starting replicas are ready, and their number."""
    slack: float = 0.0
    """Seconds that one replica is assumed to waste after the group's work, or the time until the end if that is less."""

    def missing(self, end: float) -> float:
        """Return the replica-seconds that its present replicas leave undone at ``end``."""
        return max(0.0, self.work - self._capacity(end))

    def lacking(self, end: float) -> float:
        """Return the number of replicas to add so that the work ends at ``end``; infinity if it cannot."""
        missing = self.missing(end)
        if missing <= PRECISION * self.work:
            return 0
        count = math.ceil(missing / (end - self.start) - PRECISION) if end > self.start else math.inf
        return count if count <= self.further else math.inf

    def gpu_seconds(self, end: float) -> float:
        """Return the GPU-seconds that the work needs to end at ``end``, with starts and slack; infinity if it cannot."""
        lacking = self.lacking(end)
        if math.isinf(lacking):
            return math.inf
        unused = self._capacity(end) + lacking * max(0.0, end - self.start) - self.work
        starts = lacking * self.start + sum(count * min(ready, end) for ready, count in self.starting)
        return self.gpus * (self.work + starts + min(self.slack, max(0.0, unused)))

    def _capacity(self, end: float) -> float:
        return self.ready * end + sum(count * (end - ready) for ready, count in self.starting if ready < end)


def tight_end(loads: Iterable[Load], gpus: float) -> float:
    """Return the earliest second at which all work can end if no GPU is ever idle and each replica starts once.

    Infinity if it never can. If no load has slack, no schedule ends sooner.
    """
    loads = [load for load in loads if load.work > 0]
    low, high = 0.0, sum(load.start + load.work + load.gpus * (load.start + load.work + load.slack) for load in loads)
    if not _can_end(loads, gpus, high):
        return math.inf
    while high - low > PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _can_end(loads, gpus, middle) else (middle, high)
    return high


def _can_end(loads: Sequence[Load], gpus: float, end: float) -> bool:
    return sum(load.gpu_seconds(end) for load in loads) <= gpus * end


def choose_givers(loads: Mapping[str, Load], lacking: Iterable[str], end: float, leaving: float) -> list[str]:
    """Return the groups that give up a worker, once per worker, so that the ``lacking`` groups get the replicas they lack.

    A group gives a worker up if its other workers can end its work in time. ``leaving``: GPUs of workers that leave anyway.
    """
    left, givers = dict(loads), list[str]()
    for name in sorted(lacking, key=lambda name: -loads[name].gpus):
        gpus, count = loads[name].gpus, loads[name].lacking(end)
        for _ in range(0 if math.isinf(count) else int(count)):
            if leaving < gpus:
                without_one = {n: load._replace(ready=load.ready - 1) for n, load in left.items() if load.ready}
                able = [n for n, load in without_one.items() if load.gpus >= gpus and not load.missing(end)]
                if not able:
                    break
                givers.append(giver := min(able, key=lambda n: left[n].gpus))
                left[giver] = without_one[giver]
                leaving += left[giver].gpus
            leaving -= gpus
    return givers


# -- decisions ----------------------------------------------------------------------------------------------------------
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


# -- room for a wide replica ------------------------------------------------------------------------------------------
def workers_to_evict(slots: Iterable[WorkerSlot], nodes: Nodes, wide: Demand) -> list[WorkerSlot]:
    """Return the fewest narrower workers of one node, or of one shared GPU, that must leave to make room for a wide replica."""
    slots, choices = list(slots), list[list[WorkerSlot] | None]()
    for node in nodes.of_kind(wide.accelerator):
        narrower = [s for s in slots if node.name == s.place.node and 0 < s.group.demand.gpus < wide.gpus]
        if wide.gpus >= 1:
            choices.append(_leaving_for(wide.gpus, Fraction(nodes.free[node.name]), _blocks(narrower)))
        else:
            shared = [(number, gpu.free) for number, gpu in nodes.shared.items() if gpu.node == node.name]
            members = {number: [[s] for s in narrower if s.place.shared == number] for number, _ in shared}
            choices += [_leaving_for(wide.gpus, free, members[number]) for number, free in shared]
    return min((leaving for leaving in choices if leaving is not None), key=len, default=[])


def _leaving_for(gpus: float, free: Fraction, blocks: Iterable[list[WorkerSlot]]) -> list[WorkerSlot] | None:
    """Return the workers that must leave until so many GPUs are free, on a node or of a shared GPU; None if too few are.

    ``free``: GPUs that are free before.
    """
    leaving = list[WorkerSlot]()
    for block in sorted(blocks, key=_eviction_order):
        if free < gpus:
            leaving += block
            frees_whole_gpu = block[0].place.shared is not None and gpus >= 1
            free += 1 if frees_whole_gpu else Fraction(block[0].group.demand.gpus)
    return leaving if free >= gpus else None


def _blocks(slots: Iterable[WorkerSlot]) -> list[list[WorkerSlot]]:
    """Group the workers of each shared GPU, which free it only together; every other worker is a block of its own."""
    blocks: dict[tuple[int, int], list[WorkerSlot]] = {}
    for number, slot in enumerate(slots):
        key = (0, number) if (shared := slot.place.shared) is None else (1, shared)
        blocks.setdefault(key, []).append(slot)
    return list(blocks.values())


def _eviction_order(block: Sequence[WorkerSlot]) -> tuple[bool, bool, float]:
    """Return a sort key: blocks that leave anyway come first, then blocks that are still starting, then the oldest."""
    return not all(s.leaving for s in block), any(s.ready for s in block), min(s.started_at for s in block)
