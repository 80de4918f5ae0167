"""Differences of averages over scenarios on the same samples: conditions against zero-shot, and models against each other.

Each scenario is a stratum of paired differences and weighs the same, in multiple choice and in open-ended answers (the
judge's aggregate); interval and p are of one score test, and Holm's correction is over the comparisons of models that the
sweep declares (``orchestrator.report.measures.paired_tests``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import polars as pl

from orchestrator.report.measures.estimates import suggestion_limits
from orchestrator.report.measures.paired_tests import (
    SUGGESTION_COLUMNS,
    SuggestionLimits,
    condition_pairs,
    holm_column,
    model_pairs,
    paired_differences,
)  # fmt: skip
from orchestrator.report.run_data import RunData, cached_per_run
from orchestrator.report.statistics.intervals import Stratum, score_test
from sweeps.protocol import ZERO_SHOT

MEASURED = ("difference", "difference_low", "difference_high", "p", *SUGGESTION_COLUMNS)


@cached_per_run
def compare_condition_averages(run_data: RunData, condition: str = ZERO_SHOT) -> pl.DataFrame:
    """Compare averages of every other condition with one: one row per model x condition x protocol.

    Columns: scenarios and n (pairs) in the difference; difference of accuracy (points) and ps_difference (suggestions),
    each with its 95% interval, p and corrected p; corrected p are null of baselines unless only they are planned, and
    all of ps is null of open-ended answers.
    """
    pairs, family = condition_pairs(run_data, condition)
    return compare_averages(suggestion_limits(run_data), pairs, family, ["model", "condition", "protocol"])


@cached_per_run
def compare_model_averages(run_data: RunData, condition: str = ZERO_SHOT) -> pl.DataFrame:
    """Compare averages of every two models under one condition: one row per model x other x protocol, model minus other."""
    pairs, family = model_pairs(run_data, condition)
    return compare_averages(suggestion_limits(run_data), pairs, family, ["model", "other", "protocol"])


def compare_averages(
    limits: SuggestionLimits, pairs: pl.DataFrame, family: pl.DataFrame, names: Sequence[str]
) -> pl.DataFrame:
    """Return one row per comparison of tallied pairs by ``names``; the columns are those of ``compare_condition_averages``."""
    rows = []
    for group, parts in groupby(paired_differences(pairs, [*names, "scenario"], limits), key=lambda part: part[0][:-1]):
        groups = [pairs_of_scenario for _, pairs_of_scenario in parts]
        right, steps = (
            [pairs_of_scenario.right for pairs_of_scenario in groups],
            [pairs_of_scenario.steps for pairs_of_scenario in groups if pairs_of_scenario.steps is not None],
        )
        suggestions = _estimate_mean(steps) if steps else (None,) * len(SUGGESTION_COLUMNS)
        rows.append(
            (
                *group,
                len(groups),
                sum(pairs_of_scenario.n for pairs_of_scenario in groups),
                *_estimate_mean(right),
                *suggestions,
            )
        )
    counts = {"scenarios": pl.Int64, "n": pl.Int64}
    schema = {**dict.fromkeys(names, pl.String), **counts, **dict.fromkeys(MEASURED, pl.Float64)}
    averaged = pl.DataFrame(rows, schema=schema, orient="row")
    return averaged.join(
        _correct_family(averaged, family.select(names).unique(), names),
        on=list(names),
        how="left",
        maintain_order="left",
    )


def _estimate_mean(strata: list[Stratum]) -> tuple[float, float, float, float]:
    return sum(stratum.mean for stratum in strata) / len(strata), *score_test(strata)


def _correct_family(averages: pl.DataFrame, family: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Return the corrected p of the declared comparisons, per protocol."""
    tests = averages.join(family, on=list(names), how="semi", maintain_order="left")
    sizes = dict(family.group_by("protocol").len().iter_rows())
    parts = [
        part.select(*names).with_columns(holm_column(part, name, sizes[part["protocol"][0]]) for name in ("p", "ps_p"))
        for part in tests.partition_by("protocol")
    ]
    empty = tests.select(*names).with_columns(holm_column(tests, name, 0) for name in ("p", "ps_p"))
    return pl.concat([empty.clear(), *parts])
