"""Estimates of every cell and of every average over scenarios: each measure with its 95% interval.

The order of episodes does not change the bounds. Errors are left out of every measure. Samples count as independent unless the
run data has clusters. The intervals are those of ``orchestrator.report.statistics.intervals``.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl

from envs import SCENARIOS
from envs.types import Ending, Mode
from orchestrator.report.measures.outcomes import add_clusters, cluster_numbers
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.metrics import ACTION_SHARES, average_over_scenarios
from orchestrator.report.scores.precision_stops import (
    Intervals,
    anytime_intervals,
    sort_by_draw,
    stopped_cells,
    target_half_width,
)
from orchestrator.report.statistics.intervals import (
    Estimate,
    Integers,
    Stratum,
    combine_intervals,
    estimate_mean,
    ratio_interval,
    score_interval,
    stratum_from_values,
)
from orchestrator.report.statistics.proportion import proportion_interval

GROUP = ("model", "condition", "protocol")
CELL = ("cell", "model", "scenario", "condition", "protocol")
COUNTS = ("planned", "finished", "failed", "scored", "errors", "overflow", "truncated")
SHARES = {**ACTION_SHARES, "share_right": "correct", "share_unparsable": "unparsable"}
"""Share of answers -> the column of episodes that it sums; ``share_right`` counts right categories."""
MEASURES = ("acc", "acc_first", "ps", "mean_turns", "loops", *SHARES)
"""Measures of a cell, in percent except ps and mean_turns (protocol.md, 'Measures'); ``acc_first`` is accuracy at the first turn,
which the paper's filter of samples bounds (section 3.3)."""


class Estimates(NamedTuple):
    """Estimates of cells and of averages over scenarios."""

    cells: pl.DataFrame
    """One row per planned cell, sorted: names, counts (``COUNTS``), acc_bound, each measure with ``_low`` and ``_high``.

    ``acc_bound`` counts episodes that a limit cut short as correct. Measures are null if nothing was scored.
    """
    averages: pl.DataFrame
    """One row per model x condition x protocol: unweighted means over scenarios (the paper's average), scenarios as strata.

    ``scenarios``, ``complete`` and ``all_seven`` are those of ``scores.metrics.average_over_scenarios``.
    """


class _Cell(NamedTuple):
    """The part of a cell that averages are computed from."""

    strata: Mapping[str, Stratum]
    estimates: Mapping[str, Estimate]


@cached_per_run
def estimate(run_data: RunData) -> Estimates:
    """Estimate every cell and every average of a run."""
    limits = suggestion_limits(run_data)
    episodes = dict(_split_cells(add_clusters(run_data.scored, run_data)))
    bounded, rows = anytime_bounds(run_data, limits), list[dict[str, Any]]()
    groups: dict[tuple[str, ...], list[_Cell]] = {}
    for row in run_data.rows.select(CELL).iter_rows(named=True):
        if row["cell"] not in episodes:
            continue
        cell = _estimate_cell(episodes[row["cell"]], limits[row["scenario"], row["condition"]])
        rows.append({"cell": row["cell"], **_flatten(_replace_bounds(cell.estimates, bounded.get((row["cell"],), {})))})
        groups.setdefault(tuple(row[name] for name in GROUP), []).append(cell)
    averages = [
        dict(zip(GROUP, names, strict=True))
        | _flatten(_replace_bounds(_estimate_average(cells), bounded.get(names, {})))
        for names, cells in groups.items()
    ]
    return Estimates(_join_scores(run_data.rows, rows), _join_averages(run_data.rows, averages))


def anytime_bounds(run_data: RunData, limits: Mapping[tuple[str, str], int]) -> dict[tuple[str, ...], Intervals]:
    """Return anytime-valid intervals of stopped cells, by (cell,), and of averages that include one, by ``GROUP``."""
    rule, full_sizes = run_data.sweep.precision, stopped_cells(run_data.rows)
    if rule is None or not full_sizes:
        return {}
    intervals_by_name: dict[tuple[str, ...], Intervals] = {}
    for names, rows in run_data.rows.filter(protocol="mcqa").group_by(GROUP, maintain_order=True):
        cells = [row for row in rows.iter_rows(named=True) if row["finished"]]
        if not any(row["cell"] in full_sizes for row in cells):
            continue
        parts = [sort_by_draw(run_data.episodes.filter(cell=row["cell"]), run_data.sweep.seed) for row in cells]
        cell_limits = [max(limits[row["scenario"], row["condition"]], 1) for row in cells]
        for row, part, limit in zip(cells, parts, cell_limits, strict=True):
            if row["cell"] in full_sizes:
                intervals_by_name[row["cell"],] = anytime_intervals(
                    [part], [full_sizes[row["cell"]]], target_half_width(rule, rows, row), limit
                )
        points = target_half_width(rule, rows, cells[0]) / (len(cells) ** 0.5)
        intervals_by_name[tuple(map(str, names))] = anytime_intervals(
            parts, [row["full"] for row in cells], points, max(cell_limits)
        )
    return intervals_by_name


def _replace_bounds(estimates: Mapping[str, Estimate], bounds: Intervals) -> Mapping[str, Estimate]:
    """Return the estimates with ``bounds`` in place of their own, widened to include the value."""
    values = {name: estimates[name][0] for name in bounds}
    return {**estimates, **{name: (v, min(v, bounds[name][0]), max(v, bounds[name][1])) for name, v in values.items()}}


@cached_per_run
def suggestion_limits(run_data: RunData) -> dict[tuple[str, str], int]:
    """Return the most suggestions of an episode, by (scenario, condition): the turn limit minus one.

    Taken from the samples if available, else from the longest episode of the scenario and condition.
    """
    turns = run_data.episodes.group_by("scenario", "condition").agg(pl.col("turns").max())
    conditions, limits = run_data.conditions, dict[tuple[str, str], int]()
    for scenario, name, longest in turns.iter_rows():
        samples = run_data.samples.get(scenario, {}).values() if name in conditions else ()
        is_reference = name in conditions and conditions[name].mode is Mode.REFERENCE
        longest = max(int(longest), *(SCENARIOS[scenario].limit(sample) for sample in samples), 0)
        limits[scenario, name] = 0 if is_reference else longest - 1
    return limits


def _split_cells(scored: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    counts = pl.col(list(dict.fromkeys(("correct", "turns", "cluster", *SHARES.values())))).cast(pl.Int64)
    rows = scored.select("cell", counts, (pl.col("ending") == Ending.LIMIT).cast(pl.Int64).alias("limit"))
    return [(str(cell), part) for (cell,), part in rows.sort("cell").group_by(["cell"], maintain_order=True)]


def _estimate_cell(episodes: pl.DataFrame, limit: int) -> _Cell:
    """Return the estimates of one cell, and the strata for averages."""
    values: dict[str, Integers] = {name: episodes[name].to_numpy() for name in ("correct", "limit", "turns")}
    groups = cluster_numbers(episodes)
    strata = {
        "acc": stratum_from_values(100 * values["correct"], 0, 100, groups),
        "acc_first": stratum_from_values(100 * values["correct"] * (values["turns"] == 1), 0, 100, groups),
        "ps": stratum_from_values(values["turns"] - 1, 0, limit, groups),
        "loops": stratum_from_values(100 * values["limit"], 0, 100, groups),
    }
    estimates = {name: proportion(strata[name]) for name in ("acc", "acc_first", "loops")}
    estimates["ps"] = estimate_mean([strata["ps"]], score_interval)
    return _Cell(strata, estimates | {name: _estimate_share(episodes, count) for name, count in SHARES.items()})


def _estimate_average(cells: list[_Cell]) -> Mapping[str, Estimate]:
    """Return unweighted means over scenarios: each scenario is a stratum."""
    means = {
        name: estimate_mean([cell.strata[name] for cell in cells], score_interval)
        for name in ("acc", "acc_first", "ps", "loops")
    }
    for name in SHARES:
        parts = [cell.estimates[name] for cell in cells]
        means[name] = (sum(value for value, _, _ in parts) / len(parts), *combine_intervals(parts))
    return means


def proportion(stratum: Stratum) -> Estimate:
    """Return a share of episodes in percent, from values that are 0 or 100, with its interval."""
    size = float(stratum.counts.sum())
    low, high = proportion_interval(stratum.mean / 100 * size, size)
    return stratum.mean, 100 * low, 100 * high


def _estimate_share(episodes: pl.DataFrame, count: str) -> Estimate:
    """Return a share of answers in percent, with its interval over episodes."""
    if not episodes["cluster"].null_count():
        episodes = episodes.group_by("cluster").agg(pl.col(count, "turns").sum())
    tallies = episodes.group_by(count, "turns").len("episodes").sort(count, "turns")
    hits, totals, times = (tallies[name].cast(pl.Int64).to_numpy() for name in (count, "turns", "episodes"))
    if not int(times @ totals):
        return 0.0, 0.0, 100.0
    low, high = ratio_interval(hits, totals, times)
    return float(100 * (times @ hits) / (times @ totals)), 100 * low, 100 * high


def _flatten(estimates: Mapping[str, Estimate]) -> dict[str, float]:
    """Return each measure with ``_low`` and ``_high``; ``mean_turns`` is ps plus one."""
    ps = estimates["ps"]
    turns = (ps[0] + 1, ps[1] + 1, ps[2] + 1)
    row: dict[str, float] = {}
    for name, (value, low, high) in {**estimates, "mean_turns": turns}.items():
        row[name], row[f"{name}_low"], row[f"{name}_high"] = value, low, high
    return row


def _estimate_frame(rows: list[dict[str, Any]], names: tuple[str, ...]) -> pl.DataFrame:
    measured = [f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")]
    return pl.DataFrame(rows, schema={**dict.fromkeys(names, pl.String), **dict.fromkeys(measured, pl.Float64)})


def _join_scores(rows: pl.DataFrame, estimates_by_cell: list[dict[str, Any]]) -> pl.DataFrame:
    """Join estimates to counts; acc is taken from ``scores.metrics.score``, so both are equal to the last bit."""
    counts = rows.select(*CELL, *COUNTS, "acc", "acc_bound")
    estimates = _estimate_frame(estimates_by_cell, ("cell",)).drop("acc")
    return counts.join(estimates, on="cell", how="left").sort("cell")


def _join_averages(rows: pl.DataFrame, averages: list[dict[str, Any]]) -> pl.DataFrame:
    counts = average_over_scenarios(rows).drop("acc", "ps")
    return counts.join(_estimate_frame(averages, GROUP), on=list(GROUP), how="left").sort(GROUP)
