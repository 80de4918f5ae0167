"""What somebody asks of a running schedule: what is cancelled is handed out no more, whatever dies, and all else is played."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.scheduling.scheduler import Demand, Lease, Recall, Scheduler, Start, Stop
from tests.orchestrator.scheduling.test_scheduler import World, pending


class Asked(World):
    """A world whose workers leave out half of what is recalled from them, as if they had begun the other half."""

    def take(self, commands) -> None:
        for command in commands:
            if isinstance(command, Recall):
                self.recall(command)
            super().take([command])

    def recall(self, command: Recall) -> None:
        assert command.slot in self.alive, "only a worker that lives is asked"
        left_out = set(command.ordinals[len(command.ordinals) // 2 :])
        for number, lease in enumerate(self.leases):
            if lease.slot == command.slot:
                kept = tuple(ordinal for ordinal in lease.ordinals if ordinal not in left_out)
                self.leases[number] = Lease(lease.slot, lease.lease, kept)


def one_model(episodes: int = 100, at_once: int = 10) -> tuple[Scheduler, list]:
    """A model with one worker that is ready, and its commands so far."""
    schedule = Scheduler({"m": list(range(episodes))}, {"m": Demand(0, 1, 1, at_once)}, 2, 1)
    (start,) = schedule.begin()
    return schedule, schedule.ready(start.slot)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), death=st.sampled_from([0.0, 0.05, 0.15]))
def test_no_cancelled_episode_is_handed_out_and_every_other_one_is_played_once(seed, death):
    chance = Random(seed)
    work = pending([chance.randint(1, 2000) for _ in range(3)])
    world = Asked(Scheduler(work, {name: Demand(0, 1) for name in work}, 2, 2), chance, death)
    gone: set[int] = set()
    world.take(world.schedule.begin())
    while not world.schedule.done:
        if chance.random() < 0.1:
            name = chance.choice(sorted(work))
            first = chance.choice(work[name])
            cell = range(first, min(first + chance.randint(1, 500), work[name][-1] + 1))
            before = len(world.leases)
            commands = world.schedule.cancel(name, cell)
            world.take(commands)
            gone |= set(cell)
            new = [lease for lease in world.leases[before:] if gone & set(lease.ordinals)]
            assert not new, "a lease after the command holds none of what is cancelled"
            if world.schedule.done:
                break
        leases = {lease.lease for lease in world.leases}
        world.step()
        assert not any(gone & set(lease.ordinals) for lease in world.leases if lease.lease not in leases)

    everything = {ordinal for name, queue in work.items() if name not in world.abandoned for ordinal in queue}
    played = {ordinal for ordinal in world.delivered if ordinal in everything}
    assert set(world.delivered.values()) <= {1}
    assert everything - gone <= played | world.given_up.keys()


def test_a_worker_is_asked_to_leave_out_what_is_cancelled_of_its_leases():
    schedule, commands = one_model()
    leased = [ordinal for command in commands for ordinal in command.ordinals]

    (recall,) = schedule.cancel("m", range(5, 100))

    assert recall == Recall(1, tuple(ordinal for ordinal in leased if ordinal >= 5))
    assert schedule.groups["m"].left == 0


def test_what_a_cancelled_lease_did_not_deliver_never_comes_back_and_its_worker_stops():
    schedule, commands = one_model()
    schedule.cancel("m", range(100))
    first, second = (command for command in commands if isinstance(command, Lease))
    schedule.delivered(1, first.lease, first.ordinals[:3])

    assert schedule.drained(1, first.lease) == []
    assert not schedule.done, "the other lease is not over"
    assert schedule.drained(1, second.lease) == [Stop(1)]
    assert schedule.done


def test_what_a_dead_worker_held_of_a_cancelled_cell_is_not_played_again():
    schedule, _ = one_model()
    schedule.cancel("m", range(100))

    assert schedule.died(1, "killed") == []
    assert schedule.done


def test_the_gpu_of_a_cancelled_model_goes_to_another_one():
    work = {"a": list(range(50)), "b": list(range(50, 100))}
    schedule = Scheduler(work, {name: Demand(0, 1, 1) for name in work}, 2, 1)
    (start,) = schedule.begin()
    other = "b" if start.group == "a" else "a"

    commands = schedule.cancel(start.group, range(100))

    assert [type(command) for command in commands] == [Stop, Start]
    assert commands[1].group == other


def test_the_suspects_of_a_cancelled_cell_are_dropped_too():
    schedule, _ = one_model()
    schedule.died(1, "killed")
    assert schedule.groups["m"].suspects

    schedule.cancel("m", range(100))

    assert not schedule.groups["m"].suspects
    assert schedule.done


@pytest.mark.parametrize("name", ["nobody", ""])
def test_a_group_that_has_nothing_to_play_has_nothing_to_cancel(name):
    schedule, _ = one_model()

    assert schedule.cancel(name, range(100)) == []
