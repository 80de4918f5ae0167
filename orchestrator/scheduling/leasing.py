"""Leasing: which worker gets which episodes next, and which worker stops because nothing is left for it."""

from __future__ import annotations

from orchestrator.scheduling.commands import Command, Lease, Start
from orchestrator.scheduling.placement import Placement
from orchestrator.scheduling.state import WorkerGroup, WorkerSlot

PAUSE_GRACE_S = 60.0
"""Seconds that a worker without work stays after a pause, in case that is taken back; loading a large model takes minutes."""
MAX_UNREAD = 4096
"""Answers that may wait for a working judge before the groups that write them get no new lease."""


class Leasing(Placement):
    """Each method returns the commands that follow."""

    def _assign_idle(self) -> list[Command]:
        """Return leases for workers that are idle or can take more."""
        commands: list[Command] = []
        for slot, worker in list(self.slots.items()):
            can_take_more = worker.group.waiting and worker.wants_work
            if worker.ready and slot in self.slots and (not worker.leases or can_take_more):
                commands += self._assign(slot)
        return commands

    def _assign(self, slot: int) -> list[Command]:
        """Return leases for a ready worker; one without work stops, and its GPUs go to another group."""
        worker = self.slots[slot]
        commands: list[Command] = []
        while worker.wants_work and (ordinals := self._next_lease(worker)):
            self._lease_count += 1
            worker.leases[self._lease_count] = dict.fromkeys(ordinals)
            worker.due[self._lease_count] = worker.deadline(self.now, self.silence)
            commands.append(Lease(slot, self._lease_count, ordinals))
        if not worker.leases and not self._stays_idle(worker):
            commands += self._stop([slot])
        commands += self._stop_unneeded(worker.group)
        return commands + self._start_workers()

    def _next_lease(self, worker: WorkerSlot) -> tuple[int, ...]:
        group = worker.group
        if worker.suspected or worker.leaving or self._judge_is_behind(group):
            return ()
        if group.suspects and not worker.leases:
            worker.suspected = True
            return group.suspects.popleft()
        if group.suspects and not group.waiting:
            return ()
        leased = [group.waiting.popleft() for _ in range(group.lease_size(len(self._workers_of(group))))]
        while leased and group.waiting and self.together(leased[-1], group.waiting[0]):
            leased.append(group.waiting.popleft())
        return tuple(leased)

    def _start_workers(self) -> list[Command]:
        commands: list[Command] = []
        while (group := self._next_to_start()) is not None:
            place = self._room(group.demand)
            assert place is not None, "only a group that fits is chosen"
            self._slot_count += 1
            node, shared = self.nodes.reserve(place, group.demand.gpus, self._slot_count)
            self.slots[self._slot_count] = WorkerSlot(group, node, self.now, self.now, shared=shared)
            commands.append(Start(self._slot_count, group.name, node, shared))
        self._make_room()
        return commands

    def _reassign(self, group: WorkerGroup) -> list[Command]:
        """Stop the group's workers that have nothing left, and start what fits now."""
        if not self.begun:
            return []
        return [*self._stop_unneeded(group), *self._assign_idle(), *self._start_workers()]

    def _stop_unneeded(self, group: WorkerGroup) -> list[Command]:
        """Stop workers that are still starting when nothing is left for them."""
        if group.queued_count or self._awaits_answers(group):
            return []
        return self._stop(slot for slot, worker in self._workers_of(group).items() if not worker.ready)

    def _stays_idle(self, worker: WorkerSlot) -> bool:
        """Return True if a worker without a lease stays.

        A judge stays until answers arrive, a writer until its judge has caught up, and a worker whose work is paused for
        ``PAUSE_GRACE_S``.
        """
        group = worker.group
        if worker.leaving or self._required_replicas(group):
            return not worker.leaving
        recently_paused = group.parked and self.now - group.parked_since < PAUSE_GRACE_S
        if (recently_paused or self._awaits_answers(group)) and not self._group_waits_for_room():
            return True
        return group.queued_count > 0 and self._judge_is_behind(group)

    def _judge_is_behind(self, group: WorkerGroup) -> bool:
        """Return True if the group's judge has workers and ``MAX_UNREAD`` answers to read."""
        judge = self.groups.get(group.demand.judge)
        return judge is not None and judge.queued_count >= MAX_UNREAD and bool(self._workers_of(judge))

    def _group_waits_for_room(self) -> bool:
        """Return True if a group has work, no worker and no free GPU, though its pool may take one: idle workers then stop."""
        return any(
            not group.demand.after_writers
            and group.demand.gpus <= self._free_in_pool(group.demand.pool)
            and not self._fits(group)
            for group in self._unstaffed_groups()
        )
