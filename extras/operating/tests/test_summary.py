"""Summaries of a scenario's samples, the measures computed from them, and their intervals, on cases worked by hand."""

from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from planted_curves import planted

from envs.samples import load_samples
from proactive_operating.knowledge import Signals, detect, detect_draws
from proactive_operating.measures import detection_measures, exact_measures, own_measures
from proactive_operating.policy import BIASES, NEUTRAL_INDEX, QuestionPolicy, shifted
from proactive_operating.state_graph import StateGraph, build_graph
from proactive_operating.summary import Curve, summarize
from proactive_operating.values import (
    Values,
    can_end_right,
    count_suggestions,
    sample_values,
    well_timed_accuracy,
)
from sweeps.conditions import VARIANTS

SUGGESTS, NAMES, RIGHT = (
    np.array(flags) for flags in ([True, False, False], [False, True, True], [False, True, False])
)


def question(*chances: float) -> QuestionPolicy:
    """Return a question with a suggestion, the right category and a wrong one."""
    return QuestionPolicy(np.array(chances), SUGGESTS, NAMES, RIGHT, -2)


def test_the_ends_of_a_curve_never_ask_and_only_ask():
    ends = np.array([-np.inf, 0, np.inf])

    assert (
        pytest.approx(np.array([[0, 0.625, 0.125], [0.2, 0.5, 0.1], [1, 0, 0]]))
        == shifted(question(0.2, 0.5, 0.1), ends).T
    )
    assert pytest.approx(np.array(3 * [[0, 0.5, 0.5]])) == shifted(question(0, 0.5, 0.5), ends).T
    assert pytest.approx(np.array(3 * [[1, 0, 0]])) == shifted(question(1, 0, 0), ends).T
    assert (BIASES[1], BIASES[NEUTRAL_INDEX], BIASES[-2]) == (-30, 0, 30)


def test_detection_counts_ties_half_and_weighs_samples():
    signals = Signals(np.array([0, 0, 1, 1]), np.array([-1.0, 3, 1, 1]), np.zeros(4))
    known = np.array([True, False, True, False])

    assert detect(signals, known) == (0.875, -1.0)
    auc, neutral = detect_draws(signals, known, np.array([[1.0, 1], [1, 0], [0, 1]] * 40))
    assert auc == pytest.approx(np.array([0.875, 1, 0.5] * 40)) and neutral == pytest.approx([-1, -1, -1] * 40)
    assert np.isnan(detect(signals, np.ones(4, dtype=bool))).all()


def test_measures_weigh_samples():
    values = Values(*np.array([[0.2, 0.6], [1, 3], [0.5, 0.7], [0.1, 0.3], [0.2, 0]]))
    curve = Curve(np.array([[0.1, 0.5, 0.2], [0.3, 0.4, 0.8]]), np.zeros((2, 3)))
    better = Curve(curve.accuracy + np.array([0, 0, 0.3]), curve.suggestions)
    signals = Signals(np.array([0, 1]), np.array([0.0, 1]), np.zeros(2))
    summary = SimpleNamespace(
        own=values, plain=curve, persistent=better, published_greedy=np.array([[1, 2], [0, 4]]),
        well_timed=np.array([0.5, 0.7]), right_suggestion=np.array([0.6, 0.8]), can_end_right=np.array([1, 0]),
        accuracies=np.array([[0.2, 0.6], [0.4, 0.6], [0.6, 0.6]]), signals=signals,
    )  # fmt: skip
    weights = np.array([[0.5, 0.5], [1, 0]])

    own = own_measures(summary, weights)
    assert {name: list(column) for name, column in own.items()} == {
        "acc": pytest.approx([0.4, 0.2]), "ps": pytest.approx([2, 1]), "answered": pytest.approx([0.6, 0.5]),
        "abstained": pytest.approx([0.2, 0.1]), "limited": pytest.approx([0.1, 0.2]),
    }  # fmt: skip
    exact = exact_measures(summary, weights)
    assert {name: list(column) for name, column in exact.items()} == {
        "greedy_acc": pytest.approx([0.5, 1]), "greedy_ps": pytest.approx([3, 2]), "unbiased": pytest.approx([0.5, 0.5]),
        "persistent": pytest.approx([0.8, 0.5]), "well_timed": pytest.approx([0.6, 0.5]),
        "right_suggestion": pytest.approx([0.7, 0.6]), "recognition": pytest.approx([0.5, 1]),
        "position_sd": pytest.approx([0.1, 0.2]), "position_effect": pytest.approx([-0.15, -0.3]), "worth": [0.0, 0.0],
    }  # fmt: skip
    summary.published_greedy, summary.accuracies = None, summary.accuracies[:1]
    assert set(exact) - set(exact_measures(summary, weights)) == {
        "greedy_acc", "greedy_ps", "position_sd", "position_effect",
    }  # fmt: skip
    detected = detection_measures(summary, {"own": np.array([True, False])}, weights)
    assert detected["auc_own"][0] == 1 and np.isnan(detected["auc_own"][1]) and detected["neutral_own"][0] == -0.5


def test_a_summary_averages_orders_and_keeps_the_published_one(demo_data):
    graphs = [build_graph(sample, VARIANTS["every-state"]) for sample in load_samples(demo_data, "QD")[:3]]
    orders = [(graphs, [planted(graph, Random(seed), asks=1.0) for graph in graphs]) for seed in (1, 2)]
    summary = summarize(orders)
    each = [[sample_values(*pair) for pair in zip(*order, strict=True)] for order in orders]
    own = np.array([[values.accuracy[NEUTRAL_INDEX] for values in order] for order in each])

    assert summary.accuracies == pytest.approx(own) and summary.own.accuracy == pytest.approx(own.mean(axis=0))
    assert summary.published.accuracy == pytest.approx(own[0])
    assert summary.plain.accuracy == pytest.approx(np.mean([[v.accuracy for v in order] for order in each], axis=0))
    assert summary.plain.suggestions == pytest.approx(
        np.mean([[v.suggestions for v in order] for order in each], axis=0)
    )
    assert (summary.persistent.accuracy[:, NEUTRAL_INDEX] > summary.own.accuracy).all(), "nothing is given up"

    counts = count_suggestions(graphs[0], orders[0][1][0]).ended
    turns = np.repeat(np.arange(len(counts)), np.round(counts * 1e6).astype(int))
    assert summary.published_variance[0] == pytest.approx(turns.var(), rel=1e-3)
    timed = [np.mean([well_timed_accuracy(g, order[1][n]) for order in orders]) for n, g in enumerate(graphs)]
    assert summary.well_timed == pytest.approx(timed) and (summary.right_suggestion >= summary.well_timed).all()
    assert summary.can_end_right.tolist() == [1, 1, 1] and (summary.oracle > 0).all()
    assert summary.published_greedy.shape == (3, 2) and summary.signals.sample.max() == 2

    unknown = tuple(part._replace(greedy=-2) for part in orders[0][1][0])
    assert summarize([(graphs[:1], [unknown])]).published_greedy is None


def asking(best=-2):
    """A question with two suggestions, the right category and a wrong one."""
    flags = [np.array(row, dtype=bool) for row in ([1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 0])]
    return QuestionPolicy(np.array([0.1, 0.3, 0.3, 0.3]), *flags, best)


def test_the_best_timing_waits_only_for_a_better_chance():
    """Two suggestions lead to a state where the answer is sure and to one where it is even, as it is here."""
    sure = asking()._replace(probabilities=np.array([0, 0, 1.0, 0]))
    graph = StateGraph(None, (), (0, 1, 0), ((1, 2, -1, -2), (-3, -3, -1, -2), (-3, -3, -1, -2)))

    assert well_timed_accuracy(graph, (asking(), sure)) == pytest.approx(0.25 * 1 + 0.75 * 0.5)
    assert well_timed_accuracy(graph, (asking(), sure), chooses=True) == 1.0
    assert well_timed_accuracy(graph, (asking(), asking())) == 0.5
    assert can_end_right(graph) and not can_end_right(StateGraph(None, (), (0,), ((-3, -3, -2, -2),)))
