"""The cells of an attempt that have stopped by precision, updated by every stored batch."""

from __future__ import annotations

from pathlib import Path

from actors.playing.records import EpisodeBatch
from orchestrator.planning.plan import Plan, worker_group
from orchestrator.precision.stopping import load_rule


class PreciseStops:
    """The stops of a plan with a precision rule; none for a plan without one."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.rule = load_rule(plan, folder)
        self.stops = self.rule.stops()
        """Index of a stopped cell -> its samples that count, by what is stored now."""
        self.changed = False
        """True if the attempt has not written down the latest stops."""

    def add_batch(self, batch: EpisodeBatch) -> None:
        """Count a stored batch."""
        if not self.rule.units:
            return
        rows = zip(batch.ordinals, batch.episodes["ending"], batch.episodes["correct"], strict=True)
        for ordinal, ending, correct in rows:
            self.rule.take(ordinal, ending, correct)

    def take_new_stops(self) -> dict[str, set[int]]:
        """Return group -> the ordinals of its cells that have stopped since the last call."""
        if not self.rule.units:
            return {}
        plan, stops = self.rule.plan, self.rule.stops()
        ordinals: dict[str, set[int]] = {}
        for index in stops.keys() - self.stops.keys():
            episodes = range(plan.offsets[index], plan.offsets[index + 1])
            ordinals.setdefault(worker_group(plan.cells[index].model), set()).update(episodes)
        self.stops, self.changed = stops, self.changed or bool(ordinals)
        return ordinals
