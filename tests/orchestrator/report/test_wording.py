"""Counts have the right noun, differences a minus sign, shares no false 0 or 100."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report.wording import format_share, format_signed, pluralize


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ((1, "model"), "1 model"),
        ((0, "model"), "0 models"),
        ((2000, "cell"), "2,000 cells"),
        ((2, "reply", "replies"), "2 replies"),
    ],
)
def test_one_is_singular(given_, said):
    assert pluralize(*given_) == said


@given(st.floats(-2000, 2000), st.integers(0, 2))
def test_a_difference_has_a_sign_and_what_rounds_to_nothing_has_none(value, digits):
    text = format_signed(value, digits)
    number = float(text.replace("−", "-").replace(",", ""))

    assert number == pytest.approx(value, abs=0.501 * 10**-digits)
    assert text[0] == ("+" if number > 0 else "−" if number < 0 else "0") and "-" not in text


@given(st.integers(0, 10_000), st.integers(1, 10_000))
def test_a_share_is_0_or_100_only_when_it_is(part, whole):
    text = format_share(min(part, whole), whole)

    assert (text == "0.0%") == (part == 0) and (text == "100%") == (part >= whole)
