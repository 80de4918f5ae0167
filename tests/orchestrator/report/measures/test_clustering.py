"""Clusters of a handful of answers by hand, and the sentence that names what intervals take as independent."""

import dataclasses

import pytest
from scipy.stats import t as student

from orchestrator.report.measures.clustering import clustering
from orchestrator.report.run_data import AUTOMATIC
from orchestrator.report.statistics.proportion import Z
from tests.orchestrator.blocks import episode
from tests.orchestrator.report.measures.test_estimates import replace_episodes

OBJECTS = "aaabbbcccddd"
"""The answer of each sample of QD: four objects of three samples, answered right but for one sample of the second and fourth."""


@pytest.fixture
def objects(run_data):
    base = run_data.samples["QD"][min(run_data.samples["QD"])]
    samples = {
        number: dataclasses.replace(base, id=number, answer=answer, image=f"{number}.jpg")
        for number, answer in enumerate(OBJECTS)
    }
    rows = [episode(n, "m/QD/hint", correct=answer in "ac" or n in (3, 9)) for n, answer in enumerate(OBJECTS)]
    return dataclasses.replace(replace_episodes(run_data, rows), samples={"QD": samples}, cluster=AUTOMATIC)


def test_the_correlation_of_four_objects_by_hand(objects):
    # right of 3: 3, 1, 3, 1, in all 8 of 12; between: 4 x 3 x (1/3)^2 / 3, within: 2 x (1 - 1/3) / 8
    between, within = 4 / 9, 1 / 6
    correlation = ((between - within) / 3) / ((between - within) / 3 + within)
    effect = 1 + 2 * correlation
    wider = effect**0.5 * student.ppf(0.975, 3) / Z
    by_object, by_picture = clustering(objects).rows()

    assert by_object[:5] == ("QD", "object", 12, 4, 3) and by_object[-1] is True
    assert by_object[5:8] == pytest.approx((correlation, effect, wider))
    assert by_picture == ("QD", "picture", 12, 12, 1, None, None, None, False)
