"""Does the model ask where it cannot know? The log-odds of asking as a detector, whatever the model's bias.

A question's label says whether its category can be known. The label ``own`` is the model's (known if it names the right category
with a chance of at least 1/2 when it must name one), the label ``others`` that of the other models' mean. AUC is the chance that
a random question that cannot be known has higher odds of asking than one that can. The neutral b, minus the model's bias,
shifts the midpoint between both classes' mean log-odds to 0. It is not the b with the highest accuracy.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proactive_operating.policy import Booleans, Floats, QuestionPolicy, log_odds, only

KNOWN = 0.5
"""Smallest chance of the right category at which a question can be known."""
ROWS = 50
"""Rows of weights that are computed at once, to bound memory."""


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


def detect(signals: Signals, known: Booleans) -> Detection:
    """Return AUC and neutral b for these labels, each question counted once."""
    auc, neutral = detect_draws(signals, known, np.ones((1, int(signals.sample.max(initial=0)) + 1)))
    return Detection(float(auc[0]), float(neutral[0]))


def detect_draws(signals: Signals, known: Booleans, weights: Floats) -> tuple[Floats, Floats]:
    """Return AUC and neutral b under each row of ``weights`` (draws, samples); a question has its sample's weight."""
    order = np.argsort(signals.odds, kind="stable")
    odds, known = signals.odds[order], known[order]
    below, upto = (np.searchsorted(odds, odds, side) for side in ("left", "right"))
    auc, neutral = np.full((2, len(weights)), np.nan)
    for start in range(0, len(weights), ROWS):
        rows = weights[start : start + ROWS, signals.sample[order]]
        totals = [rows[:, side].sum(axis=1) for side in (known, ~known)]
        with np.errstate(invalid="ignore", divide="ignore"):
            means = [rows[:, side] @ odds[side] / total for side, total in zip((known, ~known), totals, strict=True)]
            neutral[start : start + ROWS] = -(means[0] + means[1]) / 2
            auc[start : start + ROWS] = _auc(rows, known, below, upto) / (totals[0] * totals[1])
    return auc, neutral


def _auc(rows: Floats, known: Booleans, below: NDArray[np.int64], upto: NDArray[np.int64]) -> Floats:
    """Return the weight of pairs in which the unknown question has higher odds than the known one; ties count half."""
    lower = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(np.where(known, rows, 0.0), axis=1)], axis=1)
    known_below = (lower[:, below] + lower[:, upto]) / 2
    pairs: Floats = np.where(known, 0.0, rows * known_below).sum(axis=1)
    return pairs
