"""The store and the driver of a simulated run, with a record of what they report and a check after every event."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from orchestrator.execution.driver import Driver
from orchestrator.scheduling.commands import Command, GiveUp
from orchestrator.storage.episode_store import EpisodeStore

if TYPE_CHECKING:
    from tests.simulation.world import SimulatedRun

LOSS_S = 30.0
"""Virtual seconds within which the driver must stop waiting for a dead process; Ray notices a death within 12."""

STORED_S = 8.0
"""Virtual seconds within which an episode must be on the disk: the store's five, and some ticks of the driver."""


class ObservedStore(EpisodeStore):
    """The store, with a record of the keys that it reported as durable before its process was killed."""

    def __init__(self, run: SimulatedRun, folder: Path) -> None:
        self.simulated_run = run
        super().__init__(folder)

    def flush(self) -> None:
        keys = list(self._buffer["episodes"]["key"])
        super().flush()
        if self.simulated_run.image is None:
            self.simulated_run.promises.keys.update(keys)

    def finished_episodes(self) -> pl.DataFrame:
        finished = super().finished_episodes()
        self.simulated_run.promises.check(set(finished["key"]))
        return finished

    def discard(self, keys: Collection[str]) -> None:
        if self.simulated_run.image is None:
            self.simulated_run.promises.keys.difference_update(keys)
        super().discard(keys)


class ObservedDriver(Driver):
    """The driver, with a check after every event."""

    def __init__(self, run: SimulatedRun, *arguments: Any) -> None:
        self.simulated_run = run
        self.pending: dict[str, Sequence[int]] = dict(arguments[2])
        self.given_up: set[str] = set()
        """Keys of the episodes that the scheduler gave up."""
        self._dead_since: dict[int, float] = {}
        """Slot -> time at which its process, for which the driver still waits, was first seen dead."""
        super().__init__(*arguments)

    async def run(self, on_tick: Callable[[], None] = lambda: None) -> None:
        self.simulated_run.begin_events(self)
        await super().run(on_tick)

    def act(self, commands: Sequence[Command]) -> None:
        super().act(commands)
        for command in commands:
            if isinstance(command, GiveUp) and self.pool.queue_of(command.group) is None:
                self.given_up.update(self.pool.plan.key(*self.pool.plan.task(ordinal)) for ordinal in command.ordinals)
        check_schedule(self)
        self._check_losses()
        self._check_buffer()

    def _check_buffer(self) -> None:
        """Assert that no episode waits in memory much longer than the store promises."""
        store, bound = self.sink.store, STORED_S + self.simulated_run.disk_delay
        age = self.simulated_run.clock.now - store._since if store._buffered else 0.0
        assert age <= bound, f"{store._buffered} episodes wait in memory for {age:.1f} s"

    def _check_losses(self) -> None:
        """Assert that the driver soon stops waiting for a dead process, long before it would drop a silent worker."""
        now = asyncio.get_running_loop().time()
        for slot, worker in self.pool.handles.items():
            state = self.schedule.slots[slot]
            if worker.actor._process.dead and (state.leases or not state.ready):
                dead_for = now - self._dead_since.setdefault(slot, now)
                bound = LOSS_S + self.simulated_run.disk_delay
                assert dead_for < bound, f"a worker is dead for {dead_for:.0f} s, and its work still waits for it"
            else:
                self._dead_since.pop(slot, None)


def check_schedule(driver: Driver) -> None:
    """Assert that no episode is in two leases, or leased and waiting, and that no node's GPUs are given away twice."""
    leased: Counter[tuple[str, int]] = Counter()
    used: Counter[str] = Counter()
    for slot in driver.schedule.slots.values():
        leased.update((slot.group.name, ordinal) for lease in slot.leases.values() for ordinal in lease)
        if slot.place.shared is None:
            used[slot.place.node] += int(slot.group.demand.gpus)
    leased_twice = [key for key, count in leased.items() if count > 1]
    assert not leased_twice, f"an episode is leased twice: {leased_twice[0]}"
    for group in driver.schedule.groups.values():
        queued = Counter([*group.waiting, *(ordinal for lease in group.suspects for ordinal in lease)])
        doubled = [ordinal for ordinal, count in queued.items() if count + leased[group.name, ordinal] > 1]
        assert not doubled, f"episode {doubled[0]} of {group.name} is queued twice, or queued and leased"
    for node in driver.view.nodes:
        assert used[node.name] <= node.gpus, f"{used[node.name]} of {node.gpus} GPUs of a node are given away"
