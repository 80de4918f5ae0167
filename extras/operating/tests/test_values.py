"""Exact values equal what playing and the rules say, and splits and detection recover planted truths."""

import math
from random import Random

import numpy as np
import pytest
from planted_curves import planted

from envs import SCENARIOS
from envs.samples import load_samples
from envs.types import Ending
from orchestrator.report.measures.exact_chance import blind_play
from proactive_operating.policy import BIASES, NEUTRAL_INDEX, QuestionPolicy, make_policy
from proactive_operating.state_graph import StateGraph, build_graph, read_option, reply_forms
from proactive_operating.values import greedy_values, sample_values, well_timed_accuracy
from sweeps.conditions import VARIANTS

PLAIN = VARIANTS["every-state"]


@pytest.fixture(scope="module")
def graphs(demo_data):
    """Scenario -> the graphs of its samples."""
    return {name: [build_graph(sample, PLAIN) for sample in load_samples(demo_data, name)] for name in SCENARIOS}


def tilted(policy, bias):
    """The policy whose odds of asking are multiplied by exp(bias), unreadable replies included."""
    moved = []
    for question in policy:
        chances = np.append(question.probabilities, 1 - question.probabilities.sum())
        weights = chances * np.exp(bias * np.append(question.suggests, False))
        moved.append(question._replace(probabilities=(weights / weights.sum())[:-1]))
    return tuple(moved)


@pytest.mark.parametrize("name", SCENARIOS)
def test_uniform_play_has_the_exact_chance(graphs, name):
    gaps = []
    for graph in graphs[name]:
        sizes = [len(question.options) for question in graph.questions]
        uniform = make_policy(graph, [np.full(size, 1 / size) for size in sizes], [-2] * len(sizes))
        exact = sample_values(graph, uniform, np.zeros(1))
        right, suggestions = blind_play(graph.sample)
        gaps += [abs(exact.accuracy[0] - right), abs(exact.suggestions[0] - suggestions)]
    assert max(gaps) <= 1e-9


@pytest.mark.parametrize(("name", "asks"), [("ROD", 0.0), ("QD", 3.0), ("COCO", 0.0)])
def test_values_are_the_means_of_drawn_episodes(graphs, name, asks):
    graph, rng, game = graphs[name][0], Random(3), SCENARIOS[name]
    policy = planted(graph, rng, asks)
    values = sample_values(graph, policy, np.zeros(1))
    index = {question.view: number for number, question in enumerate(graph.questions)}
    drawn = []
    for _ in range(4000):
        state = game.initial(graph.sample)
        while state.ending is None:
            number = index[game.view(graph.sample, state)]
            chances = policy[number].probabilities
            option = rng.choices(range(len(chances) + 1), [*chances, 1 - chances.sum()])[0]
            reply = (*graph.questions[number].options, "who knows")[option]
            state, _ = game.step(graph.sample, state, reply)
        drawn.append((state.ending is Ending.CORRECT, state.turn - 1, state.ending is Ending.LIMIT))
    exact = np.array([values.accuracy[0], values.suggestions[0], values.limited[0]])
    error = np.std(drawn, axis=0) / len(drawn) ** 0.5
    assert (np.abs(np.mean(drawn, axis=0) - exact) <= 4 * error + 1e-3).all()
    assert (values.limited[0] > 0.05) == (asks > 0)


@pytest.mark.parametrize("name", SCENARIOS)
def test_greedy_values_are_those_of_the_played_greedy_episode(graphs, name):
    game = SCENARIOS[name]
    for graph in graphs[name]:
        policy = planted(graph, Random(graph.sample.id))
        index = {question.view: number for number, question in enumerate(graph.questions)}
        state = game.initial(graph.sample)
        while state.ending is None:
            number = index[game.view(graph.sample, state)]
            state, _ = game.step(graph.sample, state, graph.questions[number].options[policy[number].greedy])
        assert greedy_values(graph, policy) == (state.ending is Ending.CORRECT, state.turn - 1)


def test_a_moved_bias_moves_the_curve_and_nothing_else(graphs):
    for name in ("VSOD", "CIT"):
        graph = graphs[name][1]
        policy = planted(graph, Random(1))
        moved = sample_values(graph, tilted(policy, 1.5))
        shifted = sample_values(graph, policy, BIASES + 1.5)
        for one, other in zip(moved, shifted, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


def test_forms_name_the_same_option_at_every_state_that_shows_the_question(graphs):
    for graph in (graph for each in graphs.values() for graph in each[:2]):
        first = [question.state for question in graph.questions]
        for state, number in zip(states_of(graph), graph.question_indices, strict=True):
            question = graph.questions[number]
            forms = [form for option in range(len(question.options)) for form in reply_forms(question, option)]
            for form in forms:
                assert len({read_option(graph.sample, at, PLAIN, form) for at in (state, first[number])}) == 1


def states_of(graph):
    """The states of a graph in order, walked again through the rules."""
    game = SCENARIOS[graph.sample.scenario]
    states = {0: game.initial(graph.sample)}
    for number, targets in enumerate(graph.targets):
        for option, target in enumerate(targets):
            if target >= 0 and target not in states:
                reply = graph.questions[graph.question_indices[number]].options[option]
                states[target] = game.step(graph.sample, states[number], reply)[0]
    return [states[number] for number in range(len(graph.question_indices))]


def test_the_worked_sample_of_the_docs():
    kinds = ("suggestion", "abstention", "right", "wrong")
    sides = (("suggestion",), ("right", "wrong"), ("right",))
    flags = [np.array([kind in chosen for kind in kinds]) for chosen in sides]
    policy = tuple(QuestionPolicy(np.array(row), *flags, -2) for row in ([0.2, 0.1, 0.3, 0.4], [0.1, 0.1, 0.6, 0.2]))
    graph = StateGraph(None, (), (0, 1), ((1, -2, -1, -2), (-3, -2, -1, -2)))
    values = sample_values(graph, policy, np.array([0.0, math.log(4), -np.inf]))
    assert values.accuracy == pytest.approx([0.42, 0.3 / 1.6 + 0.5 * 0.6 / 1.3, 0.3 / 0.8])
    assert values.suggestions == pytest.approx([0.2, 0.5, 0.0])
    assert well_timed_accuracy(graph, policy) == pytest.approx(0.75)
    assert greedy_values(graph, policy) is None


def test_the_chain_of_bounds_rises(graphs):
    for name in SCENARIOS:
        for graph in graphs[name][:3]:
            policy = planted(graph, Random(7), asks=-1.0)
            own = sample_values(graph, policy)
            assert own.accuracy[NEUTRAL_INDEX] <= own.accuracy.max() + 1e-12
            assert own.accuracy.max() <= well_timed_accuracy(graph, policy) + 1e-9
