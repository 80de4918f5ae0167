"""The exact values of one model in one scenario, sample by sample, from which its measures and intervals are computed."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from proactive_operating.knowledge import Signals, collect_signals
from proactive_operating.policy import BIASES, NEUTRAL_INDEX, Floats, Policy, persistent
from proactive_operating.state_graph import StateGraph
from proactive_operating.values import (
    Values,
    can_end_right,
    count_suggestions,
    greedy_values,
    oracle_suggestions,
    sample_values,
    well_timed_accuracy,
)

Orders = Sequence[tuple[Sequence[StateGraph], Sequence[Policy]]]
"""For each order of the options, the published one first: graphs and policies of the same samples."""


class Curve(NamedTuple):
    """The curve of a model in one scenario, sample by sample."""

    accuracy: Floats
    """(samples, biases)"""
    suggestions: Floats
    """(samples, biases), rising with the bias."""

    def mean(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return accuracy and suggestions by bias, averaged over samples; ``weights`` (..., samples) sum to 1."""
        return weights @ self.accuracy, np.maximum.accumulate(weights @ self.suggestions, axis=-1)


class Summary(NamedTuple):
    """Values of samples, averaged over orders of the options; those named ``published`` are of the published order alone."""

    plain: Curve
    persistent: Curve
    accuracies: Floats
    """(orders, samples) The model's own accuracy in each order, the published one first."""
    own: Values
    """The model's own point, (samples,) each."""
    published: Values
    """The same in the published order."""
    published_variance: Floats
    """(samples,) Variance of the number of suggestions in the published order."""
    published_greedy: Floats | None
    """(samples, 2) Whether greedy decoding ends right, and its suggestions; None if unknown."""
    well_timed: Floats
    """(samples,) Accuracy with the best timing of suggestions (``well_timed_accuracy``)."""
    right_suggestion: Floats
    """(samples,) The same, if the model also chose the best suggestion each time."""
    can_end_right: Floats
    """(samples,) 1 if any sequence of replies ends right, else 0."""
    oracle: Floats
    """(samples,) Suggestions of the game's own solution."""
    signals: Signals
    """Log-odds of asking and recognition at each question of the published order."""


def summarize(orders: Orders) -> Summary:
    """Return the values of samples from graphs and policies in each order."""
    published_graphs, published_policies = orders[0]
    own = [_own_values(graphs, policies) for graphs, policies in orders]
    counts = [count_suggestions(*pair) for pair in zip(published_graphs, published_policies, strict=True)]
    timed, chosen = (
        _mean_over_orders(orders, of_sample)
        for of_sample in (well_timed_accuracy, partial(well_timed_accuracy, chooses=True))
    )
    return Summary(
        _curve(orders, False),
        _curve(orders, True),
        np.array([values.accuracy for values in own]),
        Values(*np.mean(own, axis=0)),
        own[0],
        np.array([_variance(count.ended) for count in counts]),
        _greedy(published_graphs, published_policies),
        timed, chosen,
        np.array([float(can_end_right(graph)) for graph in published_graphs]),
        np.array([float(oracle_suggestions(graph)) for graph in published_graphs]),
        collect_signals(list(published_policies)),
    )  # fmt: skip


def _curve(orders: Orders, never_gives_up: bool) -> Curve:
    """Return each sample's curve, the mean over orders; single orders are not kept, to bound the memory of large runs."""
    accuracy, suggestions = np.zeros((2, len(orders[0][0]), len(BIASES)))
    for graphs, policies in orders:
        for number, (graph, policy) in enumerate(zip(graphs, policies, strict=True)):
            values = sample_values(graph, persistent(policy) if never_gives_up else policy)
            accuracy[number] += values.accuracy / len(orders)
            suggestions[number] += values.suggestions / len(orders)
    return Curve(accuracy, suggestions)


def _own_values(graphs: Sequence[StateGraph], policies: Sequence[Policy]) -> Values:
    neutral = BIASES[NEUTRAL_INDEX : NEUTRAL_INDEX + 1]
    values = [sample_values(*pair, neutral) for pair in zip(graphs, policies, strict=True)]
    return Values(*np.array(values)[:, :, 0].T)


def _mean_over_orders(orders: Orders, of_sample: Callable[[StateGraph, Policy], Floats | float]) -> Floats:
    values = np.array([[of_sample(*pair) for pair in zip(*order, strict=True)] for order in orders])
    mean: Floats = values.mean(axis=0)
    return mean


def _variance(ended: Floats) -> float:
    counts = np.arange(len(ended))
    return float(ended @ counts**2 - (ended @ counts) ** 2)


def _greedy(graphs: Sequence[StateGraph], policies: Sequence[Policy]) -> Floats | None:
    points = [greedy_values(*pair) for pair in zip(graphs, policies, strict=True)]
    return None if None in points else np.array(points, dtype=np.float64)
