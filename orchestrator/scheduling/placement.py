"""``Placement`` decides which group gets one more replica, and where; ``Leasing`` decides what each worker plays."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from orchestrator.scheduling import balance
from orchestrator.scheduling.balance import Load, tight_end, workers_to_evict
from orchestrator.scheduling.commands import MODELS, Command, Demand, Lease, Start, Stop
from orchestrator.scheduling.nodes import Node, Nodes, Place, build_nodes
from orchestrator.scheduling.state import SILENCE_TIMEOUT_S, WorkerGroup, WorkerSlot, leased_count, used_cpus

MAX_UNREAD = 4096
"""If so many answers wait for a judge that has workers, the groups that write them get no new lease."""


class Placement:
    """The groups, their workers and the nodes, with the rules for one more replica."""

    def __init__(
        self,
        pending: Mapping[str, Sequence[int]],
        demands: Mapping[str, Demand],
        cpus: float,
        gpus: int,
        nodes: Sequence[Node] = (),
        shares: Mapping[str, float] | None = None,
        silence: float = SILENCE_TIMEOUT_S,
        wait: float = 0.0,
    ) -> None:
        """Start without workers; ``pending``: group -> ordinals to play.

        Args:
            shares: pool -> GPUs it may take; a pool that is missing may take all.
            silence: seconds that a worker with a lease may send nothing before its work is taken back.
            wait: seconds, counted from the last change of the nodes, that a group waits for a node that is wide enough.
        """
        self.demands = demands
        self.groups = {name: WorkerGroup(name, demands[name], deque(queue)) for name, queue in pending.items()}
        self.cpus = cpus
        self.nodes = Nodes(nodes or build_nodes(gpus))
        self.shares = dict(shares or {})
        self.closed: frozenset[str] = frozenset()
        """Nodes where no worker starts."""
        self.silence, self.wait = silence, wait
        self.slots: dict[int, WorkerSlot] = {}
        self._slots_by_group: defaultdict[str, dict[int, WorkerSlot]] = defaultdict(dict)
        self.lone_deaths: Counter[tuple[str, int]] = Counter()
        """Group, ordinal -> number of workers that died while they played only this episode."""
        self.now = self.changed = 0.0
        """Time of the latest event, and of the last change of the nodes."""
        self.begun = False
        self._slot_numbers, self._lease_numbers = count(1), count(1)

    def remaining(self, group: WorkerGroup) -> int:
        """Return the number of the group's episodes that are queued or leased."""
        return group.queued_count + leased_count(self._workers_of(group).values())

    def _workers_of(self, group: WorkerGroup) -> dict[int, WorkerSlot]:
        return self._slots_by_group[group.name]

    def _release(self, slot: int) -> WorkerSlot:
        worker = self.slots.pop(slot)
        del self._slots_by_group[worker.group.name][slot]
        self.nodes.take(worker.place, -worker.group.demand.gpus)
        return worker

    def _stop(self, slots: Iterable[int]) -> list[Command]:
        stopped = list(slots)
        for slot in stopped:
            self._release(slot)
        return [*map(Stop, stopped)]

    def _next_to_start(self) -> WorkerGroup | None:
        """Return the group that gets one more replica; a judge for whose replies episodes wait comes first.

        Next come groups whose replicas cannot finish by the tight end. Wide groups come before narrow ones, so that narrow ones
        fill the gaps; of equally wide groups, the one where a new replica can do most of the missing work comes first.
        """
        for group in self.groups.values():
            if len(self._workers_of(group)) < self.required_replicas(group) and self._fits(group):
                return group
        fitting = [group for group in self.groups.values() if group.queued_count and self._fits(group)]
        end = self._tight_end(self._loads()) if fitting else 0.0
        paying = [group for group in fitting if balance.replica_pays(group, self._workers_of(group), self.now, end)]

        def priority(group: WorkerGroup) -> tuple[bool, float, float]:
            if not balance.ends_with_others(group):
                return True, group.demand.gpus, self.remaining(group) / group.rate / (len(self._workers_of(group)) + 1)
            missing = balance.group_load(group, self._workers_of(group).values(), self.now).missing(end)
            return missing > 0, group.demand.gpus if missing else 0, min(missing, end - group.start_s)

        return max(paying, key=priority, default=None)

    def _fits(self, group: WorkerGroup) -> bool:
        demand, room = group.demand, self._room(group.demand)
        if room is None or (demand.after_writers and self._awaits_answers(group)):
            return False
        cpus = self.cpus - used_cpus(self.slots.values(), room)
        if demand.cpus > cpus and (demand.gpus or self.slots):
            return False
        return not demand.gpus or demand.gpus <= self._free_in_pool(demand.pool)

    def _room(self, demand: Demand) -> Place | None:
        """Return where a replica fits, without nodes that workers leave for a wider replica; None if it fits nowhere.

        Such a node is skipped only for replicas that are no wider than the leaving workers.
        """
        if not demand.gpus:
            return Place()
        place = self.nodes.tightest_fit(demand.gpus, demand.accelerator, self.closed)
        if place is None:
            return None  # the usual case; the nodes to skip need not be found then
        leaving = (slot for slot in self.slots.values() if slot.leaving and slot.group.demand.gpus >= demand.gpus)
        without = {slot.place.node for slot in leaving}
        return self.nodes.tightest_fit(demand.gpus, demand.accelerator, without | self.closed) if without else place

    def _free_in_pool(self, pool: str) -> float:
        used = sum(slot.group.demand.gpus for slot in self._living_in_pool(pool)) if pool in self.shares else 0
        return self.shares.get(pool, self.nodes.total) - used

    def _living_in_pool(self, pool: str) -> list[WorkerSlot]:
        """Return the workers of a pool, except those whose node has left; their loss is reported later."""
        nodes = self.nodes.free
        return [s for s in self.slots.values() if s.group.demand.pool == pool and s.place.node in ("", *nodes)]

    def _loads(self) -> dict[str, Load]:
        groups = [group for group in self.groups.values() if balance.ends_with_others(group) and self.remaining(group)]
        return {group.name: balance.group_load(group, self._workers_of(group).values(), self.now) for group in groups}

    def _tight_end(self, loads: Mapping[str, Load]) -> float:
        """Return the seconds after which all these groups can have ended, if every GPU works until then."""
        return tight_end(loads.values(), min(self.nodes.usable, self.shares.get(MODELS, self.nodes.usable)))

    def _hand_over(self) -> None:
        """Mark workers that their groups can do without as surplus, to make room for groups that lack replicas."""
        for slot in self.slots.values():
            slot.surplus = False
        loads = self._loads() if any(len(own) > 1 for own in self._slots_by_group.values()) else {}
        if len(loads) < 2 or not any(self.groups[name].queued_count for name in loads):
            return
        end = self._tight_end(loads)
        late = [self.groups[name] for name, load in loads.items() if balance.is_late(load, end)]
        paying = [group for group in late if balance.replica_pays(group, self._workers_of(group), self.now, end)]
        lacking = [group.name for group in paying if group.queued_count and not self._fits(group)]
        for slot in balance.choose_surplus(loads, lacking, self._slots_by_group, end) if lacking else ():
            slot.surplus = True

    def _make_room(self) -> None:
        """For each group with work but no worker and no room, let narrower workers leave."""
        for group in self.groups.values():
            demand = group.demand
            waits_for_writers = demand.after_writers and self._awaits_answers(group)
            needs_room = demand.gpus and self._lacks_worker(group) and not waits_for_writers
            if needs_room and demand.gpus <= self._free_in_pool(demand.pool):
                for slot in workers_to_evict(self.slots.values(), self.nodes, demand):
                    slot.leaving = True

    def _lacks_worker(self, group: WorkerGroup) -> bool:
        return bool(group.queued_count or self.required_replicas(group)) and not self._workers_of(group)

    def required_replicas(self, group: WorkerGroup) -> int:
        """Return the number of replicas that the group keeps while other groups' episodes wait for its replies."""
        return group.demand.standing_replicas if not group.abandoned and self._awaits_answers(group) else 0

    def _awaits_judge(self, group: WorkerGroup) -> bool:
        """Return True if the group's episodes wait for a judge that has no ready worker."""
        judge = self.groups.get(group.demand.judge)
        if judge is None or not judge.demand.standing_replicas:
            return False
        return not any(slot.ready for slot in self._workers_of(judge).values())

    def _awaits_answers(self, judge: WorkerGroup) -> bool:
        """Return True if answers for this judge are still being written."""
        return any(group.demand.judge == judge.name and self.remaining(group) for group in self.groups.values())


class Leasing(Placement):
    """The rules that lease episodes to workers and stop workers; each method returns the commands that follow."""

    def _assign_idle(self) -> list[Command]:
        """Give leases to workers that are idle or can take more."""
        commands: list[Command] = []
        for slot, worker in list(self.slots.items()):
            can_take_more = worker.group.waiting and worker.wants_work
            if worker.ready and slot in self.slots and (not worker.leases or can_take_more):
                commands += self._assign(slot)
        return commands

    def _assign(self, slot: int) -> list[Command]:
        """Give leases to a ready worker, or stop it if it has no work, and start workers on the GPUs that it frees."""
        worker = self.slots[slot]
        commands: list[Command] = []
        while worker.wants_work and (ordinals := self._next_lease(worker)):
            lease = next(self._lease_numbers)
            if not worker.leases:
                worker.last_heard = self.now  # the time in which it was idle counts neither as silence nor as work
            worker.leases[lease] = dict.fromkeys(ordinals)
            commands.append(Lease(slot, lease, ordinals))
        if not worker.leases and not self._stays_idle(worker):
            commands += self._stop([slot])
        commands += self._stop_unneeded(worker.group)
        return commands + self._start_workers()

    def _next_lease(self, worker: WorkerSlot) -> tuple[int, ...]:
        group = worker.group
        if worker.suspected or worker.leaving or worker.surplus or self._judge_is_behind(group):
            return ()
        if group.suspects and not worker.leases:
            worker.suspected = True
            return group.suspects.popleft()
        if group.suspects and not group.waiting:
            return ()
        size = balance.fair_lease_size(worker, self._workers_of(group).values(), self.now)
        return tuple(group.waiting.popleft() for _ in range(size))

    def _start_workers(self) -> list[Command]:
        commands: list[Command] = []
        while (group := self._next_to_start()) is not None:
            place = self._room(group.demand)
            assert place is not None, "only a group that fits is chosen"
            slot = next(self._slot_numbers)
            place = self.nodes.reserve(place, group.demand.gpus, slot)
            worker = WorkerSlot(group, place, self.now, self.now, cpus=group.demand.cpus)
            self.slots[slot] = self._slots_by_group[group.name][slot] = worker
            commands.append(Start(slot, group.name, place))
        self._make_room()
        return commands

    def _reassign(self, group: WorkerGroup) -> list[Command]:
        """Stop the group's workers that have no more work, and start workers that fit now."""
        if not self.begun:
            return []
        return [*self._stop_unneeded(group), *self._assign_idle(), *self._start_workers()]

    def _stop_unneeded(self, group: WorkerGroup) -> list[Command]:
        """Stop workers that are still starting if their group has no more work."""
        if group.queued_count or self._awaits_answers(group):
            return []
        return self._stop(slot for slot, worker in self._workers_of(group).items() if not worker.ready)

    def _stays_idle(self, worker: WorkerSlot) -> bool:
        """Return True if a worker without a lease is kept.

        A judge is kept until answers arrive, and a worker of a model until its judge has caught up.
        """
        group = worker.group
        if worker.surplus or worker.leaving:
            return False
        if self.required_replicas(group) or (self._awaits_answers(group) and not self._group_waits_for_room()):
            return True
        return group.queued_count > 0 and self._judge_is_behind(group)

    def _judge_is_behind(self, group: WorkerGroup) -> bool:
        """Return True if the group's judge has workers and at least ``MAX_UNREAD`` answers to read."""
        judge = self.groups.get(group.demand.judge)
        return judge is not None and judge.queued_count >= MAX_UNREAD and bool(self._workers_of(judge))

    def _group_waits_for_room(self) -> bool:
        """Return True if a group with work has no worker and no room, though its pool has GPUs; idle workers then stop."""
        waiting = (group for group in self.groups.values() if group.queued_count and not self._workers_of(group))
        starting = (group for group in waiting if not group.demand.after_writers)
        return any(g.demand.gpus <= self._free_in_pool(g.demand.pool) and not self._fits(g) for g in starting)
