"""Worst and best case of every accuracy with missing episodes, with the intervals of both.

An episode is missing if it ended in an error, if a limit cut it short, or if the judge gave no verdict on its answer. In the
worst case all of these are wrong, in the best case all are right (Manski 1989, J. Hum. Resour. 24:343-360). Episodes that are not
played yet are unfinished, not missing. A figure has bounds if more than ``LEAST_MISSING`` of its episodes, or pairs, are missing.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from envs.types import CUT_SHORT, ERRORS, Ending
from orchestrator.report.measures.clustering import NAMES, add_clusters, cluster_numbers
from orchestrator.report.measures.estimates import GROUP
from orchestrator.report.measures.paired import SAMPLE_COLUMNS
from orchestrator.report.paper.published import AVERAGE
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.clustered import (
    Mean,
    average_means,
    estimate_mean,
    share_interval,
    t_interval,
)
from sweeps.protocol import ZERO_SHOT

LEAST_MISSING = 0.01
"""Largest share of missing episodes at which a figure needs no bounds."""
SCHEMA = {
    **dict.fromkeys(("model", "scenario", "condition", "protocol", "against"), pl.String),
    **dict.fromkeys(("n", "missing"), pl.Int64),
    **dict.fromkeys(("value", "least", "least_low", "most", "most_high"), pl.Float64),
}


@cached_per_run
def missing_bounds(run_data: RunData) -> pl.DataFrame:
    """Return the bounds of every cell, average, and difference from zero-shot from which more than 1% is missing.

    Columns: model, scenario (``avg`` for the unweighted mean), condition, protocol, against (empty, or ``zero-shot`` for a
    paired difference); n (episodes, or pairs) and missing; value as the other tables show it (accuracy, or the judge's
    aggregate); least (the worst case) with the lower end of its 95% interval, and most (the best case) with the upper end.
    """
    if affected_cells(run_data).is_empty():
        return pl.DataFrame(schema=SCHEMA)
    possible = list_possible(run_data)
    base = possible.filter(condition=ZERO_SHOT).drop("condition", "cluster")
    others = possible.filter(pl.col("condition") != ZERO_SHOT)
    differences = subtract(others.join(base, on=["model", *SAMPLE_COLUMNS], suffix="_other"))
    rows = [*_bound_rows(possible, ""), *_bound_rows(differences, ZERO_SHOT)]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort(list(SCHEMA)[:5])


@cached_per_run
def affected_cells(run_data: RunData) -> pl.DataFrame:
    """Return the rows of cells from which more than 1% of the ended episodes are missing."""
    names = ("errors", *CUT_SHORT, *(["unjudged"] if "unjudged" in run_data.rows.columns else []))
    return run_data.rows.filter(pl.sum_horizontal(names) > LEAST_MISSING * pl.col("finished"))


def list_possible(run_data: RunData) -> pl.DataFrame:
    """Return whether each ended episode is right at least and at most.

    Columns: model, scenario, condition, protocol, sample_id, cluster; error (true if the episode is in no measure), missing;
    least and most (0 or 1), equal if the episode is not missing, and shown, the least.
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
    return add_clusters(pl.concat([played, judged]).with_columns(shown="least"), run_data).sort(NAMES)


def subtract(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the differences of paired possible outcomes: the first's least minus the other's most, and the reverse."""
    either = [(pl.col(name) | pl.col(f"{name}_other")).alias(name) for name in ("error", "missing")]
    least, most = pl.col("least") - pl.col("most_other"), pl.col("most") - pl.col("least_other")
    return pairs.with_columns(*either, least=least, most=most, shown=pl.col("least") - pl.col("least_other"))


def _bound_rows(rows: pl.DataFrame, against: str) -> Iterator[tuple[object, ...]]:
    """Yield the rows of ``missing_bounds`` for cells and averages."""
    for (model, condition, protocol), group in rows.group_by(GROUP, maintain_order=True):
        cells = group.partition_by("scenario", as_dict=True, maintain_order=True)
        shares = {scenario: float(cell["missing"].mean()) for (scenario,), cell in cells.items()}  # type: ignore[arg-type]
        for (scenario,), cell in cells.items():
            if shares[scenario] > LEAST_MISSING:
                yield (model, scenario, condition, protocol, against, *_bound_average([cell], bool(against)))
        if len(cells) > 1 and np.mean(list(shares.values())) > LEAST_MISSING:
            yield (model, AVERAGE, condition, protocol, against, *_bound_average(list(cells.values()), bool(against)))


def _bound_average(cells: Sequence[pl.DataFrame], paired: bool) -> tuple[object, ...]:
    """Return n, missing, value, least, least_low, most and most_high, averaged over cells."""
    means = [cell.filter(~pl.col("error"))["shown"].mean() for cell in cells]
    value = None if None in means else 100 * float(np.mean(means))  # type: ignore[arg-type]
    ends = [_possible_mean(cells, end) for end in ("least", "most")]
    if len(cells) == 1 and not paired:
        bounds = [share_interval(mean, cells[0].height) for mean in ends]
    else:
        bounds = [t_interval(mean, -100 if paired else 0, 100) for mean in ends]
    counts = sum(cell.height for cell in cells), int(sum(cell["missing"].sum() for cell in cells))
    return (*counts, value, ends[0].value, bounds[0][1], ends[1].value, bounds[1][2])


def _possible_mean(cells: Sequence[pl.DataFrame], end: str) -> Mean:
    """Return the average over cells at one end, in percent or points."""
    return average_means([estimate_mean(100 * cell[end].to_numpy(), cluster_numbers(cell), unit=100) for cell in cells])
