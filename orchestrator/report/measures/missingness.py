"""Worst and best case of every accuracy with missing episodes, with the intervals of both.

An episode is missing if it ended in an error, if a limit cut it short, or if the judge gave no verdict on its answer. In the
worst case all of these are wrong, in the best case all are right (Manski 1989, J. Hum. Resour. 24:343-360). Episodes that are not
played yet are unfinished, not missing. A figure has bounds if more than ``LEAST_MISSING`` of its episodes are missing.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

from envs.types import CUT_SHORT, ERRORS, Ending
from orchestrator.report.measures.clustering import NAMES, add_clusters, cluster_numbers
from orchestrator.report.measures.estimates import GROUP
from orchestrator.report.paper.published import AVERAGE
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.clustered import average_means, estimate_mean, share_interval, t_interval

LEAST_MISSING = 0.01
"""Largest share of missing episodes at which a figure needs no bounds."""
ENDS = ("least", "most")
SCHEMA = {
    **dict.fromkeys(("model", "scenario", "condition", "protocol"), pl.String),
    **dict.fromkeys(("n", "missing"), pl.Int64),
    **dict.fromkeys(("value", "least", "least_low", "most", "most_high"), pl.Float64),
}


@cached_per_run
def missing_bounds(run_data: RunData) -> pl.DataFrame:
    """Return the bounds of every cell and average from which more than 1% is missing.

    Columns: model, scenario (``avg`` for the unweighted mean), condition, protocol; n (episodes) and missing; value as the
    other tables show it (accuracy, or the judge's aggregate); least (the worst case) with the lower end of its 95% interval,
    and most (the best case) with the upper end.
    """
    rows = list[tuple[object, ...]]()
    names = ("errors", *CUT_SHORT, *(["unjudged"] if "unjudged" in run_data.rows.columns else []))
    if run_data.rows.select((pl.sum_horizontal(names) > LEAST_MISSING * pl.col("finished")).any()).item():
        for (model, condition, protocol), group in list_possible(run_data).group_by(GROUP, maintain_order=True):
            cells = group.partition_by("scenario", maintain_order=True)
            parts = [(cell["scenario"][0], [cell]) for cell in cells] + ([(AVERAGE, cells)] if len(cells) > 1 else [])
            for scenario, part in parts:
                if np.mean([cell["missing"].to_numpy().mean() for cell in part]) > LEAST_MISSING:
                    rows.append((model, scenario, condition, protocol, *_bound_average(part)))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row").sort(list(SCHEMA)[:4])


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


def _bound_average(cells: Sequence[pl.DataFrame]) -> tuple[object, ...]:
    """Return n, missing, value, least, least_low, most and most_high, averaged over cells."""
    answered = [cell.filter(~pl.col("error"))["least"].mean() for cell in cells]
    value = None if None in answered else 100 * float(np.mean(answered))  # type: ignore[arg-type]
    ends = [
        [estimate_mean(100 * cell[end].to_numpy(), cluster_numbers(cell), unit=100) for cell in cells] for end in ENDS
    ]
    if len(cells) == 1:
        (_, low, _), (_, _, high) = (share_interval(means[0], cells[0].height) for means in ends)
    else:
        (_, low, _), (_, _, high) = (t_interval(average_means(means), 0, 100) for means in ends)
    counts = sum(cell.height for cell in cells), int(sum(cell["missing"].sum() for cell in cells))
    least, most = (average_means(means).value for means in ends)
    return (*counts, value, least, low, most, high)
