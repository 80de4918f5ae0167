"""The variables of an entry's chat template: a fixed date replaces the clock."""

from __future__ import annotations

import pytest

from actors.engine.chat_format import template_variables
from sweeps.load import SweepError, build


def test_today_becomes_the_clock_of_the_template() -> None:
    variables = template_variables({"today": "2026-11-01", "enable_thinking": False})

    clock = variables.pop("strftime_now")
    assert (clock("%Y-%m-%d"), clock("%d %b %Y")) == ("2026-11-01", "01 Nov 2026")
    assert variables == {"enable_thinking": False} == template_variables(variables)


@pytest.mark.parametrize("today", ["yesterday", 2026])
def test_a_date_that_is_none_is_one_sentence(today: object) -> None:
    entry = {"name": "mine", "source": "s", "chat": {"today": today}}

    with pytest.raises(SweepError, match='is no date; write it as "2026-11-01"'):
        build({"data": "d", "model": [entry]}, "mine.toml")
