"""A crew plays leased episodes side by side; every leased episode leaves in exactly one block, or the crew raises.

The whole multi-turn loop runs beside the engine: nothing is sent anywhere per turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any, Protocol

from actors.backend import Backend
from actors.play import play
from actors.prompts import examples, staged
from actors.records import Block
from envs.types import Sample
from sweeps.spec import Cell

BATCH_EPISODES = 64
"""Episodes a block holds: enough that a message per block costs little, small enough to stay inlined in Ray (100 KB)."""
MAX_BATCH_AGE_S = 1.0
"""Seconds after which a block that is not full is sent all the same, so that a crash loses little."""


class PlanView(Protocol):
    """What a crew needs of a plan."""

    cells: tuple[Cell, ...]
    pools: Any
    seed: int

    def task(self, ordinal: int) -> tuple[int, Sample]: ...
    def key(self, index: int, sample: Sample) -> str: ...
    def episode_seed(self, sample: Sample) -> int: ...


class EpisodeRunner:
    """Plays the episodes of one group of models."""

    def __init__(self, book: PlanView, backends: dict[str, Backend], in_flight: int) -> None:
        self.book = book
        self.backends = backends
        """Model name -> its engine."""
        self.in_flight = in_flight

    def open(self) -> Any:
        """An empty block."""
        return Block()

    async def play(self, ordinals: Sequence[Any]) -> AsyncIterator[Any]:
        """Blocks (``actors.records.Block``) of finished episodes, in the order in which they finish.

        Raises BackendDied, or the bug that stopped a lane; what was finished before is yielded first.
        """
        full: asyncio.Queue[Any] = asyncio.Queue(maxsize=4)
        shift = LeaseState(self, iter(ordinals), full)
        lanes = [asyncio.create_task(shift.lane()) for _ in range(min(self.in_flight, len(ordinals)))]
        closing = asyncio.create_task(_close_after(lanes, full))
        try:
            while (block := await shift.next_block()) is not None:
                yield block
            if len(shift.block):
                yield shift.take()
            await closing
        finally:
            for task in (*lanes, closing):
                task.cancel()
            await asyncio.gather(*lanes, closing, return_exceptions=True)

    async def episode(self, ordinal: Any, shift: LeaseState) -> None:
        """Play one episode and add it to whichever block is open when it ends."""
        index, sample = self.book.task(ordinal)
        cell, seed = self.book.cells[index], self.book.episode_seed(sample)
        shown = staged(sample, cell.condition, self.book.seed)
        shots = examples(sample, self.book.pools[sample.scenario], cell.condition, self.book.seed)
        key = self.book.key(index, sample)
        episode = await play(shown, cell, self.backends[cell.model.name], key, seed, shots)
        shift.block.add(
            ordinal, cell, episode
        )  # no await between here and the row: the open block may change at any await


class LeaseState:
    """What the lanes of one lease share: the ordinals left, the open block, the queue of full ones."""

    def __init__(self, crew: EpisodeRunner, left: Iterator[Any], full: asyncio.Queue[Any]) -> None:
        self.crew, self.left, self.full = crew, left, full
        self.block = crew.open()

    async def lane(self) -> None:
        for ordinal in self.left:
            await self.crew.episode(ordinal, self)
            if len(self.block) >= BATCH_EPISODES:
                await self.full.put(self.take())

    def take(self) -> Any:
        """The open block; a new one is opened."""
        block, self.block = self.block, self.crew.open()
        return block

    async def next_block(self) -> Any:
        """The next full block, or after a while the one that is open; None when every lane has ended."""
        while True:
            try:
                return await asyncio.wait_for(self.full.get(), MAX_BATCH_AGE_S)
            except TimeoutError:
                if len(self.block):
                    return self.take()


async def _close_after(lanes: Iterable[asyncio.Task[None]], full: asyncio.Queue[Any]) -> None:
    """Mark the end of the stream once every lane ended, or one failed; then raise what it raised."""
    try:
        await asyncio.gather(*lanes)
    finally:
        await full.put(None)
