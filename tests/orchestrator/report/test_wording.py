"""Differences have a minus sign, and shares no false 0 or 100."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.report.wording import format_share, format_signed


@given(st.floats(-2000, 2000), st.integers(0, 2))
def test_difference_has_sign_unless_rounded_to_zero(value, digits):
    text = format_signed(value, digits)
    number = float(text.replace("−", "-").replace(",", ""))

    assert number == pytest.approx(value, abs=0.501 * 10**-digits)
    assert text[0] == ("+" if number > 0 else "−" if number < 0 else "0") and "-" not in text


@given(st.integers(0, 10_000), st.integers(1, 10_000))
def test_share_is_0_or_100_only_if_exact(part, total):
    text = format_share(min(part, total), total)

    assert (text == "0.0%") == (part == 0) and (text == "100%") == (part >= total)
