"""An episode belongs to a plan that names its key; without known keys, the newest of each cell and sample belongs."""

import polars as pl
import pytest

from orchestrator.storage.episode_store import filter_planned, key_frame
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
    ("keys", "belonging"),
    [(["old", "q-new", "never played"], {"old", "q-new"}), ([], set()), (None, {"new", "alone", "q-new"})],
)
def test_filter_keeps_episodes_of_plan(keys, belonging):
    planned = filter_planned(STORED, None if keys is None else key_frame(keys).lazy()).collect()

    assert set(planned["key"]) == belonging and planned.height == len(belonging)
    assert planned.schema == EPISODES
