"""The workers of a judge that others ask turn by turn: who they are at the moment, told to every worker that plays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orchestrator.planning.plan import judge_group
from sweeps.spec import Judge

MAX_REQUESTS = 100_000
"""Requests of other workers that a judge's worker may have at once."""


class TurnJudges:
    """Slots and actors of both sides; Ray carries the requests between them, the driver none."""

    def __init__(self, judge: Judge | None) -> None:
        """``judge`` has an engine of its own, and episodes wait for it; None where there is none."""
        self.judge, self.group = judge, judge_group(judge) if judge else ""
        self.judges: dict[int, Any] = {}
        """Ready workers of the judge."""
        self.players: dict[int, Any] = {}

    def options(self, group: str) -> dict[str, Any]:
        """Options of Ray that an actor of this group has beside its resources."""
        return {"max_concurrency": MAX_REQUESTS} if group == self.group else {}

    def plays(self, slot: int, actor: Any) -> None:
        """A worker that may ask has started."""
        if self.judge is None:
            return
        self.players[slot] = actor
        self._tell([actor])

    async def serve(self, slot: int, actor: Any, heard: Callable[[int], object]) -> None:
        """Let others ask this worker until it dies, which raises; ``heard`` gets how much it answered, every few seconds."""
        self.judges[slot] = actor
        self._tell(self.players.values())
        async for beat in actor.heartbeats.options(num_returns="streaming").remote():
            heard(await beat)

    def left(self, slot: int) -> None:
        """A worker has gone or is to go."""
        self.players.pop(slot, None)
        if self.judges.pop(slot, None) is not None:
            self._tell(self.players.values())

    def _tell(self, players: Any) -> None:
        for player in players:
            player.set_judges.remote(self.judges)
