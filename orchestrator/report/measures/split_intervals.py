"""The split of a difference into asking more and asking better (``orchestrator.operating.split``) with its intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orchestrator.operating.split import Curve, Split, split, split_by_weights
from orchestrator.report.statistics.agreement import IntervalEstimate
from orchestrator.report.statistics.jackknife import LeftOut, jackknife_interval, leave_out_weights

Parts = tuple[IntervalEstimate, ...]
"""The intervals of the fields of ``Split``."""


def split_intervals(
    scenarios: Sequence[tuple[Curve, Curve, Sequence[str]]],
) -> tuple[list[Parts], Parts, int]:
    """Return the split of each scenario and of the mean over those that have one, and their number.

    ``scenarios``: curves before and after over the same samples, and each sample's cluster. Intervals are paired: the same
    clusters are left out of both curves.
    """
    points, left_out = [], []
    for before, after, clusters in scenarios:
        weights, sizes = leave_out_weights(clusters)
        points.append(split(before, after, np.full(len(clusters), 1 / len(clusters))))
        left_out.append([LeftOut(column, sizes) for column in split_by_weights(before, after, weights).T])
    each = [_intervals(point, [parts]) for point, parts in zip(points, left_out, strict=True)]
    used = [number for number, point in enumerate(points) if not np.isnan(point.more)]
    if not used:
        return each, tuple(IntervalEstimate(*[float("nan")] * 3) for _ in Split._fields), 0
    mean = Split(*np.mean([points[number] for number in used], axis=0))
    return each, _intervals(mean, [left_out[number] for number in used]), len(used)


def _intervals(point: Split, strata: Sequence[Sequence[LeftOut]]) -> Parts:
    by_part = zip(*strata, strict=True)
    return tuple(jackknife_interval(float(value), part, -1.0, 1.0) for value, part in zip(point, by_part, strict=True))
