"""A model's probabilities of replies at every question of a sample, and the same with its log-odds of asking shifted by ``b``.

The family is pi_b(option) ~ pi(option) exp(b [option is a suggestion]).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from proactive_operating.state_graph import StateGraph

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]
BIASES: Floats = np.concatenate([[-np.inf], np.arange(-300, 301) / 10, [np.inf]])
"""The values of ``b`` of a curve; at -inf the model never asks, at inf it asks wherever it can."""
NEUTRAL_INDEX = 301
"""Index of b = 0, the model itself."""


class QuestionPolicy(NamedTuple):
    """The probabilities of one question's options; the rest, up to 1, is that of unreadable replies."""

    probabilities: Floats
    """(options,)"""
    suggests: Booleans
    """(options,) True for suggestions."""
    names: Booleans
    """(options,) True for categories."""
    right: Booleans
    """(options,) True for the right category."""
    greedy: int
    """Index of the option that greedy decoding names, -1 if none; -2 if unknown."""


Policy = tuple[QuestionPolicy, ...]
"""One per question of a graph."""


def make_policy(graph: StateGraph, probabilities: list[Floats], greedy: list[int]) -> Policy:
    """Return the policy of a model that answers the questions of a graph with these probabilities."""
    kinds = [
        [graph.kind(number, option) for option in range(len(q.options))] for number, q in enumerate(graph.questions)
    ]
    return tuple(
        QuestionPolicy(
            chances,
            np.array([kind == "suggestion" for kind in options]),
            np.array([kind in ("right", "wrong") for kind in options]),
            np.array([kind == "right" for kind in options]),
            best,
        )
        for chances, options, best in zip(probabilities, kinds, greedy, strict=True)
    )


def shifted(question: QuestionPolicy, biases: Floats = BIASES) -> Floats:
    """Return the family's probabilities, (options, biases); columns sum to 1 minus that of unreadable replies."""
    chances = question.probabilities
    asking = float(chances[question.suggests].sum())
    rest = float(chances[~question.suggests].sum()) + max(0.0, 1.0 - float(chances.sum()))
    finite = np.isfinite(biases)
    growth = np.exp(np.where(finite, biases, 0.0))
    shares: Floats = chances[:, None] * np.where(question.suggests[:, None], growth, 1.0) / (asking * growth + rest)
    for limit, possible, total in ((np.inf, question.suggests, asking), (-np.inf, ~question.suggests, rest)):
        if total > 0:
            shares[:, biases == limit] = np.where(possible, chances / total, 0.0)[:, None]
    return shares


def only(question: QuestionPolicy, side: Booleans) -> Floats:
    """Return the probabilities given that the reply is an option of ``side``; equal ones if the model never picks any."""
    on_side = np.where(side, question.probabilities, 0.0)
    total = on_side.sum()
    shares: Floats = on_side / total if total > 0 else side / max(1, side.sum())
    return shares


def log_odds(question: QuestionPolicy) -> float:
    """Return the log-odds of asking; a chance of 0 counts as 1e-300, so that they are finite."""
    asking = float(question.probabilities[question.suggests].sum())
    return float(np.log(max(asking, 1e-300)) - np.log(max(1.0 - asking, 1e-300)))


def recognition(question: QuestionPolicy) -> float:
    """Return the chance of the right category given that a category is named."""
    return float(only(question, question.names)[question.right].sum())
