"""The exact commands after each single event: deaths, starts and deliveries."""

from orchestrator.scheduling.commands import Abandon, Demand, GiveUp, Lease, Start
from orchestrator.scheduling.nodes import Place
from orchestrator.scheduling.scheduler import MAX_LOSSES, Scheduler


def one_group(pending, gpus=1, cpus=2.0, **demand) -> Scheduler:
    """Return a schedule of one group on one node."""
    return Scheduler({"m": pending}, {"m": Demand(0, 1, **demand)}, cpus, gpus)


def test_episode_alone_at_two_deaths_is_given_up():
    schedule = one_group([5])

    assert schedule.on_begin() == [Start(1, "m", Place("node-0"))]
    assert schedule.on_ready(1) == [Lease(1, 1, (5,))]
    assert schedule.on_death(1, "perhaps for another reason") == [Start(2, "m", Place("node-0"))]
    assert schedule.groups["m"].queued_count == 1
    assert schedule.on_ready(2) == [Lease(2, 2, (5,))]
    assert schedule.on_death(2, "a second time") == [GiveUp((5,), "a second time", "m")]
    assert schedule.done


def test_death_counts_only_for_lone_episode():
    schedule = one_group([5, 6], concurrency=2)
    schedule.on_begin()
    assert schedule.on_ready(1) == [Lease(1, 1, (5, 6))]
    schedule.on_death(1, "both were in play")

    assert schedule.on_ready(2) == [Lease(2, 2, (5,))], "each is suspected alone"
    assert schedule.on_death(2, "5 alone") == [Start(3, "m", Place("node-0"))]
    assert schedule.on_ready(3) == [Lease(3, 3, (6,))]
    assert schedule.on_death(3, "6 alone") == [Start(4, "m", Place("node-0"))]
    assert schedule.on_ready(4) == [Lease(4, 4, (5,))]
    assert schedule.on_delivery(4, 4, [5]) == []
    assert schedule.on_lease_end(4, 4) == [Lease(4, 5, (6,))]
    assert schedule.on_death(4, "6 again") == [GiveUp((6,), "6 again", "m")]


def test_first_episodes_of_long_lease_are_suspected_in_groups():
    schedule = one_group(range(800), concurrency=200)
    schedule.on_begin()
    first, second = schedule.on_ready(1)
    assert first == Lease(1, 1, tuple(range(200)))
    schedule.on_delivery(1, 1, range(10))
    schedule.on_death(1, "killed")
    group = schedule.groups["m"]

    in_play = list(range(10, 138)) + list(second.ordinals[:128])
    assert [n for lease in group.suspects for n in lease] == in_play
    assert {len(lease) for lease in group.suspects} == {16}
    assert sorted([*in_play, *group.waiting]) == list(range(10, 800))


def test_three_failed_starts_in_a_row_abandon_group():
    schedule = one_group([1, 2])
    schedule.on_begin()
    assert schedule.on_death(1, "no") == [Start(2, "m", Place("node-0"))]
    assert schedule.on_death(2, "no") == [Start(3, "m", Place("node-0"))]
    schedule.on_ready(3)
    assert schedule.groups["m"].failed_starts == 0
    assert schedule.on_death(3, "later")[-1] == Start(4, "m", Place("node-0"))
    for slot in (4, 5):
        assert schedule.on_death(slot, "no") == [Start(slot + 1, "m", Place("node-0"))]
    assert schedule.on_death(6, "no such file") == [Abandon("m", "no such file")]
    assert schedule.done and schedule.groups["m"].abandoned
    assert schedule.on_answers("m", [9]) == [] and schedule.groups["m"].queued_count == 0


def ready_and_die(schedule: Scheduler, slots, now) -> list:
    """Return the commands of workers that all become ready at ``now`` and die one second later."""
    for slot in slots:
        schedule.on_ready(slot, now)
    return [command for slot in slots for command in schedule.on_death(slot, "TypeError: no", now + 1.0)]


def test_a_model_whose_every_worker_dies_before_a_reply_is_abandoned():
    schedule = one_group(range(5000), concurrency=16)
    starts, commands = schedule.on_begin(), []
    for loss in range(MAX_LOSSES):
        assert not any(isinstance(command, Abandon) for command in commands), loss
        commands = ready_and_die(schedule, [start.slot for start in starts], 60.0 * loss)
        starts = [command for command in commands if isinstance(command, Start)]
    assert commands == [Abandon("m", "TypeError: no")] and schedule.done


def test_workers_that_are_lost_with_their_nodes_say_nothing_about_the_model():
    """Also before the cluster's new size is known."""
    schedule = one_group(range(50_000), concurrency=16)
    slot = schedule.on_begin()[0].slot
    for loss in range(3 * MAX_LOSSES):
        schedule.on_ready(slot, 60.0 * loss)
        slot = schedule.on_death(slot, "its node has died", 60.0 * loss + 1, with_node=True)[-1].slot
    assert not schedule.groups["m"].abandoned and schedule.groups["m"].losses == 0


def test_a_delivered_episode_ends_the_losses_in_a_row():
    schedule = one_group(range(5000), concurrency=16)
    slot = schedule.on_begin()[0].slot
    for loss in range(3 * MAX_LOSSES):
        lease = schedule.on_ready(slot, 60.0 * loss)[0]
        if loss % (MAX_LOSSES - 1) == 0:
            schedule.on_delivery(slot, lease.lease, lease.ordinals[:1], 60.0 * loss)
        slot = schedule.on_death(slot, "killed", 60.0 * loss + 1)[-1].slot
    assert not schedule.groups["m"].abandoned


def test_cluster_without_nodes_is_waited_for_until_silence_timeout():
    schedule = one_group([1])
    schedule.on_begin(0.0)
    assert schedule.on_nodes([], 2, 10.0) == []
    assert schedule.on_death(1, "its node is gone", 11.0) == []
    assert schedule.on_tick(910.0) == []
    assert schedule.on_tick(911.0) == [Abandon("m", "m needs 1 GPU; on one node it can have 0")]
