"""How far a run is from published figures that are rounded: in episodes for one figure, in one sentence for a table.

A rerun plays the paper's own samples, so its figures differ by episodes that ended otherwise and not by sampling: a figure
agrees only if some whole number of episodes rounds to the published one and is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor

import polars as pl
from scipy.stats import spearmanr  # type: ignore[import-untyped]

from orchestrator.report.published import AVERAGE, ROUNDING
from orchestrator.report.wording import counted

FEWEST_MODELS = 3
"""Models from which on a rank correlation says something."""
FLOAT_ERROR = 1e-9


def least_difference(total: int, n: int, published: float, scale: float) -> int:
    """The smallest |total - k| over whole k with scale * k / n within rounding of ``published``; the sign is total's side.

    ``total`` counts correct episodes (scale 100) or suggestions (scale 1) of ``n`` episodes. Where no whole number
    rounds to the published figure, the nearest stands for it.
    """
    lowest = ceil((published - ROUNDING) * n / scale - FLOAT_ERROR)
    highest = floor((published + ROUNDING) * n / scale + FLOAT_ERROR)
    if lowest > highest:
        lowest = highest = round(published * n / scale)
    return max(0, total - highest) - max(0, lowest - total)


def averages_agree(ours: float, published: float) -> bool:
    """Whether two averages of the same figures may differ by rounding alone: the published one's own and its figures'."""
    return abs(ours - published) <= 2 * ROUNDING + FLOAT_ERROR


def agreement(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a table and measure: protocol, condition, measure, exact, figures, outside, mean_absolute, models, rho.

    ``rows`` as ``compare`` gives them. ``outside`` counts figures that do not agree, averages not counted;
    ``mean_absolute`` is of figures, in their unit. ``rho`` is Spearman's correlation of the models' averages, null for
    fewer than three models or equal averages.
    """
    names = ["protocol", "condition", "measure"]
    known = rows.filter(pl.col("published").is_not_null())
    figures = known.filter(pl.col("scenario") != AVERAGE)
    tables = figures.group_by(names, maintain_order=True).agg(
        pl.col("exact").all(),
        pl.len().cast(pl.Int64).alias("figures"),
        (~pl.col("inside")).sum().cast(pl.Int64).alias("outside"),
        pl.col("difference").abs().mean().alias("mean_absolute"),
    )
    ranks = [(*key, *_rank(part)) for key, part in known.filter(scenario=AVERAGE).group_by(names)]
    schema = {**dict.fromkeys(names, pl.String), "models": pl.Int64, "rho": pl.Float64}
    return tables.join(pl.DataFrame(ranks, schema=schema, orient="row"), on=names, how="left", maintain_order="left")


def verdicts(rows: pl.DataFrame) -> Iterator[str]:
    """One sentence a table and measure: whether it agrees with the paper, and how far it is from it."""
    for row in agreement(rows).iter_rows(named=True):
        unit = "" if row["measure"] == "ps" else " points"
        how = "off by more than rounding allows" if row["exact"] else "outside our 95% interval"
        off = f"{row['outside']} of {counted(row['figures'], 'figure')} {how}"
        said = off if row["outside"] else "agrees with the paper"
        rank = "" if row["rho"] is None else f", rank correlation of {counted(row['models'], 'model')} {row['rho']:.2f}"
        name = f"{row['condition']} ({row['protocol']}), {row['measure']}"
        yield f"{name}: {said}; mean absolute difference {row['mean_absolute']:.2f}{unit}{rank}"


def _rank(averages: pl.DataFrame) -> tuple[int, float | None]:
    ours, published = averages["ours"], averages["published"]
    if averages.height < FEWEST_MODELS or ours.n_unique() < 2 or published.n_unique() < 2:
        return averages.height, None
    return averages.height, float(spearmanr(ours, published).statistic)
