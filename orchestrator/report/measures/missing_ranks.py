"""Bounds of ranks over the worst and the best case of all missing episodes (``measures.missingness``)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import polars as pl

from orchestrator.report.measures.missingness import (
    affected_cells,
    list_possible,
    possible_strata,
    subtract,
)
from orchestrator.report.measures.paired_tests import is_significant
from orchestrator.report.run_data import RunData
from orchestrator.report.statistics.exact_tests import holm
from orchestrator.report.statistics.intervals import score_test


def possible_ranks(
    run_data: RunData, condition: str, protocol: str, names: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """Return the joint 95% bounds of each model's rank, whatever its missing episodes and those of the others had been.

    Empty if from no cell of the models more than 1% is missing. A model is above another if it is above it in the worst
    case of its own missing episodes and the best case of the other's, by a corrected test of all pairs.
    """
    affected = affected_cells(run_data).filter(
        pl.col("model").is_in(list(names)), condition=condition, protocol=protocol
    )
    if affected.is_empty():
        return {}
    episodes = run_data.episodes.filter(pl.col("model").is_in(list(names)), condition=condition, protocol=protocol)
    by_model = list_possible(run_data, episodes).partition_by("model", as_dict=True)
    pairs = list(combinations(names, 2))
    tests = [_test_pair(by_model[first,], by_model[second,]) for first, second in pairs]
    sure = [is_significant(p) for p in holm(np.array([p for _, p in tests])).tolist()]
    above, below = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for (first, second), (sign, _), certain in zip(pairs, tests, sure, strict=True):
        if certain:
            better, worse = (first, second) if sign > 0 else (second, first)
            above[worse] += 1
            below[better] += 1
    return {name: (1 + above[name], len(names) - below[name]) for name in names}


def _test_pair(first: pl.DataFrame, second: pl.DataFrame) -> tuple[int, float]:
    """Return the sign of the difference of averages that no missing episode can turn, with its p; 0 and 1 if one can."""
    same = ["scenario", "sample_id"]
    differences = subtract(first.join(second.drop("cluster"), on=same, suffix="_other")).sort("scenario", "sample_id")
    cells = differences.partition_by("scenario", maintain_order=True)
    for end, sign in (("least", 1), ("most", -1)):
        strata = possible_strata(cells, "acc", end, paired=True)
        if cells and sign * sum(stratum.mean for stratum in strata) > 0:
            return sign, score_test(strata)[2]
    return 0, 1.0
