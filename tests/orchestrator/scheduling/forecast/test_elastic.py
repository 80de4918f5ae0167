"""The paper's sweep on a cluster that changes, beside a bound that no schedule beats which knew every change."""

from __future__ import annotations

import pytest

from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.nodes import Node
from tests.bench.elastic import SCENES, Change, available, bound, hold, play
from tests.simulated_schedule import Work

FAST = ("two of eight nodes die", "half of the nodes are drained")


@pytest.mark.slow
@pytest.mark.parametrize(
    "scene", [scene if scene in FAST else pytest.param(scene, marks=pytest.mark.long) for scene in SCENES]
)
def test_a_change_costs_little_and_loses_and_doubles_nothing(scene):
    report = play(SCENES[scene])

    assert (report["delivered"], report["twice"], report["abandoned"]) == (report["planned"], 0, {})
    assert 1.0 <= report["ratio"] <= 1.15


def test_the_bound_counts_the_gpus_that_are_there():
    nodes = (Node("a", 8), Node("b", 8))
    changes = [Change(0, nodes[:1]), Change(100, ()), Change(200, hold(nodes, 4))]
    assert [available(changes, end) for end in (50, 150, 250)] == [400, 800, 1200]

    # until 255 there are 1,240 GPU-seconds: 1,190 of work, and starts of the 5 replicas that play it in 245 s
    work = {"m": Work(episodes=1190, gpus=1, rate=1.0, start=10.0)}
    assert bound(changes, work, {"m": Demand(0, 1)}) == pytest.approx(255, rel=1e-3)
