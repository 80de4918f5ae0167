"""Where a replica finds room, what a pool has left, and who leaves for a wider group: single decisions, each on both sides."""

from dataclasses import replace

import pytest

from orchestrator.scheduling.balance import replica_pays
from orchestrator.scheduling.commands import Abandon, Demand, Start
from orchestrator.scheduling.nodes import Node, Place
from orchestrator.scheduling.placement import PAUSE_GRACE_S
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.scheduling.tight_end import Load
from orchestrator.scheduling.wanted_gpus import wanted_bundles
from tests.orchestrator.scheduling.test_words_and_bounds import group_of, slot_of


def room(schedule: Scheduler, gpus: float, **demand) -> str | None:
    """Return the node where a replica of so many GPUs would start; None for none."""
    place = schedule._room(Demand(0, gpus, **demand))
    return None if place is None else place.node


def two_nodes(gpus: float, left: int, right: int, **options) -> Scheduler:
    """Return a schedule whose only group has one worker, on the node ``left``."""
    nodes = [Node("left", left), Node("right", right)]
    schedule = Scheduler(
        {"m": range(5000), "w": []}, {"m": Demand(0, gpus, 1), "w": Demand(0, 2)}, 2, 0, nodes, **options
    )
    (start,) = schedule.on_begin()
    assert start == Start(1, "m", Place("left", start.place.shared))
    return schedule


def test_a_node_that_a_worker_leaves_takes_none_of_its_width_or_less():
    schedule = two_nodes(1, 3, 4)
    assert room(schedule, 1) == room(schedule, 2) == "left", "the tightest"
    schedule.slots[1].leaving = True
    assert (room(schedule, 1), room(schedule, 0.5), room(schedule, 2)) == ("right", "right", "left")
    schedule.closed = frozenset({"right"})
    assert (room(schedule, 1), room(schedule, 2), room(schedule, 3)) == (None, "left", None)
    assert schedule._room(Demand(4, 0)) == Place(), "nodes matter to replicas with GPUs alone"


def test_a_node_that_is_reserved_for_a_wider_group_takes_no_narrower_replica():
    schedule = two_nodes(1, 3, 4)
    wide = schedule.groups["w"]
    schedule.reserved = {"left": wide}
    assert room(schedule, 1) == "left", "it has no work"
    wide.waiting.append(7)
    assert (room(schedule, 1), room(schedule, 2)) == ("right", "left")


def test_a_pool_has_its_share_without_workers_of_lost_nodes():
    schedule = two_nodes(1, 1, 4)
    assert schedule._free_in_pool("models") == schedule._free_in_pool("judges") == 5
    schedule.shares = {"models": 3}
    assert (schedule._free_in_pool("models"), schedule._free_in_pool("judges")) == (2, 5)
    schedule.on_nodes([Node("right", 4)], 2, 1.0)
    assert schedule._free_in_pool("models") == 3 and 1 in schedule.slots


@pytest.mark.parametrize(
    ("shares", "held", "seconds"), [({}, 0, 25), ({}, 2, 50), ({"models": 1}, 0, 100), ({"models": 9}, 2, 50)]
)  # fmt: skip
def test_groups_end_together_on_what_others_and_the_share_leave(shares, held, seconds):
    nodes = [Node("a", 4, held=held)]
    schedule = Scheduler({"m": range(100)}, {"m": Demand(0, 1, rate=1.0)}, 2, 4, nodes, shares=shares)
    loads = schedule._loads()
    assert loads == {"m": Load(1, 100.0, 0.0, 64, slack=4.0)}
    assert schedule._tight_end({"m": Load(1, 100, 0, 64)}) == pytest.approx(seconds, rel=1e-3)


def test_policies_with_the_most_work_per_worker_get_the_next_one():
    """30 s and 20 s of work: 30 first, then 20 before 15, then 15 before 10."""
    demand = Demand(1, 0, rate=1.0)
    schedule = Scheduler({"a": range(30), "b": range(30, 50)}, {"a": demand, "b": demand}, 3, 0)
    assert [start.group for start in schedule.on_begin()] == ["a", "b", "a"]


def test_room_is_made_for_a_wide_group_whatever_stands_before_it():
    """Before it stand a service, a group with workers, and a judge that reads after the others."""
    demands = {
        "service": Demand(0, 0, 1),
        "narrow": Demand(0, 1, 2, judge="j"),
        "j": Demand(0, 2, pool="judges", after_writers=True),
        "wide": Demand(0, 2),
    }
    pending = {"service": [9000], "narrow": range(5000), "j": [], "wide": []}
    schedule = Scheduler(pending, demands, 2, 2)
    assert sorted(start.group for start in schedule.on_begin()) == ["narrow", "narrow", "service"]
    assert schedule.on_answers("j", [9500], 1.0) == []
    assert not any(slot.leaving for slot in schedule.slots.values()), "the judge waits for its writers"
    schedule.requeue("wide", [9700], 2.0)
    assert {slot.group.name for slot in schedule.slots.values() if slot.leaving} == {"narrow"}
    assert sum(slot.leaving for slot in schedule.slots.values()) == 2 and PAUSE_GRACE_S == 60


@pytest.mark.parametrize(("share", "leaving"), [(3, 0), (4, 2)])
def test_no_room_is_made_beyond_the_share_of_a_pool(share, leaving):
    demands = {"narrow": Demand(0, 1, 2), "wide": Demand(0, 2)}
    schedule = Scheduler({"narrow": range(5000), "wide": []}, demands, 2, 2, shares={"models": share})
    schedule.on_begin()
    schedule.requeue("wide", [9000], 1.0)
    assert sum(slot.leaving for slot in schedule.slots.values()) == leaving


def test_times_of_placements_and_heartbeats_are_the_start_by_default():
    schedule = two_nodes(1, 1, 4)
    assert schedule.on_placed(1) == schedule.on_heartbeat(1, 2) == [] and schedule.now == 0.0
    assert schedule.on_placed(1, 5.0) == schedule.on_placed(9, 6.0) == [] and schedule.slots[1].started_at == 0.0
    assert (schedule.now, schedule.begun, schedule.wait, schedule.changed) == (6.0, True, 0.0, 0.0)


def test_a_worker_that_is_ready_as_another_is_lost_counts_as_the_next_loss():
    schedule = Scheduler({"m": range(5000)}, {"m": Demand(0, 1, 1)}, 2, 1)
    schedule.on_begin()
    losses = []
    for slot, ready, lost in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 2.5, 2.5)):
        schedule.on_ready(slot, ready)
        schedule.on_death(slot, "killed", lost)
        losses.append(schedule.groups["m"].losses)
    assert losses == [1, 2, 3]


def test_only_workers_that_wait_for_a_gpu_are_withdrawn():
    demands = {"service": Demand(0, 0, 1), "m": Demand(0, 1, 1)}
    schedule = Scheduler({"service": [1], "m": [2]}, demands, 2, 0, [Node("left", 1), Node("right", 1)])
    assert {start.group for start in schedule.on_begin()} == {"service", "m"}
    assert schedule.on_nodes([Node("right", 1, held=1)], 2, 1.0) == [], "the loss of its node is told by itself"
    assert len(schedule.slots) == 2


def test_judges_and_staged_groups_that_are_too_wide_are_abandoned_with_their_reason():
    judge = Demand(0, 4, pool="judges", standing_replicas=1)
    judged = Scheduler({"m": [1], "j": []}, {"m": Demand(0, 1, judge="j"), "j": judge}, 2, 2)
    reason = "j needs 4 GPUs; the cluster has 2"
    assert judged.on_begin() == [Abandon("j", reason), Abandon("m", f"j cannot read its answers: {reason}")]
    nodes = [Node("a", 8), Node("b", 4)]
    staged = Scheduler({"m": [1]}, {"m": Demand(0, 24, stages=3)}, 2, 0, nodes)
    text = "m needs 24 GPUs in 3 stages of 8; the cluster has 8 in whole stages"
    assert staged.on_begin() == [Abandon("m", text)] and staged.done


@pytest.mark.parametrize(
    ("waiting", "concurrency", "pays"),
    [(2, 1, False), (3, 1, False), (11, 1, False), (12, 1, True), (14, 4, False), (15, 4, True)],
)
def test_a_replica_pays_if_its_first_lease_ends_before_the_work_of_the_others(waiting, concurrency, pays):
    """At one a second and a start of 10 s, the first lease of a new replica ends after 10 s and a round."""
    group = group_of(waiting=waiting, gpus=0, rate=1.0, start=10.0, concurrency=concurrency)
    one = {1: slot_of(group)}
    assert replica_pays(group, {}, 0.0, 0.0) and replica_pays(group, one, 0.0, 0.0) is pays
    group.demand = replace(group.demand, replicas=1)
    assert not replica_pays(group, one, 0.0, 0.0), "it has all that it may have"


def test_work_of_leaving_workers_counts_and_starting_ones_help():
    group = group_of(waiting=9, gpus=0, rate=1.0, start=10.0, concurrency=1)
    leaving = slot_of(group, leases=[range(3)], leaving=True)
    assert replica_pays(group, {1: slot_of(group), 2: leaving}, 0.0, 0.0) is False
    group.waiting.extend(range(20, 40))
    assert replica_pays(group, {1: slot_of(group)}, 0.0, 0.0)
    starting = {n: slot_of(group, ready=False, started=0.0) for n in range(2, 9)}
    assert not replica_pays(group, {1: slot_of(group), **starting}, 9.0, 0.0), "seven are ready in a second"


def test_the_sweeps_limit_is_asked_for_exactly():
    schedule = Scheduler({"m": range(900)}, {"m": Demand(0, 2, 3)}, 8, 0, [], wait=9.0)
    assert [len(wanted_bundles(schedule, {"models": gpus})) for gpus in (1, 2, 3, 4, 6, 99)] == [0, 1, 1, 2, 3, 3]
    assert wanted_bundles(schedule, {"judges": 0}) == [{"GPU": 2.0}] * 3
