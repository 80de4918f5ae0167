"""The tight bound by hand, and what the scheduler decides by it: who gets a replica, and who lets one go."""

import math

import pytest

from orchestrator.scheduling.balance import Load, choose_givers, replica_pays, tight_end
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.nodes import Place
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.scheduling.state import WorkerSlot
from tests.simulated_schedule import simulate


def test_every_replica_starts_once():
    """100 s of work after a start of 10 s: on one GPU 110 s, on four GPUs (4 x 10 + 100) / 4 = 35 s."""
    load = Load(gpus=1, work=100, start=10, further=64)

    assert [tight_end([load], gpus) for gpus in (1, 4)] == pytest.approx([110, 35], rel=1e-3)
    assert tight_end([load._replace(further=2)], 4) == pytest.approx(60, rel=1e-3), "two replicas of 10 and 50 s"
    assert tight_end([load._replace(gpus=4)], 4) == pytest.approx(110, rel=1e-3)
    assert tight_end([load, load._replace(work=0)], 4) == pytest.approx(35, rel=1e-3), "without work, no start"
    assert tight_end([], 4) == 0 and tight_end([load], 0) == math.inf


def test_a_group_gives_only_what_others_can_use_and_itself_can_spare():
    early, late = Load(1, 100, 10, 64, ready=4), Load(1, 150, 10, 64, ready=1)
    loads = {"early": early, "late": late}

    assert late.lacking(60) == 2
    assert choose_givers(loads, ["late"], 60, leaving=0) == ["early", "early"], "the two others play 120 s of 100"
    assert choose_givers(loads, ["late"], 60, leaving=1) == ["early"], "one leaves already"
    assert choose_givers(loads, ["late"], 26, leaving=0) == [], "it needs all four"
    assert choose_givers(loads | {"late": late._replace(gpus=2)}, ["late"], 60, leaving=0) == [], "too narrow"


def test_a_worker_ends_early_for_a_group_that_would_end_late():
    """Three GPUs, 1,700 and 1,300 s of work: the second GPU of the first group goes to the second one before both end."""
    pending = {"first": range(1700), "second": range(1700, 3000)}
    demands = {name: Demand(0, 1, rate=1.0, start=100.0) for name in pending}
    run = simulate(pending, demands, 3)

    assert run.bound == pytest.approx((3000 + 4 * 100) / 3, rel=1e-3)
    assert run.ratio < 1.03 and len(run.delivered) == 3000
    handed, kept = sorted(replica.ended for replica in run.replicas if replica.start.group == "first")
    began = sorted(replica.began for replica in run.replicas if replica.start.group == "second")
    assert began[:2] == [0, handed]
    assert handed < kept - 100


@pytest.mark.parametrize(("episodes", "pays"), [(100, False), (101, False), (102, False), (103, True), (200, True)])
def test_replica_pays_if_work_ends_sooner_by_more_than_a_hundredth_of_its_start(episodes, pays):
    """1 episode/s and a start of 100 s: with 103 episodes two replicas end at 101.5 s, 1.5 s sooner than one."""
    schedule = Scheduler({"m": range(episodes)}, {"m": Demand(0, 1, rate=1.0, start=100.0)}, 8, 2)
    group = schedule.groups["m"]
    assert replica_pays(group, {0: WorkerSlot(group, Place(), ready=True)}, 0.0, 50.0) is pays
    assert not replica_pays(group, {0: WorkerSlot(group, Place(), ready=True)}, 0.0, 300.0), "it is not late"
    assert replica_pays(group, {}, 0.0, 50.0), "the first always pays"
