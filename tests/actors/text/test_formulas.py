"""Texts that a spreadsheet would compute get an apostrophe, and lose it again."""

import pytest

from actors.text.formulas import disarm, rearm


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "  =1", "\tx", "\rx", "\nx", "＝1", "＋1", "－1", "＠x"]
)
def test_a_formula_is_disarmed_and_rearmed(text):
    assert disarm(text) == f"'{text}"
    assert rearm(f"'{text}") == text


@pytest.mark.parametrize("text", ["", "a=1", "1-2", "'quoted'", "it's", "'"])
def test_other_texts_stay(text):
    assert disarm(text) == rearm(text) == text
