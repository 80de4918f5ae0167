"""Differences of averages over scenarios on the same samples: conditions against zero-shot, and models against each other.

Each scenario is a stratum of paired differences and weighs the same. Interval and p of a measure are of one test: of accuracy
and loops the score test, of suggestions ``skewed_mean_test``. Holm's correction is over the comparisons of models that the
sweep declares (``orchestrator.report.measures.paired_tests``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import polars as pl

from orchestrator.report.measures.estimates import suggestion_limits
from orchestrator.report.measures.families import correct_families, evidence_settings, holm_columns
from orchestrator.report.measures.paired_tests import (
    ASKING_COLUMNS,
    SuggestionLimits,
    asking_columns,
    condition_pairs,
    model_pairs,
    paired_differences,
)
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.intervals import Stratum, estimate_mean, score_tests
from sweeps.evidence import MARGIN
from sweeps.protocol import ZERO_SHOT

PAIR_NAMES = ["model", "other", "protocol"]
MEASURED = ("difference", "difference_low", "difference_high", "p", "equal_p", *ASKING_COLUMNS)


@cached_per_run
def compare_condition_averages(run_data: RunData, condition: str = ZERO_SHOT) -> pl.DataFrame:
    """Compare averages of every other condition with one: one row per model x condition x protocol.

    Columns: scenarios and n (pairs) in the difference; difference of accuracy (points) and ps_difference (suggestions),
    each with its 95% interval, p and corrected p; equal_p (of a difference within the margin); endpoint (primary, exploratory,
    or null where the sweep declares none); loops_difference (points of episodes that end at the turn limit) with its
    interval. Corrected p are null of baselines unless only they are planned, and all of ps and loops of open-ended answers.
    """
    pairs, family = condition_pairs(run_data, condition)
    limits, names, settings = (
        suggestion_limits(run_data),
        ["model", "condition", "protocol"],
        evidence_settings(run_data),
    )
    averages = compare_averages(limits, pairs, family, names, *settings)
    evidence = run_data.sweep.evidence
    primary = (pl.col("condition") == (evidence.primary if evidence else "")) & (condition == ZERO_SHOT)
    if not settings[1] or (apart := averages.filter(primary)).is_empty():
        return averages.with_columns(pl.lit(None, pl.String).alias("endpoint"))
    apart = apart.with_columns(_correct_alone(apart, family, names))
    rest = averages.filter(~primary).with_columns(pl.lit("exploratory").alias("endpoint"))
    return pl.concat([apart.with_columns(pl.lit("primary").alias("endpoint")), rest]).sort(names)


@cached_per_run
def compare_model_averages(
    run_data: RunData, condition: str = ZERO_SHOT, unanswered_as_wrong: bool = False
) -> pl.DataFrame:
    """Compare averages of every two models under one condition: one row per model x other x protocol, model minus other.

    ``unanswered_as_wrong`` counts refused and unprocessable episodes as wrong; ps and loops are null where there is one.
    """
    pairs, family = model_pairs(run_data, condition, unanswered_as_wrong)
    margin, tests = evidence_settings(run_data)
    number = 0 if unanswered_as_wrong else tests  # ranks are a statement of their own
    return compare_averages(suggestion_limits(run_data), pairs, family, PAIR_NAMES, margin, number)


def _correct_alone(rows: pl.DataFrame, family: pl.DataFrame, names: Sequence[str]) -> list[pl.Series]:
    """Return p of accuracy, corrected over the models of the primary endpoint alone; null for baselines."""
    own = family.join(rows, on=list(names), how="semi").select(names).unique()
    alone = correct_families(rows.drop("p_holm", "ps_p_holm", "equal_p_holm"), names, own, holm_columns)
    return [alone["p_holm"], alone["equal_p_holm"]]


def compare_averages(
    limits: SuggestionLimits,
    pairs: pl.DataFrame,
    family: pl.DataFrame,
    names: Sequence[str],
    margin: float = MARGIN,
    tests: int = 0,
) -> pl.DataFrame:
    """Return one row per comparison of tallied pairs by ``names``; the columns are those of ``compare_condition_averages``."""

    def test(strata: Sequence[Stratum]) -> tuple[float, ...]:
        return score_tests(strata, margin)

    rows = []
    for group, parts in groupby(paired_differences(pairs, [*names, "scenario"], limits), key=lambda part: part[0][:-1]):
        scenarios = [paired for _, paired in parts]
        asking_by_scenario = [paired.asking for paired in scenarios if paired.asking is not None]
        accuracy = estimate_mean([paired.right for paired in scenarios], test)
        rows.append(
            (
                *group,
                len(scenarios),
                sum(paired.n for paired in scenarios),
                *accuracy,
                *asking_columns(asking_by_scenario),
            )
        )
    counts = {"scenarios": pl.Int64, "n": pl.Int64}
    schema = {**dict.fromkeys(names, pl.String), **counts, **dict.fromkeys(MEASURED, pl.Float64)}
    averages = pl.DataFrame(rows, schema=schema, orient="row")
    return correct_families(averages, names, family.select(names).unique(), holm_columns, tests)
