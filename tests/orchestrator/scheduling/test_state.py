"""The numbers behind scheduling decisions, by hand: rates, lease sizes, deadlines and evictions for a wide model."""

from collections import deque

import pytest

from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.eviction import workers_to_evict
from orchestrator.scheduling.nodes import Node, Nodes, Place, build_nodes
from orchestrator.scheduling.state import WorkerGroup, WorkerSlot


def group(waiting=0, played=0, busy_s=0.0, starts=(), name="m", **demand) -> WorkerGroup:
    return WorkerGroup(
        name, Demand(**demand), deque(range(waiting)), played=played, busy_s=busy_s, start_times=list(starts)
    )


def test_queue_counts_waiting_and_suspected_episodes():
    worker_group = group(waiting=5)
    worker_group.suspects.extend([(7, 8), (9,)])
    assert worker_group.queued_count == 8


@pytest.mark.parametrize(
    ("facts", "has_rate", "rate"),
    [
        ({}, False, 1.0),
        ({"played": 3}, False, 1.0),
        ({"busy_s": 3.0}, False, 1.0),
        ({"played": 30, "busy_s": 60.0}, True, 0.5),
        ({"played": 1, "busy_s": 0.5}, True, 2.0),
        ({"rate": 2.0}, True, 2.0),
        ({"rate": 2.0, "played": 60, "busy_s": 60.0}, True, 1.5),
        ({"rate": 2.0, "played": 0, "busy_s": 180.0}, True, 0.5),
    ],
)
def test_rate_weighs_estimate_as_one_minute_of_observation(facts, has_rate, rate):
    assert (group(**facts).has_rate, group(**facts).rate) == (has_rate, rate)


@pytest.mark.parametrize(
    ("facts", "timeout"),
    [
        ({"played": 60, "busy_s": 59.0}, 900),
        ({"played": 0, "busy_s": 600.0}, 900),
        ({"played": 60, "busy_s": 60.0}, 180),
        ({"played": 60, "busy_s": 60.0, "concurrency": 40}, 400),
        ({"played": 30, "busy_s": 60.0, "concurrency": 40}, 800),
        ({"played": 60, "busy_s": 60.0, "concurrency": 400}, 900),
        ({"played": 1, "busy_s": 60.0}, 600),
    ],
)
def test_silence_timeout_is_ten_rounds_within_bounds(facts, timeout):
    assert group(**facts).silence_timeout(900) == timeout


@pytest.mark.parametrize(
    ("waiting", "replicas", "facts", "size"),
    [
        (0, 1, {}, 0),
        (1, 4, {}, 1),
        (2, 1, {}, 1),
        (100, 1, {}, 25),
        (100, 5, {}, 5),
        (99, 5, {"concurrency": 30}, 20),
        (101, 5, {"concurrency": 30}, 21),
        (1000, 2, {"concurrency": 16}, 125),
        (40_000, 1, {}, 2048),
        (40_000, 1, {"rate": 2.0}, 120),
        (40_000, 1, {"rate": 2.0, "concurrency": 200}, 200),
        (40_000, 1, {"rate": 100.0}, 2048),
    ],
)
def test_a_lease_is_a_minutes_work_and_less_towards_the_end(waiting, replicas, facts, size):
    assert group(waiting, **facts).lease_size(replicas) == size


@pytest.mark.parametrize(
    ("facts", "start"),
    [
        ({"start": 30.0}, 0.0),
        ({"start": 30.0, "rate": 1.0}, 30.0),
        ({"start": 30.0, "rate": 1.0, "starts": (60.0, 90.0)}, 60.0),
    ],
)
def test_start_time_is_mean_of_estimate_and_observations(facts, start):
    assert group(**facts).start_s == start


def test_a_worker_holds_what_its_leases_have_not_delivered():
    slot = WorkerSlot(group(), Place(), leases={1: dict.fromkeys(range(3)), 2: dict.fromkeys([7])})
    assert slot.leased_count == 4


@pytest.mark.parametrize(
    ("facts", "leased", "deadline"),
    [({}, 4, float("inf")), ({"rate": 2.0}, 4, 10 + 900 + 8 * 2), ({"rate": 2.0}, 0, float("inf"))],
)
def test_lease_deadline_is_eight_times_promise_plus_silence(facts, leased, deadline):
    slot = WorkerSlot(group(**facts), Place(), leases={1: dict.fromkeys(range(leased))})
    assert slot.deadline(10.0, 900.0) == deadline


@pytest.mark.parametrize(
    ("leases", "at_once", "wants"),
    [([], 1, True), ([5], 1, True), ([5, 5], 1, False), ([1, 1], 3, True), ([1, 2], 3, False), ([2, 2], 3, False)],
)
def test_a_worker_takes_two_leases_or_as_many_as_fill_its_engine(leases, at_once, wants):
    slot = WorkerSlot(
        group(concurrency=at_once), Place(), leases={n: dict.fromkeys(range(size)) for n, size in enumerate(leases)}
    )
    assert slot.wants_work is wants


# -- nodes -------------------------------------------------------------------------------------------------------------
def test_replica_goes_to_tightest_fit_then_first_node():
    nodes = Nodes([Node("a", 8), Node("b", 4), Node("c", 4, "H200")])

    assert (nodes.total, nodes.widest(), nodes.widest("H200"), nodes.widest("A100")) == (16, 8, 4, 0)
    assert [nodes.tightest_fit(gpus) for gpus in (1, 4, 5, 8)] == [
        Place(name) for name in "bbaa"
    ] and nodes.tightest_fit(9) is None
    assert nodes.tightest_fit(4, "H200") == Place("c") and nodes.tightest_fit(5, "H200") is None
    nodes.take("b", 1)
    assert [nodes.tightest_fit(gpus) for gpus in (3, 4)] == [Place("b"), Place("c")]
    nodes.take("b", -1)
    nodes.take("gone", 2)
    assert nodes.free == {"a": 8, "b": 4, "c": 4}


@pytest.mark.parametrize(
    ("gpus", "sizes"), [(0, []), (1, [1]), (7, [7]), (8, [8]), (9, [8, 1]), (16, [8, 8]), (20, [8, 8, 4])]
)
def test_gpus_without_nodes_form_nodes_of_eight(gpus, sizes):
    assert build_nodes(gpus, "H200") == tuple(Node(f"node-{n}", size, "H200") for n, size in enumerate(sizes))
    assert [node.gpus for node in build_nodes(5, width=2)] == [2, 2, 1]
    assert Node("a", 1).accelerator == build_nodes(1)[0].accelerator == ""


def narrow(node, began=0.0, gpus=1, ready=True, leaving=False):
    return WorkerSlot(group(gpus=gpus), Place(node), began, ready=ready, leaving=leaving)


def leaving(slots, nodes, gpus=4, accelerator=""):
    layout = Nodes(nodes)
    for slot in slots:
        layout.take(slot.place.node, slot.group.demand.gpus)
    evicted = workers_to_evict(slots, layout, Demand(gpus=gpus, accelerator=accelerator))
    return [slots.index(slot) for slot in evicted]


def test_leaving_then_starting_then_oldest_workers_are_evicted():
    slots = [
        narrow("a", 3.0),
        narrow("a", 2.0),
        narrow("a", 1.0),
        narrow("a", 5.0, ready=False),
        narrow("a", 9.0, leaving=True),
    ]

    assert leaving(slots, [Node("a", 5)], 1) == []
    assert leaving(slots, [Node("a", 5)], 2) == [4, 3]
    assert leaving(slots, [Node("a", 5)], 4) == [4, 3, 2, 1]
    assert leaving(slots, [Node("a", 8)], 4) == [4]


def test_node_of_right_kind_with_fewest_evictions_is_chosen():
    slots = [narrow("a"), narrow("a"), narrow("b", gpus=2), narrow("c")]
    nodes = [Node("a", 4), Node("b", 4), Node("c", 4, "H200")]

    assert leaving(slots, nodes) == [2]
    assert leaving(slots, nodes, accelerator="H200") == [3]
    assert leaving(slots, nodes, accelerator="A100") == leaving(slots, nodes, 5) == []
    assert leaving([narrow("a", gpus=4)], [Node("a", 4)]) == [], "who is as wide stays"
    assert leaving([narrow("a", gpus=0), narrow("a")], [Node("a", 4)]) == [1], "who takes no GPU makes no room"
