"""Worst and best case of every figure with missing episodes, with the intervals of both.

An episode is missing if it ended in an error, if a limit cut it short, or if the judge gave no verdict on its answer. In the
worst case of accuracy all of these are wrong, in the best case all are right (Manski 1989, J. Hum. Resour. 24:343-360);
suggestions lie between what was played and the turn limit. Episodes that are not played yet are unfinished, not missing.
A figure has bounds if more than ``LEAST_MISSING`` of its episodes, or pairs, are missing.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import polars as pl

from envs.types import CUT_SHORT, ERRORS, Ending
from orchestrator.report.measures.estimates import GROUP, suggestion_limits
from orchestrator.report.measures.outcomes import NAMES, add_clusters, cluster_numbers
from orchestrator.report.measures.paired import SAMPLE_COLUMNS, rank_bounds
from orchestrator.report.paper.published import AVERAGE
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.clustered import (
    Mean,
    average_means,
    estimate_mean,
    share_interval,
    t_interval,
    t_test,
)
from sweeps.protocol import ZERO_SHOT, Protocol

LEAST_MISSING = 0.01
"""Largest share of missing episodes at which a figure needs no bounds."""
MEASURES = ("acc", "ps", "loops")
"""Measures with bounds; open-ended answers have only ``acc``, which is the judge's aggregate."""
SCHEMA = {
    **dict.fromkeys(("model", "scenario", "condition", "protocol", "against", "measure"), pl.String),
    **dict.fromkeys(("n", "missing"), pl.Int64),
    **dict.fromkeys(("value", "least", "least_low", "most", "most_high"), pl.Float64),
}


@cached_per_run
def missing_bounds(run_data: RunData) -> pl.DataFrame:
    """Return the bounds of every cell, average, and difference from zero-shot from which more than 1% is missing.

    Columns: model, scenario (``avg`` for the unweighted mean), condition, protocol, against (empty, or ``zero-shot`` for a
    paired difference), measure; n (episodes, or pairs) and missing; value as the other tables show it; least (the worst
    case) with the lower end of its 95% interval, and most (the best case) with the upper end of its own.
    """
    if affected_cells(run_data).is_empty():
        return pl.DataFrame(schema=SCHEMA)
    possible = possible_outcomes(run_data)
    base = possible.filter(condition=ZERO_SHOT).drop("condition", "cluster")
    others = possible.filter(pl.col("condition") != ZERO_SHOT)
    differences = subtract(others.join(base, on=["model", *SAMPLE_COLUMNS], suffix="_other"))
    rows = [*_bound_rows(possible, ""), *_bound_rows(differences, ZERO_SHOT)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort(list(SCHEMA)[:6])


def possible_outcomes(run_data: RunData) -> pl.DataFrame:
    """Return one row per ended episode of every model and condition with a cell from which more than 1% is missing.

    Columns: those of ``list_possible``. If one side of a difference from zero-shot is affected, the other is included too.
    """
    affected = affected_cells(run_data).select(GROUP).unique()
    groups = run_data.rows.select(GROUP).unique()
    missing_base = affected.filter(condition=ZERO_SHOT).select("model", "protocol")
    base = affected.with_columns(pl.lit(ZERO_SHOT).alias("condition"))
    wanted = pl.concat([affected, base, groups.join(missing_base, on=["model", "protocol"], how="semi")]).unique()
    episodes = run_data.episodes.join(wanted, on=list(GROUP), how="semi", maintain_order="left")
    return list_possible(run_data, episodes)


@cached_per_run
def affected_cells(run_data: RunData) -> pl.DataFrame:
    """Return the rows of cells from which more than 1% of the ended episodes are missing."""
    names = ("errors", *CUT_SHORT, *(["unjudged"] if "unjudged" in run_data.rows.columns else []))
    return run_data.rows.filter(pl.sum_horizontal(names) > LEAST_MISSING * pl.col("finished"))


def list_possible(run_data: RunData, episodes: pl.DataFrame) -> pl.DataFrame:
    """Return the least and the greatest possible value of each measure, for each ended episode.

    Columns: model, scenario, condition, protocol, sample_id, cluster; error (true if the episode is in no measure) and missing;
    and ``_least`` and ``_most`` of each measure, equal if the episode is not missing, null if the protocol lacks the measure.
    """
    limits = [(*cell, limit) for cell, limit in suggestion_limits(run_data).items()]
    schema = {"scenario": pl.String, "condition": pl.String, "limit": pl.Int64}
    error, cut = pl.col("ending").is_in(ERRORS), pl.col("ending").is_in(CUT_SHORT)
    steps = pl.when(error).then(0).otherwise(pl.col("turns").cast(pl.Int64) - 1)
    known = (pl.col("correct").cast(pl.Int64), steps, (pl.col("ending") == Ending.LIMIT).cast(pl.Int64))
    most = (pl.lit(1, pl.Int64), pl.max_horizontal("limit", steps), pl.lit(1, pl.Int64))
    played = episodes.filter(~pl.col("ending").is_in([Ending.MAPPED, Ending.ANSWERED]))
    rows = played.join(pl.DataFrame(limits, schema=schema, orient="row"), on=["scenario", "condition"], how="left")
    ends = [
        column
        for name, value, limit in zip(MEASURES, known, most, strict=True)
        for column in (
            pl.when(error).then(0).otherwise(value).alias(f"{name}_least"),
            pl.when(error | cut).then(limit).otherwise(value).alias(f"{name}_most"),
        )
    ]
    rows = rows.select(*NAMES, error.alias("error"), (error | cut).alias("missing"), *ends)
    asking = pl.col([f"{name}_{end}" for name in MEASURES[1:] for end in ("least", "most")])
    rows = rows.with_columns(pl.when(pl.col("protocol") != Protocol.OEG).then(asking).name.keep())
    return add_clusters(pl.concat([rows, _judged_answers(run_data, episodes)], how="diagonal"), run_data).sort(NAMES)


def _judged_answers(run_data: RunData, episodes: pl.DataFrame) -> pl.DataFrame:
    """Return the answers that the judge has read; without a verdict, an answer is missing."""
    answers = run_data.judged.join(episodes, on="key", how="semi")
    bit, unread = pl.col("correct").cast(pl.Int64), pl.col("correct").is_null()
    ends = [bit.fill_null(value).alias(f"acc_{end}") for end, value in (("least", 0), ("most", 1))]
    return answers.select(*NAMES, unread.alias("error"), unread.alias("missing"), *ends)


def subtract(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the differences of paired possible outcomes: the first's least minus the other's most, and the reverse.

    ``_shown`` is the difference that the other tables show, of the pairs without an error.
    """
    either = [(pl.col(name) | pl.col(f"{name}_other")).alias(name) for name in ("error", "missing")]
    least = [pl.col(f"{name}_least") - pl.col(f"{name}_most_other") for name in MEASURES]
    most = [pl.col(f"{name}_most") - pl.col(f"{name}_least_other") for name in MEASURES]
    shown = [(pl.col(f"{name}_least") - pl.col(f"{name}_least_other")).alias(f"{name}_shown") for name in MEASURES]
    return pairs.with_columns(*either, *least, *most, *shown)


def _bound_rows(rows: pl.DataFrame, against: str) -> Iterator[tuple[object, ...]]:
    """Yield the rows of ``missing_bounds`` for cells and averages."""
    for (model, condition, protocol), group in rows.group_by(GROUP, maintain_order=True):
        cells = group.partition_by("scenario", as_dict=True, maintain_order=True)
        shares = {scenario: float(cell["missing"].mean()) for (scenario,), cell in cells.items()}  # type: ignore[arg-type]
        for measure in MEASURES[:1] if protocol == Protocol.OEG else MEASURES:
            names = (condition, protocol, against, measure)
            for (scenario,), cell in cells.items():
                if shares[scenario] > LEAST_MISSING:
                    yield (model, scenario, *names, *_bound_average([cell], measure, bool(against)))
            if len(cells) > 1 and np.mean(list(shares.values())) > LEAST_MISSING:
                yield (model, AVERAGE, *names, *_bound_average(list(cells.values()), measure, bool(against)))


def _bound_average(cells: Sequence[pl.DataFrame], measure: str, paired: bool) -> tuple[object, ...]:
    """Return n, missing, value, least, least_low, most and most_high, averaged over cells."""
    shown = f"{measure}_shown" if paired else f"{measure}_least"
    scale = 1 if measure == "ps" else 100
    means = [cell.filter(~pl.col("error"))[shown].mean() for cell in cells]
    value = None if None in means else scale * float(np.mean(means))  # type: ignore[arg-type]
    least, most = (possible_mean(cells, measure, end) for end in ("least", "most"))
    if len(cells) == 1 and scale == 100 and not paired:
        bounds = [share_interval(mean, cells[0].height) for mean in (least, most)]
    else:
        highest = np.inf if measure == "ps" else 100.0
        bounds = [t_interval(mean, -highest if paired else 0.0, highest) for mean in (least, most)]
    return (
        sum(cell.height for cell in cells), int(sum(cell["missing"].sum() for cell in cells)), value,
        least.value, bounds[0][1], most.value, bounds[1][2],
    )  # fmt: skip


def possible_mean(cells: Sequence[pl.DataFrame], measure: str, end: str) -> Mean:
    """Return the average over cells at one end of a measure, in percent, points, or suggestions."""
    scale = 1 if measure == "ps" else 100
    name = f"{measure}_{end}"
    return average_means([estimate_mean(scale * c[name].to_numpy(), cluster_numbers(c), unit=scale) for c in cells])


def possible_ranks(
    run_data: RunData, condition: str, protocol: str, names: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """Return joint 95% bounds of each model's rank that hold however the missing episodes of all models would have ended.

    Empty unless more than 1% is missing from a cell of the models. A model ranks above another if it beats it in the worst case
    of its own missing episodes and the best case of the other's, by a test that is corrected over all pairs.
    """
    own = {"condition": condition, "protocol": protocol}
    if affected_cells(run_data).filter(pl.col("model").is_in(list(names)), **own).is_empty():
        return {}
    episodes = run_data.episodes.filter(pl.col("model").is_in(list(names)), **own)
    by_model = list_possible(run_data, episodes).partition_by("model", as_dict=True)
    pairs = combinations(names, 2)
    return rank_bounds(names, ((a, b, *_test_pair(by_model[a,], by_model[b,])) for a, b in pairs))


def _test_pair(first: pl.DataFrame, second: pl.DataFrame) -> tuple[float, float]:
    """Return the sign of the difference of averages and its p, or 0 and 1 if missing episodes could reverse the sign."""
    same = ["scenario", "sample_id"]
    differences = subtract(first.join(second.drop("cluster"), on=same, suffix="_other")).sort("scenario", "sample_id")
    cells = differences.partition_by("scenario", maintain_order=True)
    for end, sign in (("least", 1), ("most", -1)) if cells else ():
        mean = possible_mean(cells, "acc", end)
        if sign * mean.value > 0:
            return sign, t_test(mean)
    return 0, 1.0
