"""Where models that wait for GPUs are expected, by hand: room, time, width, kind of GPU, closed nodes."""

import pytest

from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.likely_starts import LikelyStart, likely_starts
from orchestrator.scheduling.nodes import Node
from orchestrator.scheduling.scheduler import Scheduler

TWO_NODES = [Node("left", 2, "H200"), Node("right", 2, "A100")]


def begin(works: dict[str, tuple[float, int]], nodes=TWO_NODES, **demands) -> Scheduler:
    """Return a begun schedule; ``works``: group -> GPUs, episodes of a second each. A replica takes 10 s to start."""
    queues = {
        name: list(range(1000 * index, 1000 * index + count)) for index, (name, (_, count)) in enumerate(works.items())
    }
    groups = {
        name: Demand(0, gpus, replicas=1, rate=1.0, start=10.0, **demands.get(name, {}))
        for name, (gpus, _) in works.items()
    }
    schedule = Scheduler(queues, groups, cpus=8, gpus=sum(node.gpus for node in nodes), nodes=nodes)
    schedule.on_begin(0.0)
    return schedule


def test_nothing_is_expected_if_all_models_have_workers():
    assert likely_starts(begin({"a": (2, 100), "b": (2, 100)})) == []


def test_waiting_models_follow_the_ones_that_end_first():
    schedule = begin({"long": (2, 500), "short": (2, 300), "next": (2, 200), "last": (1, 50)})
    short_node = next(slot.place.node for slot in schedule.slots.values() if slot.group.name == "short")
    long_node = next(slot.place.node for slot in schedule.slots.values() if slot.group.name == "long")
    assert likely_starts(schedule) == [LikelyStart(300.0, short_node, "next"), LikelyStart(500.0, long_node, "last")]


def test_a_later_model_waits_for_the_start_and_work_of_the_one_before_it():
    schedule = begin({"now": (2, 400), "next": (2, 300), "last": (2, 200)}, nodes=[Node("left", 2)])
    assert likely_starts(schedule) == [LikelyStart(400.0, "left", "next"), LikelyStart(710.0, "left", "last")]


def test_a_model_goes_to_its_kind_of_gpu_only():
    schedule = begin({"a": (2, 500), "b": (2, 300), "next": (1, 9)}, next={"accelerator": "A100"})
    assert [start.node for start in likely_starts(schedule)] == ["right"]


@pytest.mark.parametrize("closed", ["left", "right"])
def test_closed_nodes_expect_nothing(closed):
    schedule = begin({"a": (2, 500), "b": (2, 300), "next": (1, 9)})
    schedule.closed = frozenset({closed})
    assert [start.node for start in likely_starts(schedule)] == [{"left": "right", "right": "left"}[closed]]


def test_models_that_fit_nowhere_have_no_gpu_or_no_work_are_not_expected():
    schedule = begin({"a": (2, 500), "b": (2, 300), "wide": (4, 9), "service": (0, 9), "done": (1, 0)})
    assert likely_starts(schedule) == []


def test_parts_of_a_gpu_need_a_whole_one():
    schedule = begin({"a": (2, 500), "part": (0.5, 9)}, nodes=[Node("left", 2)])
    assert likely_starts(schedule) == [LikelyStart(500.0, "left", "part")]
