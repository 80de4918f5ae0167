"""Summaries of a scenario's samples, and the measures computed from them, on cases worked by hand."""

from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from planted_curves import planted

from envs.samples import load_samples
from proactive_operating.policy import BIASES, NEUTRAL_INDEX, QuestionPolicy, shifted
from proactive_operating.state_graph import StateGraph, build_graph
from proactive_operating.summary import detection_measures, exact_measures, own_measures, summarize, value_measures
from proactive_operating.values import Values, sample_values, well_timed_accuracy
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


@pytest.fixture
def summary():
    """Two samples; the last of three biases asks 2 and 4 times and gains .4 and .2."""
    values = Values(*np.array([[0.2, 0.6], [1, 3], [0.5, 0.7], [0.1, 0.3], [0.2, 0]]))
    return SimpleNamespace(
        accuracy=np.array([[0.1, 0.2, 0.5], [0.3, 0.6, 0.5]]), suggestions=np.array([[0.0, 1, 2], [0, 3, 4]]), own=values,
        greedy=np.array([[1, 2], [0, 4]]), well_timed=np.array([0.5, 0.7]),
        accuracies=np.array([[0.2, 0.6], [0.4, 0.6], [0.6, 0.6]]),
        question_samples=np.array([0, 0, 1, 1]), odds=np.array([-1.0, 3, 1, 1]),
    )  # fmt: skip


def test_measures_are_means_of_samples(summary):
    own = {name: values.tolist() for name, values in own_measures(summary).items()}
    assert own == {
        "acc": [20, 60], "ps": [1, 3], "answered": [50, 70], "abstained": pytest.approx([10, 30]), "limited": [20, 0],
    }  # fmt: skip
    exact = {name: float(values.mean()) for name, values in exact_measures(summary).items()}
    assert exact == pytest.approx({
        "greedy_acc": 50, "greedy_ps": 3, "unbiased": 50, "well_timed": 60,
        "position_sd": 10, "stops_paying": 10,
    })  # fmt: skip
    summary.greedy, summary.accuracies = None, summary.accuracies[:1]
    assert exact.keys() - exact_measures(summary).keys() == {"greedy_acc", "greedy_ps", "position_sd"}


def test_detection_counts_ties_half(summary):
    found = detection_measures(summary, np.array([True, False, True, False]))

    assert (found["auc"].mean(), found["neutral"].mean()) == (0.875, -1.0)
    assert not detection_measures(summary, np.ones(4, dtype=bool))


def test_asking_is_worth_its_price_up_to_the_one_at_which_it_stops_paying(summary):
    for price, best, own in ((0, 50, 40), (5, 35, 30), (9.9, 20.3, 20.2), (10.1, 20, 19.8)):
        values = {name: each.mean() for name, each in value_measures(summary, price).items()}
        assert values == pytest.approx({"best": best, "own": own}), price
    summary.accuracy[:, 1:] = summary.accuracy[:, :1]
    assert exact_measures(summary)["stops_paying"].tolist() == [0, 0], "asking gains nothing at any price"


def test_a_summary_averages_orders_and_keeps_the_published_one(demo_data):
    graphs = [build_graph(sample, VARIANTS["every-state"]) for sample in load_samples(demo_data, "QD")[:3]]
    orders = [(graphs, [planted(graph, Random(seed), asks=1.0) for graph in graphs]) for seed in (1, 2)]
    summary = summarize(orders)
    each = [[sample_values(*pair) for pair in zip(*order, strict=True)] for order in orders]
    own = np.array([[values.accuracy[NEUTRAL_INDEX] for values in order] for order in each])

    assert summary.accuracies == pytest.approx(own) and summary.own.accuracy == pytest.approx(own.mean(axis=0))
    assert summary.accuracy == pytest.approx(np.mean([[v.accuracy for v in order] for order in each], axis=0))
    assert summary.suggestions == pytest.approx(np.mean([[v.suggestions for v in order] for order in each], axis=0))
    timed = [np.mean([well_timed_accuracy(g, order[1][n]) for order in orders]) for n, g in enumerate(graphs)]
    assert summary.well_timed == pytest.approx(timed)
    assert summary.greedy.shape == (3, 2) and summary.question_samples.max() == 2

    unknown = tuple(part._replace(greedy=-2) for part in orders[0][1][0])
    assert summarize([(graphs[:1], [unknown])]).greedy is None


def asking(best=-2):
    """A question with two suggestions, the right category and a wrong one."""
    flags = [np.array(row, dtype=bool) for row in ([1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 0])]
    return QuestionPolicy(np.array([0.1, 0.3, 0.3, 0.3]), *flags, best)


def test_the_best_timing_waits_only_for_a_better_chance():
    """Two suggestions lead to a state where the answer is sure and to one where it is even, as it is here."""
    sure = asking()._replace(probabilities=np.array([0, 0, 1.0, 0]))
    graph = StateGraph(None, (), (0, 1, 0), ((1, 2, -1, -2), (-3, -3, -1, -2), (-3, -3, -1, -2)))

    assert well_timed_accuracy(graph, (asking(), sure)) == pytest.approx(0.25 * 1 + 0.75 * 0.5)
    assert well_timed_accuracy(graph, (asking(), asking())) == 0.5
