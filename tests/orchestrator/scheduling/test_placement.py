"""Which groups start, wait, make room and stop: small schedules by hand, each with its exact commands."""

from orchestrator.scheduling.commands import Demand, Lease, Start, Stop
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


# -- who starts next -----------------------------------------------------------------------------------------------------
def test_longest_work_in_seconds_starts_first():
    """100 episodes at 10 a second take 10 s, 50 at 1 a second 50 s."""
    work = {"a": (range(100), Demand(0, 1, rate=10.0)), "b": (range(50), Demand(0, 1, rate=1.0))}
    assert started_groups(build_schedule(work, 1)) == "b"


def test_a_wide_model_starts_before_narrow_ones_that_have_more_work():
    assert started_groups(build_schedule({"n": (range(1000), Demand(0, 1)), "w": (range(10), Demand(0, 2))}, 2)) == "w"


# -- whether one more replica pays ---------------------------------------------------------------------------------------
def test_replica_that_is_ready_too_late_is_not_started():
    """At 10 s the ready one ends at 40 s; one more would be ready at 10 + (60 + 10) / 2 = 45 s."""
    schedule = build_schedule({"m": (range(30), Demand(0, 1, rate=1.0, start=60.0))}, 1)
    schedule.on_begin()
    schedule.on_ready(1, 10.0)

    assert schedule.groups["m"].queued_count > 2 and schedule.on_nodes([Node("node-0", 2)], 2, 10.0) == []


# -- judges and their writers --------------------------------------------------------------------------------------------
JUDGE = Demand(0, 1, replicas=1, pool="judges")
WRITER = Demand(0, 1, judge="judge")


def schedule_with_judge(writes, others: Demand = WRITER, **options) -> Scheduler:
    """Return a schedule in which a model writes on the first of two GPUs and the second is left for a judge."""
    work = {"m": (writes, WRITER), "judge": ([], JUDGE), "other": ([], others)}
    schedule = build_schedule(work, 2, **options)
    assert schedule.on_begin()[0] == Start(1, "m", Place("node-0"))
    schedule.on_ready(1)
    return schedule


def test_judge_without_answers_stays_while_answers_are_written():
    schedule = schedule_with_judge([0, 1])
    assert schedule.on_answers("judge", [9]) == [Start(2, "judge", Place("node-0"))], "beside the model"
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


# -- leases --------------------------------------------------------------------------------------------------------------
def test_starting_workers_without_work_are_stopped():
    work = {"m": (range(3), Demand(0, 1, concurrency=3)), "o": ([7], Demand(0, 1))}
    schedule = build_schedule(work, 3)
    assert [start.group for start in schedule.on_begin()] == ["m", "m", "o"]
    assert schedule.on_ready(1) == [lease(1, 1, 0, 1), lease(2, 1, 2), Stop(2)]
    assert list(schedule.slots) == [1, 3] and schedule.nodes.free == {"node-0": 1}
