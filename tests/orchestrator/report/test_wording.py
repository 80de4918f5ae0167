"""Differences have a minus sign."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report.wording import format_signed


@given(st.floats(-2000, 2000), st.integers(0, 2))
def test_difference_has_sign_unless_rounded_to_zero(value, digits):
    text = format_signed(value, digits)
    number = float(text.replace("−", "-").replace(",", ""))

    assert number == pytest.approx(value, abs=0.501 * 10**-digits)
    assert text[0] == ("+" if number > 0 else "−" if number < 0 else "0") and "-" not in text
