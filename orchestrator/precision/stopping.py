"""Stops multiple-choice cells that are precise enough, by the samples at the start of the drawn order only.

Episodes after a stop, or after an episode that is not played yet, are ignored. So equal answers stop at equal samples, in
whatever order they arrive. An episode without an answer (failed, refused, unprocessable) counts as wrong for the lower bound
and as right for the upper bound.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from actors.playing.records import EpisodeBatch
from envs.types import UNSCORED
from orchestrator.planning.build_plan import stored_episodes
from orchestrator.planning.plan import Plan
from orchestrator.precision.confidence_sequence import Floats, interval
from sweeps.protocol import ZERO_SHOT
from sweeps.sections import Precision
from sweeps.spec import Cell, Protocol

LOOK = 10
"""Rounds between two looks at an interval; a round is one sample per scenario. The interval is valid at all looks together."""
UNKNOWN = -1.0
"""Value of an episode that is not played yet; others are 1 if right, 0 if wrong, nan if they ended without an answer."""


class Unit(NamedTuple):
    """The subject of one interval: the average accuracy of cells, or its difference from that of other cells."""

    cells: tuple[int, ...]
    """Indexes of cells, one per scenario."""
    others: tuple[int, ...]
    """Indexes of the cells that are subtracted, for the same scenarios; empty for an interval of accuracy."""
    half_width: float
    """The cells stop when the half-width of the interval, in points, is at most this."""

    @property
    def all_cells(self) -> tuple[int, ...]:
        return self.cells + self.others


def units(rule: Precision | None, cells: Sequence[Cell], sizes: Sequence[int]) -> list[Unit]:
    """Return the units of a rule over cells of these sizes; empty without a rule."""
    if rule is None:
        return []
    groups: dict[tuple[str, str], dict[str, int]] = {}
    for index, cell in enumerate(cells):
        if cell.protocol is Protocol.MCQA and sizes[index]:
            groups.setdefault((cell.model.name, cell.condition.name), {})[cell.scenario] = index
    averaged = [tuple(group.values()) for group in groups.values()]
    if rule.per == "cell":
        averaged = [(index,) for group in averaged for index in group]
    accuracies = [] if rule.half_width is None else [Unit(indexes, (), rule.half_width) for indexes in averaged]
    return accuracies + ([] if rule.difference is None else _differences(groups, rule.difference))


def _differences(groups: Mapping[tuple[str, str], Mapping[str, int]], half_width: float) -> list[Unit]:
    """Return a unit per model and condition: its difference from zero-shot, over the scenarios that both have."""
    differences = []
    for (model, condition), group in groups.items():
        base = groups.get((model, ZERO_SHOT), {})
        shared = [name for name in group if name in base]
        if condition != ZERO_SHOT and shared:
            differences.append(Unit(tuple(group[n] for n in shared), tuple(base[n] for n in shared), half_width))
    return differences


class StoppingRule:
    """Collects answers in any order and decides which cells stop after how many samples."""

    def __init__(self, plan: Plan) -> None:
        """Start without answers; stops of ``plan`` are ignored, and without a precision rule there are no units."""
        self.plan, self.units = plan, units(plan.precision, plan.cells, plan.sizes)
        cells = sorted({cell for unit in self.units for cell in unit.all_cells})
        self.answers: dict[int, Floats] = {cell: np.full(plan.sizes[cell], UNKNOWN) for cell in cells}
        """Index of a cell -> the values of its episodes (samples,), in the drawn order."""
        self._looked = [0] * len(self.units)
        """For each unit, the number of rounds at its last look."""
        self._narrow_at: dict[int, int] = {}
        """Number of a unit -> the rounds at which its interval was narrow enough."""

    def add_answer(self, ordinal: int, ending: str, correct: bool | None) -> None:
        """Record how an episode ended (``correct`` is null where none is scored); cells without a unit are ignored."""
        index, _ = self.plan.task(ordinal)
        if index in self.answers:
            rank = self.plan.ranks[self.plan.cells[index].scenario][ordinal - self.plan.offsets[index]]
            self.answers[index][rank] = np.nan if ending in UNSCORED else float(bool(correct))

    def add_batch(self, batch: EpisodeBatch) -> None:
        if self.units:
            for row in zip(batch.ordinals, batch.episodes["ending"], batch.episodes["correct"], strict=True):
                self.add_answer(*row)

    def stops(self) -> dict[int, int]:
        """Return stopped cell -> number of samples that it plays; a cell that plays all its samples is not stopped."""
        stops = dict.fromkeys(self.answers, 0)
        for number, unit in enumerate(self.units):
            self._look_at(number)
            for cell in unit.all_cells:
                stops[cell] = max(stops[cell], self._narrow_at.get(number, len(self.answers[cell])))
        return {cell: stop for cell, stop in stops.items() if stop < len(self.answers[cell])}

    def bounds(self, unit: Unit, rounds: int) -> tuple[float, float]:
        """Return the interval of a unit after this many rounds, in points."""
        right = [self.answers[cell] for cell in unit.cells]
        sizes = [len(values) for values in right]
        if not unit.others:
            low, high = bounds(right, sizes, rounds, unit.half_width / 100)
            return 100 * low, 100 * high
        pairs = zip(right, (self.answers[cell] for cell in unit.others), strict=True)
        halves = [(values - baseline + 1) / 2 for values, baseline in pairs]
        low, high = bounds(halves, sizes, rounds, unit.half_width / 200)
        return 200 * low - 100, 200 * high - 100

    def _look_at(self, number: int) -> None:
        """Compute the interval of a unit after every ``LOOK`` known rounds, until it is narrow enough."""
        unit = self.units[number]
        answers = [self.answers[cell] for cell in unit.all_cells]
        unknown = [int(ranks[0]) for values in answers if (ranks := np.flatnonzero(values == UNKNOWN)).size]
        known_to = min([max(map(len, answers)), *unknown])
        while number not in self._narrow_at and self._looked[number] + LOOK <= known_to:
            self._looked[number] += LOOK
            low, high = self.bounds(unit, self._looked[number])
            if high - low <= 2 * unit.half_width:
                self._narrow_at[number] = self._looked[number]


def bounds(strata: Sequence[Floats], sizes: Sequence[int], rounds: int, target: float) -> tuple[float, float]:
    """Return ``interval`` for strata of values in [0, 1], where nan is a missing value.

    A missing value counts as 0 for the lower bound and as 1 for the upper bound.
    """
    table = np.zeros((rounds, len(strata)))
    for column, values in enumerate(strata):
        table[: len(values), column] = values[:rounds]
    set_sizes, lost = np.array(sizes, dtype=np.int64), np.isnan(table)
    low, high = interval(np.where(lost, 0.0, table), set_sizes, target)
    return (low, interval(np.where(lost, 1.0, table), set_sizes, target)[1]) if lost.any() else (low, high)


def load_rule(plan: Plan, folder: Path) -> StoppingRule:
    """Return the stopping rule of a plan, with the answers that are stored in a run folder."""
    unstopped = plan.with_stops({})
    rule = StoppingRule(unstopped)
    if not rule.units:
        return rule
    stored = stored_episodes(unstopped, folder).select("key", "ending", "correct").collect()
    answers_by_key = {key: (ending, correct) for key, ending, correct in stored.iter_rows()}
    for index in rule.answers:
        for ordinal, key in enumerate(unstopped.keys(index), unstopped.offsets[index]):
            if key in answers_by_key:
                rule.add_answer(ordinal, *answers_by_key[key])
    return rule
