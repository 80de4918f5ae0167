"""What somebody asks of a running schedule: pause, cancel, requeue, fewer GPUs, another pace, an empty node.

No episode is lost or doubled by it: whatever a worker has begun ends and is delivered, the rest of its leases is recalled.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from orchestrator.scheduling.commands import Command, Recall, Stop
from orchestrator.scheduling.placement import Placement
from orchestrator.scheduling.state import WorkerGroup, WorkerSlot

PAUSE_GRACE_S = 60.0
"""Seconds that a worker without work stays after a pause, in case that is taken back; loading a large model takes minutes."""


class Control(Placement):
    """Each method takes the time in seconds and returns the commands that follow."""

    @abstractmethod
    def _follow(self, group: WorkerGroup) -> list[Command]:
        """Stop the group's workers that have nothing left, and start what fits now."""

    def cancel(self, name: str, ordinals: Container[int], now: float = 0.0) -> list[Command]:
        """No more of these episodes of a group are handed out; those in play end and are delivered.

        Nothing brings a cancelled one back: neither the end of its lease nor its worker's death. A judge's group keeps the
        answers that are there.
        """
        self._advance(now)
        if name not in self.groups:
            return []
        group = self.groups[name]
        group.cancel(ordinals)
        return [*self._recall(group), *self._follow(group)]

    def hold(
        self, name: str, paused: Container[int] = (), withdrawn: Container[int] = (), now: float = 0.0
    ) -> list[Command]:
        """Of this group just these episodes are paused, and these cancelled; the others may be handed out.

        What is paused is pending: the schedule is not done before it is played. What is cancelled is not; another ``hold``
        brings it back.
        """
        self._advance(now)
        if name not in self.groups or self.groups[name].abandoned:
            return []
        group = self.groups[name]
        before = bool(group.parked)
        group.hold(paused, withdrawn)
        recalled = self._recall(group)
        if not before:
            group.parked_since = self.now
        return [*recalled, *self._follow(group)]

    def requeue(self, name: str, ordinals: Sequence[int], now: float = 0.0) -> list[Command]:
        """These episodes of a group, which nobody holds, are to be played again."""
        self._advance(now)
        group = self.groups.setdefault(name, WorkerGroup(name, self.demands[name], deque()))
        if group.abandoned:
            return []
        for ordinal in ordinals:
            self.lone_deaths.pop((name, ordinal), None)
        group.waiting.extend(group.wanted(ordinals))
        return self._follow(group)

    def reshare(self, shares: Mapping[str, float], now: float = 0.0) -> list[Command]:
        """Another share of the GPUs for each pool; those above it take no new lease, those that still start first."""
        self._advance(now)
        self.shares = dict(shares)
        commands = list[Command]()
        for pool, gpus in self.shares.items():
            staying = [s for s in self.slots.values() if s.group.demand.pool == pool and not s.leaving]
            over = sum(slot.group.demand.gpus for slot in staying) - gpus
            for slot in sorted(staying, key=lambda one: (one.ready, -one.began)):
                if over > 0 and slot.group.demand.gpus:
                    over -= slot.group.demand.gpus
                    slot.leaving = True
        for group in self.groups.values():
            commands += self._recall_leaving(group)
        return commands

    def drain(self, nodes: Collection[str], now: float = 0.0) -> list[Command]:
        """Just these nodes get no worker; those that are there take no new lease."""
        self._advance(now)
        self.closed = frozenset(nodes)
        for slot in self.slots.values():
            slot.leaving = slot.leaving or slot.node in self.closed
        return [command for group in self.groups.values() for command in self._recall_leaving(group)]

    def repace(self, name: str, at_once: int, now: float = 0.0) -> list[Command]:
        """A group's workers play so many episodes at once from now on: what they have not begun is leased anew."""
        self._advance(now)
        if name not in self.groups:
            return []
        group = self.groups[name]
        group.demand = replace(group.demand, at_once=at_once)
        return self._recalls(slot for slot in self.slots.items() if slot[1].group is group)

    def _advance(self, now: float) -> None:
        self.now = max(self.now, now)

    def _recall(self, group: WorkerGroup) -> list[Command]:
        """Ask the group's workers to leave out what is paused or cancelled and not begun."""
        found = list[Command]()
        for number, slot in self.slots.items():
            barred = tuple(one for one in slot.leased if group.barred(one)) if slot.group is group else ()
            found += [Recall(number, barred)] if barred else []
        return found

    def _recall_leaving(self, group: WorkerGroup) -> list[Command]:
        """Workers that leave give back what they have not begun, and end at once where they hold nothing."""
        leaving = {number: s for number, s in self.slots.items() if s.group is group and s.leaving}
        starting = [number for number, slot in leaving.items() if not slot.ready]
        for number in starting:
            self._release(number)
        return [*map(Stop, starting), *self._recalls(leaving.items()), *self._follow(group)]

    def _recalls(self, slots: Iterable[tuple[int, WorkerSlot]]) -> list[Command]:
        return [Recall(number, slot.leased) for number, slot in slots if slot.leases]
