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
from orchestrator.report.measures.paired_tests import (
    ASKING_COLUMNS,
    SuggestionLimits,
    asking_columns,
    condition_pairs,
    correct_families,
    estimate_mean,
    holm_columns,
    model_pairs,
    paired_differences,
)
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.intervals import score_test
from sweeps.protocol import ZERO_SHOT

MEASURED = ("difference", "difference_low", "difference_high", "p", *ASKING_COLUMNS)


@cached_per_run
def compare_condition_averages(run_data: RunData, condition: str = ZERO_SHOT) -> pl.DataFrame:
    """Compare averages of every other condition with one: one row per model x condition x protocol.

    Columns: scenarios and n (pairs) in the difference; difference of accuracy (points) and ps_difference (suggestions),
    each with its 95% interval, p and corrected p; loops_difference (points of episodes that end at the turn limit) with its
    interval. Corrected p are null of baselines unless only they are planned, and all of ps and loops of open-ended answers.
    """
    pairs, family = condition_pairs(run_data, condition)
    return compare_averages(suggestion_limits(run_data), pairs, family, ["model", "condition", "protocol"])


@cached_per_run
def compare_model_averages(
    run_data: RunData, condition: str = ZERO_SHOT, refused_as_wrong: bool = False
) -> pl.DataFrame:
    """Compare averages of every two models under one condition: one row per model x other x protocol, model minus other.

    ``refused_as_wrong`` counts refused episodes as wrong; all of ps and loops is then null where one is refused.
    """
    pairs, family = model_pairs(run_data, condition, refused_as_wrong)
    return compare_averages(suggestion_limits(run_data), pairs, family, ["model", "other", "protocol"])


def compare_averages(
    limits: SuggestionLimits, pairs: pl.DataFrame, family: pl.DataFrame, names: Sequence[str]
) -> pl.DataFrame:
    """Return one row per comparison of tallied pairs by ``names``; the columns are those of ``compare_condition_averages``."""
    rows = []
    for group, parts in groupby(paired_differences(pairs, [*names, "scenario"], limits), key=lambda part: part[0][:-1]):
        scenarios = [paired for _, paired in parts]
        asking_by_scenario = [paired.asking for paired in scenarios if paired.asking is not None]
        accuracy = estimate_mean([paired.right for paired in scenarios], score_test)
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
    return correct_families(averages, names, family.select(names).unique(), holm_columns)
