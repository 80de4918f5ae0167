"""Exact beside played values by hand: which point a decoding plays, and differences in standard deviations."""

from types import SimpleNamespace

import numpy as np
import pytest

from orchestrator.report.measures.operating_played import _decoding_point, _deviations, _exact_points
from sweeps.sampling import Sampling


@pytest.mark.parametrize(
    ("sampling", "point"),
    [
        ({}, "greedy"), ({"temperature": 1.0}, "own"), ({"temperature": 0.9}, ""), ({"temperature": 1.0, "top_p": 0.9}, ""),
        ({"temperature": 1.0, "top_k": 20}, ""), ({"checkpoint": True}, ""),
    ],
)  # fmt: skip
def test_a_decoding_plays_a_point_that_is_known_or_none(sampling, point):
    assert _decoding_point(Sampling(**sampling)) == point


class Published(tuple):
    """Accuracy and suggestions of two samples."""

    accuracy = property(lambda self: self[0])


def cell_of(accuracy, suggestions, variance=(0.0, 0.0), greedy=None, exact=True):
    published = Published((np.array(accuracy), np.array(suggestions), np.zeros(2)))
    summary = SimpleNamespace(published=published, published_variance=np.array(variance), published_greedy=greedy)
    return SimpleNamespace(summary=summary, exact=exact)


def test_points_are_means_over_samples():
    greedy = np.array([[1.0, 3.0], [0.0, 6.0]])
    cell = cell_of([0.2, 0.6], [1.0, 2.0], greedy=greedy)

    assert _exact_points(cell, "own") == pytest.approx((40.0, 1.5))
    assert _exact_points(cell, "greedy") == (50.0, 4.5)
    assert _exact_points(cell, "") is None
    assert _exact_points(cell_of([0.2, 0.6], [1.0, 2.0]), "greedy") is None, "what greedy decoding does is not known"
    assert _exact_points(cell_of([0.2, 0.6], [1.0, 2.0]), "own") == pytest.approx((40.0, 1.5))
    assert _exact_points(cell_of([0.2, 0.6], [1.0, 2.0], greedy=greedy, exact=False), "own") is None


def test_differences_are_in_standard_deviations_of_the_mean_over_draws():
    # accuracy of one sample: 0.5 x 0.5 x 100^2 = 2,500; of the mean over two samples and two draws: sqrt(5,000 / 2) / 2 = 25
    # suggestions: sqrt((1 + 3) / 2) / 2 = sqrt(0.5)
    cell = cell_of([0.5, 0.5], [1.0, 2.0], (1.0, 3.0))

    assert _deviations(cell, (50.0, 1.5), (75.0, 1.5 - 2 * 0.5**0.5), 2) == pytest.approx((1.0, -2.0))
    assert _deviations(cell_of([1.0, 0.0], [1.0, 2.0]), (50.0, 1.5), (75.0, 1.0), 2) == (None, None), "nothing varies"
