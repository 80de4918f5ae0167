"""The sentences under the table of operating points: a model's point, its will to ask and its knowledge of when."""

import pytest

from orchestrator.report.tables.operating import _mean_cell, sentences
from orchestrator.report.tables.table import MISSING, TableCell

ROW = {
    "model": "m", "condition": "hint", "acc": 41.26, "acc_low": 35.04, "acc_high": 47.46, "ps": 1.234, "chance_acc": 20.0,
    "chance_ps": 1.5, "answered": 70.4, "abstained": 20.4, "limited": 9.2, "neutral_own": 0.7, "unbiased": 50.0,
    "auc_own": 0.731, "auc_own_low": 0.6, "auc_own_high": 0.8, "well_timed": 66.66, "right_suggestion": 80.0,
}  # fmt: skip
POINT = (
    "m (hint) ends right in 41.3% of episodes [35.0 to 47.5] with 1.23 suggestions by its own probabilities (chance: 20.0% "
    "with 1.50); 70% end with a category, 20% with an abstention, 9% at the turn limit."
)
KNOWLEDGE = (
    "m (hint) has higher odds of asking where it cannot know than where it can in 73% of pairs [0.600 to 0.800; .5 is "
    "blind]; perfect timing of its questions would bring acc to 66.7% at most, the right suggestions to 80.0%; the rest is "
    "what it does not recognize."
)


@pytest.mark.parametrize(
    ("bias", "way", "factor"), [(0.7, "too rarely", "2"), (-0.7, "too readily", "0.5"), (9.0, "too rarely", "8e+03")]
)
def test_a_model_has_three_sentences(bias, way, factor):
    will = (
        f"m (hint) asks {way}: its odds of asking times {factor} would be even between what it can and cannot know; any bias "
        "at all would gain at most 8.7 points."
    )
    assert sentences(ROW | {"neutral_own": bias}) == [POINT, will, KNOWLEDGE]


def test_without_a_bias_there_is_only_the_point():
    assert sentences(ROW | {"neutral_own": None}) == [POINT]
    (alone,) = sentences(ROW | {"neutral_own": None, "acc_low": None, "acc_high": None})
    assert "[no interval]" in alone


@pytest.mark.parametrize(
    ("measure", "text", "limits"),
    [
        ("acc", "0.5 / 1.23", "0.2 to 1.0"),
        ("unbiased", "0.5", "0.2 to 1.0"),
        ("auc_own", "0.500", "0.250 to 1.000"),
        ("neutral_own", "+0.50", "+0.25 to +1.00"),
        ("position_effect", "+0.5", "+0.2 to +1.0"),
        ("position_sd", "0.5", "0.2 to 1.0"),
    ],
)
def test_a_mean_has_the_sign_and_the_digits_of_its_measure(measure, text, limits):
    row = {measure: 0.5, f"{measure}_low": 0.25, f"{measure}_high": 1.0, "ps": 1.234}

    assert _mean_cell(row, measure) == TableCell(text, 0.5, limits)
    assert _mean_cell({measure: 0.5, "ps": 1.234}, measure) == TableCell(text, 0.5)
    assert _mean_cell(row | {measure: None}, measure) is MISSING
