"""What the autoscaler is asked for: enough GPUs for the pending work, none for what is done, never above the sweep's limit."""

from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.resources import wanted_bundles
from orchestrator.scheduling.scheduler import Scheduler


def schedule(work: dict[str, tuple[int, Demand]], wait: float = 3600.0) -> Scheduler:
    pending, first = {}, 0
    for name, (count, _) in work.items():
        pending[name], first = range(first, first + count), first + count
    return Scheduler(pending, {name: demand for name, (_, demand) in work.items()}, 8, 0, [], wait=wait)


def test_replicas_have_four_starts_of_work_each():
    """10,000 episodes at 1/s are 10,000 s; with starts of 250 s, ten replicas of 1,000 s each."""
    demand = Demand(4, 1, rate=1.0, start=250.0)
    assert wanted_bundles(schedule({"m": (10_000, demand)}), {}) == [{"GPU": 1}] * 10
    assert wanted_bundles(schedule({"m": (10, demand)}), {}) == [{"GPU": 1}], "one at least"
    assert wanted_bundles(schedule({"m": (10**6, demand)}), {}) == [{"GPU": 1}] * 64, "no more than it may have"


def test_without_a_rate_each_replica_has_two_full_leases():
    assert wanted_bundles(schedule({"m": (1000, Demand(4, 1, concurrency=100))}), {}) == [{"GPU": 1}] * 5


def test_widest_come_first_within_the_limit_of_the_sweep():
    work = {
        "narrow": (10**4, Demand(0, 0.5)),
        "wide": (1, Demand(0, 4, accelerator="H200")),
        "service": (9, Demand(0, 0)),
        "judge": (3, Demand(0, 2, pool="judges")),
    }
    bundles = wanted_bundles(schedule(work), {"models": 5})
    wide = {"GPU": 4, "accelerator_type:H200": 0.001}
    assert bundles == [wide, {"GPU": 2}, {"GPU": 0.5}, {"GPU": 0.5}]


def test_nothing_is_wanted_for_done_or_abandoned_work():
    scheduler = schedule({"m": (4, Demand(0, 1)), "done": (0, Demand(0, 1))}, wait=0.0)
    assert wanted_bundles(scheduler, {}) == [{"GPU": 1}, {"GPU": 1}]
    scheduler.on_begin()
    assert scheduler.groups["m"].abandoned and wanted_bundles(scheduler, {}) == []


def test_a_judge_that_episodes_wait_for_is_wanted_before_it_has_answers():
    work = {"m": (1, Demand(0, 1, judge="j")), "j": (0, Demand(0, 2, pool="judges", standing_replicas=3))}
    assert wanted_bundles(schedule(work), {}) == [{"GPU": 2}] * 3 + [{"GPU": 1}]
