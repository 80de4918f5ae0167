"""Steps of measures by hand: the size that an average counts as, and whose answers label the questions of a cell."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from orchestrator.report.measures.decision_map import (
    EPISODE,
    SAMPLE,
    Decisions,
    _episode_row,
    _sample_row,
    decisions_by_cell,
)
from orchestrator.report.measures.judge_correction import _average_size, _count_labels
from orchestrator.report.measures.operating_points import DETECTIONS, KNOWN, MEASURES, _labels
from orchestrator.report.statistics.agreement import Confusion
from orchestrator.report.statistics.judge_error import Labels


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


MOVES = SimpleNamespace(
    neighbors={"a": (), "b": ()}, counts=lambda turn: turn > 0, knows=lambda image, pictures: image in pictures,
    moves_to_known=lambda image, turn, pictures: 7 if pictures else None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("images", "actions", "pictures", "decision"),
    [
        # asked knowing, answered unknowing, late, early
        ("ab", ("suggestion", "category"), "b", (False, False, 0, None)),
        ("abb", ("suggestion", "suggestion", "suggestion"), "b", (True, False, 2, None)),
        ("ab", ("suggestion", "category"), "a", (False, True, 0, 7)),
        ("ab", ("suggestion", "category"), "", (False, True, 0, None)),
        ("a", ("category",), "a", (False, True, 0, 7)),
        ("ab", ("suggestion", "abstention"), "", (False, False, 0, None)),
        ("", (), "a", (False, False, 0, None)),
    ],
)
def test_decisions_are_compared_with_what_the_model_knows_where_a_category_counts(images, actions, pictures, decision):
    """At the first turn no category counts, so asking there is never too much and answering always too early."""
    row = ("k", "m", "QD", "hint", 3, "m/QD/hint", list(images), list(actions))

    assert _episode_row(MOVES, row, frozenset(pictures)) == ("k", "m/QD/hint", "m", "QD", "hint", 3, *decision)


def test_a_sample_is_known_at_its_first_picture_or_some_moves_later():
    names = (("m", "QD", 3), "m/QD/map", "map")

    assert _sample_row(MOVES, *names, frozenset("a")) == ("m/QD/map", "m", "QD", "map", 3, True, 7)
    assert _sample_row(MOVES, *names, frozenset()) == ("m/QD/map", "m", "QD", "map", 3, False, None)


def test_means_of_decisions_are_over_samples_and_episodes():
    names = ("model", "QD", "hint")
    samples = [("map", *names, 1, True, 0), ("map", *names, 2, False, 4), ("map", *names, 3, False, None)]
    episodes = [("k", "cell", *names, 1, True, False, 2, None), ("l", "cell", *names, 2, False, True, 0, 1)]
    planted = Decisions(
        pl.DataFrame(samples, schema=SAMPLE, orient="row"), pl.DataFrame(episodes, schema=EPISODE, orient="row")
    )
    played, mapped = decisions_by_cell(planted).rows()

    assert played == ("cell", False, 2, None, None, None, 50.0, 50.0, 1.5, 1.0, 0.5)
    assert mapped == ("map", True, 3, pytest.approx(100 / 3), pytest.approx(200 / 3), 2.0, *[None] * 5)


def test_labels_are_counted_by_what_they_and_the_judge_say():
    pairs = [(True, True)] * 5 + [(True, False)] * 4 + [(False, True)] * 3 + [(False, False)] * 2 + [(None, True)] * 7
    cell = pl.DataFrame([*pairs, (None, False)], schema=["category_true", "category"], orient="row")

    assert _count_labels(cell, "category") == Labels(Confusion(5, 4, 3, 2), 7, 8)
