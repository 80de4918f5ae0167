"""Commands to a running scheduler: pause, cancel, share GPUs, drain a node.

They lose and repeat no episode: a worker finishes and delivers what it has begun, and the rest of its leases is recalled.
"""

from collections.abc import Collection, Container, Iterable, Mapping

from orchestrator.scheduling.commands import Command, Recall
from orchestrator.scheduling.placement import Leasing
from orchestrator.scheduling.state import WorkerGroup, WorkerSlot


class Control(Leasing):
    """The scheduler's methods for a person's commands; each takes the time in seconds and returns the commands that follow."""

    def cancel(self, name: str, ordinals: Iterable[int], now: float = 0.0) -> list[Command]:
        """Lease no more of these episodes of a group in this attempt; those in play are finished and delivered."""
        self._advance(now)
        if name not in self.groups:
            return []
        self.groups[name].cancel(ordinals)
        return self._recall_held_back(self.groups[name])

    def hold(
        self, name: str, paused: Container[int] = (), withdrawn: Container[int] = (), now: float = 0.0
    ) -> list[Command]:
        """Hold back exactly these episodes of a group; a later call without them returns them to the queue.

        A paused episode stays pending: the scheduler is not done before it is played. A withdrawn episode is not pending.
        """
        self._advance(now)
        self.groups[name].hold(paused, withdrawn)
        return self._recall_held_back(self.groups[name])

    def set_shares(self, shares: Mapping[str, float], now: float = 0.0) -> list[Command]:
        """Set the GPUs of each pool; of a pool with more, workers leave until they fit, the last started first.

        Workers that are still starting leave before ready ones.
        """
        self._advance(now)
        self.shares = dict(shares)
        for pool, gpus in self.shares.items():
            staying = [slot for slot in self._living_in_pool(pool) if not slot.leaving]
            excess = sum(slot.group.demand.gpus for slot in staying) - gpus
            for slot in sorted(staying, key=lambda worker: (worker.ready, -worker.started_at)):
                if excess > 0 and slot.group.demand.gpus:
                    excess -= slot.group.demand.gpus
                    slot.leaving = True
        return self._recall_leaving()

    def drain(self, nodes: Collection[str], now: float = 0.0) -> list[Command]:
        """Start no more workers on these nodes, but again on all others; workers on these nodes take no new lease."""
        self._advance(now)
        self.closed = frozenset(nodes)
        for slot in self.slots.values():
            slot.leaving = slot.leaving or slot.place.node in self.closed
        return self._recall_leaving()

    def describe_wait(self, group: WorkerGroup) -> str:
        """Return what a group without a worker waits for; empty if it does not wait, or only for other groups of this sweep."""
        demand = group.demand
        if not demand.gpus or not self._lacks_worker(group) or self._fits(group):
            return ""
        if demand.gpus > (most := self.nodes.widest(demand.accelerator)):
            hours = f"waits up to {self.wait / 3600:.2g} h for a node with {demand.gpu_text}"
            return f"{hours}; {f'the widest has {most}' if most else 'there is none'}" if self.wait else ""
        return f"waits for {demand.gpu_text}; {self.nodes.held} are held by others" if self.nodes.held else ""

    def _advance(self, now: float) -> None:
        self.now = max(self.now, now)

    def _recall_held_back(self, group: WorkerGroup) -> list[Command]:
        """Recall the leased episodes of a group that are paused or cancelled, and reassign its work."""
        slots = self._workers_of(group)
        held = {number: tuple(filter(group.is_held_back, slot.leased)) for number, slot in slots.items()}
        recalled = [Recall(number, ordinals) for number, ordinals in held.items() if ordinals]
        return [*recalled, *self._reassign(group)]

    def _recall_leaving(self) -> list[Command]:
        """Stop leaving workers that are still starting, recall the leases of the others, and reassign the groups' work."""
        commands = list[Command]()
        for group in self.groups.values():
            leaving = {number: slot for number, slot in self._workers_of(group).items() if slot.leaving}
            commands += self._stop(number for number, slot in leaving.items() if not slot.ready)
            commands += [*recall_leases(leaving), *self._reassign(group)]
        return commands


def recall_leases(slots: Mapping[int, WorkerSlot]) -> list[Command]:
    """Return the commands after which these workers begin no more episodes of their leases."""
    return [Recall(number, slot.leased) for number, slot in slots.items() if slot.leases]
