"""Does the model ask where it cannot know? The log-odds of asking as a detector, whatever the model's bias.

A question's label says whether the category can be known there: ``own`` by the model itself (it names the right one with at
least even chance if it must name one), ``others`` by the mean of the other models. AUC is the chance that a random question
that cannot be known has higher odds of asking than one that can. The neutral b moves the midpoint between both
classes' mean log-odds to 0: minus the model's bias. It is not the b with the highest accuracy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestrator.operating.policy import Booleans, Floats, QuestionPolicy, log_odds, only

KNOWN = 0.5
"""Chance of the right category from which a question can be known."""


class Signals(NamedTuple):
    """All questions of a scenario at which something can be asked, each column (questions,)."""

    sample: NDArray[np.int64]
    """Index of the question's sample."""
    odds: Floats
    """Log-odds of asking."""
    recognition: Floats
    """Chance of the right category, given that the model names one."""


class Detection(NamedTuple):
    """How well the odds of asking detect what cannot be known; NaN if all questions have the same label."""

    auc: float
    neutral: float


def recognition(question: QuestionPolicy) -> float:
    """Return the chance of the right category given that a category is named."""
    return float(only(question, question.names)[question.right].sum())


def collect_signals(policies: list[tuple[QuestionPolicy, ...]]) -> Signals:
    """Return the signals of a scenario's samples, in order."""
    rows = [
        (number, log_odds(question), recognition(question))
        for number, policy in enumerate(policies)
        for question in policy
        if question.suggests.any()
    ]
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), 3).T
    return Signals(columns[0].astype(int), columns[1], columns[2])


def detect(signals: Signals, known: Booleans, weights: Floats | None = None) -> Detection:
    """Return AUC and neutral b for these labels; ``weights`` (samples,) weigh each sample's questions."""
    weight = np.ones(len(known)) if weights is None else weights[signals.sample]
    unknown_total, known_total = weight[~known].sum(), weight[known].sum()
    if not unknown_total or not known_total:
        return Detection(float("nan"), float("nan"))
    means = [np.average(signals.odds[side], weights=weight[side]) for side in (known, ~known)]
    return Detection(_weighted_auc(signals.odds, ~known, weight), -float(np.mean(means)))


def _weighted_auc(values: Floats, positive: Booleans, weight: Floats) -> float:
    """Return the weighted share of pairs in which the positive one is higher; ties count half."""
    ranks = np.unique(values, return_inverse=True)[1]
    above, below = (np.bincount(ranks[side], weight[side], minlength=ranks.max() + 1) for side in (positive, ~positive))
    lower = np.concatenate([[0.0], np.cumsum(below)[:-1]])
    return float((above * (lower + below / 2)).sum() / (above.sum() * below.sum()))
