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
from orchestrator.precision.confidence_sequence import ALPHA, Floats, interval
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


def rivals(rule: Precision | None, found: Sequence[Unit], cells: Sequence[Cell]) -> list[list[int]]:
    """The units, by number, that are ranked among each other: averages of one condition over the same scenarios."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for number, unit in enumerate(found if rule is not None and rule.ranking else ()):
        if not unit.others:
            names = sorted(cells[cell].scenario for cell in unit.cells)
            groups.setdefault((cells[unit.cells[0]].condition.name, *names), []).append(number)
    return [group for group in groups.values() if len(group) > 1]


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
        self.ranking = [
            Ranking(self, group, ALPHA / len(self.units)) for group in rivals(plan.precision, self.units, plan.cells)
        ]

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
        enough = dict(self._enough)
        for ranking in self.ranking:
            enough |= ranking.ended()
        rounds: dict[int, int] = {}
        for cell, mine in self._units_of.items():
            if all(number in enough for number in mine):
                rounds[cell] = max(enough[number] for number in mine)
        return {cell: n for cell, n in rounds.items() if n < len(self.answers[cell])}

    def bounds(self, unit: Unit, rounds: int, alpha: float = ALPHA) -> tuple[float, float]:
        """The interval of a unit after so many rounds, in points."""
        right = [_values(self.answers[cell]) for cell in unit.cells]
        if not unit.others:
            low, high = bounds(right, [len(one) for one in right], rounds, unit.half_width / 100, alpha)
            return 100 * low, 100 * high
        others = [_values(self.answers[cell]) for cell in unit.others]
        halves = [(one - other + 1) / 2 for one, other in zip(right, others, strict=True)]
        low, high = bounds(halves, [len(one) for one in halves], rounds, unit.half_width / 200)
        return 200 * low - 100, 200 * high - 100

    def end(self, number: int) -> int:
        """The rounds after which a unit is narrow enough, or known whole."""
        whole = max(len(self.answers[cell]) for cell in self.units[number].all_cells)
        return min(self._enough.get(number, whole), whole)

    def known(self, number: int) -> float:
        """Rounds up to which a unit is known."""
        return min(_known(self.answers[cell]) for cell in self.units[number].all_cells)

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
        known = min(largest, self.known(number))
        while number not in self._enough and self._looked[number] + LOOK <= known:
            self._looked[number] += LOOK
            low, high = self.bounds(unit, self._looked[number])
            if high - low <= 2 * unit.half_width:
                self._enough[number] = self._looked[number]


class Ranking:
    """Which models' places under one condition are certain: their interval meets no other model's.

    All intervals hold at all looks together, each at 1 - alpha of its own (Bonferroni over the models and conditions of the
    sweep), so the chance that any certain place is wrong is at most 5% a sweep. Models are looked at in step, each up to its own
    stop, and a look waits until every model that has not stopped is known so far: who plays faster decides nothing.
    """

    def __init__(self, rule: StoppingRule, group: Sequence[int], alpha: float) -> None:
        """``group``: the models' units, by number."""
        self.rule, self.group, self.alpha = rule, group, alpha
        self.rounds = 0
        """Of the last look."""
        self.certain: dict[int, int] = {}
        """Unit -> the rounds at which its place was certain."""
        self._spans: dict[int, tuple[int, tuple[float, float]]] = {}

    def ended(self) -> dict[int, int]:
        """Look as far as the answers go; the units whose place is certain, and after how many rounds."""
        while playing := self._ready(self.rounds + LOOK):
            self.rounds += LOOK
            spans = {number: self.span(number) for number in self.group}
            apart = [one for one in playing if _apart(spans[one], [spans[n] for n in self.group if n != one])]
            self.certain |= dict.fromkeys(apart, self.rounds)
        return self.certain

    def _ready(self, rounds: int) -> list[int]:
        """The units that are not stopped before; none where one of them is not known so far."""
        playing = [number for number in self.group if self._end(number) >= rounds]
        return playing if all(self.rule.known(number) >= rounds for number in playing) else []

    def _end(self, number: int) -> int:
        return min(self.certain.get(number, self.rule.end(number)), self.rule.end(number))

    def span(self, number: int) -> tuple[float, float]:
        """A unit's interval at the last look, or where it stopped before, in points."""
        rounds = min(self.rounds, self._end(number))
        if self._spans.get(number, (0,))[0] != rounds:
            self._spans[number] = rounds, self.rule.bounds(self.rule.units[number], rounds, self.alpha)
        return self._spans[number][1]


def _apart(one: tuple[float, float], others: Sequence[tuple[float, float]]) -> bool:
    return all(one[1] < low or high < one[0] for low, high in others)


def bounds(
    strata: Sequence[Floats], sizes: Sequence[int], rounds: int, target: float, alpha: float = ALPHA
) -> tuple[float, float]:
    """``interval`` of values in [0, 1], a stratum's at least as many as it has in so many rounds; nan where there is none.

    A missing value is the least possible in the lower bound and the greatest in the upper one.
    """
    table = np.zeros((rounds, len(strata)))
    for column, values in enumerate(strata):
        table[: len(values), column] = values[:rounds]
    whole, lost = np.array(sizes, dtype=np.int64), np.isnan(table)
    low, high = interval(np.where(lost, 0.0, table), whole, target, alpha)
    return (low, interval(np.where(lost, 1.0, table), whole, target, alpha)[1]) if lost.any() else (low, high)


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
