"""Exact values of a policy on a finite graph: backward through the states, without drawing an episode.

With V(end) given, V(state) = sum over options of p(option) V(target), and one suggestion more on every edge that goes on.
"""

from typing import NamedTuple

import numpy as np

from actors.playing.state_graph import END, StateGraph
from envs import SCENARIOS
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
    """Chance to end with a category, right or wrong."""
    abstained: Floats
    """Chance to end with an abstention; the rest of all endings is unreadable."""
    limited: Floats
    """Chance to end at the turn limit."""


def sample_values(graph: StateGraph, policy: Policy, biases: Floats = BIASES) -> Values:
    """Return the exact values of pi_b for each of these ``b``."""
    chances = [shifted(question, biases) for question in policy]
    values = np.zeros((len(graph.asked), len(Values._fields), len(biases)))
    for state in range(len(values) - 1, -1, -1):
        number, targets = graph.asked[state], np.array(graph.targets[state])
        question, own = policy[number], chances[number]
        ended, onward = targets < 0, np.flatnonzero(targets >= 0)
        abstains = ~(question.names | question.suggests)
        counted = np.array([targets == CORRECT, ~ended, ended & question.names, ended & abstains, targets == LIMIT])
        values[state] = counted.astype(np.float64) @ own
        for option in onward:
            values[state] += own[option] * values[targets[option]]
    return Values(*values[0])


class SuggestionCounts(NamedTuple):
    """Chances by number of suggestions, from 0 to the most that play can make."""

    right: Floats
    """Chance to end right after so many suggestions."""
    ended: Floats
    """Chance to end at all after so many."""


def count_suggestions(graph: StateGraph, policy: Policy) -> SuggestionCounts:
    """Return the distribution of the number of suggestions of a policy, and of those that end right."""
    mass, right, ended = {0: 1.0}, list[float](), list[float]()
    while mass:
        after: dict[int, float] = {}
        right.append(0.0)
        ended.append(0.0)
        for state, weight in mass.items():
            chances = policy[graph.asked[state]].probabilities
            ended[-1] += weight * max(0.0, 1.0 - float(chances.sum()))
            for chance, target in zip(chances.tolist(), graph.targets[state], strict=True):
                if target >= 0:
                    after[target] = after.get(target, 0.0) + weight * chance
                else:
                    ended[-1] += weight * chance
                    right[-1] += weight * chance * (target == CORRECT)
        mass = after
    return SuggestionCounts(np.array(right), np.array(ended))


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


def oracle_suggestions(graph: StateGraph) -> int:
    """Return the number of suggestions of the game's own solution, which asks until the answer is visible."""
    return SCENARIOS[graph.sample.scenario].solution(graph.sample)[-1].turn - 1


def well_timed_accuracy(graph: StateGraph, policy: Policy, chooses: bool = False) -> float:
    """Return the accuracy of the best timing of questions that knows how likely each answer is right.

    Categories are the model's own, nothing is given up; ``chooses`` also picks the best suggestion instead of the model's mix.
    An upper bound, because no player knows these chances.
    """
    right = np.zeros(len(graph.asked))
    for state in range(len(right) - 1, -1, -1):
        question, targets = policy[graph.asked[state]], graph.targets[state]
        right[state] = only(question, question.names)[[target == CORRECT for target in targets]].sum()
        asks = np.flatnonzero(question.suggests)
        if len(asks):
            after = np.array([right[targets[ask]] if targets[ask] >= 0 else 0.0 for ask in asks])
            accuracy = after.max() if chooses else only(question, question.suggests)[asks] @ after
            right[state] = max(right[state], accuracy)
    return float(right[0])
