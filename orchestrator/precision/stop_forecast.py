"""Forecasts how many samples a precision rule plays, by computing its intervals on simulated answers."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from orchestrator.precision.confidence_sequence import Floats
from orchestrator.precision.stopping import LOOK, Unit, bounds, units
from sweeps.sections import Precision
from sweeps.spec import Cell

Shape = tuple[tuple[int, str], ...]
"""Number of samples and condition of each cell of a unit; units of equal shape get the same forecast."""


def forecast_stops(rule: Precision, cells: Sequence[Cell], sizes: Sequence[int], share: float) -> list[int]:
    """Return how many samples each cell plays if every accuracy is ``share``; ``sizes`` are those of the full sets."""
    stops: dict[int, int] = {}
    rounds_by_shape: dict[tuple[Shape, float], int] = {}
    for unit in units(rule, cells, sizes):
        shape = tuple((sizes[cell], cells[cell].condition.name) for cell in unit.all_cells)
        if (shape, unit.half_width) not in rounds_by_shape:
            rounds_by_shape[shape, unit.half_width] = _rounds_of_unit(unit, sizes, share)
        for cell in unit.all_cells:
            stops[cell] = max(stops.get(cell, 0), rounds_by_shape[shape, unit.half_width])
    return [min(stops.get(index, size), size) for index, size in enumerate(sizes)]


def _rounds_of_unit(unit: Unit, sizes: Sequence[int], share: float) -> int:
    rng = np.random.default_rng(0)
    cell_sizes = [sizes[cell] for cell in unit.cells]
    right, others = ([_simulate_answers(rng, n, share) for n in cell_sizes] for _ in range(2))
    width = unit.half_width
    if unit.others:
        right = [(value - baseline + 1) / 2 for value, baseline in zip(right, others, strict=True)]
        width /= 2

    def is_narrow(looks: int) -> bool:
        low, high = bounds(right, cell_sizes, looks * LOOK, width / 100)
        return high - low <= 2 * width / 100

    looks = range(1, -(-max(cell_sizes) // LOOK))
    return LOOK * (1 + bisect_left(looks, True, key=is_narrow))  # later intervals lie inside earlier ones


def _simulate_answers(rng: np.random.Generator, size: int, share: float) -> Floats:
    return rng.permutation((np.arange(size) < round(share * size)).astype(np.float64))
