"""Estimates of every cell and of every average over scenarios: each measure with its 95% interval.

A pure function of the episodes: equal episodes give equal bounds in any order. Errors are left out of every measure.
Samples are taken as drawn independently, or in the clusters that the run data name; how intervals are made is in
``orchestrator.report.intervals``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from envs import SCENARIOS
from envs.types import Ending, Mode
from orchestrator.report.intervals import (
    Stratum,
    Whole,
    combined,
    histogram,
    ratio_interval,
    score_interval,
)
from orchestrator.report.metrics import average
from orchestrator.report.outcomes import groups_of, with_clusters
from orchestrator.report.proportion import proportion_interval
from orchestrator.report.run_data import RunData, once
from orchestrator.report.stopped import Intervals, in_order, intervals, stopped_cells, target

GROUP = ("model", "condition", "protocol")
CELL = ("cell", "model", "scenario", "condition", "protocol")
COUNTS = ("planned", "finished", "failed", "scored", "errors", "overflow", "truncated")
SHARES = {
    "share_suggestion": "suggestions",
    "share_abstention": "abstentions",
    "share_category": "categories",
    "share_right": "correct",
    "share_unparsable": "unparsable",
}
"""Share of answers -> the count of an episode that it sums; ``share_right`` are right categories."""
MEASURES = ("acc", "acc_first", "ps", "mean_turns", "loops", *SHARES)
"""Measures of a cell: percent, but for ps and mean_turns (protocol.md, 'Measures'); ``acc_first`` is accuracy at the first turn
(paper, section 3.3: what the filter bounds)."""
Estimate = tuple[float, float, float]
"""A value and its interval."""


class Estimates(NamedTuple):
    """Estimates of cells and of averages over scenarios."""

    cells: pl.DataFrame
    """One row a planned cell, sorted: names, counts (``COUNTS``), acc_bound, each measure with ``_low`` and ``_high``.

    ``acc_bound`` counts episodes that a limit cut short as correct. Null where nothing was scored.
    """
    averages: pl.DataFrame
    """One row model x condition x protocol: unweighted means over scenarios (the paper's average), scenarios as strata.

    ``scenarios``, ``complete`` and ``all_seven`` say what the mean is of (``orchestrator.report.metrics.average``).
    """


class _Cell(NamedTuple):
    """What the average needs of a cell."""

    strata: Mapping[str, Stratum]
    estimates: Mapping[str, Estimate]


@once
def estimate(run_data: RunData) -> Estimates:
    """Estimates of every cell and every average of a run."""
    most = suggestion_limits(run_data)
    episodes = dict(_by_cell(with_clusters(run_data.scored, run_data)))
    bounded, found = at_any_stop(run_data, most), list[dict[str, Any]]()
    groups: dict[tuple[str, ...], list[_Cell]] = {}
    for row in run_data.rows.select(CELL).iter_rows(named=True):
        if row["cell"] not in episodes:
            continue
        cell = _cell(episodes[row["cell"]], most[row["scenario"], row["condition"]])
        found.append({"cell": row["cell"], **_columns(_with(cell.estimates, bounded.get((row["cell"],), {})))})
        groups.setdefault(tuple(row[name] for name in GROUP), []).append(cell)
    averages = [
        dict(zip(GROUP, names, strict=True)) | _columns(_with(_average(cells), bounded.get(names, {})))
        for names, cells in groups.items()
    ]
    return Estimates(_with_score(run_data.rows, found), _with_counts(run_data.rows, averages))


def at_any_stop(run_data: RunData, most: Mapping[tuple[str, str], int]) -> dict[tuple[str, ...], Intervals]:
    """The intervals of stopped cells, by (cell,), and of averages over some of them, by ``GROUP``."""
    rule, full = run_data.sweep.precision, stopped_cells(run_data.rows)
    if rule is None or not full:
        return {}
    found: dict[tuple[str, ...], Intervals] = {}
    for names, rows in run_data.rows.filter(protocol="mcqa").group_by(GROUP, maintain_order=True):
        cells = [row for row in rows.iter_rows(named=True) if row["finished"]]
        if not any(row["cell"] in full for row in cells):
            continue
        parts = [in_order(run_data.episodes.filter(cell=row["cell"]), run_data.sweep.seed) for row in cells]
        limits = [max(most[row["scenario"], row["condition"]], 1) for row in cells]
        for row, part, limit in zip(cells, parts, limits, strict=True):
            if row["cell"] in full:
                found[row["cell"],] = intervals([part], [full[row["cell"]]], target(rule, rows, row), limit)
        points = target(rule, rows, cells[0]) / (len(cells) ** 0.5)
        found[tuple(map(str, names))] = intervals(parts, [row["full"] for row in cells], points, max(limits))
    return found


def _with(estimates: Mapping[str, Estimate], bounds: Intervals) -> Mapping[str, Estimate]:
    """The same values, some with other bounds, which hold the value too."""
    values = {name: estimates[name][0] for name in bounds}
    moved = {name: (v, min(v, bounds[name][0]), max(v, bounds[name][1])) for name, v in values.items()}
    return {**estimates, **moved}


@once
def suggestion_limits(run_data: RunData) -> dict[tuple[str, str], int]:
    """(scenario, condition) -> the most suggestions that an episode may hold: the turn limit less one.

    From the samples where they are at hand, else the most that any episode of the scenario and condition took.
    """
    turns = run_data.episodes.group_by("scenario", "condition").agg(pl.col("turns").max())
    limits: dict[tuple[str, str], int] = {}
    for scenario, condition, seen in turns.iter_rows():
        samples = run_data.samples.get(scenario, {}).values()
        known = condition in run_data.conditions and samples
        reference = condition in run_data.conditions and run_data.conditions[condition].mode is Mode.REFERENCE
        longest = max(SCENARIOS[scenario].limit(sample) for sample in samples) if known else int(seen)
        limits[scenario, condition] = 0 if reference else max(longest, int(seen)) - 1
    return limits


def _by_cell(scored: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    columns = ["correct", "turns", "cluster", *dict.fromkeys(SHARES.values())]
    whole = [pl.col(name).cast(pl.Int64) for name in dict.fromkeys(columns)]
    rows = scored.select("cell", *whole, (pl.col("ending") == Ending.LIMIT).cast(pl.Int64).alias("limit"))
    return [(str(cell), part) for (cell,), part in rows.sort("cell").group_by(["cell"], maintain_order=True)]


def _cell(episodes: pl.DataFrame, most: int) -> _Cell:
    """The estimates of one cell, and the histograms that an average is made of."""
    values: dict[str, Whole] = {name: episodes[name].to_numpy() for name in ("correct", "limit", "turns")}
    groups = groups_of(episodes)
    strata = {
        "acc": histogram(100 * values["correct"], 0, 100, groups),
        "acc_first": histogram(100 * values["correct"] * (values["turns"] == 1), 0, 100, groups),
        "ps": histogram(values["turns"] - 1, 0, most, groups),
        "loops": histogram(100 * values["limit"], 0, 100, groups),
    }
    estimates = {name: _scored([stratum]) for name, stratum in strata.items() if name == "ps"}
    for name in ("acc", "acc_first", "loops"):
        estimates[name] = proportion(strata[name])
    return _Cell(strata, estimates | {name: _share(episodes, count) for name, count in SHARES.items()})


def _average(cells: list[_Cell]) -> Mapping[str, Estimate]:
    """Unweighted means over scenarios: each scenario is a stratum."""
    means = {name: _scored([cell.strata[name] for cell in cells]) for name in ("acc", "acc_first", "ps", "loops")}
    for name in SHARES:
        parts = [cell.estimates[name] for cell in cells]
        means[name] = (sum(value for value, _, _ in parts) / len(parts), *combined(parts))
    return means


def proportion(stratum: Stratum) -> Estimate:
    """A share of episodes in percent, from values that are 0 or 100, with its interval."""
    size = float(stratum.counts.sum())
    low, high = proportion_interval(stratum.mean / 100 * size, size)
    return stratum.mean, 100 * low, 100 * high


def _scored(strata: list[Stratum]) -> Estimate:
    return sum(one.mean for one in strata) / len(strata), *score_interval(strata)


def _share(episodes: pl.DataFrame, count: str) -> Estimate:
    """A share of answers in percent, with its interval over episodes."""
    if not episodes["cluster"].null_count():
        episodes = episodes.group_by("cluster").agg(pl.col(count, "turns").sum())
    counted = episodes.group_by(count, "turns").len("episodes").sort(count, "turns")
    part, whole, times = (counted[name].cast(pl.Int64).to_numpy() for name in (count, "turns", "episodes"))
    if not int(times @ whole):
        return 0.0, 0.0, 100.0
    low, high = ratio_interval(part, whole, times)
    return float(100 * (times @ part) / (times @ whole)), 100 * low, 100 * high


def _columns(estimates: Mapping[str, Estimate]) -> dict[str, float]:
    """Measure, ``_low`` and ``_high`` of each; turns are suggestions and one."""
    ps = estimates["ps"]
    turns = (ps[0] + 1, ps[1] + 1, ps[2] + 1)
    row: dict[str, float] = {}
    for name, (value, low, high) in {**estimates, "mean_turns": turns}.items():
        row[name], row[f"{name}_low"], row[f"{name}_high"] = value, low, high
    return row


def _frame(rows: list[dict[str, Any]], names: tuple[str, ...]) -> pl.DataFrame:
    measured = [f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")]
    return pl.DataFrame(rows, schema={**dict.fromkeys(names, pl.String), **dict.fromkeys(measured, pl.Float64)})


def _with_score(rows: pl.DataFrame, found: list[dict[str, Any]]) -> pl.DataFrame:
    """Estimates beside counts; acc as ``orchestrator.report.metrics.score`` has it, to the last bit."""
    counts = rows.select(*CELL, *COUNTS, "acc", "acc_bound")
    estimates = _frame(found, ("cell",)).drop("acc")
    return counts.join(estimates, on="cell", how="left").sort("cell")


def _with_counts(rows: pl.DataFrame, found: list[dict[str, Any]]) -> pl.DataFrame:
    counts = average(rows).drop("acc", "ps")
    return counts.join(_frame(found, GROUP), on=list(GROUP), how="left").sort(GROUP)
