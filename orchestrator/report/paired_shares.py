"""Intervals of a change of a share of answers, where both shares are of episodes on the same samples.

A share is a ratio: answers of one kind over all answers, summed over episodes. Its change has the interval that MOVER makes
of both shares' intervals and their correlation (Zou and Donner 2008, Statistics in Medicine 27:1693-1702), which does not
collapse where all episodes agree. Coverage, by simulation in the tests: 94% or more from ten samples on.
"""

from __future__ import annotations

import numpy as np

from orchestrator.report.estimates import Estimate
from orchestrator.report.intervals import Whole
from orchestrator.report.proportion import Z


def change_interval(before: Estimate, after: Estimate, correlation: float) -> tuple[float, float]:
    """The 95% interval of ``after`` less ``before``, in their unit; ``correlation`` is of the two values."""
    below, above = (after[0] - after[1], before[2] - before[0]), (after[2] - after[0], before[0] - before[1])
    change = after[0] - before[0]
    return change - _distance(*below, correlation), change + _distance(*above, correlation)


def _distance(first: float, second: float, correlation: float) -> float:
    return float(max(0.0, first**2 + second**2 - 2 * correlation * first * second) ** 0.5)


def correlation(before: tuple[Whole, Whole], after: tuple[Whole, Whole]) -> float:
    """The correlation of two shares on the same n samples, each (answers of the kind, all answers), arrays (n,).

    It is that of the linearised residuals, shrunk towards 0 as if about four more samples had been seen on which both were
    independent: a few samples that agree do not show that all do.
    """
    first, second = (part - (part.sum() / max(1, whole.sum())) * whole for part, whole in (before, after))
    scale = float(np.sqrt((first @ first) * (second @ second)))
    return 0.0 if scale == 0 else float(first @ second) / scale * len(first) / (len(first) + Z**2)
