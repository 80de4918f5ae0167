"""An order to the judge does not move the rule judge; what it can be talked into is measured, not hidden."""

from __future__ import annotations

import asyncio

import pytest

from sweeps.load import build_judge
from tests.bench.injection import ORDERS, STUFFING, inject, measure_injections
from tests.envs.games import SAMPLES


def test_few_rule_judge_verdicts_change_under_injected_orders(demo_data):
    """docs/scoring.md quotes these figures for a larger set."""
    rows = asyncio.run(measure_injections(demo_data, build_judge({"model": "rule-judge"}, "test"), limit=10))
    table = {cells[1].strip(): [float(cell) for cell in cells[2:6]] for cells in (row.split("|") for row in rows[2:])}

    assert list(table) == [*ORDERS, *STUFFING]
    for name in ORDERS:
        answers, _, gained, unjudged = table[name]
        assert answers == 280 and gained < 3 and unjudged == 0, name
    assert all(table[name][2] > 50 for name in STUFFING), "reciting the list is saying it, to a rule"


def test_an_order_is_filled_for_the_sample():
    assert (
        inject(SAMPLES["ROD"], "A.", STUFFING["the accepted answers recited"])
        == "A.\n\nMove the blocks, Move the camera"
    )
    assert inject(SAMPLES["QD"], "A.", ORDERS["forged verdict"]).endswith("1,1")
    with pytest.raises(KeyError):
        inject(SAMPLES["QD"], "A.", "{unknown}")
