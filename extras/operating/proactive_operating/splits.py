"""Splits of the difference between two models, or two conditions of a model, into parts of the policy (``split``)."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import polars as pl

from orchestrator.report.run_data import RunData, cached_per_run
from proactive_operating.cells import OperatingCell, cell_clusters, operating_cells
from proactive_operating.intervals import ENDS, Stratum, interval_columns
from proactive_operating.split import PARTS, split

MOST_PAIRS = 6
"""Largest number of pairs that a report splits, beside those with later pictures blackened."""
COLUMNS = ("difference", *PARTS)
SPLIT_SCHEMA = {
    **dict.fromkeys(("before", "after", "scenario"), pl.String),
    "picture": pl.Boolean,
    "scenarios": pl.Int64,
    **{f"{part}{end}": pl.Float64 for part in COLUMNS for end in ENDS},
}
Key = tuple[str, str]
"""Model and condition."""


@cached_per_run
def operating_splits(run_data: RunData) -> pl.DataFrame:
    """Return the splits between two models of a condition and two conditions of a model (``SPLIT_SCHEMA``), in points.

    ``picture`` is true for what asked-for pictures are worth: before, later pictures are blank, and nothing else changes.
    ``scenario`` is null for the mean over ``scenarios``. Only the first ``MOST_PAIRS`` other pairs are computed.
    """
    series: dict[Key, dict[str, OperatingCell]] = {}
    for cell in operating_cells(run_data):
        if cell.scored and cell.model not in run_data.baselines:
            series.setdefault((cell.model, cell.condition), {})[cell.scenario] = cell
    pictures = [(a, b) for a in series for b in series if a[0] == b[0] and _blanks_later(run_data, a[1], b[1])]
    pairs = [(a, b) for a, b in combinations(series, 2) if a[0] == b[0] or a[1] == b[1]]
    others = [(a, b) for a, b in pairs if not {(a, b), (b, a)} & set(pictures)]
    rows = [
        {"before": _name(*before), "after": _name(*after), "picture": (before, after) in pictures, **row}
        for before, after in (*pictures, *others[:MOST_PAIRS])
        for row in _rows(run_data, series[before], series[after])
    ]
    return pl.DataFrame(rows, schema=SPLIT_SCHEMA)


def _blanks_later(run_data: RunData, before: str, after: str) -> bool:
    """Return True if a condition is another one with later pictures blank."""
    identity = run_data.conditions[after].identity
    return run_data.conditions[before].identity == {**identity, "picture_later": "blank"} != identity


def _rows(
    run_data: RunData, before: dict[str, OperatingCell], after: dict[str, OperatingCell]
) -> Iterator[dict[str, Any]]:
    """Yield a row per scenario with the same questions about the same samples, then their mean."""
    strata: dict[str, list[Stratum]] = {}
    for scenario, first in before.items():
        second = after.get(scenario)
        if second and first.samples == second.samples and _sizes(first) == _sizes(second):
            clusters = cell_clusters(run_data, first)
            values = 100 * split(first.graphs, first.policies, second.policies)
            strata[scenario] = [(part, clusters) for part in values]
    yield from ({"scenario": name, "scenarios": 1, **_intervals([parts])} for name, parts in strata.items())
    if strata:
        yield {"scenario": None, "scenarios": len(strata), **_intervals(list(strata.values()))}


def _intervals(strata: list[list[Stratum]]) -> dict[str, float | None]:
    figures: dict[str, float | None] = {}
    for part, values in zip(COLUMNS, zip(*strata, strict=True), strict=True):
        figures |= interval_columns(part, values, -100.0, 100.0)
    return figures


def _sizes(cell: OperatingCell) -> list[list[int]]:
    return [[len(question.probabilities) for question in policy] for policy in cell.policies]


def _name(model: str, condition: str) -> str:
    return model if condition == "every-state" else f"{model}, {condition}"
