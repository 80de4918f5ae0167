"""The workers of a judge that other workers ask turn by turn; every worker that plays is sent the current list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from orchestrator.planning.plan import judge_group
from sweeps.spec import Judge

MAX_REQUESTS = 100_000
"""Requests of other workers that a judge's worker may have at once."""


class TurnJudges:
    """Slots and actors of both sides; Ray carries the requests between them, not the driver."""

    def __init__(self, judge: Judge | None) -> None:
        """Start without workers; ``judge`` has an engine of its own that episodes wait for, or is None."""
        self.judge, self.group = judge, judge_group(judge) if judge else ""
        self.judges: dict[int, Any] = {}
        """Slot -> a ready worker of the judge."""
        self.players: dict[int, Any] = {}

    def options(self, group: str) -> dict[str, Any]:
        """Return the Ray options that an actor of this group needs in addition to its resources."""
        return {"max_concurrency": MAX_REQUESTS} if group == self.group else {}

    def add_player(self, slot: int, actor: Any) -> None:
        """Add a started worker that may ask."""
        if self.judge is None:
            return
        self.players[slot] = actor
        self._send_judges([actor])

    async def serve(self, slot: int, actor: Any, on_heartbeat: Callable[[int], object]) -> None:
        """Let others ask this worker until it dies, which raises.

        ``on_heartbeat`` is called every few seconds with the number of requests it has answered.
        """
        self.judges[slot] = actor
        self._send_judges(self.players.values())
        async for beat in actor.heartbeats.options(num_returns="streaming").remote():
            on_heartbeat(await beat)

    def remove(self, slot: int) -> None:
        """Remove a worker that has ended or is about to."""
        self.players.pop(slot, None)
        if self.judges.pop(slot, None) is not None:
            self._send_judges(self.players.values())

    def _send_judges(self, players: Iterable[Any]) -> None:
        for player in players:
            player.set_judges.remote(self.judges)
