"""Splits of the difference between two models, or two conditions of a model, into parts of the policy (``split``)."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from envs.errors import RunFolderError
from orchestrator.report.run_data import RunData, cached_per_run
from proactive_operating.cells import OperatingCell, operating_cells
from proactive_operating.jackknife import mean_interval
from proactive_operating.points import cell_clusters
from proactive_operating.split import PARTS, split

MOST_PAIRS = 6
"""Largest number of pairs that a report splits."""
COLUMNS = ("difference", *PARTS)
SPLIT_SCHEMA = {
    **dict.fromkeys(("before", "after", "scenario"), pl.String),
    **{f"{part}{end}": pl.Float64 for part in COLUMNS for end in ("", "_low", "_high")},
    "scenarios": pl.Int64,
}
Key = tuple[str, str]
"""Model and condition."""


@cached_per_run
def operating_splits(run_data: RunData) -> pl.DataFrame:
    """Return the splits between two models of a condition and two conditions of a model (``SPLIT_SCHEMA``), in points.

    ``scenario`` is null for the mean over ``scenarios``. Only the first ``MOST_PAIRS`` are computed; ``split_between``
    computes any other.
    """
    series = exact_series(run_data)
    pairs = [(a, b) for a, b in combinations(series, 2) if a[0] == b[0] or a[1] == b[1]]
    rows = [row for before, after in pairs[:MOST_PAIRS] for row in _rows(run_data, before, after)]
    return pl.DataFrame(rows, schema=SPLIT_SCHEMA, orient="row")


def split_between(run_data: RunData, before: str, after: str) -> pl.DataFrame:
    """Return the splits between two models or conditions, named as in the table: ``MODEL`` or ``MODEL, CONDITION``.

    Raises RunFolderError for a name without exact curves.
    """
    keys = {_series_name(*key): key for key in exact_series(run_data)}
    if missing := [name for name in (before, after) if name not in keys]:
        raise RunFolderError(f"{missing[0]} has no exact curves; those of this run: {', '.join(keys) or 'none'}")
    return pl.DataFrame(list(_rows(run_data, keys[before], keys[after])), schema=SPLIT_SCHEMA, orient="row")


def exact_series(run_data: RunData) -> dict[Key, dict[str, OperatingCell]]:
    """Return (model, condition) -> scenario -> cell, for the models that have curves."""
    series: dict[Key, dict[str, OperatingCell]] = {}
    for cell in operating_cells(run_data):
        if cell.scored and cell.model not in run_data.baselines:
            series.setdefault((cell.model, cell.condition), {})[cell.scenario] = cell
    return series


def _rows(run_data: RunData, before: Key, after: Key) -> Iterator[tuple[Any, ...]]:
    """Yield a row per scenario with the same questions about the same samples, then their mean."""
    series, names = exact_series(run_data), (_series_name(*before), _series_name(*after))
    strata = {}
    for scenario, first in series[before].items():
        second = series[after].get(scenario)
        if second and first.samples == second.samples and _kinds(first) == _kinds(second):
            values = 100 * split(first.graphs, first.policies, second.policies)
            strata[scenario] = values, cell_clusters(run_data, first)
    for scenario, stratum in strata.items():
        yield (*names, scenario, *_intervals([stratum]), 1)
    if strata:
        yield (*names, None, *_intervals(list(strata.values())), len(strata))


def _intervals(strata: list[tuple[Any, list[str]]]) -> list[float | None]:
    figures: list[float | None] = []
    for number in range(len(COLUMNS)):
        interval = mean_interval([(values[number], clusters) for values, clusters in strata], -100.0, 100.0)
        figures += [None if np.isnan(value) else value for value in interval]
    return figures


def _kinds(cell: OperatingCell) -> list[list[int]]:
    return [[len(question.probabilities) for question in policy] for policy in cell.policies]


def _series_name(model: str, condition: str) -> str:
    return model if condition == "every-state" else f"{model}, {condition}"
