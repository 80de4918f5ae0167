"""The time of replicas: every held second is in one part, losses are named, and attempts add up."""

from __future__ import annotations

import pytest

from orchestrator.monitoring.replica_clock import ReplicaClock
from orchestrator.scheduling.commands import JUDGES, Demand
from orchestrator.scheduling.scheduler import Scheduler
from orchestrator.storage.replica_time import FILE, describe, held_metrics, time_by_group

TWO_GPUS = Demand(cpus=1, gpus=2, concurrency=10)


class Play:
    """A schedule of one model with two replicas of two GPUs, and a clock that looks at it twice a second."""

    def __init__(self, folder, attempt="logs/attempt-0001", demand=TWO_GPUS):
        self.schedule = Scheduler({"m": range(1000)}, {"m": demand}, 8, 4)
        self.clock, self.seconds, self.leases = ReplicaClock(folder, attempt), 0.0, {}
        self.clock.look(self.schedule.slots, 0.0)

    def take(self, commands):
        for command in commands:
            if hasattr(command, "ordinals"):
                self.leases[command.slot] = command
        return [command.slot for command in commands if type(command).__name__ == "Start"]

    def wait(self, seconds):
        for _ in range(round(2 * seconds)):
            self.seconds += 0.5
            self.clock.look(self.schedule.slots, self.seconds)

    def deliver(self, slot, number):
        lease = self.leases[slot]
        self.take(self.schedule.on_delivery(slot, lease.lease, lease.ordinals[:number], self.seconds))


def test_every_held_second_is_in_one_part(tmp_path):
    play = Play(tmp_path)
    first, second = play.take(play.schedule.on_begin(0.0))
    play.wait(3)  # both wait in Ray
    play.schedule.on_placed(first, play.seconds)
    play.wait(5)  # one loads, the other waits
    play.schedule.on_placed(second, play.seconds)
    play.take(play.schedule.on_ready(first, play.seconds))
    play.wait(10)
    play.deliver(first, 4)
    play.wait(7)
    play.take(play.schedule.on_death(second, "its node is gone", play.seconds))
    play.take(play.schedule.on_death(first, "killed", play.seconds))
    play.wait(1)
    play.clock.write()

    time = time_by_group(tmp_path)["m"]
    assert (time.waiting, time.idle, time.judging, time.gpus) == (3 + 3 + 5 + 2 * 1, 0, 0, 2)
    assert time.playing == pytest.approx(10, abs=0.5), "until the last delivery"
    assert time.lost == pytest.approx(7 + 17, abs=0.5), "the first since its delivery, the second never loaded"
    assert time.loading == 5
    assert time.held == 5 + 17 + 17
    (line,) = describe(tmp_path)
    assert line.startswith("0.02 GPU-hours held: 13% loading, ") and line.endswith("; 0.01 waiting in Ray")
    assert held_metrics(tmp_path)["gpu_hours/lost"] == 2 * time.lost / 3600


def test_attempts_add_up_and_a_damaged_file_counts_as_none(tmp_path):
    for attempt in ("logs/attempt-0001", "logs/attempt-0002"):
        play = Play(tmp_path, attempt)
        slot, _ = play.take(play.schedule.on_begin(0.0))
        play.schedule.on_placed(slot, 0.0)
        play.wait(4)
        play.clock.write()
    assert time_by_group(tmp_path)["m"].loading == 8

    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes().replace(b"4.0", b"9.0"))
    assert time_by_group(tmp_path) == {} and list(describe(tmp_path)) == []


def test_workers_without_gpus_count_as_workers_and_judges_judge(tmp_path):
    play = Play(tmp_path, demand=Demand(cpus=1, gpus=0, concurrency=10, pool=JUDGES))
    (slot, *_) = play.take(play.schedule.on_begin(0.0))
    play.take(play.schedule.on_ready(slot, 0.0))
    play.wait(36)
    play.clock.write()

    assert time_by_group(tmp_path)["m"].judging == 36
    assert next(describe(tmp_path)).startswith("0.01 worker-hours held: 100% judging")
    assert held_metrics(tmp_path) == {}
