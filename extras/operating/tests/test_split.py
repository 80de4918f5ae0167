"""Planted pairs that differ in one part of the policy show a difference in that part alone."""

from random import Random

import numpy as np
import pytest
from planted_curves import planted

from envs.samples import load_samples
from proactive_operating.policy import NEUTRAL_INDEX, log_odds
from proactive_operating.splits import PARTS, split
from proactive_operating.state_graph import build_graph
from proactive_operating.values import sample_values
from sweeps.conditions import VARIANTS


@pytest.fixture(scope="module", params=["QD", "MVP-N", "COCO"])
def graphs(request, demo_data):
    return [build_graph(sample, VARIANTS["every-state"]) for sample in load_samples(demo_data, request.param)]


def policies(graphs, **fields):
    return [planted(graph, Random(number), **fields) for number, graph in enumerate(graphs)]


def reweigh(question, asks=1.0, names=None):
    """Return the question with another chance of asking, or other categories, and as much given up as before."""
    stays = question.suggests | question.names
    chances = np.where(question.suggests, asks * question.probabilities, question.probabilities)
    if names is not None:
        chances[question.names] = names(chances[question.names])
    chances[stays] *= question.probabilities[stays].sum() / chances[stays].sum()
    return question._replace(probabilities=chances)


def keener(policy, rng):
    return tuple(reweigh(question, asks=5.0) for question in policy)


def better_at_naming(policy, rng):
    return tuple(reweigh(question, names=lambda chances: chances[::-1].copy()) for question in policy)


def quitting(policy, rng):
    return tuple(
        question._replace(probabilities=np.where(question.suggests | question.names, 0.5, 1.0) * question.probabilities)
        for question in policy
    )


@pytest.mark.parametrize(
    ("change", "part"), [(keener, "willingness"), (better_at_naming, "recognition"), (quitting, "abstention")]
)
def test_a_planted_difference_is_found_in_its_part_alone(graphs, change, part):
    before = policies(graphs)
    after = [change(policy, Random(number)) for number, policy in enumerate(before)]
    difference, *shares = split(graphs, before, after).mean(axis=1)

    assert dict(zip(PARTS, shares, strict=True))[part] == pytest.approx(difference, abs=1e-9)
    assert abs(difference) > 1e-3, "the planted change matters"


def test_another_timing_at_equal_willingness_is_timing_alone(graphs):
    before = policies(graphs)
    rng, asking = Random(0), [[q for q in policy if q.suggests.any()] for policy in before]
    shifts = [[rng.gauss(0, 2) for _ in questions] for questions in asking]
    mean = np.mean([shift for row in shifts for shift in row])
    after = []
    for policy, row in zip(before, shifts, strict=True):
        moves = iter(row)
        after.append(tuple(reweigh(q, asks=np.exp(next(moves) - mean)) if q.suggests.any() else q for q in policy))
    difference, *shares = split(graphs, before, after).mean(axis=1)

    assert dict(zip(PARTS, shares, strict=True))["timing"] == pytest.approx(difference, abs=1e-9)
    assert abs(difference) > 1e-3


def test_shares_add_up_to_the_difference_of_the_models_own_accuracies(graphs):
    before, after = policies(graphs), policies(graphs, asks=2.0, skill=4.0, noise=1.0)
    difference, *shares = split(graphs, before, after)
    own = [
        [sample_values(*pair).accuracy[NEUTRAL_INDEX] for pair in zip(graphs, side, strict=True)]
        for side in (before, after)
    ]

    assert difference == pytest.approx(np.subtract(own[1], own[0]))
    assert np.sum(shares, axis=0) == pytest.approx(difference)
    assert split(graphs, after, before) == pytest.approx(-np.vstack([difference, shares]))


def test_models_that_never_or_always_ask_are_split_too(graphs):
    never = [tuple(reweigh(q, asks=0.0) for q in policy) for policy in policies(graphs)]
    rare = [tuple(reweigh(q, asks=1e-200) for q in policy) for policy in policies(graphs)]

    assert split(graphs, never, rare) == pytest.approx(0.0, abs=1e-6)
    assert all(np.isfinite(log_odds(question)) for policy in never for question in policy)
