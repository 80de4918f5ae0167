"""The exact values of one model in one scenario, sample by sample, and its measures as means over these samples.

A measure that is no mean, such as AUC, is linearized: its values by sample have its value as mean and its error as error.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proactive_operating.intervals import linearize
from proactive_operating.policy import BIASES, NEUTRAL_INDEX, Booleans, Floats, Policy, log_odds, recognition
from proactive_operating.state_graph import StateGraph
from proactive_operating.values import Values, greedy_values, sample_values, well_timed_accuracy

Orders = Sequence[tuple[Sequence[StateGraph], Sequence[Policy]]]
"""For each order of the options, the published one first: graphs and policies of the same samples."""
ENDINGS = ("answered", "abstained", "limited")
"""Endings at the model's own point; all other episodes end with an unreadable reply."""
LEAST_ASKED = 1e-3
"""Smallest mean number of suggestions whose price is computed."""


class Summary(NamedTuple):
    """Values of samples, averaged over orders of the options; ``greedy`` and what follows are of the published one."""

    accuracy: Floats
    """(samples, biases)"""
    suggestions: Floats
    """(samples, biases)"""
    own: Values
    """The model's own point, (samples,) each."""
    accuracies: Floats
    """(orders, samples) The model's own accuracy in each order."""
    well_timed: Floats
    """(samples,) Accuracy with the best timing of suggestions (``well_timed_accuracy``)."""
    greedy: Floats | None
    """(samples, 2) Whether greedy decoding ends right, and its suggestions; None if unknown."""
    question_samples: NDArray[np.int64]
    """(questions,) Index of the sample of each question at which something can be asked."""
    odds: Floats
    """(questions,) Log-odds of asking."""
    recognition: Floats
    """(questions,) Chance of the right category, given that the model names one."""


def summarize(orders: Orders) -> Summary:
    """Return the values of samples from graphs and policies in each order."""
    graphs, policies = orders[0]
    accuracy, suggestions = np.zeros((2, len(graphs), len(BIASES)))  # single orders would be too large to keep
    own = np.zeros((len(orders), len(Values._fields), len(graphs)))
    for order, pairs in enumerate(orders):
        for number, pair in enumerate(zip(*pairs, strict=True)):
            values = sample_values(*pair)
            accuracy[number] += values.accuracy / len(orders)
            suggestions[number] += values.suggestions / len(orders)
            own[order, :, number] = np.array(values)[:, NEUTRAL_INDEX]
    timed = [[well_timed_accuracy(*pair) for pair in zip(*order, strict=True)] for order in orders]
    greedy = [greedy_values(*pair) for pair in zip(graphs, policies, strict=True)]
    asking = [(number, q) for number, policy in enumerate(policies) for q in policy if q.suggests.any()]
    return Summary(
        accuracy, suggestions, Values(*own.mean(axis=0)), own[:, 0], np.mean(timed, axis=0),
        None if None in greedy else np.array(greedy, dtype=np.float64),
        np.array([number for number, _ in asking], dtype=np.int64),
        np.array([log_odds(question) for _, question in asking]),
        np.array([recognition(question) for _, question in asking]),
    )  # fmt: skip


def own_measures(summary: Summary) -> dict[str, Floats]:
    """Return the measures that sampled replies can estimate too, by sample; rates are percent."""
    own = summary.own
    return {"acc": 100 * own.accuracy, "ps": own.suggestions, **{name: 100 * getattr(own, name) for name in ENDINGS}}


def exact_measures(summary: Summary) -> dict[str, Floats]:
    """Return greedy point, bounds, the price at which asking stops paying, and position bias; none that is unknown."""
    accuracy, suggestions = summary.accuracy.mean(axis=0), summary.suggestions.mean(axis=0)
    measures = {"unbiased": 100 * summary.accuracy[:, accuracy.argmax()], "well_timed": 100 * summary.well_timed}
    if summary.greedy is not None:
        measures |= {"greedy_acc": 100 * summary.greedy[:, 0], "greedy_ps": summary.greedy[:, 1]}
    if len(summary.accuracies) > 1:
        measures["position_sd"] = 100 * summary.accuracies.std(axis=0, ddof=1)
    gains = accuracy - accuracy[0]
    prices = np.divide(gains, suggestions, out=np.zeros_like(gains), where=suggestions > LEAST_ASKED)
    best = int(prices.argmax())
    residuals = summary.accuracy[:, best] - summary.accuracy[:, 0] - prices[best] * summary.suggestions[:, best]
    measures["stops_paying"] = 100 * (
        prices[best] + residuals / max(suggestions[best], LEAST_ASKED) * (prices[best] > 0)
    )
    return measures


def detection_measures(summary: Summary, known: Booleans) -> dict[str, Floats]:
    """Return how well the odds of asking detect what cannot be known; nothing if all questions have the same label.

    ``auc`` is the chance that a random question that cannot be known has higher odds of asking than one that can.
    ``neutral``, minus the model's bias, shifts the midpoint between both classes' mean log-odds to 0.
    """
    odds, count = summary.odds, len(summary.accuracy)
    sides = [np.sort(odds[side]) for side in (known, ~known)]
    if not all(map(len, sides)):
        return {}
    below, not_above = ((s.searchsorted(odds) + s.searchsorted(odds, "right")) / 2 / len(s) for s in sides)
    wins = np.where(known, 1 - not_above, below)
    means = np.where(known, sides[0].mean(), sides[1].mean())
    sizes = np.where(known, len(sides[0]), len(sides[1]))
    auc, neutral = float(wins[~known].mean()), -float(sides[0].mean() + sides[1].mean()) / 2
    return {
        "auc": linearize(auc, summary.question_samples, (wins - auc) / sizes, count),
        "neutral": linearize(neutral, summary.question_samples, (means - odds) / (2 * sizes), count),
    }


def value_measures(summary: Summary, price: float) -> dict[str, Floats]:
    """Return accuracy (percent) less ``price`` per suggestion, at the own point and with the will to ask that is best."""
    values = 100 * summary.accuracy - price * summary.suggestions
    best = int(values.mean(axis=0).argmax())
    return {"own": 100 * summary.own.accuracy - price * summary.own.suggestions, "best": values[:, best]}
