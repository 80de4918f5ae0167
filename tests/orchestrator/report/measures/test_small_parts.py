"""Steps of measures by hand: the size that an average counts as, and whose answers label the questions of a cell."""

from types import SimpleNamespace

import numpy as np
import pytest

from orchestrator.report.measures.judge_correction import _average_size
from orchestrator.report.measures.operating_points import DETECTIONS, KNOWN, MEASURES, _labels


def test_an_average_counts_as_so_many_independent_answers():
    assert _average_size([0.3], [40.0]) == 40.0
    # (0.5 * 10 + 0.5) / 11 = 0.5 twice: 0.25 / (2 * 0.25 / 10 / 4)
    assert _average_size([0.5, 0.5], [10.0, 10.0]) == pytest.approx(20.0)
    smooth = [(0.2 * 10 + 0.5) / 11, (0.9 * 30 + 0.5) / 31]
    mean = sum(smooth) / 2
    variance = (smooth[0] * (1 - smooth[0]) / 10 + smooth[1] * (1 - smooth[1]) / 30) / 4
    assert _average_size([0.2, 0.9], [10.0, 30.0]) == pytest.approx(mean * (1 - mean) / variance)


def operating_cell(model, recognition, scenario="QD", odds=3, samples=(1, 2, 3)):
    signals = SimpleNamespace(recognition=np.array(recognition), odds=np.zeros(odds))
    return SimpleNamespace(
        model=model, scenario=scenario, condition="every-state", own_labels=np.array(recognition) >= KNOWN,
        samples=[SimpleNamespace(id=number) for number in samples], summary=SimpleNamespace(signals=signals),
    )  # fmt: skip


def test_other_models_label_the_questions_that_they_saw_too():
    low, high = KNOWN / 4, 1.0
    cell = operating_cell("m", [high, low, low])
    others = [operating_cell("n", [low, high, low]), operating_cell("o", [low, high, high])]
    strangers = [
        operating_cell("p", [high] * 3, scenario="COCO"), operating_cell("q", [high] * 3, odds=4),
        operating_cell("r", [high] * 3, samples=(1, 2, 4)), operating_cell("oracle", [high] * 3),
    ]  # fmt: skip
    run_data = SimpleNamespace(baselines={"oracle"})
    labels = _labels(cell, [cell, *others, *strangers], run_data)

    assert labels["own"].tolist() == [True, False, False]
    assert labels["others"].tolist() == [low >= KNOWN, True, (low + high) / 2 >= KNOWN]
    assert _labels(cell, [cell, *strangers], run_data).keys() == {"own"}


def test_names_of_detections_are_columns_of_the_tables():
    assert DETECTIONS == ("auc_own", "neutral_own", "auc_others", "neutral_others") == MEASURES[-4:]
