"""Differences of averages over scenarios on the same samples: conditions against zero-shot, and models against each other.

Each scenario is a stratum of paired differences and weighs the same, in multiple choice and in open-ended answers (the
judge's aggregate); interval and p are of one score test, and Holm's correction is over the comparisons of models that the
sweep declares (``orchestrator.report.paired_tests``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import polars as pl

from orchestrator.report.estimates import suggestion_limits
from orchestrator.report.intervals import Stratum, score_test
from orchestrator.report.paired_tests import (
    SUGGESTIONS,
    ZERO_SHOT,
    Limits,
    differences,
    pairs_of_conditions,
    pairs_of_models,
    with_holm,
)  # fmt: skip
from orchestrator.report.run_data import RunData, once

MEASURED = ("difference", "difference_low", "difference_high", "p", *SUGGESTIONS)


@once
def averages_against(run_data: RunData, condition: str = ZERO_SHOT) -> pl.DataFrame:
    """Every other condition against one: one row model x condition x protocol.

    Columns: scenarios and n (pairs) in the difference; difference of accuracy (points) and ps_difference (suggestions),
    each with its 95% interval, p and corrected p; corrected p are null of baselines unless only they are planned, and
    all of ps is null of open-ended answers.
    """
    pairs, family = pairs_of_conditions(run_data, condition)
    return averaged_pairs(suggestion_limits(run_data), pairs, family, ["model", "condition", "protocol"])


@once
def averages_between(run_data: RunData, condition: str = ZERO_SHOT) -> pl.DataFrame:
    """Every model against every other under one condition: one row model x other x protocol, model less other."""
    pairs, family = pairs_of_models(run_data, condition)
    return averaged_pairs(suggestion_limits(run_data), pairs, family, ["model", "other", "protocol"])


def averaged_pairs(limits: Limits, pairs: pl.DataFrame, family: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """One row a comparison of ``kinds`` of pairs by ``names``, scenario apart; the columns of ``averages_against``."""
    rows = []
    for group, parts in groupby(differences(pairs, [*names, "scenario"], limits), key=lambda part: part[0][:-1]):
        found = [one for _, one in parts]
        right, steps = [one.right for one in found], [one.steps for one in found if one.steps is not None]
        asked = _estimate(steps) if steps else (None,) * len(SUGGESTIONS)
        rows.append((*group, len(found), sum(one.n for one in found), *_estimate(right), *asked))
    counts = {"scenarios": pl.Int64, "n": pl.Int64}
    schema = {**dict.fromkeys(names, pl.String), **counts, **dict.fromkeys(MEASURED, pl.Float64)}
    averaged = pl.DataFrame(rows, schema=schema, orient="row")
    return averaged.join(
        _corrected(averaged, family.select(names).unique(), names), on=list(names), how="left", maintain_order="left"
    )


def _estimate(strata: list[Stratum]) -> tuple[float, float, float, float]:
    return sum(one.mean for one in strata) / len(strata), *score_test(strata)


def _corrected(found: pl.DataFrame, family: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """Corrected p of the declared comparisons, those of each protocol together."""
    tests = found.join(family, on=list(names), how="semi", maintain_order="left")
    sizes = dict(family.group_by("protocol").len().iter_rows())
    parts = [
        part.select(*names).with_columns(with_holm(part, name, sizes[part["protocol"][0]]) for name in ("p", "ps_p"))
        for part in tests.partition_by("protocol")
    ]
    empty = tests.select(*names).with_columns(with_holm(tests, name, 0) for name in ("p", "ps_p"))
    return pl.concat([empty.clear(), *parts])
