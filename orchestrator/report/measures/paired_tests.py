"""Paired comparisons of conditions, and of models, on the same samples.

An episode without its partner, or one that ended in an error, is in no pair. Accuracy is tested by McNemar's
exact test (1947), a binomial of the discordant pairs, or, if samples are clustered, by the sign-flip test of the sums of
clusters; suggestions by a studentized mean corrected for skewness (``skewed_mean_test``). Differences in loops have an interval
only. p is corrected by Holm's method (1979) over the comparisons of models that the sweep declares, in each protocol by itself;
baselines are reference points, not hypotheses, and are not corrected.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from orchestrator.report.measures.estimates import suggestion_limits
from orchestrator.report.measures.families import (
    correct_families,
    declared_changes,
    evidence_settings,
    holm_columns,
    pair_models,
)
from orchestrator.report.measures.outcomes import cluster_numbers, outcomes
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.exact_tests import ALPHA, detectable, mcnemar, sign_flip
from orchestrator.report.statistics.intervals import (
    Integers,
    Stratum,
    estimate_mean,
    score_test,
    score_tests,
    stratum_from_counts,
    stratum_from_values,
)
from orchestrator.report.statistics.means import skewed_mean_test
from sweeps.protocol import ZERO_SHOT
from sweeps.sections import MARGIN

SAMPLE_COLUMNS = ("scenario", "protocol", "sample_id")
LOOP_COLUMNS = ("loops_difference", "loops_low", "loops_high")
ASKING_COLUMNS = ("ps_difference", "ps_low", "ps_high", "ps_p", *LOOP_COLUMNS)
MEASURED = ("effective", "difference_low", "difference_high", "p", "equal_p", *ASKING_COLUMNS)
SuggestionLimits = Mapping[tuple[str, str], int]
"""(scenario, condition) -> the most suggestions of an episode (``suggestion_limits``)."""


class AskingDifferences(NamedTuple):
    """Differences of suggestions and of loops of one group of pairs."""

    steps: Stratum
    """Differences of suggestions."""
    loops: Stratum
    """Differences of endings at the turn limit, in points."""


class PairedDifferences(NamedTuple):
    """The differences of one group of pairs: first minus other."""

    n: int
    """Pairs."""
    right: Stratum
    """Differences of accuracy, in points."""
    asking: AskingDifferences | None
    """None for open-ended answers."""
    gains: tuple[Integers, Integers]
    """Distinct differences of accuracy (or of sums of clusters) and their frequencies, for the exact test."""
    clustered: bool


@cached_per_run
def compare_conditions(run_data: RunData) -> pl.DataFrame:
    """Compare every other condition with zero-shot, sample by sample: one row per model x scenario x condition x protocol.

    Columns: n (pairs), acc and acc_other (percent; for open-ended answers the judge's aggregate), difference
    (points) with difference_low and difference_high (Tango's interval), gained and lost (discordant pairs), p, p_holm,
    equal_p and equal_p_holm (of a difference outside the margin of ``[evidence]``: two one-sided tests), detectable (points, at
    the level of one comparison of the family; see ``detectable``), ps_difference with ps_low, ps_high,
    ps_p, ps_p_holm, and loops_difference (points of episodes that end at the turn limit) with loops_low, loops_high. For
    baselines, detectable and every corrected p are null unless only baselines are planned; for open-ended answers, the columns
    of ps and loops are null.
    """
    pairs, family = condition_pairs(run_data)
    names = ["model", "scenario", "condition", "protocol"]
    return compare_pairs(pairs, names, family, suggestion_limits(run_data), *evidence_settings(run_data))


@cached_per_run
def compare_models(run_data: RunData) -> pl.DataFrame:
    """Compare every two models under zero-shot: one row per model x other x scenario x protocol.

    ``model`` comes before ``other`` by name; differences are model minus other. Columns as in ``compare_conditions``.
    """
    pairs, family = model_pairs(run_data, ZERO_SHOT)
    names = ["model", "other", "scenario", "protocol"]
    return compare_pairs(pairs, names, family, suggestion_limits(run_data), *evidence_settings(run_data))


@cached_per_run
def condition_pairs(run_data: RunData) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return tallied pairs of every other condition with zero-shot (``tally_pairs``), and the declared comparisons."""
    scored = outcomes(run_data)
    base = scored.filter(condition=ZERO_SHOT).drop("condition", "cluster")
    pairs = scored.filter(pl.col("condition") != ZERO_SHOT).join(base, on=["model", *SAMPLE_COLUMNS], suffix="_other")
    family = declared_changes(run_data.models_or_baselines(run_data.planned))
    names = ["model", "scenario", "condition", "protocol"]
    return tally_pairs(pairs.lazy(), names), family.select(names)


@cached_per_run
def model_pairs(
    run_data: RunData, condition: str, unanswered_as_wrong: bool = False
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return tallied pairs of every two models under one condition (``tally_pairs``), and the declared comparisons."""
    scored = outcomes(run_data, unanswered_as_wrong).lazy().filter(pl.col("condition") == condition).drop("condition")
    planned = run_data.models_or_baselines(run_data.planned).filter(condition=condition)
    family = pair_models(planned.select("model", "scenario", "protocol").lazy(), ["scenario", "protocol"]).collect()
    names = ["model", "other", "scenario", "protocol"]
    return tally_pairs(pair_models(scored, list(SAMPLE_COLUMNS)), names), family.select(names)


def tally_pairs(pairs: pl.LazyFrame, names: Sequence[str]) -> pl.DataFrame:
    """Count equal pairs, to save memory: columns ``names``, correct, correct_other, steps, loops, cluster, count.

    ``steps`` is turns minus turns_other, ``loops`` the difference of endings at the turn limit. One row per kind of pair that
    occurs, in any order.
    """
    tallies = pairs.group_by(*names, "correct", "correct_other", *_asking_steps(), "cluster").len("count")
    return tallies.with_columns(pl.col("count").cast(pl.Int64)).collect(engine="streaming")


def _asking_steps() -> list[pl.Expr]:
    looped, looped_other = (pl.col(name).cast(pl.Int64) for name in ("looped", "looped_other"))
    return [(pl.col("turns") - pl.col("turns_other")).alias("steps"), (looped - looped_other).alias("loops")]


def is_significant(p: float | None) -> bool:
    """Return True if a corrected p is below alpha; None, of a comparison outside the family, is not significant."""
    return p is not None and p < ALPHA


def compare_pairs(
    pairs: pl.DataFrame,
    names: Sequence[str],
    family: pl.DataFrame,
    limits: SuggestionLimits,
    margin: float = MARGIN,
    tests: int = 0,
) -> pl.DataFrame:
    """Return one row per comparison of tallied pairs by ``names``, corrected over ``family``, or over all ``tests`` if given."""
    rows = pairs.group_by(names).agg(_count_columns()).sort(names)
    table = _difference_table(pairs, names, limits, margin)
    rows = rows.join(table, on=list(names), how="left", maintain_order="left")
    rows = correct_families(rows, names, family, _corrected_columns, tests)
    first = [*names, "n", "acc", "acc_other", "difference", "difference_low", "difference_high", "gained", "lost"]
    return rows.select(*first, "p", "p_holm", "equal_p", "equal_p_holm", "detectable", *ASKING_COLUMNS, "ps_p_holm")


def _corrected_columns(tests: pl.DataFrame, family: int) -> list[pl.Series]:
    """Return p_holm, ps_p_holm and detectable."""
    shares = ((tests["gained"] + tests["lost"]) / tests["n"]).to_list()
    alpha = ALPHA / max(family, 1)
    least = [detectable(int(n), share, alpha) for n, share in zip(tests["effective"].to_list(), shares, strict=True)]
    return [*holm_columns(tests, family), pl.Series("detectable", least, dtype=pl.Float64)]


def _count_columns() -> list[pl.Expr]:
    count, first, second = pl.col("count"), pl.col("correct"), pl.col("correct_other")
    rights, others = (count.filter(answers).sum() for answers in (first, second))
    return [
        count.sum().alias("n"),
        (100 * (rights / count.sum())).alias("acc"),
        (100 * (others / count.sum())).alias("acc_other"),
        (100 * (rights - others) / count.sum()).alias("difference"),
        count.filter(first & ~second).sum().alias("gained"),
        count.filter(~first & second).sum().alias("lost"),
    ]


def paired_strata(pairs: pl.DataFrame, limit: int) -> tuple[Stratum, Stratum | None]:
    """Return the differences of untallied pairs: of accuracy, and of suggestions (None for open-ended answers)."""
    paired = _scenario_differences(pairs.with_columns(*_asking_steps(), pl.lit(1, pl.Int64).alias("count")), limit)
    return paired.right, None if paired.asking is None else paired.asking.steps


def paired_differences(
    pairs: pl.DataFrame, names: Sequence[str], limits: SuggestionLimits
) -> Iterator[tuple[tuple[str, ...], PairedDifferences]]:
    """Yield the differences of tallied pairs, grouped and sorted by ``names``, one of which is scenario."""
    limit_by_scenario: dict[str, int] = {}
    for (scenario, _), limit in limits.items():
        limit_by_scenario[scenario] = max(limit, limit_by_scenario.get(scenario, 0))
    position = list(names).index("scenario")
    for group, part in pairs.sort(names).group_by(names, maintain_order=True):
        values = tuple(map(str, group))
        yield values, _scenario_differences(part, limit_by_scenario[values[position]])


def _scenario_differences(pairs: pl.DataFrame, limit: int) -> PairedDifferences:
    """Return the differences of tallied pairs of one scenario."""
    gains = (pairs["correct"].cast(pl.Int64) - pairs["correct_other"].cast(pl.Int64)).to_numpy()
    counts, groups = pairs["count"].to_numpy(), cluster_numbers(pairs)
    asking = None
    if not pairs["steps"].null_count():
        steps = _difference_stratum(pairs["steps"].to_numpy(), counts, limit, groups)
        asking = AskingDifferences(steps, _difference_stratum(100 * pairs["loops"].to_numpy(), counts, 100, groups))
    right = _difference_stratum(100 * gains, counts, 100, groups)
    tested = _test_values(gains, counts, groups)
    return PairedDifferences(int(counts.sum()), right, asking, tested, groups is not None)


def _difference_stratum(values: Integers, counts: Integers, limit: int, groups: Integers | None) -> Stratum:
    if groups is None:
        return stratum_from_counts(values, counts, -limit, limit)
    return stratum_from_values(np.repeat(values, counts), -limit, limit, np.repeat(groups, counts))


def _test_values(values: Integers, counts: Integers, groups: Integers | None) -> tuple[Integers, Integers]:
    """Return distinct values, or sums of clusters, and their frequencies."""
    if groups is not None:
        sums = np.bincount(groups, values * counts).astype(np.int64)
        return np.unique(sums, return_counts=True)
    distinct, indices = np.unique(values, return_inverse=True)
    return distinct, np.bincount(indices, counts).astype(np.int64)


def _difference_table(
    pairs: pl.DataFrame, names: Sequence[str], limits: SuggestionLimits, margin: float
) -> pl.DataFrame:
    """Return interval and p of the difference of accuracy, and the columns of asking."""
    rows = []
    for group, paired in paired_differences(pairs, names, limits):
        low, high, _, equal = score_tests([paired.right], margin)
        accuracy = (float(paired.right.counts.sum()), low, high, _accuracy_p_value(paired), equal)
        rows.append((*group, *accuracy, *asking_columns([paired.asking] if paired.asking else [])))
    schema = {**dict.fromkeys(names, pl.String), **dict.fromkeys(MEASURED, pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row")


def asking_columns(parts: Sequence[AskingDifferences]) -> tuple[float | None, ...]:
    """Return ``ASKING_COLUMNS`` of the average over strata; all None without any."""
    if not parts:
        return (None,) * len(ASKING_COLUMNS)
    loops = estimate_mean([part.loops for part in parts], score_test)[:3]
    return *estimate_mean([part.steps for part in parts], skewed_mean_test), *loops


def _accuracy_p_value(paired: PairedDifferences) -> float:
    """Return the exact p of a difference in accuracy; McNemar's test is the sign-flip test of independent samples."""
    if paired.clustered:
        return sign_flip(*paired.gains)
    gains, counts = paired.gains
    return float(mcnemar(counts[gains > 0].sum(), counts[gains < 0].sum()))
