"""Worst and best case of every accuracy with missing episodes, with the intervals of both.

An episode is missing if it ended in an error, if a limit cut it short, or if the judge gave no verdict on its answer. In the
worst case all of these are wrong, in the best case all are right (Manski 1989, J. Hum. Resour. 24:343-360). Episodes that are not
played yet are unfinished, not missing. A figure has bounds if more than ``LEAST_MISSING`` of its episodes are missing.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from envs.types import CUT_SHORT, ERRORS, Ending
from orchestrator.report.measures.clustering import NAMES, add_clusters, attach, independent_units, number_groups
from orchestrator.report.paper.published import AVERAGE
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.scores.answer import GROUP
from orchestrator.report.statistics import clustered as stats

LEAST_MISSING = 0.01
"""Largest share of missing episodes at which a figure needs no bounds."""
ENDS = ("least", "most")
SCHEMA = {
    **dict.fromkeys(("model", "scenario", "condition", "protocol"), pl.String),
    **dict.fromkeys(("n", "missing"), pl.Int64),
    **dict.fromkeys(("value", "least", "least_low", "most", "most_high"), pl.Float64),
}


@cached_per_run
@stats.unknown_is_nan
def missing_bounds(run_data: RunData) -> pl.DataFrame:
    """Return the bounds of every cell and average from which more than 1% is missing.

    Columns: model, scenario (``avg`` for the unweighted mean), condition, protocol; n (episodes) and missing; value as the
    other tables show it (accuracy, or the judge's aggregate); least (the worst case) with the lower end of its 95% interval,
    and most (the best case) with the upper end.
    """
    names = ("errors", *CUT_SHORT, *(["unjudged"] if "unjudged" in run_data.rows.columns else []))
    if not run_data.rows.select((pl.sum_horizontal(names) > LEAST_MISSING * pl.col("finished")).any()).item():
        return pl.DataFrame(schema=SCHEMA)
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
    return pl.concat(part.select(list(SCHEMA)) for part in parts).sort(list(SCHEMA)[:4])


def _columns(counts: NDArray[Any], value: NDArray[Any], bounds: Sequence[stats.Estimate]) -> dict[str, NDArray[Any]]:
    (least, low, _), (most, _, high) = bounds
    return dict(zip(list(SCHEMA)[4:], (*counts.astype(np.int64), value, least, low, most, high), strict=True))


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
