"""Which groups start, wait, make room and stop: small schedules by hand, each with its exact commands."""

import pytest

from orchestrator.scheduling.commands import Demand, Drop, Lease, Start, Stop
from orchestrator.scheduling.nodes import Node, Place
from orchestrator.scheduling.scheduler import Scheduler


def build_schedule(work, gpus, cpus=2.0, **options) -> Scheduler:
    """Return a schedule on one node; ``work`` is group -> (pending, demand)."""
    return Scheduler(
        {name: pending for name, (pending, _) in work.items()},
        {n: d for n, (_, d) in work.items()},
        cpus,
        gpus,
        **options,
    )


def started_groups(schedule: Scheduler) -> str:
    """Return the initials of the groups whose workers start first."""
    return "".join(command.group[0] for command in schedule.on_begin())


def lease(number: int, slot: int, *ordinals: int) -> Lease:
    return Lease(slot, number, ordinals)


# -- time ----------------------------------------------------------------------------------------------------------------
EVENTS = (
    lambda schedule, *now: schedule.on_begin(*now),
    lambda schedule, *now: schedule.on_ready(1, *now),
    lambda schedule, *now: schedule.on_delivery(1, 1, [0], *now),
    lambda schedule, *now: schedule.on_answers("m", [9], *now),
    lambda schedule, *now: schedule.on_lease_end(1, 1, *now),
    lambda schedule, *now: schedule.on_death(1, "killed", *now),
    lambda schedule, *now: schedule.on_fatal_error(2, "no key", *now),
)


def test_worker_is_late_only_after_its_lease_is_due():
    """8 episodes at 1 a second may take 8 times 8 s beyond the 900 s of silence: due at 100 + 964 s."""
    schedule = build_schedule({"m": (range(8), Demand(0, 1, rate=1.0, concurrency=8))}, 1)
    schedule.on_begin(100.0)
    schedule.on_ready(1, 100.0)
    assert schedule.on_tick(1000.0) == [] and schedule.slots[1].due == {1: 1064.0}
    schedule.on_delivery(1, 1, [0], 1000.0)

    assert schedule.on_tick(1064.0) == []
    assert schedule.on_tick(1065.0)[0] == Drop(1, "8 times too slow")


def test_silence_counts_from_last_message():
    schedule = build_schedule({"m": (range(8), Demand(0, 1))}, 1)
    schedule.on_begin(100.0)
    schedule.on_ready(1, 100.0)

    assert schedule.on_tick(1001.0)[0] == Drop(1, "silent for 901 s")


def test_a_lease_that_has_ended_is_not_due_any_more():
    schedule = build_schedule({"m": (range(8), Demand(0, 1, rate=1.0, concurrency=8))}, 1)
    schedule.on_begin()
    schedule.on_ready(1)

    assert schedule.on_lease_end(1, 1, 10.0) == [lease(2, 1, *range(8))]
    assert list(schedule.slots[1].due) == [2]
    assert schedule.groups["m"].queued_count == 0 and not schedule.done, "nothing waits, and eight are played"


# -- who starts next -----------------------------------------------------------------------------------------------------
def test_longest_work_in_seconds_starts_first():
    """100 episodes at 10 a second take 10 s, 50 at 1 a second 50 s."""
    assert (
        started_groups(
            build_schedule({"a": (range(100), Demand(0, 1, rate=10.0)), "b": (range(50), Demand(0, 1, rate=1.0))}, 1)
        )
        == "b"
    )


def test_a_wide_model_starts_before_narrow_ones_that_have_more_work():
    assert started_groups(build_schedule({"n": (range(1000), Demand(0, 1)), "w": (range(10), Demand(0, 2))}, 2)) == "w"


def start_narrow_and_wide(narrow: float, wide: float, gpus: int = 8, rate: float = 1.0, start: float = 0.0) -> str:
    """Return what starts, given the seconds of work of a narrow model (one GPU) and of a wide one (two)."""
    work = {"n": (narrow, Demand(0, 1, rate=rate, start=start)), "w": (wide, Demand(0, 2, rate=rate, start=start))}
    return started_groups(
        build_schedule({name: (range(round(s * rate)), demand) for name, (s, demand) in work.items()}, gpus)
    )


def test_replicas_are_added_to_groups_behind_ideal_end():
    """On 8 GPUs, 600 s and 2 x 100 s end after 100 s at best: one wide replica suffices, and the narrow model takes six."""
    assert start_narrow_and_wide(600, 100) == "wnnnnnn"


# -- whether one more replica pays ---------------------------------------------------------------------------------------
def test_replicas_start_as_long_as_they_save_more_than_their_gain():
    """100 s of work and starts of 50 s: eight end after 62.5 s and seven after 64.3 s."""
    work = {"m": (range(100), Demand(0, 1, rate=1.0, start=50.0))}
    assert started_groups(build_schedule(work, 8)) == "m" * 8


def test_starting_replica_counts_from_its_ready_time():
    """At 10 s the first is ready at 60 s and would end at 100 s; with one more, ready at 70 s, both end at 85 s."""
    schedule = build_schedule({"m": (range(40), Demand(0, 1, rate=1.0, start=60.0))}, 1)
    schedule.on_begin()

    assert schedule.on_nodes([Node("node-0", 2)], 2, 10.0) == [Start(2, "m", Place("node-0"))]


def test_replica_that_is_ready_too_late_is_not_started():
    """At 10 s the ready one ends at 40 s; one more would be ready at 10 + (60 + 10) / 2 = 45 s."""
    schedule = build_schedule({"m": (range(30), Demand(0, 1, rate=1.0, start=60.0))}, 1)
    schedule.on_begin()
    schedule.on_ready(1, 10.0)

    assert schedule.groups["m"].queued_count > 2 and schedule.on_nodes([Node("node-0", 2)], 2, 10.0) == []


def test_held_gpus_stay_taken_after_cluster_change():
    schedule = build_schedule({"m": (range(100), Demand(0, 1))}, 1)
    schedule.on_begin()

    assert schedule.on_nodes([Node("node-0", 1)], 2, 5.0) == []
    assert schedule.on_nodes([Node("node-0", 2)], 2, 6.0) == [Start(2, "m", Place("node-0"))]


# -- judges and their writers --------------------------------------------------------------------------------------------
JUDGE = Demand(0, 1, replicas=1, pool="judges")
WRITER = Demand(0, 1, judge="judge")


@pytest.mark.parametrize(("unread", "commands"), [(4095, [lease(1, 2, 5000)]), (4096, [])])
def test_writer_waits_while_4096_answers_are_unread(unread, commands):
    schedule = build_schedule({"m": ([5000], WRITER), "judge": (range(unread), JUDGE)}, 2)

    assert schedule.on_begin() == [Start(1, "judge", Place("node-0")), Start(2, "m", Place("node-0"))]
    assert schedule.on_ready(2) == commands


def test_writer_resumes_when_judge_has_taken_answers():
    """The judge takes 4096 / 4 and then 3072 / 4 answers."""
    schedule = build_schedule({"m": ([5000], WRITER), "judge": (range(4096), JUDGE)}, 2)
    schedule.on_begin()
    schedule.on_ready(2)

    assert schedule.on_ready(1) == [lease(1, 1, *range(1024)), lease(2, 1, *range(1024, 1792))]
    assert schedule.on_delivery(1, 1, range(10)) == [lease(3, 2, 5000)]


def schedule_with_judge(writes, others: Demand = WRITER, **options) -> Scheduler:
    """Return a schedule in which a model writes on the first of two GPUs and the second is left for a judge."""
    work = {"m": (writes, WRITER), "judge": ([], JUDGE), "other": ([], others)}
    schedule = build_schedule(work, 2, **options)
    assert schedule.on_begin()[0] == Start(1, "m", Place("node-0"))
    schedule.on_ready(1)
    return schedule


def test_judge_without_answers_stays_while_answers_are_written():
    schedule = schedule_with_judge([0, 1])
    assert schedule.on_answers("judge", [9]) == [Start(2, "judge", Place("node-0"))], (
        "beside the model: it need not wait"
    )
    assert schedule.on_ready(2) == [lease(3, 2, 9)]
    assert schedule.on_delivery(2, 3, [9]) == schedule.on_lease_end(2, 3) == []

    schedule.on_delivery(1, 1, [0])
    schedule.on_lease_end(1, 1)
    assert schedule.on_delivery(1, 2, [1]) == [Stop(2)], "the last answer has been written"
    assert schedule.on_lease_end(1, 2) == [Stop(1)] and not schedule.slots


def test_judge_after_writers_starts_only_when_all_is_written():
    work = {"m": ([0], WRITER), "judge": ([], Demand(0, 1, pool="judges", after_writers=True))}
    schedule = build_schedule(work, 2)
    schedule.on_begin()
    schedule.on_ready(1)
    schedule.on_delivery(1, 1, [])

    assert schedule.on_answers("judge", [9]) == []
    schedule.on_delivery(1, 1, [0])
    assert schedule.on_lease_end(1, 1) == [Stop(1), Start(2, "judge", Place("node-0"))]


# -- room for a wide model -----------------------------------------------------------------------------------------------
def crowded_schedule(**options) -> Scheduler:
    """Return a schedule of two busy narrow workers on a node of two GPUs, and a wide model without work."""
    narrow = Demand(0, 1, replicas=2)
    schedule = build_schedule({"n": (range(9), narrow), "w": ([], Demand(0, 2))}, 2, **options)
    assert schedule.on_begin() == [Start(1, "n", Place("node-0")), Start(2, "n", Place("node-0"))]
    assert [len(schedule.on_ready(slot)) for slot in (1, 2)] == [2, 2]
    return schedule


def test_narrow_workers_take_no_lease_while_wide_model_needs_room():
    schedule = crowded_schedule()
    assert schedule.on_answers("w", [50]) == []

    assert {slot: worker.leaving for slot, worker in schedule.slots.items()} == {1: True, 2: True}
    assert schedule.on_lease_end(1, 1) == [], "a lease is left, and no new one comes"
    assert schedule.on_lease_end(1, 2) == [Stop(1)], "the narrow model's next worker would have to leave as well"
    assert schedule.on_lease_end(2, 3) == []
    assert schedule.on_lease_end(2, 4) == [Stop(2), Start(3, "w", Place("node-0"))]


def test_other_gpu_goes_to_narrow_worker_while_node_is_cleared():
    demands = {"n": Demand(0, 1), "w": Demand(0, 2)}
    schedule = Scheduler({"n": range(99), "w": []}, demands, 2, 3, [Node("a", 2), Node("b", 1)])
    assert [start.place.node for start in schedule.on_begin()] == ["b", "a", "a"]
    for slot in (1, 2, 3):
        schedule.on_ready(slot)
    schedule.on_answers("w", [500])

    assert schedule.on_death(2, "killed") == [], "node a is cleared for the wide model"
    assert schedule.on_death(1, "killed") == [Start(4, "n", Place("b"))]
    assert schedule.on_death(3, "killed") == [Start(5, "w", Place("a"))]


def test_a_writer_that_waits_for_its_judge_leaves_for_a_wide_model():
    work = {"m": ([5000], WRITER), "judge": (range(4096), JUDGE), "w": ([], Demand(0, 2))}
    schedule = build_schedule(work, 2)
    schedule.on_begin()
    assert schedule.on_ready(2) == schedule.on_answers("w", [9000]) == []

    assert schedule.on_tick(1.0) == [Stop(2)], "and no other narrow worker takes its place"


# -- leases --------------------------------------------------------------------------------------------------------------
def test_starting_workers_without_work_are_stopped():
    work = {"m": (range(3), Demand(0, 1, concurrency=3)), "o": ([7], Demand(0, 1))}
    schedule = build_schedule(work, 3)
    assert schedule.on_begin() == [
        Start(1, "m", Place("node-0")),
        Start(2, "m", Place("node-0")),
        Start(3, "o", Place("node-0")),
    ]

    assert schedule.on_ready(1) == [lease(1, 1, 0, 1), lease(2, 1, 2), Stop(2)]
    assert list(schedule.slots) == [1, 3] and schedule.nodes.free == {"node-0": 1}


def test_worker_on_suspects_takes_no_other_lease():
    schedule = build_schedule({"m": (range(8), Demand(0, 1))}, 1)
    schedule.on_begin()
    assert schedule.on_ready(1) == [lease(1, 1, 0, 1), lease(2, 1, 2)]
    schedule.on_death(1, "killed")

    assert schedule.on_ready(2) == [lease(3, 2, 0)]
