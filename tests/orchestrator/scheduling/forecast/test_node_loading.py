"""Starts on one simulated node, by hand: who waits, how long reading takes, and what the second start is spared."""

import heapq
from itertools import count

import pytest

from actors.engine.start_phases import StartPhases
from orchestrator.scheduling.forecast.node_loading import EngineStart, NodeLoading

PHASES = StartPhases(download=5.0, read=10.0, compile=40.0, warm=20.0)
COLD, CACHED = 75.0, 30.0


class Clock:
    """A heap of events and one node."""

    def __init__(self) -> None:
        self.now, self.events, self.numbers = 0.0, [], count()
        self.node = NodeLoading(self.at, lambda: self.now, disk=1.0)
        self.ready: dict[int, float] = {}

    def at(self, when, event):
        heapq.heappush(self.events, (when, next(self.numbers), event))

    def start(self, when, slot, group, alone=False, phases=PHASES, weights=10.0):
        start = EngineStart(slot, group, alone, phases, weights, lambda: self.ready.update({slot: self.now}) or [])
        self.at(when, lambda: self.node.join(start) or [])

    def run(self):
        while self.events:
            self.now, _, event = heapq.heappop(self.events)
            event()
        return self.ready


@pytest.fixture
def clock():
    return Clock()


def test_first_start_downloads_and_compiles_and_later_ones_do_not(clock):
    clock.start(0, 1, "a")
    clock.start(100, 2, "a")
    clock.start(200, 3, "b")
    assert clock.run() == {1: COLD, 2: 100 + CACHED, 3: 200 + COLD}


def test_two_readers_share_the_disk(clock):
    clock.start(0, 1, "a")  # reads from 5, alone until 10, then at half the pace until 20
    clock.start(5, 2, "b")  # reads from 10; when the first is done, 5 s of its reading are left
    assert clock.run() == {1: 20 + 60, 2: 25 + 60}


def test_fast_disk_slows_nobody(clock):
    clock.start(0, 1, "a", weights=5.0)  # half a gigabyte per second each
    clock.start(0, 2, "b", weights=5.0)
    assert clock.run() == {1: COLD, 2: COLD}


def test_three_slow_readers_of_a_disk_for_two(clock):
    for slot, group in ((1, "a"), (2, "b"), (3, "c")):
        clock.start(0, slot, group, weights=5.0)
    assert clock.run() == dict.fromkeys((1, 2, 3), 5 + 15 + 60)


def test_replicas_of_one_model_are_read_from_the_disk_once(clock):
    clock.start(0, 1, "a")
    clock.start(0, 2, "a")
    clock.start(100, 3, "b")  # reads from 105, alone: the weights of the fourth are in memory
    clock.start(105, 4, "a")
    assert clock.run() == {1: COLD, 2: COLD, 3: 100 + COLD, 4: 105 + CACHED}


def test_prepared_weights_spare_a_start_its_download(clock):
    def prepare(group):
        clock.node.prepare(EngineStart(-1, group, False, PHASES, 10.0, list))

    clock.at(0, lambda: prepare("a") or [])
    clock.at(1, lambda: prepare("b") or [])  # one at a time: never prepared
    clock.start(100, 1, "a")
    clock.start(200, 2, "b")
    assert clock.run() == {1: 100 + 70, 2: 200 + COLD}


def test_preparing_takes_its_share_of_the_disk(clock):
    clock.at(0, lambda: clock.node.prepare(EngineStart(-1, "a", False, PHASES, 10.0, list)) or [])  # reads 5 to 25
    clock.start(0, 1, "b")
    assert clock.run() == {1: 25 + 60}


def test_wide_engine_loads_alone_and_in_order(clock):
    clock.start(0, 1, "a")
    clock.start(1, 2, "wide", alone=True)
    clock.start(2, 3, "b")  # narrow, but after the wide one
    assert clock.run() == {1: COLD, 2: 2 * COLD, 3: 3 * COLD}


def test_dead_loader_gives_disk_and_turn_back(clock):
    clock.start(0, 1, "wide", alone=True)
    clock.start(0, 2, "a")
    clock.start(0, 3, "b")
    clock.at(4, lambda: clock.node.leave(1) or [])
    clock.at(14, lambda: clock.node.leave(3) or [])  # both have read from 9 to 14, half of the pace each
    assert clock.run() == {2: 14 + 7.5 + 60}


def test_phases_of_no_length_are_ready_at_once(clock):
    clock.start(3, 1, "a", phases=StartPhases())
    assert clock.run() == {1: 3}
