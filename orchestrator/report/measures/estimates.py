"""Estimates of every cell and of every average over scenarios: each measure with its 95% interval.

Errors are left out of every measure, and the order of episodes does not change a bound. Shares of a cell have score intervals,
means and averages those of Student's t, both over clusters where the run data has them (``report.statistics.clustered``).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from envs import SCENARIOS
from envs.types import CUT_SHORT, ERRORS, Ending, Mode
from orchestrator.report.measures.clustering import NAMES, add_clusters, attach, independent_units, number_groups
from orchestrator.report.paper.published import AVERAGE
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores import precision_stops
from orchestrator.report.scores.answer import ANSWERS, FIRST_REPLIES, GROUP, IF_ASKED, first_reply_columns
from orchestrator.report.scores.metrics import ACTION_SHARES, average_over_scenarios
from orchestrator.report.statistics import clustered as stats

CELL = ("cell", "model", "scenario", "condition", "protocol")
COUNTS = ("planned", "finished", "failed", "scored", "errors", "overflow", "truncated", "thoughts_cut")
SHARES = {**ACTION_SHARES, "share_right": "correct", "share_unparsable": "unparsable"}
"""Share of answers -> the column of episodes that it sums; ``share_right`` counts right categories."""
OF_EPISODES = {"acc": "correct", "acc_first": "first", "loops": "limit", **{name: name for name in ANSWERS}}
"""Share of episodes -> the column of 0 and 1 that it is the mean of."""
ASKING = {*FIRST_REPLIES, *IF_ASKED}
CERTAIN = ("oracle", "always-ask", "abstain")
"""Policies whose figures are certain by rule, so that they have no interval."""
MEASURES = ("acc", "acc_first", "ps", "loops", *SHARES, *ANSWERS, *IF_ASKED)
"""Measures of a cell, in percent except ps (protocol.md, 'Measures'); ``acc_first`` is accuracy at the first turn,
which the paper's filter of samples bounds (section 3.3); the last are those of ``scores.answer``."""
LEAST_MISSING = 0.01
"""Largest share of missing episodes at which a figure needs no bounds."""
ENDS = ("least", "most")
BOUNDS = {
    **dict.fromkeys(("model", "scenario", "condition", "protocol"), pl.String),
    **dict.fromkeys(("n", "missing"), pl.Int64),
    **dict.fromkeys(("value", "least", "least_low", "most", "most_high"), pl.Float64),
}


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


@cached_per_run
def estimate(run_data: RunData) -> Estimates:
    """Estimate every cell and every average of a run."""
    limits, reference = suggestion_limits(run_data), run_data.sweep.reference_conditions
    episodes = _scored_episodes(run_data)
    owners, cells = number_groups(episodes, CELL)
    strata, averages = number_groups(cells, GROUP)
    most = [limits[pair] for pair in cells.select("scenario", "condition").iter_rows()]
    in_cells, on_average = _measure(episodes, owners, strata, np.maximum(np.array(most, dtype=np.int64), 0))
    bounded = anytime_bounds(run_data, limits)
    cells = attach(cells.select("cell"), _flatten(in_cells, cells, ["cell"], bounded, reference))
    averages = attach(averages, _flatten(on_average, averages, GROUP, bounded, reference))
    # acc of cells is that of ``scores.metrics.score``, so both are equal to the last bit
    scored, means = run_data.rows.select(*CELL, *COUNTS, "acc", "acc_bound"), average_over_scenarios(run_data.rows)
    cell_rows = scored.join(cells.drop("acc"), on="cell", how="left").sort("cell")
    mean_rows = means.drop("acc", "ps").join(averages, on=list(GROUP), how="left").sort(GROUP)
    is_certain = pl.col("model").is_in([name for policy in CERTAIN for name in run_data.models_of_policy(policy)])
    bounds = pl.col([f"{name}{end}" for name in MEASURES for end in ("_low", "_high")])
    shown = pl.when(~is_certain).then(bounds).name.keep()
    return Estimates(*(rows.with_columns(shown) for rows in (cell_rows, mean_rows)))


def anytime_bounds(
    run_data: RunData, limits: Mapping[tuple[str, str], int]
) -> dict[tuple[str, ...], precision_stops.Intervals]:
    """Return anytime-valid intervals of stopped cells, by (cell,), and of averages that include one, by ``GROUP``."""
    rule, seed, full_sizes = run_data.sweep.precision, run_data.sweep.seed, precision_stops.stopped_cells(run_data.rows)
    if rule is None or not full_sizes:
        return {}
    intervals_by_name: dict[tuple[str, ...], precision_stops.Intervals] = {}
    for names, rows in run_data.rows.filter(protocol="mcqa").group_by(GROUP, maintain_order=True):
        cells = [row for row in rows.iter_rows(named=True) if row["finished"]]
        if not any(row["cell"] in full_sizes for row in cells):
            continue
        parts = [precision_stops.sort_by_draw(run_data.episodes.filter(cell=row["cell"]), seed) for row in cells]
        cell_limits = [max(limits[row["scenario"], row["condition"]], 1) for row in cells]
        for row, part, limit in zip(cells, parts, cell_limits, strict=True):
            if row["cell"] in full_sizes:
                half_width = precision_stops.target_half_width(rule, rows, row)
                intervals_by_name[row["cell"],] = precision_stops.anytime_intervals(
                    [part], [full_sizes[row["cell"]]], half_width, limit
                )
        points = precision_stops.target_half_width(rule, rows, cells[0]) / (len(cells) ** 0.5)
        intervals = precision_stops.anytime_intervals(parts, [row["full"] for row in cells], points, max(cell_limits))
        intervals_by_name[tuple(map(str, names))] = intervals
    return intervals_by_name


@cached_per_run
def suggestion_limits(run_data: RunData) -> dict[tuple[str, str], int]:
    """Return the most suggestions of an episode, by (scenario, condition): the turn limit minus one.

    Taken from the samples if available, else from the longest episode of the scenario and condition.
    """
    turns = run_data.episodes.group_by("scenario", "condition").agg(pl.col("turns").max().fill_null(0))
    conditions, limits = run_data.conditions, dict[tuple[str, str], int]()
    for scenario, name, longest in turns.iter_rows():
        samples = run_data.samples.get(scenario, {}).values() if name in conditions else ()
        is_reference = name in conditions and conditions[name].mode is Mode.REFERENCE
        longest = max(int(longest), *(SCENARIOS[scenario].limit(sample) for sample in samples), 0)
        limits[scenario, name] = 0 if is_reference else longest - 1
    return limits


def _scored_episodes(run_data: RunData) -> pl.DataFrame:
    """Return the scored episodes: names, cluster and counts as integers, sorted by cell; equal ones once, with ``count``."""
    scored = run_data.scored.join(run_data.rows.select("cell"), on="cell", how="semi")
    names = dict.fromkeys(("correct", "turns", "cluster", *SHARES.values()))
    first, limit = pl.col("correct") & (pl.col("turns") == 1), pl.col("ending") == Ending.LIMIT
    kinds = (pl.col(list(names)), first.alias("first"), limit.alias("limit"), *first_reply_columns())
    rows = add_clusters(scored, run_data).select(*CELL, *(kind.cast(pl.Int64) for kind in kinds))
    return rows.group_by(pl.all()).len("count").sort(*GROUP, "cell", pl.exclude(CELL))


@stats.unknown_is_nan
def _measure(
    episodes: pl.DataFrame, owners: stats.Integers, strata: stats.Integers, most: stats.Integers
) -> tuple[dict[str, stats.Estimate], dict[str, stats.Estimate]]:
    """Return the estimates of cells, and of unweighted means over scenarios, each a stratum; ``most`` bounds suggestions."""
    columns = {name: episodes[name].to_numpy() for name in episodes.columns if name not in (*CELL, "cluster", "count")}
    units, turns = independent_units(episodes, owners, len(strata)), columns["turns"]
    means = {name: units.means(100 * columns[column], unit=100) for name, column in OF_EPISODES.items()}
    means["ps"], totals = units.means(turns - 1), units.sum(turns)
    for share, column in SHARES.items():
        ratio, mean_turns = units.sum(columns[column]) / np.maximum(totals, 1), np.maximum(totals / units.total, 1e-9)
        values = stats.ratio_values(columns[column], turns, ratio[owners], mean_turns[owners])
        means[share] = units.means(100 * values, unit=100)
    cells = {name: stats.share_interval(mean, units.total) for name, mean in means.items()}
    cells["ps"] = stats.t_interval(means["ps"], 0, most)
    asks, sizes = columns["asks"], np.bincount(strata)
    asked = asks == 1
    asking = independent_units(episodes.filter(pl.Series(asked)), owners[asked], len(strata))
    mean_asks = np.bincount(strata, units.sum(asks) / units.total) / sizes
    for name, column in IF_ASKED.items():
        cells[name] = stats.share_interval(asking.means(100 * columns[column][asked], unit=100), asking.total)
        hits = asks * columns[column]
        ratio = np.bincount(strata, units.sum(hits) / units.total) / sizes / mean_asks
        values = stats.ratio_values(hits, asks, ratio[strata][owners], mean_asks[strata][owners])
        means[name] = units.means(100 * values, unit=100)
    averages = {name: stats.average_strata(mean, strata) for name, mean in means.items()}
    return cells, {name: stats.t_interval(mean, 0, np.inf if name == "ps" else 100) for name, mean in averages.items()}


def _flatten(
    estimates: Mapping[str, stats.Estimate], rows: pl.DataFrame, names: Sequence[str],
    bounded: Mapping[tuple[str, ...], precision_stops.Intervals], reference: Sequence[str],
) -> dict[str, stats.Floats]:  # fmt: skip
    """Return each measure with ``_low`` and ``_high``, NaN without an interval; ``bounded`` replaces its own.

    Under the ``reference`` conditions nothing can be asked, so shares of asking are left out.
    """
    is_reference, columns = rows["condition"].is_in(list(reference)).to_numpy(), dict[str, stats.Floats]()
    for name in MEASURES:
        value, *ends = (np.where(is_reference & (name in ASKING), np.nan, part) for part in estimates[name])
        for at, key in enumerate(rows.select(names).iter_rows()) if bounded else ():
            if name in bounded.get(key, {}):
                low, high = bounded[key][name]
                ends[0][at], ends[1][at] = min(value[at], low), max(value[at], high)
        columns |= {name: value, f"{name}_low": ends[0], f"{name}_high": ends[1]}
    return columns


# -- missing episodes ----------------------------------------------------------------------------------------------------
@cached_per_run
@stats.unknown_is_nan
def missing_bounds(run_data: RunData) -> pl.DataFrame:
    """Return the worst and the best case of every accuracy, of cells and averages from which more than 1% is missing.

    An episode is missing if it ended in an error, if a limit cut it short, or if the judge gave no verdict on its answer. In
    the worst case all of these are wrong, in the best case all are right (Manski 1989, J. Hum. Resour. 24:343-360). Episodes
    that are not played yet are unfinished, not missing. Columns: model, scenario (``avg`` for the unweighted mean), condition,
    protocol; n (episodes) and missing; value (accuracy, or the judge's aggregate); least (the worst case) with the lower end
    of its 95% interval, and most (the best case) with the upper end.
    """
    names = ("errors", *CUT_SHORT, *(["unjudged"] if "unjudged" in run_data.rows.columns else []))
    if not run_data.rows.select((pl.sum_horizontal(names) > LEAST_MISSING * pl.col("finished")).any()).item():
        return pl.DataFrame(schema=BOUNDS)
    rows = list_possible(run_data).sort(*GROUP, "scenario", maintain_order=True)
    owners, cells = number_groups(rows, [*GROUP, "scenario"])
    strata, averages = number_groups(cells, GROUP)
    units, sizes = independent_units(rows, owners, cells.height), np.bincount(strata)
    is_error, is_missing, least, most = (rows[name].cast(pl.Int64).to_numpy() for name in ("error", "missing", *ENDS))
    value = 100 * units.sum(least * (1 - is_error)) / units.sum(1 - is_error)
    means, missing = [units.means(100 * end, unit=100) for end in (least, most)], units.sum(is_missing)
    share, counts = missing / units.total, np.stack([units.total, missing])
    bounds = [stats.share_interval(mean, units.total) for mean in means]
    parts = [attach(cells, _columns(counts, value, bounds)).filter(pl.Series(share > LEAST_MISSING))]
    bounds = [stats.t_interval(stats.average_strata(mean, strata), 0, 100) for mean in means]
    sums = np.stack([np.bincount(strata, figures) for figures in counts])
    mean_value = np.bincount(strata, value / sizes[strata])
    is_shown = (sizes > 1) & (np.bincount(strata, share) / sizes > LEAST_MISSING)
    mean_rows = attach(averages.with_columns(scenario=pl.lit(AVERAGE)), _columns(sums, mean_value, bounds))
    parts.append(mean_rows.filter(pl.Series(is_shown)))
    return pl.concat(part.select(list(BOUNDS)) for part in parts).sort(list(BOUNDS)[:4])


def _columns(counts: NDArray[Any], value: NDArray[Any], bounds: Sequence[stats.Estimate]) -> dict[str, NDArray[Any]]:
    (least, low, _), (most, _, high) = bounds
    return dict(zip(list(BOUNDS)[4:], (*counts.astype(np.int64), value, least, low, most, high), strict=True))


def list_possible(run_data: RunData) -> pl.DataFrame:
    """Return whether each ended episode is right at least and at most.

    Columns: model, scenario, condition, protocol, sample_id, cluster; error (true if the episode is in no measure), missing;
    least and most (0 or 1), equal if the episode is not missing.
    """
    error, cut = pl.col("ending").is_in(ERRORS), pl.col("ending").is_in(CUT_SHORT)
    right = pl.col("correct").cast(pl.Int64)
    played = run_data.episodes.filter(~pl.col("ending").is_in([Ending.MAPPED, Ending.ANSWERED])).select(
        *NAMES, error.alias("error"), (error | cut).alias("missing"), pl.when(error).then(0).otherwise(right).alias("least"),
        pl.when(error | cut).then(1).otherwise(right).alias("most"),
    )  # fmt: skip
    unread = pl.col("correct").is_null()
    ends = [right.fill_null(value).alias(end) for end, value in (("least", 0), ("most", 1))]
    judged = run_data.judged.select(*NAMES, unread.alias("error"), unread.alias("missing"), *ends)
    return add_clusters(pl.concat([played, judged]), run_data).sort(NAMES)
