"""Paired comparisons of conditions, and of models, on the same samples.

An episode without its partner, or one that ended in an error, is in no pair. Accuracy is tested by McNemar's exact test (1947)
in a cell of independent samples, and by Student's t over clusters, or over scenarios as strata, elsewhere; suggestions by
``skewed_test``. Episodes that end at the turn limit are a share of their own, with an interval and no test.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import polars as pl

from orchestrator.report.measures.outcomes import cluster_numbers, outcomes
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.clustered import (
    Mean,
    average_means,
    equivalence_test,
    estimate_mean,
    skewed_test,
    t_interval,
    t_test,
)
from orchestrator.report.statistics.exact_tests import ALPHA, mcnemar
from sweeps.protocol import ZERO_SHOT
from sweeps.sections import MARGIN

SAMPLE_COLUMNS = ("scenario", "protocol", "sample_id")
ASKING_COLUMNS = ("ps_difference", "ps_low", "ps_high", "ps_p", "loops_difference", "loops_low", "loops_high")
MEASURED = ("difference", "difference_low", "difference_high", "p", "equal_p", *ASKING_COLUMNS)


class PairedDifferences(NamedTuple):
    """The mean differences of one group of pairs: first minus other."""

    n: int
    """Pairs."""
    right: Mean
    """Of accuracy, in points."""
    suggestions: Mean | None
    """None for open-ended answers."""
    loops: Mean | None
    """Of endings at the turn limit, in points."""
    exact_p: float | None
    """McNemar's p; None where samples are clustered."""


@cached_per_run
def condition_pairs(run_data: RunData) -> pl.DataFrame:
    """Return tallied pairs of every other condition with zero-shot (``tally_pairs``)."""
    scored = outcomes(run_data)
    base = scored.filter(condition=ZERO_SHOT).drop("condition", "cluster")
    pairs = scored.filter(pl.col("condition") != ZERO_SHOT).join(base, on=["model", *SAMPLE_COLUMNS], suffix="_other")
    return tally_pairs(pairs.lazy(), ["model", "scenario", "condition", "protocol"])


@cached_per_run
def model_pairs(run_data: RunData, condition: str, unanswered_as_wrong: bool = False) -> pl.DataFrame:
    """Return tallied pairs of every two models under one condition (``tally_pairs``)."""
    scored = outcomes(run_data, unanswered_as_wrong).lazy().filter(pl.col("condition") == condition).drop("condition")
    return tally_pairs(pair_models(scored, list(SAMPLE_COLUMNS)), ["model", "other", "scenario", "protocol"])


def pair_models(rows: pl.LazyFrame, same: list[str]) -> pl.LazyFrame:
    """Return every pair of models once, the first by name as ``model``."""
    pairs = rows.join(rows.rename({"model": "other"}), on=same, suffix="_other")
    return pairs.filter(pl.col("model") < pl.col("other"))


def tally_pairs(pairs: pl.LazyFrame, names: Sequence[str]) -> pl.DataFrame:
    """Count equal pairs, to save memory: columns ``names``, correct, correct_other, steps, loops, cluster, count.

    ``steps`` is turns minus turns_other, ``loops`` the difference of endings at the turn limit. One row per kind of pair that
    occurs, in any order.
    """
    looped, looped_other = (pl.col(name).cast(pl.Int64) for name in ("looped", "looped_other"))
    steps = (pl.col("turns") - pl.col("turns_other")).alias("steps")
    tallies = pairs.group_by(
        *names, "correct", "correct_other", steps, (looped - looped_other).alias("loops"), "cluster"
    ).len("count")
    return tallies.with_columns(pl.col("count").cast(pl.Int64)).collect(engine="streaming")


def compare_pairs(pairs: pl.DataFrame, names: Sequence[str], margin: float = MARGIN) -> pl.DataFrame:
    """Return one row per comparison of tallied pairs by ``names``, one of which is scenario.

    Columns: n (pairs), acc and acc_other (percent; for open-ended answers the judge's aggregate), gained and lost (discordant
    pairs), difference (points), ps_difference (suggestions) and loops_difference (points of episodes that end at the turn limit)
    with their 95% intervals; p, ps_p, and equal_p (of a difference outside ``margin`` points). Those of suggestions and loops are
    null for open-ended answers.
    """
    count, first, second = pl.col("count"), pl.col("correct"), pl.col("correct_other")
    counts = pairs.group_by(names).agg(
        count.sum().alias("n"),
        (100 * count.filter(first).sum() / count.sum()).alias("acc"),
        (100 * count.filter(second).sum() / count.sum()).alias("acc_other"),
        count.filter(first & ~second).sum().alias("gained"),
        count.filter(~first & second).sum().alias("lost"),
    )
    rows = [(*group, *_measure([paired], margin)) for group, paired in paired_differences(pairs, names)]
    schema = {**dict.fromkeys(names, pl.String), **dict.fromkeys(MEASURED, pl.Float64)}
    measured = pl.DataFrame(rows, schema=schema, orient="row")
    return measured.join(counts, on=list(names), maintain_order="left").select(
        *names, "n", "acc", "acc_other", *MEASURED[:3], "gained", "lost", *MEASURED[3:]
    )


def compare_averages(pairs: pl.DataFrame, names: Sequence[str], margin: float = MARGIN) -> pl.DataFrame:
    """Return one row per comparison by ``names``, averaged over scenarios.

    Columns: scenarios, n (pairs), and the differences and p of ``compare_pairs``.
    """
    rows = []
    for group, parts in groupby(paired_differences(pairs, [*names, "scenario"]), key=lambda part: part[0][:-1]):
        scenarios = [paired for _, paired in parts]
        counts = (len(scenarios), sum(paired.n for paired in scenarios))
        rows.append((*group, *counts, *_measure(scenarios, margin)))
    counts_schema = {"scenarios": pl.Int64, "n": pl.Int64}
    schema = {**dict.fromkeys(names, pl.String), **counts_schema, **dict.fromkeys(MEASURED, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def paired_differences(
    pairs: pl.DataFrame, names: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], PairedDifferences]]:
    """Yield the differences of tallied pairs, grouped and sorted by ``names``, one of which is scenario."""
    rest = [name for name in pairs.columns if name not in names]  # sums of floats depend on their order
    for group, part in pairs.sort(*names, *rest).group_by(names, maintain_order=True):
        yield tuple(map(str, group)), scenario_differences(part)


def scenario_differences(pairs: pl.DataFrame) -> PairedDifferences:
    """Return the differences of tallied pairs of one scenario."""
    gains = (pairs["correct"].cast(pl.Int64) - pairs["correct_other"].cast(pl.Int64)).to_numpy()
    counts, groups = pairs["count"].to_numpy(), cluster_numbers(pairs)
    exact = None if groups is not None else float(mcnemar(counts[gains > 0].sum(), counts[gains < 0].sum()))
    suggestions = loops = None
    if not pairs["steps"].null_count():
        suggestions = estimate_mean(pairs["steps"].to_numpy(), groups, counts)
        loops = estimate_mean(100 * pairs["loops"].to_numpy(), groups, counts, unit=100)
    right = estimate_mean(100 * gains, groups, counts, unit=100)
    return PairedDifferences(int(counts.sum()), right, suggestions, loops, exact)


def _measure(parts: Sequence[PairedDifferences], margin: float) -> tuple[float | None, ...]:
    """Return ``MEASURED`` of the average over strata; the exact test is that of a single stratum."""
    right = average_means([part.right for part in parts])
    value, low, high = t_interval(right, -100, 100)
    p, exact = t_test(right), parts[0].exact_p if len(parts) == 1 else None
    if exact is not None and not np.isnan(p):
        p = max(p, exact)
        low, high = (min(low, 0.0), max(high, 0.0)) if p >= ALPHA else (low, high)
    measured: tuple[float, ...] = (value, low, high, p, equivalence_test(right, margin))
    asking = [(part.suggestions, part.loops) for part in parts if part.suggestions and part.loops]
    if asking:
        suggestions, loops = (average_means(means) for means in zip(*asking, strict=True))
        measured += (*skewed_test(suggestions), *t_interval(loops, -100, 100))
    known = [None if np.isnan(figure) else figure for figure in measured]
    return (*known, *(None,) * (len(MEASURED) - len(known)))


def is_significant(p: float | None) -> bool:
    """Return True if a corrected p is below alpha; None, of a comparison outside the family, is not significant."""
    return p is not None and p < ALPHA
