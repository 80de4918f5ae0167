"""What a group waits for in words, and bounds of the decisions about GPUs, each to the unit."""

import math

import pytest

from orchestrator.scheduling import commands, scheduler, state
from orchestrator.scheduling.balance import choose_surplus, ends_with_others, fair_lease_size, group_load, is_late
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.eviction import stages_to_free
from orchestrator.scheduling.nodes import Node, Nodes, Place, build_nodes
from orchestrator.scheduling.placement import MAX_UNREAD, PAUSE_GRACE_S
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.scheduling.state import WorkerGroup, WorkerSlot
from orchestrator.scheduling.tight_end import Load
from orchestrator.scheduling.wanted_gpus import wanted_bundles


@pytest.mark.parametrize(
    ("demand", "text"),
    [
        (Demand(gpus=1), "1 GPU"), (Demand(gpus=2, accelerator="H200"), "2 GPUs of kind H200"),
        (Demand(gpus=16, stages=2), "16 GPUs in 2 stages of 8"), (Demand(gpus=0.5), "0.5 GPU"),
        (Demand(gpus=6, stages=4, accelerator="A100"), "6 GPUs of kind A100 in 4 stages of 1.5"),
    ],
)  # fmt: skip
def test_what_a_replica_needs_is_said_with_kind_and_stages(demand, text):
    assert demand.gpu_text.replace("GPUs", "GPU") == text.replace("GPUs", "GPU")
    assert demand.gpu_text == text or demand.gpus < 1


def test_a_shortage_names_the_widest_node_or_what_all_have():
    assert Demand(gpus=4).describe_shortage(2) == "a node with 4 GPUs; the widest has 2"
    assert Demand(gpus=4).describe_shortage(0) == "a node with 4 GPUs; there is none"
    wide = Demand(gpus=16, stages=2)
    assert wide.describe_shortage(8) == "nodes with 16 GPUs in 2 stages of 8; they have 8"
    assert commands.MODELS == "models"


def test_constants_that_decide_when_work_is_taken_back():
    assert (state.LEASES_PER_WORKER, state.PRIOR_WEIGHT_S, state.LATE_FACTOR, state.LEASE_SPREAD) == (2, 60.0, 8.0, 4)
    assert (state.SILENCE_TIMEOUT_S, state.MIN_SILENCE_TIMEOUT_S, state.SILENCE_ROUNDS) == (900.0, 180.0, 10.0)
    assert (state.MAX_LEASE_EPISODES, state.LEASE_TARGET_S, MAX_UNREAD) == (2048, 60.0, 4096)
    assert (scheduler.MAX_LONE_DEATHS, scheduler.MAX_SUSPECTS, scheduler.SUSPECT_LEASE) == (2, 128, 16)
    assert (scheduler.MAX_FAILED_STARTS, scheduler.MAX_LOSSES) == (3, 10) and PAUSE_GRACE_S > 0


def test_nodes_count_what_is_held_and_reach_whole_stages():
    nodes = Nodes([Node("a", 8, "H200", held=3), Node("b", 4, "A100"), Node("c", 6, "H200")])
    assert (nodes.total, nodes.held, nodes.usable, nodes.free["a"]) == (18, 3, 15, 5)
    assert [nodes.widest(kind) for kind in ("", "H200", "A100", "B200")] == [8, 8, 4, 0]
    assert (nodes.reach(8, 1), nodes.reach(16, 4), nodes.reach(16, 4, "A100"), nodes.reach(16, 2)) == (8, 16, 4, 8)
    assert not nodes.needs_several(8, 2) and nodes.needs_several(9, 2) and not nodes.needs_several(9, 1)
    assert build_nodes(10, width=4)[-1] == Node("node-2", 2) and Node("x", 1).cpus == math.inf


def test_parts_fill_the_fullest_gpu_first_and_whole_ones_the_tightest_node():
    nodes = Nodes([Node("a", 2), Node("b", 1)])
    first = nodes.reserve(nodes.fit(0.5), 0.5, 1)
    assert first == Place("b", 1) and nodes.free == {"a": 2, "b": 0}
    quarter = nodes.reserve(nodes.fit(0.25), 0.25, 2)
    assert quarter == Place("b", 1) and nodes.fit(0.25) == Place("b", 1)
    assert nodes.fit(0.5) == Place("a") and nodes.fit(0.25, without={"b"}) == Place("a")
    assert nodes.fit(3) is None and nodes.fit(2) == Place("a") and nodes.fit(2, without={"a"}) is None
    nodes.occupy(first, -0.5)
    nodes.occupy(quarter, -0.25)
    assert nodes.free == {"a": 2, "b": 1} and nodes.shared == {}
    nodes.take("gone", 1)
    assert nodes.free == {"a": 2, "b": 1}


def slot_of(group, node="n", ready=True, started=0.0, leases=(), leaving=False):
    slot = WorkerSlot(group, Place(node), started, 0.0, ready=ready)
    slot.leaving = leaving
    for number, ordinals in enumerate(leases):
        slot.leases[number] = dict.fromkeys(ordinals)
    return slot


def group_of(name="g", waiting=0, **demand):
    from collections import deque

    return WorkerGroup(
        name, Demand(**{"cpus": 0, "gpus": 1, "rate": 2.0, "start": 30.0, **demand}), deque(range(waiting))
    )


def test_a_groups_load_is_its_work_and_the_replicas_that_stay():
    """Forty episodes wait and ten are leased, at two a second; one of three replicas leaves, one starts for 10 s more."""
    group = group_of(waiting=40, replicas=5)
    slots = [
        slot_of(group, leases=[range(10)]),
        slot_of(group, ready=False, started=80.0),
        slot_of(group, leaving=True, leases=[range(4)]),
    ]
    load = group_load(group, slots, 100.0)
    assert (load.gpus, load.work, load.start, load.further, load.ready) == (1, 25.0, 30.0, 3, 1)
    assert load.starting == ((10.0, 1),) and load.slack == 4 * group.round_s
    late = group_load(group, [slot_of(group, ready=False, started=0.0)], 100.0)
    assert late.starting == ((0.0, 1),) and late.ready == 0
    assert (
        ends_with_others(group)
        and not ends_with_others(group_of(gpus=0))
        and not ends_with_others(group_of(pool="judges"))
    )


def test_a_group_is_late_by_more_than_a_five_hundredth_of_the_time_left():
    on_time, late = Load(1, 501.0, 10, 64, ready=1), Load(1, 501.5, 10, 64, ready=1)
    assert not is_late(on_time, 500.0) and is_late(late, 500.0)


def test_a_worker_gets_no_more_than_its_share_of_what_is_left():
    group = group_of(waiting=30, concurrency=8)
    group.played, group.busy_s = 600, 300.0
    own = slot_of(group)
    assert fair_lease_size(own, [own], 0.0) == group.lease_size(1)
    others = [slot_of(group) for _ in range(9)]
    assert fair_lease_size(own, [own, *others], 0.0) == min(3, group.lease_size(10))
    loaded = slot_of(group, leases=[range(10)])
    assert fair_lease_size(loaded, [loaded, *others], 0.0) == 0, "it has more than its share of four"
    starting = [slot_of(group, ready=False, started=0.0) for _ in range(9)]
    assert fair_lease_size(own, [own, *starting], 0.0) == group.lease_size(10), "who starts for 30 s has no share yet"


def test_workers_with_the_least_leased_are_handed_over_first():
    give, need = group_of("give", gpus=1), group_of("need", gpus=1)
    loads = {"give": Load(1, 100, 10, 64, ready=4), "need": Load(1, 150, 10, 64, ready=1)}
    slots = {"give": {n: slot_of(give, leases=[range(n)]) for n in (4, 1, 3, 2)}, "need": {9: slot_of(need)}}
    slots["give"][1].ready = False
    assert [slot.leased_count for slot in choose_surplus(loads, ["need"], slots, 60.0)] == [2, 3]
    slots["give"][4].leaving = True
    assert [slot.leased_count for slot in choose_surplus(loads, ["need"], slots, 60.0)] == [2]


def test_stages_free_the_nodes_with_the_fewest_workers_to_leave():
    narrow = group_of("narrow")
    nodes = Nodes([Node("a", 2), Node("b", 2), Node("c", 2)])
    slots = [slot_of(narrow, node) for node in ("a", "a", "b", "c")]
    for slot in slots:
        nodes.take(slot.place.node, 1)
    wide = Demand(gpus=4, stages=2)
    freed = stages_to_free(slots, nodes, wide)
    assert {name: len(leaving) for name, leaving in freed.items()} == {"b": 1, "c": 1}
    assert set(stages_to_free(slots, nodes, wide, {"b"})) == {"a", "c"}
    assert (
        stages_to_free(slots, nodes, wide, {"b", "c"}) == {} == stages_to_free(slots, nodes, Demand(gpus=8, stages=2))
    )
    assert set(stages_to_free([], Nodes([Node("a", 4)]), Demand(gpus=4, stages=2))) == {"a"}


def test_the_autoscaler_is_asked_for_a_thousand_bundles_at_most():
    demand = Demand(0, 1, rate=1.0, start=0.001, replicas=5_000)
    many = Scheduler({"m": range(10_000)}, {"m": demand}, 8, 0, [], wait=9.0)
    assert len(wanted_bundles(many, {})) == 1000
    wide = Demand(0, 16, replicas=1, stages=2, accelerator="H200")
    staged = Scheduler({"m": range(9)}, {"m": wide}, 8, 0, [Node("a", 8, "H200")], wait=9.0)
    assert wanted_bundles(staged, {}) == [{"GPU": 8.0, "accelerator_type:H200": 0.001}] * 2
