"""Measures what replicas do with their time, by looking at the scheduler's workers about twice a second."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.scheduling.commands import JUDGES
from orchestrator.scheduling.state import WorkerSlot
from orchestrator.storage.replica_time import WRITE_INTERVAL_S, ReplicaTime, read_attempts, write_attempts


@dataclass(slots=True)
class Replica:
    """A worker as the last look saw it."""

    slot: WorkerSlot
    undelivered_s: float = 0.0
    """Seconds of loading, or of work since its last delivery; lost if the worker dies now."""
    last_heard: float = 0.0


class ReplicaClock:
    """Adds the time between two looks to what each worker does at the second look (``_part``)."""

    def __init__(self, folder: Path, attempt: str) -> None:
        self.folder, self.attempt = folder, attempt
        self.attempts = read_attempts(folder)
        self.times = self.attempts[attempt] = dict[str, ReplicaTime]()
        self._replicas: dict[int, Replica] = {}
        self._looked_at: float | None = None
        self._written_at = 0.0

    def look(self, slots: Mapping[int, WorkerSlot], now: float) -> None:
        """Count the time since the last look, at ``now`` seconds of a monotonic clock; write the file if it is due."""
        elapsed = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        for number in self._replicas.keys() - slots.keys():
            self._count_loss(self._replicas.pop(number))
        for number, slot in slots.items():
            self._count(self._replicas.setdefault(number, Replica(slot)), elapsed)
        if now - self._written_at >= WRITE_INTERVAL_S:
            self._written_at = now
            self.write()

    def write(self) -> None:
        """Write the file, unless nothing was measured."""
        if self.times:
            write_attempts(self.folder, self.attempts)

    def _count(self, replica: Replica, elapsed: float) -> None:
        slot = replica.slot
        part = _part(slot)
        if part in ("playing", "judging") and slot.last_heard == replica.last_heard:
            replica.undelivered_s += elapsed
        else:
            replica.undelivered_s = replica.undelivered_s + elapsed if part == "loading" else 0.0
        replica.last_heard = slot.last_heard
        times = self._times_of(slot)
        setattr(times, part, getattr(times, part) + elapsed)

    def _count_loss(self, replica: Replica) -> None:
        """Move a worker's undelivered time to ``lost``; a worker that was ordered to stop has delivered everything."""
        slot = replica.slot
        part = _part(slot)
        if not slot.stopped and (part == "loading" or slot.leased_count):
            times = self._times_of(slot)
            lost = min(replica.undelivered_s, getattr(times, part))
            setattr(times, part, getattr(times, part) - lost)
            times.lost += lost

    def _times_of(self, slot: WorkerSlot) -> ReplicaTime:
        return self.times.setdefault(slot.group.name, ReplicaTime(float(slot.group.demand.gpus)))


def _part(slot: WorkerSlot) -> str:
    """Return what a worker does now; a ready worker of a judge that serves beside players always counts as judging."""
    demand = slot.group.demand
    if not slot.placed:
        return "waiting"
    if not slot.ready:
        return "loading"
    if demand.pool == JUDGES:
        return "judging" if slot.leases or demand.standing_replicas else "idle"
    return "playing" if slot.leases else "idle"
