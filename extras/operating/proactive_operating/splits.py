"""Splits of the difference between two models, or two conditions of a model, into asking more and asking better."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from envs.errors import RunFolderError
from orchestrator.report.run_data import RunData, cached_per_run
from proactive_operating.cells import OperatingCell, operating_cells
from proactive_operating.jackknife import Interval, LeftOut, jackknife_interval, leave_out_weights
from proactive_operating.points import cell_clusters
from proactive_operating.split import Curve, Split, split, split_by_weights

FAMILIES = ("plain", "persistent")
MOST_PAIRS = 15
"""Largest number of pairs that a report splits."""
SPLIT_SCHEMA = {
    **dict.fromkeys(("before", "after", "family", "scenario"), pl.String),
    **{f"{part}{end}": pl.Float64 for part in ("difference", "more", "better") for end in ("", "_low", "_high")},
    "scenarios": pl.Int64,
}


@cached_per_run
def operating_splits(run_data: RunData) -> pl.DataFrame:
    """Return the splits between two models of a condition and two conditions of a model (``SPLIT_SCHEMA``), in points.

    ``scenario`` is null for the mean over the ``scenarios`` that have a split. Only the first ``MOST_PAIRS`` are computed;
    ``split_between`` computes any other.
    """
    rows = [row for before, after in _pairs(run_data)[:MOST_PAIRS] for row in _pair_rows(run_data, before, after)]
    return pl.DataFrame(rows, schema=SPLIT_SCHEMA, orient="row")


def count_left_out(run_data: RunData) -> int:
    """Return the number of pairs that ``operating_splits`` leaves out."""
    return max(0, len(_pairs(run_data)) - MOST_PAIRS)


def split_between(run_data: RunData, before: str, after: str) -> pl.DataFrame:
    """Return the splits between two models or conditions, named as in the table: ``MODEL`` or ``MODEL, CONDITION``.

    Raises RunFolderError for a name without exact curves.
    """
    keys = {_series_name(*key): key for key in exact_series(run_data)}
    if missing := [name for name in (before, after) if name not in keys]:
        raise RunFolderError(f"{missing[0]} has no exact curves; those of this run: {', '.join(keys) or 'none'}")
    return pl.DataFrame(list(_pair_rows(run_data, keys[before], keys[after])), schema=SPLIT_SCHEMA, orient="row")


Key = tuple[str, str]
"""Model and condition."""


def _pairs(run_data: RunData) -> list[tuple[Key, Key]]:
    """Return the pairs of models under one condition, and of conditions of one model."""
    return [(a, b) for a, b in combinations(exact_series(run_data), 2) if a[0] == b[0] or a[1] == b[1]]


def _pair_rows(run_data: RunData, before: Key, after: Key) -> Iterator[tuple[Any, ...]]:
    series = exact_series(run_data)
    return split_rows(run_data, (_series_name(*before), series[before]), (_series_name(*after), series[after]))


def splits_between(base: RunData, run: RunData, names: tuple[str, str]) -> pl.DataFrame:
    """Return the splits of each model and condition that both runs have, from ``base`` to ``run``; ``names`` are the runs'."""
    before, after = exact_series(base), exact_series(run)
    rows = [
        row
        for key in before
        if key in after
        for row in split_rows(
            base,
            (f"{_series_name(*key)} of {names[0]}", before[key]),
            (f"{_series_name(*key)} of {names[1]}", after[key]),
        )
    ]
    return pl.DataFrame(rows, schema=SPLIT_SCHEMA, orient="row")


def exact_series(run_data: RunData) -> dict[tuple[str, str], dict[str, OperatingCell]]:
    """Return (model, condition) -> scenario -> cell, for the models that have curves."""
    series: dict[tuple[str, str], dict[str, OperatingCell]] = {}
    for cell in operating_cells(run_data):
        if cell.scored and cell.model not in run_data.baselines:
            series.setdefault((cell.model, cell.condition), {})[cell.scenario] = cell
    return series


Series = tuple[str, dict[str, OperatingCell]]
"""Name of a model and condition in the table, and its cells by scenario."""


def split_rows(run_data: RunData, before: Series, after: Series) -> Iterator[tuple[Any, ...]]:
    """Yield rows of ``SPLIT_SCHEMA`` by family: one per scenario with the same samples, then the mean.

    Clusters are those of ``run_data``.
    """
    shared = [
        (scenario, cell, after[1][scenario])
        for scenario, cell in before[1].items()
        if scenario in after[1] and cell.samples == after[1][scenario].samples
    ]
    for family in FAMILIES if shared else ():
        curves = [
            (getattr(first.summary, family), getattr(second.summary, family), cell_clusters(run_data, first))
            for _, first, second in shared
        ]
        splits, mean, count = split_intervals(curves)
        names = before[0], after[0], family
        yield from ((*names, scenario, *_points(part), 1) for (scenario, *_), part in zip(shared, splits, strict=True))
        yield (*names, None, *_points(mean), count)


def _series_name(model: str, condition: str) -> str:
    return model if condition == "every-state" else f"{model}, {condition}"


def _points(parts: Sequence[Interval]) -> list[float | None]:
    return [None if np.isnan(value) else 100 * value for part in parts for value in part]


Parts = tuple[Interval, ...]
"""The intervals of the fields of ``Split``."""


def split_intervals(
    scenarios: Sequence[tuple[Curve, Curve, Sequence[str]]],
) -> tuple[list[Parts], Parts, int]:
    """Return the split of each scenario and of the mean over those that have one, and their number.

    ``scenarios``: curves before and after over the same samples, and each sample's cluster. Intervals are paired: the same
    clusters are left out of both curves.
    """
    points, left_out = [], []
    for before, after, clusters in scenarios:
        weights, sizes = leave_out_weights(clusters)
        points.append(split(before, after, np.full(len(clusters), 1 / len(clusters))))
        left_out.append([LeftOut(column, sizes) for column in split_by_weights(before, after, weights).T])
    splits = [_intervals(point, [parts]) for point, parts in zip(points, left_out, strict=True)]
    used = [number for number, point in enumerate(points) if not np.isnan(point.more)]
    if not used:
        return splits, tuple(Interval(*[float("nan")] * 3) for _ in Split._fields), 0
    mean = Split(*np.mean([points[number] for number in used], axis=0))
    return splits, _intervals(mean, [left_out[number] for number in used]), len(used)


def _intervals(point: Split, strata: Sequence[Sequence[LeftOut]]) -> Parts:
    by_part = zip(*strata, strict=True)
    return tuple(jackknife_interval(float(value), part, -1.0, 1.0) for value, part in zip(point, by_part, strict=True))
