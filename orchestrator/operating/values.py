"""Exact values of a policy on a finite graph: backward through the states, without drawing an episode.

With V(end) given, V(state) = sum over options of p(option) V(target), and one suggestion more on every edge that goes on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from actors.playing.state_graph import END, StateGraph
from envs.types import Ending
from orchestrator.operating.policy import BIASES, Floats, Policy, only, shifted

CORRECT, WRONG, LIMIT = (END[ending] for ending in (Ending.CORRECT, Ending.WRONG, Ending.LIMIT))


class Values(NamedTuple):
    """Values of one sample under each policy of a family, each (policies,)."""

    accuracy: Floats
    """Chance to end right."""
    suggestions: Floats
    """Mean number of turns less one, the benchmark's ps."""
    answered: Floats
    """Chance to end with a category, right or wrong; the rest abstains, is unreadable, or reaches the limit."""
    limited: Floats
    """Chance to end at the turn limit."""


def sample_values(graph: StateGraph, policy: Policy, biases: Floats = BIASES) -> Values:
    """Return the exact values of pi_b for each of these ``b``."""
    chances = [shifted(question, biases) for question in policy]
    return graph_values(graph, policy, [chances[question] for question in graph.asked])


def graph_values(graph: StateGraph, policy: Policy, chances: list[Floats]) -> Values:
    """Return the exact values for probabilities per state, (policies, options) each."""
    size, policies = len(graph.asked), len(chances[0])
    right, turns, answered, limited = (np.zeros((size, policies)) for _ in range(4))
    for state in range(size - 1, -1, -1):
        names = policy[graph.asked[state]].names
        for option, target in enumerate(graph.targets[state]):
            chance = chances[state][:, option]
            if target >= 0:
                right[state] += chance * right[target]
                turns[state] += chance * (1 + turns[target])
                answered[state] += chance * answered[target]
                limited[state] += chance * limited[target]
                continue
            right[state] += chance * (target == CORRECT)
            limited[state] += chance * (target == LIMIT)
            answered[state] += chance * names[option]
    return Values(right[0], turns[0], answered[0], limited[0])


def greedy_values(graph: StateGraph, policy: Policy) -> tuple[float, int] | None:
    """Return whether greedy decoding ends right, and its number of suggestions; None if the greedy option is unknown."""
    state, suggestions = 0, 0
    while True:
        option = policy[graph.asked[state]].greedy
        if option < -1:
            return None
        target = graph.targets[state][option] if option >= 0 else WRONG
        if target < 0:
            return float(target == CORRECT), suggestions
        state, suggestions = target, suggestions + 1


def can_end_right(graph: StateGraph) -> bool:
    """Return True if any play of this sample ends right: the accuracy of perfect recognition, timing and suggestions."""
    return any(CORRECT in targets for targets in graph.targets)


def well_timed_values(graph: StateGraph, policy: Policy, chooses: bool = False) -> tuple[float, float]:
    """Return accuracy and suggestions of the best timing of questions that knows how likely each answer is right.

    Categories are the model's own, nothing is given up; ``chooses`` also picks the best suggestion instead of the model's mix.
    An upper bound, because no player knows these chances.
    """
    size = len(graph.asked)
    right, turns = np.zeros(size), np.zeros(size)
    for state in range(size - 1, -1, -1):
        question, targets = policy[graph.asked[state]], graph.targets[state]
        right[state] = float(only(question, question.names)[[target == CORRECT for target in targets]].sum())
        asks = np.flatnonzero(question.suggests)
        if not len(asks):
            continue
        after = [(right[targets[ask]], 1 + turns[targets[ask]]) if targets[ask] >= 0 else (0.0, 0.0) for ask in asks]
        if chooses:
            value, count = max(after, key=lambda pair: (pair[0], -pair[1]))
        else:
            own = only(question, question.suggests)[asks]
            value, count = (float(own @ np.array(column)) for column in zip(*after, strict=True))
        if value > right[state] + 1e-12:
            right[state], turns[state] = value, count
    return float(right[0]), float(turns[0])
