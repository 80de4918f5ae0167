"""Counts have the right noun form."""

import pytest

from envs.plural import pluralize


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((1, "model"), "1 model"),
        ((0, "model"), "0 models"),
        ((2000, "cell"), "2,000 cells"),
    ],
)
def test_one_is_singular(arguments, expected):
    assert pluralize(*arguments) == expected
