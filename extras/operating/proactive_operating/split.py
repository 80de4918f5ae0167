"""Splits the difference in accuracy between two models by swapping one part of the policy at a time.

At each question a model gives up (or is unreadable), asks, or names a category. Its parts are

- willingness: its mean log-odds of asking, over the questions of a scenario at which something can be asked;
- timing: how far the log-odds of each question are from this mean, and which suggestion it picks;
- recognition: the category that it names, if it names one;
- abstention: how often it gives up or is unreadable.

Every mixture of the parts of two models is a policy with an exact accuracy on the game's graph. A part's share of the
difference is its Shapley value: what it changes, averaged over all orders in which the parts may be swapped. The shares add up
to the difference, and a part in which both models are alike has none.
"""

from collections.abc import Sequence
from itertools import product
from math import factorial
from typing import NamedTuple

import numpy as np

from proactive_operating.policy import Booleans, Floats, Policy, QuestionPolicy, only
from proactive_operating.state_graph import StateGraph
from proactive_operating.values import family_values

PARTS = ("willingness", "timing", "recognition", "abstention")
MIXTURES = tuple(product((0, 1), repeat=len(PARTS)))
"""For each mixture, whether a part is of the first model (0) or of the second."""
LARGEST_ODDS = 30.0
"""Log-odds of a model that always or never asks."""


class _Question(NamedTuple):
    """The parts of one question of one model."""

    odds: float
    """Log-odds of asking, if it does not give up; NaN where nothing can be asked."""
    asked: Floats
    """(options,) Probabilities if it asks."""
    named: Floats
    """(options,) Probabilities if it names a category."""
    given_up: Floats
    """(options,) Probabilities of abstentions."""
    stays: float
    """Probability that it asks or names a category."""


def split(graphs: Sequence[StateGraph], before: Sequence[Policy], after: Sequence[Policy]) -> Floats:
    """Return each sample's difference in accuracy, after minus before, and the share of each part: (1 + parts, samples)."""
    sides = [[[_take_apart(question) for question in policy] for policy in policies] for policies in (before, after)]
    means = [_mean_odds(side) for side in sides]
    accuracies = np.array([
        family_values(graph, policy, [
            _mix(pair, means, question.suggests) for pair, question in zip(zip(*parts, strict=True), policy, strict=True)
        ]).accuracy
        for graph, policy, *parts in zip(graphs, before, *sides, strict=True)
    ]).T  # fmt: skip
    shares = np.array([_shapley(accuracies, part) for part in range(len(PARTS))])
    return np.vstack([accuracies[-1] - accuracies[0], shares])


def _take_apart(question: QuestionPolicy) -> _Question:
    chances, offers = question.probabilities, bool(question.suggests.any())
    asking, naming = float(chances[question.suggests].sum()), float(chances[question.names].sum())
    with np.errstate(divide="ignore"):
        odds = float(np.clip(np.log(asking) - np.log(naming), -LARGEST_ODDS, LARGEST_ODDS)) if asking + naming else 0.0
    given_up = np.where(question.suggests | question.names, 0.0, chances)
    asked, named = only(question, question.suggests), only(question, question.names)
    return _Question(odds if offers else float("nan"), asked, named, given_up, asking + naming)


def _mean_odds(side: Sequence[Sequence[_Question]]) -> float:
    odds = [question.odds for policy in side for question in policy if not np.isnan(question.odds)]
    return float(np.mean(odds)) if odds else 0.0


def _mix(pair: Sequence[_Question], means: Sequence[float], suggests: Booleans) -> Floats:
    """Return the probabilities of a question's options under each mixture, (options, mixtures)."""
    columns = []
    for willingness, timing, recognition, abstention in MIXTURES:
        odds = means[willingness] + pair[timing].odds - means[timing]
        share = 1 / (1 + np.exp(-odds)) if suggests.any() else 0.0
        answers = share * pair[timing].asked + (1 - share) * pair[recognition].named
        columns.append(pair[abstention].given_up + pair[abstention].stays * answers)
    return np.array(columns).T


def _shapley(accuracies: Floats, part: int) -> Floats:
    """Return the Shapley value of a part for each sample; ``accuracies`` (mixtures, samples)."""
    count, total = len(PARTS), np.zeros(accuracies.shape[1])
    for number, mixture in enumerate(MIXTURES):
        if not mixture[part]:
            size = sum(mixture)
            weight = factorial(size) * factorial(count - size - 1) / factorial(count)
            swapped = MIXTURES.index(tuple(int(n == part or value) for n, value in enumerate(mixture)))
            total += weight * (accuracies[swapped] - accuracies[number])
    return total
