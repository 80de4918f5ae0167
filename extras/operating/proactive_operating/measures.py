"""Measures of one model in one scenario as functions of the samples' weights: equal ones give the value, others its interval."""

from collections.abc import Mapping

import numpy as np

from proactive_operating.knowledge import detect_draws
from proactive_operating.policy import Booleans, Floats
from proactive_operating.summary import Summary

ENDINGS = ("answered", "abstained", "limited")
"""Endings at the model's own point; all other episodes end with an unreadable reply."""
BOUNDS = ("unbiased", "persistent", "well_timed", "right_suggestion", "recognition")
"""Upper bounds on accuracy; each removes one more weakness of the model."""
LEAST_ASKED = 1e-3
"""Smallest mean number of suggestions whose price is computed."""
POSITION = ("position_sd", "position_effect")
"""Mean standard deviation of a sample's accuracy over orders of its options; accuracy in the published one minus the others'."""


def own_measures(summary: Summary, weights: Floats) -> dict[str, Floats]:
    """Return the measures that sampled replies can estimate too; ``weights`` (draws, samples), rows sum to 1."""
    own = summary.own
    measures = {"acc": own.accuracy, "ps": own.suggestions, **{name: getattr(own, name) for name in ENDINGS}}
    return {name: weights @ values for name, values in measures.items()}


def exact_measures(summary: Summary, weights: Floats) -> dict[str, Floats]:
    """Return greedy point, bounds and position bias; unknown measures are left out."""
    measures: dict[str, Floats] = {}
    if summary.published_greedy is not None:
        measures |= dict(zip(("greedy_acc", "greedy_ps"), (weights @ summary.published_greedy).T, strict=True))
    unbiased, persistent = (curve.mean(weights)[0].max(axis=-1) for curve in (summary.plain, summary.persistent))
    measures |= {
        "unbiased": unbiased,
        "persistent": np.maximum(unbiased, persistent),
        "well_timed": weights @ summary.well_timed,
        "right_suggestion": weights @ summary.right_suggestion,
        "recognition": weights @ summary.can_end_right,
    }
    accuracy, suggestions = summary.plain.mean(weights)
    gains = accuracy - accuracy[..., :1]
    worth = np.divide(gains, suggestions, out=np.zeros_like(gains), where=suggestions > LEAST_ASKED)
    measures["worth"] = worth.max(axis=-1)
    orders = summary.accuracies
    if len(orders) > 1:
        measures["position_sd"] = weights @ orders.std(axis=0, ddof=1)
        measures["position_effect"] = weights @ (orders[0] - orders[1:].mean(axis=0))
    return measures


def detection_measures(summary: Summary, labels: Mapping[str, Booleans], weights: Floats) -> dict[str, Floats]:
    """Return AUC and neutral b by the name of the labels; NaN where all questions of a draw have one label."""
    measures = {}
    for name, known in labels.items():
        measures[f"auc_{name}"], measures[f"neutral_{name}"] = detect_draws(summary.signals, known, weights)
    return measures
