"""Exact values of a policy on a sample's finite graph, computed backward from the ends without drawing an episode.

V(state) is the sum over options of p(option) V(target); every edge to another state adds one suggestion.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from envs.types import Ending
from proactive_operating.policy import BIASES, Floats, Policy, only, shifted
from proactive_operating.state_graph import END, StateGraph

CORRECT, WRONG, LIMIT = (END[ending] for ending in (Ending.CORRECT, Ending.WRONG, Ending.LIMIT))


class Values(NamedTuple):
    """Values of one sample under each policy of a family, each (policies,)."""

    accuracy: Floats
    """Chance to end right."""
    suggestions: Floats
    """Mean number of turns minus one, the benchmark's ps."""
    answered: Floats
    """Chance to end with a category, right or wrong."""
    abstained: Floats
    """Chance to end with an abstention."""
    limited: Floats
    """Chance to end at the turn limit; all other endings are unreadable replies."""


def sample_values(graph: StateGraph, policy: Policy, biases: Floats = BIASES) -> Values:
    """Return the exact values of pi_b for each ``b`` in ``biases``."""
    return family_values(graph, policy, [shifted(question, biases) for question in policy])


def family_values(graph: StateGraph, policy: Policy, family: Sequence[Floats]) -> Values:
    """Return the exact values of several policies: per question, their probabilities (options, policies).

    ``policy`` only says what kind each option is.
    """
    values = np.zeros((len(graph.question_indices), len(Values._fields), family[0].shape[1]))
    for state in range(len(values) - 1, -1, -1):
        index, targets = graph.question_indices[state], np.array(graph.targets[state])
        question, chances = policy[index], family[index]
        ended, onward = targets < 0, np.flatnonzero(targets >= 0)
        abstains = ~(question.names | question.suggests)
        contributes = np.array([targets == CORRECT, ~ended, ended & question.names, ended & abstains, targets == LIMIT])
        values[state] = contributes.astype(np.float64) @ chances
        for option in onward:
            values[state] += chances[option] * values[targets[option]]
    return Values(*values[0])


def greedy_values(graph: StateGraph, policy: Policy) -> tuple[float, int] | None:
    """Return 1.0 if greedy decoding ends right, else 0.0, and its number of suggestions; None if a greedy option is unknown."""
    state, suggestions = 0, 0
    while True:
        option = policy[graph.question_indices[state]].greedy
        if option < -1:  # unknown
            return None
        target = graph.targets[state][option] if option >= 0 else WRONG
        if target < 0:
            return float(target == CORRECT), suggestions
        state, suggestions = target, suggestions + 1


def well_timed_accuracy(graph: StateGraph, policy: Policy) -> float:
    """Return the accuracy if the model asked and answered at the best times, knowing its chance to answer right at each state.

    It answers with its own categories, never abstains, and suggests with its own probabilities. This is an upper bound,
    because no player knows its chances.
    """
    accuracies = np.zeros(len(graph.question_indices))
    for state in range(len(accuracies) - 1, -1, -1):
        question, targets = policy[graph.question_indices[state]], graph.targets[state]
        accuracies[state] = only(question, question.names)[[target == CORRECT for target in targets]].sum()
        asks = np.flatnonzero(question.suggests)
        if len(asks):
            after = np.array([accuracies[targets[ask]] if targets[ask] >= 0 else 0.0 for ask in asks])
            accuracies[state] = max(accuracies[state], only(question, question.suggests)[asks] @ after)
    return float(accuracies[0])
