"""Measures what replicas do with their time, by looking at the scheduler's workers about twice a second."""

from collections.abc import Mapping
from pathlib import Path

from orchestrator.scheduling.commands import JUDGES
from orchestrator.scheduling.state import WorkerSlot
from orchestrator.storage.replica_time import WRITE_INTERVAL_S, ReplicaTime, read_attempts, write_attempts


class ReplicaClock:
    """Adds the time between two looks to what each worker does at the second look (``_part``)."""

    def __init__(self, folder: Path, attempt: str) -> None:
        self.folder, self.attempts = folder, read_attempts(folder)
        self.times = self.attempts[attempt] = dict[str, ReplicaTime]()
        self._slots: dict[int, WorkerSlot] = {}
        """The workers of the last look."""
        self._looked_at: float | None = None
        self._written_at = 0.0

    def look(self, slots: Mapping[int, WorkerSlot], now: float) -> None:
        """Count the time since the last look, at ``now`` seconds of the scheduler's clock; write the file if it is due."""
        before = now if self._looked_at is None else self._looked_at
        elapsed, self._looked_at = now - before, now
        for number in self._slots.keys() - slots.keys():
            self._count_loss(self._slots[number], before)
        self._slots = dict(slots)
        for slot in slots.values():
            times, part = self._times_of(slot), _part(slot)
            setattr(times, part, getattr(times, part) + elapsed)
        if now - self._written_at >= WRITE_INTERVAL_S:
            self._written_at = now
            self.write()

    def write(self) -> None:
        """Write the file, unless nothing was measured."""
        if self.times:
            write_attempts(self.folder, self.attempts)

    def _count_loss(self, slot: WorkerSlot, seen_at: float) -> None:
        """Move a lost worker's loading, or its work since its last message, to ``lost``; a stopped one has delivered all."""
        times, part = self._times_of(slot), _part(slot)
        if not slot.stopped and (part == "loading" or slot.leased_count):
            began = slot.started_at if part == "loading" else slot.last_heard
            lost = max(0.0, min(seen_at - began, getattr(times, part)))
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
