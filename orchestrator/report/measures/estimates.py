"""Estimates of every cell and of every average over scenarios: each measure with its 95% interval.

Errors are left out of every measure, and the order of episodes does not change a bound. Shares of a cell have score intervals,
means and averages those of Student's t, both over clusters where the run data has them (``report.statistics.clustered``).
"""

from collections.abc import Mapping
from math import isnan
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from envs import SCENARIOS
from envs.types import Ending, Mode
from orchestrator.report.measures.clustering import add_clusters, cluster_numbers
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.answer import ANSWERS, FIRST_REPLIES, IF_ASKED, first_reply_columns
from orchestrator.report.scores.metrics import ACTION_SHARES, average_over_scenarios
from orchestrator.report.scores.precision_stops import (
    Intervals,
    anytime_intervals,
    sort_by_draw,
    stopped_cells,
    target_half_width,
)
from orchestrator.report.statistics.clustered import (
    Estimate,
    Integers,
    Mean,
    average_means,
    estimate_mean,
    ratio_values,
    share_interval,
    t_interval,
)

GROUP = ("model", "condition", "protocol")
CELL = ("cell", "model", "scenario", "condition", "protocol")
COUNTS = ("planned", "finished", "failed", "scored", "errors", "overflow", "truncated", "thoughts_cut")
SHARES = {**ACTION_SHARES, "share_right": "correct", "share_unparsable": "unparsable"}
"""Share of answers -> the column of episodes that it sums; ``share_right`` counts right categories."""
OF_EPISODES = {"acc": "correct", "acc_first": "first", "loops": "limit", **{name: name for name in ANSWERS}}
"""Share of episodes -> the column of 0 and 1 that it is the mean of."""
ASKING = {*FIRST_REPLIES, *IF_ASKED}
MEASURES = ("acc", "acc_first", "ps", "loops", *SHARES, *ANSWERS, *IF_ASKED)
"""Measures of a cell, in percent except ps (protocol.md, 'Measures'); ``acc_first`` is accuracy at the first turn,
which the paper's filter of samples bounds (section 3.3); the last are those of ``scores.answer``."""


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
    """The scored episodes of a cell, and the parts that averages are computed from."""

    columns: Mapping[str, Integers]
    groups: Integers | None
    means: Mapping[str, Mean]


@cached_per_run
def estimate(run_data: RunData) -> Estimates:
    """Estimate every cell and every average of a run."""
    limits, reference = suggestion_limits(run_data), run_data.reference_conditions
    episodes = dict(_split_cells(add_clusters(run_data.scored, run_data)))
    bounded, cells, averages = anytime_bounds(run_data, limits), list[dict[str, Any]](), list[dict[str, Any]]()
    groups: dict[tuple[str, ...], list[_Cell]] = {}
    for row in run_data.rows.filter(pl.col("cell").is_in(list(episodes))).iter_rows(named=True):
        cell, names = _measure_cell(episodes[row["cell"]]), tuple(row[name] for name in GROUP)
        estimates = _estimate_cell(cell, limits[row["scenario"], row["condition"]])
        cells.append(
            {"cell": row["cell"], **_flatten(estimates, bounded.get((row["cell"],), {}), names[1] in reference)}
        )
        groups.setdefault(names, []).append(cell)
    for names, parts in groups.items():
        figures = _flatten(_estimate_average(parts), bounded.get(names, {}), names[1] in reference)
        averages.append({**dict(zip(GROUP, names, strict=True)), **figures})
    # acc of cells is that of ``scores.metrics.score``, so both are equal to the last bit
    scored, means = run_data.rows.select(*CELL, *COUNTS, "acc", "acc_bound"), average_over_scenarios(run_data.rows)
    cell_rows = scored.join(_estimate_frame(cells, ("cell",)).drop("acc"), on="cell", how="left").sort("cell")
    mean_rows = means.drop("acc", "ps").join(_estimate_frame(averages, GROUP), on=list(GROUP), how="left").sort(GROUP)
    is_certain = pl.col("model").is_in(list(run_data.certain))
    bounds = pl.col([f"{name}{end}" for name in MEASURES for end in ("_low", "_high")])
    shown = pl.when(~is_certain).then(bounds).name.keep()
    return Estimates(*(rows.with_columns(shown) for rows in (cell_rows, mean_rows)))


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
                half_width = target_half_width(rule, rows, row)
                intervals_by_name[row["cell"],] = anytime_intervals(
                    [part], [full_sizes[row["cell"]]], half_width, limit
                )
        points = target_half_width(rule, rows, cells[0]) / (len(cells) ** 0.5)
        intervals = anytime_intervals(parts, [row["full"] for row in cells], points, max(cell_limits))
        intervals_by_name[tuple(map(str, names))] = intervals
    return intervals_by_name


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
    names = dict.fromkeys(("correct", "turns", "cluster", *SHARES.values()))
    first, limit = pl.col("correct") & (pl.col("turns") == 1), pl.col("ending") == Ending.LIMIT
    kinds = (pl.col(list(names)), first.alias("first"), limit.alias("limit"), *first_reply_columns())
    rows = scored.select("cell", *(kind.cast(pl.Int64) for kind in kinds))
    return [(str(cell), part) for (cell,), part in rows.sort(pl.all()).group_by(["cell"], maintain_order=True)]


def _measure_cell(episodes: pl.DataFrame) -> _Cell:
    columns = {name: episodes[name].to_numpy() for name in episodes.columns if name not in ("cell", "cluster")}
    groups, turns = cluster_numbers(episodes), columns["turns"]
    means = {name: estimate_mean(100 * columns[column], groups, unit=100) for name, column in OF_EPISODES.items()}
    means["ps"] = estimate_mean(turns - 1, groups)
    for share, column in SHARES.items():
        ratio = columns[column].sum() / max(1, turns.sum())
        values = ratio_values(columns[column], turns, ratio, max(turns.mean(), 1e-9))
        means[share] = estimate_mean(100 * values, groups, unit=100)
    return _Cell(columns, groups, means)


def _estimate_cell(cell: _Cell, limit: int) -> dict[str, Estimate]:
    asked, number = cell.columns["asks"] == 1, len(cell.columns["correct"])
    estimates = {name: share_interval(mean, number) for name, mean in cell.means.items()}
    estimates["ps"] = t_interval(cell.means["ps"], 0, max(limit, 0))
    groups = None if cell.groups is None else cell.groups[asked]
    for name, column in IF_ASKED.items() if asked.any() else ():
        share = estimate_mean(100 * cell.columns[column][asked], groups, unit=100)
        estimates[name] = share_interval(share, int(asked.sum()))
    return estimates


def _estimate_average(cells: list[_Cell]) -> dict[str, Estimate]:
    """Return unweighted means over scenarios: each scenario is a stratum."""
    means = {name: average_means([cell.means[name] for cell in cells]) for name in cells[0].means}
    asks = float(np.mean([cell.columns["asks"].mean() for cell in cells]))
    for name, column in IF_ASKED.items() if asks else ():
        parts = [(cell.columns["asks"] * cell.columns[column], cell.columns["asks"], cell.groups) for cell in cells]
        ratio = float(np.mean([hits.mean() for hits, _, _ in parts])) / asks
        values = [(100 * ratio_values(hits, asked, ratio, asks), groups) for hits, asked, groups in parts]
        means[name] = average_means([estimate_mean(part, groups, unit=100) for part, groups in values])
    return {name: t_interval(mean, 0, np.inf if name == "ps" else 100) for name, mean in means.items()}


def _flatten(estimates: Mapping[str, Estimate], bounds: Intervals, is_reference: bool) -> dict[str, float | None]:
    """Return each measure with ``_low`` and ``_high``, null without an interval; ``bounds`` replace its own.

    Under the reference nothing can be asked, so shares of asking are left out.
    """
    row: dict[str, float | None] = {}
    for name, (value, *ends) in estimates.items():
        if not is_reference or name not in ASKING:
            low, high = (min(value, bounds[name][0]), max(value, bounds[name][1])) if name in bounds else ends
            row[name] = value
            row |= {f"{name}_{end}": None if isnan(v) else v for end, v in (("low", low), ("high", high))}
    return row


def _estimate_frame(rows: list[dict[str, Any]], names: tuple[str, ...]) -> pl.DataFrame:
    measured = [f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")]
    return pl.DataFrame(rows, schema={**dict.fromkeys(names, pl.String), **dict.fromkeys(measured, pl.Float64)})
