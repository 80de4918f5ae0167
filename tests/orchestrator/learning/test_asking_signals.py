"""Training metrics of asking: the odds at held-out views, and the knowledge and habit that they show."""

import math

import pytest

pytest.importorskip("torch", reason="the extra `transformers` is not installed")
pytest.importorskip("transformers", reason="the extra `transformers` is not installed")

from envs.render import Renderer
from envs.samples import load_samples
from orchestrator.learning.evaluation import asking_signals, detection_measures, question_policy
from orchestrator.learning.settings import Train
from orchestrator.learning.states import solution_path
from orchestrator.learning.student import Student
from sweeps.registry import registry


@pytest.fixture(scope="module")
def policy():
    return Student(Train(model=registry()["embedded"], data="nowhere"))


def test_signals_are_the_odds_of_asking_at_every_view(policy, demo_data):
    samples = load_samples(demo_data, "QD")[:3]
    renderer = Renderer(demo_data)
    states = [state for sample in samples for state in solution_path(sample, renderer)]
    signals = asking_signals(policy, states)
    assert len(signals) > len(samples), "several views of each sample"
    for state, (odds, recognition) in zip(states, signals, strict=False):
        question = question_policy(policy, state)
        asking = question.probabilities[question.suggests].sum()
        assert 0 < question.probabilities.sum() <= 1 + 1e-6 and 0 <= recognition <= 1
        assert odds == pytest.approx(math.log(asking / (1 - asking)), abs=1e-6)


def test_knowledge_and_habit_are_means_over_scenarios_with_both_kinds_of_views():
    planted = {"QD": [(2.0, 0.1), (1.0, 0.2), (-1.0, 0.9)], "IN-C": [(0.0, 0.9), (-4.0, 0.1)], "ROD": [(0.0, 0.1)]}
    measured = detection_measures(planted, ["QD"])
    assert measured == {
        "asking_auc_in_domain": 1.0, "neutral_b_in_domain": -0.25, "asking_auc_out_of_domain": 0.0,
        "neutral_b_out_of_domain": 2.0,
    }  # fmt: skip
