"""When a cell of multiple choice is known precisely enough: decided on prefixes of the drawn order, and on nothing else.

What is stored after a stop, or beyond an episode that is still missing, decides nothing: equal answers stop at equal places,
in any order of arrival, with any workers, killed or not. An episode without an answer (failed, refused, unprocessable) counts
as wrong in the lower bound and as right in the upper one, so the interval holds whatever it would have been.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from envs.types import UNSCORED
from orchestrator.planning.build_plan import belonging
from orchestrator.planning.plan import Plan
from orchestrator.precision.confidence_sequence import Floats, interval
from sweeps.precision import BASE, Precision
from sweeps.spec import Cell, Protocol

LOOK = 10
"""Rounds between two looks; a round is one sample of each scenario. The interval holds at all of them together."""
UNKNOWN, WRONG, RIGHT, LOST = -1, 0, 1, 2
"""What is known of an episode: nothing yet, its answer, or that it has none."""
Answers = np.ndarray[tuple[int], np.dtype[np.int8]]
"""What is known of a cell's episodes (samples,), in the drawn order."""


class Unit(NamedTuple):
    """What one interval is of: the average of some cells, or of their paired differences from others."""

    cells: tuple[int, ...]
    """By index, one a scenario."""
    others: tuple[int, ...] = ()
    """Cells that are subtracted, scenario by scenario; empty where the interval is of accuracy."""
    half_width: float = 1.0
    """In points, at which it stops."""

    @property
    def all_cells(self) -> tuple[int, ...]:
        return self.cells + self.others


def units(rule: Precision | None, cells: Sequence[Cell], sizes: Sequence[int]) -> list[Unit]:
    """The intervals that a rule is about, of cells with so many samples; none without a rule."""
    if rule is None:
        return []
    groups: dict[tuple[str, str], dict[str, int]] = {}
    for index, cell in enumerate(cells):
        if cell.protocol is Protocol.MCQA and sizes[index]:
            groups.setdefault((cell.model.name, cell.condition.name), {})[cell.scenario] = index
    found: list[Unit] = []
    if rule.half_width is not None and rule.per == "cell":
        found += [Unit((index,), (), rule.half_width) for group in groups.values() for index in group.values()]
    elif rule.half_width is not None:
        found += [Unit(tuple(group.values()), (), rule.half_width) for group in groups.values()]
    if rule.difference is not None:
        found += _differences(groups, rule.difference)
    return found


def _differences(groups: Mapping[tuple[str, str], Mapping[str, int]], half_width: float) -> list[Unit]:
    """Every condition less zero-shot, over the scenarios that both have."""
    found = []
    for (model, condition), group in groups.items():
        base = groups.get((model, BASE), {})
        shared = [name for name in group if name in base]
        if condition != BASE and shared:
            found.append(Unit(tuple(group[n] for n in shared), tuple(base[n] for n in shared), half_width))
    return found


class StoppingRule:
    """Takes answers in any order and says which cells stop, and after how many samples."""

    def __init__(self, plan: Plan) -> None:
        """Of a plan with a rule. What it was stopped at before does not count."""
        self.plan, self.units = plan, units(plan.precision, plan.cells, plan.sizes)
        cells = sorted({cell for unit in self.units for cell in unit.all_cells})
        self.answers: dict[int, Answers] = {
            index: np.full(plan.sizes[index], UNKNOWN, dtype=np.int8) for index in cells
        }
        self._looked = [0] * len(self.units)
        """Of each unit: the rounds at its last look."""
        self._enough: dict[int, int] = {}
        """Unit -> the rounds at which its interval was narrow enough."""

    def take(self, ordinal: int, ending: str, correct: bool) -> None:
        """Take the answer of one episode."""
        index, _ = self.plan.task(ordinal)
        if index in self.answers:
            rank = self.plan.ranks[self.plan.cells[index].scenario][ordinal - self.plan.offsets[index]]
            self.answers[index][rank] = LOST if ending in UNSCORED else RIGHT if correct else WRONG

    def stops(self) -> dict[int, int]:
        """Index of each stopped cell -> its samples that count; one that is played whole is not stopped."""
        for number in range(len(self.units)):
            self._look(number)
        rounds: dict[int, int] = {}
        for cell, mine in self._units_of.items():
            if all(number in self._enough for number in mine):
                rounds[cell] = max(self._enough[number] for number in mine)
        return {cell: n for cell, n in rounds.items() if n < len(self.answers[cell])}

    def bounds(self, unit: Unit, rounds: int) -> tuple[float, float]:
        """The interval of a unit after so many rounds, in points."""
        right = [_values(self.answers[cell]) for cell in unit.cells]
        if not unit.others:
            low, high = bounds(right, [len(one) for one in right], rounds, unit.half_width / 100)
            return 100 * low, 100 * high
        others = [_values(self.answers[cell]) for cell in unit.others]
        halves = [(one - other + 1) / 2 for one, other in zip(right, others, strict=True)]
        low, high = bounds(halves, [len(one) for one in halves], rounds, unit.half_width / 200)
        return 200 * low - 100, 200 * high - 100

    @cached_property
    def _units_of(self) -> dict[int, list[int]]:
        """Cell -> the units that it is part of."""
        found: dict[int, list[int]] = {cell: [] for cell in self.answers}
        for number, unit in enumerate(self.units):
            for cell in unit.all_cells:
                found[cell].append(number)
        return found

    def _look(self, number: int) -> None:
        """Look at every place up to which a unit is known now."""
        unit = self.units[number]
        largest = max(len(self.answers[cell]) for cell in unit.all_cells)
        known = min(largest, *(_known(self.answers[cell]) for cell in unit.all_cells))
        while number not in self._enough and self._looked[number] + LOOK <= known:
            self._looked[number] += LOOK
            low, high = self.bounds(unit, self._looked[number])
            if high - low <= 2 * unit.half_width:
                self._enough[number] = self._looked[number]


def bounds(strata: Sequence[Floats], sizes: Sequence[int], rounds: int, target: float) -> tuple[float, float]:
    """``interval`` of values in [0, 1], a stratum's at least as many as it has in so many rounds; nan where there is none.

    A missing value is the least possible in the lower bound and the greatest in the upper one.
    """
    table = np.zeros((rounds, len(strata)))
    for column, values in enumerate(strata):
        table[: len(values), column] = values[:rounds]
    whole, lost = np.array(sizes, dtype=np.int64), np.isnan(table)
    low, high = interval(np.where(lost, 0.0, table), whole, target)
    return (low, interval(np.where(lost, 1.0, table), whole, target)[1]) if lost.any() else (low, high)


def filled(plan: Plan, folder: Path) -> StoppingRule:
    """The rule of a plan, with what a run folder holds."""
    whole = plan.stopped({})
    stopping = StoppingRule(whole)
    if not stopping.units:
        return stopping
    stored = belonging(whole, folder).select("key", "ending", "correct").collect()
    found = {key: (ending, correct) for key, ending, correct in stored.iter_rows()}
    for index in stopping.answers:
        for ordinal, key in enumerate(whole.keys(index), whole.offsets[index]):
            if key in found:
                stopping.take(ordinal, *found[key])
    return stopping


def _values(answers: Answers) -> Floats:
    return np.where(answers == LOST, np.nan, answers.astype(np.float64))


def _known(answers: Answers) -> float:
    """Rounds up to which a cell is known; a scenario that is played whole is known for all."""
    missing = answers == UNKNOWN
    return float(np.argmax(missing)) if missing.any() else float("inf")
