"""Placement: the groups, their workers and the nodes, and which group is to have one more replica, and where.

It decides by what is left, the rates and the free GPUs; the events that change these are the scheduler's.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.nodes import Node, Nodes, Place, nodes_of
from orchestrator.scheduling.state import (
    LEASES_PER_WORKER,
    SILENCE_TIMEOUT_S,
    WorkerGroup,
    WorkerSlot,
    cpus_taken,
    fewest_leaving,
    finish_time,
)

MIN_GAIN = 0.01
"""One more replica is worth its start if it ends its group's work earlier by at least this fraction of that start."""


class Placement:
    """The state of a schedule, and where replicas go."""

    def __init__(
        self,
        pending: Mapping[str, Sequence[int]],
        demands: Mapping[str, Demand],
        cpus: float,
        gpus: int,
        nodes: Sequence[Node] = (),
        shares: Mapping[str, float] | None = None,
        together: Callable[[int, int], bool] = lambda one, other: False,
        silence: float = SILENCE_TIMEOUT_S,
    ) -> None:
        """``together`` tells whether two neighbours in a queue are one sample's, which no lease takes apart.

        ``silence``: seconds a worker with a lease may say nothing before its work is taken back.
        """
        self.demands = demands
        self.groups = {name: WorkerGroup(name, demands[name], deque(queue)) for name, queue in pending.items()}
        self.cpus = cpus
        self.nodes = Nodes(nodes or nodes_of(gpus))
        self.shares = dict(shares or {})
        """Pool -> GPUs it may take at once; a pool that is not named may take all."""
        self.closed: frozenset[str] = frozenset()
        """Nodes that get no worker."""
        self.together, self.silence = together, silence
        self.slots: dict[int, WorkerSlot] = {}
        self.lone_deaths: Counter[tuple[str, int]] = Counter()
        """Group, episode -> workers that died while playing nothing else."""
        self.now = self.changed = 0.0
        self.begun = False
        self._slots = 0
        self._leases = 0

    def remaining(self, group: WorkerGroup) -> int:
        """Episodes that are not delivered yet, leased ones included."""
        return group.left + sum(slot.held for slot in self.slots.values() if slot.group is group)

    def _release(self, slot: int) -> WorkerSlot:
        worker = self.slots.pop(slot)
        self.nodes.give(worker.node, worker.group.demand.gpus, worker.shared)
        return worker

    def _next_to_start(self) -> WorkerGroup | None:
        """The next group to have one more replica: first a judge whose replies episodes wait for.

        A group that its replicas cannot finish by the time a perfect schedule would end comes first, wide ones before
        narrow ones, so that narrow ones fill the gaps and no wide one waits for them; then the longest work per replica.
        """
        for group in self.groups.values():
            if self._standing(group) < self._to_stand(group) and self._fits(group):
                return group
        fitting = [group for group in self.groups.values() if group.left and self._fits(group)]
        if not fitting:
            return None
        replicas = Counter(slot.group.name for slot in self.slots.values())
        work = {group.name: self.remaining(group) / group.rate for group in fitting}
        paying = [group for group in fitting if self._replica_pays(group, work[group.name])]
        horizon = self._horizon() if len(paying) > 1 else 0.0

        def need(group: WorkerGroup) -> tuple[bool, float, float]:
            count, seconds = replicas[group.name], work[group.name]
            behind = count * max(horizon - group.start, 0.0) < seconds if count else True
            return behind, group.demand.gpus if behind else 0, seconds / (count + 1)

        return max(paying, key=need, default=None)

    def _fits(self, group: WorkerGroup) -> bool:
        demand = group.demand
        if demand.after and self._awaits_answers(group):
            return False
        cpus = self.cpus - cpus_taken(self.slots.values(), self._room(demand))
        if demand.cpus > cpus and not (demand.gpus == 0 and not self.slots):
            return False
        if not demand.gpus:
            return True
        return demand.gpus <= self._free_in_pool(demand.pool) and self._room(demand) is not None

    def _room(self, demand: Demand) -> Place | None:
        """Where a replica fits; a node that workers leave for a wider one takes none that is no wider than they are."""
        if not demand.gpus:
            return Place()
        kept = {slot.node for slot in self.slots.values() if slot.leaving and slot.group.demand.gpus >= demand.gpus}
        return self.nodes.best(demand.gpus, demand.accelerator, kept | self.closed)

    def _free_in_pool(self, pool: str) -> float:
        """GPUs that the pool may still take."""
        if pool not in self.shares:
            return self.nodes.total
        return self.shares[pool] - sum(s.group.demand.gpus for s in self.slots.values() if s.group.demand.pool == pool)

    def _replica_pays(self, group: WorkerGroup, seconds: float) -> bool:
        """Whether one more replica ends the group's ``seconds`` of work sooner, replicas that still start included.

        While another group waits for its first worker, each replica must even have more than a start's work left.
        """
        slots = [slot for slot in self.slots.values() if slot.group is group]
        if not slots:
            return True
        if len(slots) >= group.demand.replicas or group.left <= len(slots) * LEASES_PER_WORKER:
            return False
        if self._some_without_worker():
            return seconds / len(slots) > group.start
        ready = [self.now if slot.ready else max(self.now, slot.began + group.start) for slot in slots]
        saved = finish_time(ready, seconds) - finish_time([*ready, self.now + group.start], seconds)
        return saved > MIN_GAIN * group.start

    def _some_without_worker(self) -> bool:
        staffed = {slot.group.name for slot in self.slots.values()}
        return any(group.left and group.name not in staffed for group in self.groups.values())

    def _horizon(self) -> float:
        """Seconds to the end if all pending work were spread evenly over all GPUs."""
        pending = [(group.demand.gpus, self.remaining(group) / group.rate) for group in self.groups.values()]
        return sum(gpus * seconds for gpus, seconds in pending) / max(1, self.nodes.total)

    def _make_room(self) -> None:
        """Narrower workers of a node or of a shared GPU take no new lease when a group has work, no worker, and no room."""
        replicas = {slot.group.name for slot in self.slots.values()}
        for group in self.groups.values():
            demand = group.demand
            waits = (group.left or self._to_stand(group)) and demand.gpus and group.name not in replicas
            if waits and demand.gpus <= self._free_in_pool(demand.pool):
                for slot in fewest_leaving(self.slots.values(), self.nodes, demand):
                    slot.leaving = True

    def _to_stand(self, group: WorkerGroup) -> int:
        """Replicas that the group has as long as episodes of others wait for its replies."""
        return group.demand.serves if not group.abandoned and self._awaits_answers(group) else 0

    def _standing(self, group: WorkerGroup) -> int:
        return sum(slot.group is group for slot in self.slots.values())

    def _awaits_judge(self, group: WorkerGroup) -> bool:
        """Whether its episodes wait for a judge that has no ready worker."""
        judge = self.groups.get(group.demand.judge)
        if judge is None or not judge.demand.serves:
            return False
        return not any(slot.ready for slot in self.slots.values() if slot.group is judge)

    def _awaits_answers(self, judge: WorkerGroup) -> bool:
        """Whether answers for this judge are still being written."""
        return any(group.demand.judge == judge.name and self.remaining(group) for group in self.groups.values())
