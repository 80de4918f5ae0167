"""What a rule of precision would leave to play, reckoned before anything is played: planted answers through the real interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from orchestrator.precision.confidence_sequence import Floats
from orchestrator.precision.stopping import LOOK, Unit, bounds, units
from sweeps.precision import Precision
from sweeps.spec import Cell

Shape = tuple[tuple[int, str], ...]
"""Samples and condition of each cell of a unit: units of one shape stop alike."""


def reckoned(rule: Precision, cells: Sequence[Cell], sizes: Sequence[int], share: float) -> list[int]:
    """Samples that each cell plays where every accuracy is ``share``; ``sizes`` are of the whole sets."""
    stops: dict[int, int] = {}
    known: dict[tuple[Shape, float], int] = {}
    for unit in units(rule, cells, sizes):
        shape = tuple((sizes[cell], cells[cell].condition.name) for cell in unit.all_cells)
        if (shape, unit.half_width) not in known:
            known[shape, unit.half_width] = _rounds(unit, sizes, share)
        for cell in unit.all_cells:
            stops[cell] = max(stops.get(cell, 0), known[shape, unit.half_width])
    return [min(stops.get(index, size), size) for index, size in enumerate(sizes)]


def _rounds(unit: Unit, sizes: Sequence[int], share: float) -> int:
    """Rounds at which a unit with planted answers stops."""
    rng = np.random.default_rng(0)
    mine = [sizes[cell] for cell in unit.cells]
    right, others = ([_planted(rng, n, share) for n in mine] for _ in range(2))
    width = unit.half_width
    if unit.others:
        right = [(one - other + 1) / 2 for one, other in zip(right, others, strict=True)]
        width /= 2

    def enough(looks: int) -> bool:
        low, high = bounds(right, mine, looks * LOOK, width / 100)
        return high - low <= 2 * width / 100

    return LOOK * _first(enough, -(-max(mine) // LOOK))


def _planted(rng: np.random.Generator, size: int, share: float) -> Floats:
    return rng.permutation((np.arange(size) < round(share * size)).astype(np.float64))


def _first(enough: Callable[[int], bool], most: int) -> int:
    """The first of 1 to ``most`` that is enough; intervals lie inside earlier ones, so all later ones are."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
