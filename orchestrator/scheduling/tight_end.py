"""The tight end: the earliest time at which several groups' work can end, if no GPU is ever idle and each replica starts once."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

PRECISION = 1e-4
"""Largest relative error of the computed end."""


@dataclass(frozen=True, slots=True)
class Load:
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
    """Seconds that one replica is assumed to waste after the group's work; no more count than are left until the end."""

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
    """Return the seconds until all work can have ended on so many GPUs; infinity if it never can.

    If no load has slack, no schedule ends sooner.
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
                without_one = {n: replace(load, ready=load.ready - 1) for n, load in left.items() if load.ready}
                able = [n for n, load in without_one.items() if load.gpus >= gpus and not load.missing(end)]
                if not able:
                    break
                givers.append(giver := min(able, key=lambda n: left[n].gpus))
                left[giver] = without_one[giver]
                leaving += left[giver].gpus
            leaving -= gpus
    return givers
