"""Distance of a run's figures from rounded published ones, by figure and by table, and of its decoding from the paper's.

A rerun plays the paper's own samples, so its figures differ by the episodes that end differently, and not by sampling. A figure
agrees only if our number of correct episodes rounds to the published figure.
"""

from collections.abc import Iterator
from math import ceil, floor

import numpy as np
import polars as pl
from scipy.special import bdtr, bdtrc  # type: ignore[import-untyped]

from envs.plural import pluralize
from orchestrator.report.paper.published import AVERAGE, ROUNDING
from orchestrator.report.statistics.proportion import Z
from sweeps.sampling import AS_THE_PACKAGE, Sampling
from sweeps.spec import OpenEnded

FEWEST_MODELS = 3
"""Fewest models for a rank correlation."""
FLOAT_ERROR = 1e-9


def smallest_difference(total: int, n: int, published: float, scale: float) -> int:
    """Return ``total`` minus the nearest integer k for which scale * k / n rounds to ``published``.

    ``total`` counts correct episodes (scale 100) or suggestions (scale 1) of ``n`` episodes. If no integer rounds to the
    published figure, the nearest one is used.
    """
    lowest = ceil((published - ROUNDING) * n / scale - FLOAT_ERROR)
    highest = floor((published + ROUNDING) * n / scale + FLOAT_ERROR)
    if lowest > highest:
        lowest = highest = round(published * n / scale)
    return max(0, total - highest) - max(0, lowest - total)


def averages_agree(ours: float, published: float, flip_error: float = 0.0) -> bool:
    """Return True if rounding (of the average and of its figures) or flips can explain the difference of two averages.

    ``flip_error`` is the standard error of the difference, in points, due to answers that change with the batch.
    """
    return abs(ours - published) <= 2 * ROUNDING + Z * flip_error + FLOAT_ERROR


def flip_probability(episodes: int, n: int, flip_rate: float) -> float:
    """Return the chance that flips alone move a count of ``n`` episodes by ``episodes`` or more, up or down.

    Every episode flips with the chance ``flip_rate``. Gains and losses are equally likely, because both runs are alike.
    """
    if episodes == 0 or n <= 0:
        return 1.0
    flips = np.arange(abs(episodes), n + 1)
    either = 2 * bdtrc(np.ceil((flips + abs(episodes)) / 2) - 1, flips, 0.5)
    chances = bdtr(flips, n, flip_rate) - bdtr(flips - 1, n, flip_rate)
    return float(chances @ np.minimum(either, 1.0))


def agreement(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row per table and measure: protocol, condition, measure, exact, figures, outside, mean_absolute, models, rho.

    ``rows`` are those of ``compare_with_paper``. ``figures`` and ``outside`` (figures that do not agree) leave averages
    out; ``mean_absolute`` is the mean absolute difference, in the unit of the figures. ``rho`` is Spearman's correlation of the
    models' averages, null for fewer than three models or equal averages.
    """
    names = ["protocol", "condition", "measure"]
    published = rows.filter(pl.col("published").is_not_null())
    figures = published.filter(pl.col("scenario") != AVERAGE)
    tables = figures.group_by(names, maintain_order=True).agg(
        pl.col("exact").all(),
        pl.len().cast(pl.Int64).alias("figures"),
        (~pl.col("inside")).sum().cast(pl.Int64).alias("outside"),
        pl.col("difference").abs().mean().alias("mean_absolute"),
    )
    ranks = [(*key, *_rank_correlation(part)) for key, part in published.filter(scenario=AVERAGE).group_by(names)]
    schema = {**dict.fromkeys(names, pl.String), "models": pl.Int64, "rho": pl.Float64}
    return tables.join(pl.DataFrame(ranks, schema=schema, orient="row"), on=names, how="left", maintain_order="left")


def agreement_sentences(rows: pl.DataFrame) -> Iterator[str]:
    """Yield one sentence per table and measure on its agreement with the paper."""
    for row in agreement(rows).iter_rows(named=True):
        unit = "" if row["measure"] == "ps" else " points"
        how = "off by more than rounding allows" if row["exact"] else "outside our 95% interval"
        off = f"{row['outside']} of {pluralize(row['figures'], 'figure')} {how}"
        verdict = off if row["outside"] else "agrees with the paper"
        rank = (
            "" if row["rho"] is None else f", rank correlation of {pluralize(row['models'], 'model')} {row['rho']:.2f}"
        )
        name = f"{row['condition']} ({row['protocol']}), {row['measure']}"
        yield f"{name}: {verdict}; mean absolute difference {row['mean_absolute']:.2f}{unit}{rank}"


def _rank_correlation(averages: pl.DataFrame) -> tuple[int, float | None]:
    if averages.height < FEWEST_MODELS or min(averages[name].n_unique() for name in ("ours", "published")) < 2:
        return averages.height, None
    return averages.height, float(averages.select(pl.corr("ours", "published", method="spearman")).item())


def decoding_mismatch(sampling: Sampling) -> str | None:
    """Return why decoding is not comparable (another temperature or number of new tokens), or None."""
    paper = Sampling()
    if (sampling.temperature, sampling.max_tokens) == (paper.temperature, paper.max_tokens):
        return None
    return (
        f"decoded otherwise than the paper: {sampling.description} with at most {sampling.max_tokens} new tokens, instead of each"
        f" checkpoint's generation_config with at most {paper.max_tokens}"
    )


def sampling_mismatch(sampling: Sampling) -> str | None:
    """Return why open-ended answers are not decoded as in the package's example (sampled, no tight limit), or None."""
    is_sampled = sampling.temperature > 0 or (sampling.checkpoint and sampling.sampled)
    fewest = OpenEnded().sampling.max_tokens
    if is_sampled and sampling.max_tokens >= fewest:
        return None
    return (
        f"answered otherwise than in the paper: {sampling.description} with at most {sampling.max_tokens:,} new tokens, instead"
        f" of sampled with a limit of {fewest:,} or more"
    )


def decoding_note(sampling: Sampling, protocol: str) -> str:
    """Return how the decoding of compared figures differs from the package's; empty if it does not."""
    package = Sampling(checkpoint=True) if protocol == "mcqa" else AS_THE_PACKAGE
    if sampling == package:
        return ""
    ours, theirs = (
        f"{settings.description}, at most {settings.max_tokens:,} new tokens" for settings in (sampling, package)
    )
    return f'decoding of {protocol} differs: ours {ours}; the package\'s {theirs} (sampling = "checkpoint")'
