"""Which cells of an attempt have stopped by precision, while it plays: answers come in, and what to cancel goes out."""

from __future__ import annotations

from pathlib import Path

from actors.records import EpisodeBatch
from orchestrator.planning.plan import Plan, group
from orchestrator.precision.stopping import filled


class PreciseStops:
    """The stops of a plan with a rule; of one without it none."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.rule = filled(plan, folder)
        self.stops = self.rule.stops()
        """Index of a stopped cell -> its samples that count, by what is stored by now."""
        self.changed = False
        """Whether there are stops that the attempt has not written down."""

    def stored(self, batch: EpisodeBatch) -> None:
        """Take a batch that is stored."""
        if not self.rule.units:
            return
        rows = zip(batch.ordinals, batch.episodes["ending"], batch.episodes["correct"], strict=True)
        for ordinal, ending, correct in rows:
            self.rule.take(ordinal, ending, correct)

    def cancelled(self) -> dict[str, set[int]]:
        """Group -> the ordinals of its cells that have stopped since the last call; what counts of them is stored."""
        if not self.rule.units:
            return {}
        plan, now, found = self.rule.plan, self.rule.stops(), dict[str, set[int]]()
        for index in now.keys() - self.stops.keys():
            episodes = range(plan.offsets[index], plan.offsets[index + 1])
            found.setdefault(group(plan.cells[index].model), set()).update(episodes)
        self.stops, self.changed = now, self.changed or bool(found)
        return found
