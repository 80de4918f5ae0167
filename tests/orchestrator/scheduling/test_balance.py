"""When one more replica of a late group pays, to the episode, and how many of a replica's GPUs a node has."""

import pytest

from orchestrator.scheduling.balance import replica_pays
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.nodes import Place
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.scheduling.state import WorkerSlot


@pytest.mark.parametrize(("episodes", "pays"), [(100, False), (101, False), (102, False), (103, True), (200, True)])
def test_replica_pays_if_work_ends_sooner_by_more_than_a_hundredth_of_its_start(episodes, pays):
    """1 episode/s and a start of 100 s: with 103 episodes two replicas end at 101.5 s, 1.5 s sooner than one."""
    schedule = Scheduler({"m": range(episodes)}, {"m": Demand(0, 1, rate=1.0, start=100.0)}, 8, 2)
    group = schedule.groups["m"]
    assert replica_pays(group, {0: WorkerSlot(group, Place(), ready=True)}, 0.0, 50.0) is pays
    assert not replica_pays(group, {0: WorkerSlot(group, Place(), ready=True)}, 0.0, 300.0), "it is not late"
    assert replica_pays(group, {}, 0.0, 50.0), "the first always pays"


def test_node_has_the_gpus_of_the_stages_on_it():
    whole, staged = Place("a"), Place("a", None, ("a", "a", "b"))
    assert [whole.share_of(node, 2) for node in ("a", "b")] == [2, 0]
    assert [staged.share_of(node, 12) for node in ("a", "b", "c")] == [8, 4, 0]
    assert [Place().share_of(node, 0) for node in ("", "a")] == [0, 0] and Place().nodes == ()
