"""An episode belongs to a plan that names its key; without known keys, the newest of each cell and sample belongs."""

import polars as pl
import pytest

from orchestrator.storage.planned_episodes import filter_planned
from orchestrator.storage.schemas import EPISODES
from tests.orchestrator.blocks import episode

ROD, QD = "uniform/ROD/hint", "uniform/QD/hint"


def row(name, cell, sample):
    return episode(sample, cell=cell) | {"key": name}


STORED = pl.LazyFrame(
    [row("old", ROD, 1), row("new", ROD, 1), row("alone", ROD, 2), row("q-old", QD, 1), row("q-new", QD, 1)],
    schema=EPISODES,
)


@pytest.mark.parametrize(
    ("keys", "scenarios", "belonging"),
    [
        (["old", "q-new", "never played"], None, {"old", "q-new"}),
        (pl.LazyFrame({"key": ["old", "alone"]}), None, {"old", "alone"}),
        ([], None, set()),
        (None, None, {"new", "alone", "q-new"}),
        (["old"], ["ROD"], {"old", "q-new"}),
        (["old"], [], {"new", "alone", "q-new"}),
    ],
)
def test_filter_keeps_episodes_of_plan(keys, scenarios, belonging):
    planned = filter_planned(STORED, keys, scenarios).collect()

    assert set(planned["key"]) == belonging and planned.height == len(belonging)
    assert planned.schema == EPISODES
