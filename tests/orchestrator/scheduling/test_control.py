"""What somebody asks of a running schedule: what is cancelled is handed out no more, whatever dies, and all else is played."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.scheduling.nodes import Node
from orchestrator.scheduling.placement import PAUSE_GRACE_S
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
    (start,) = schedule.on_begin()
    return schedule, schedule.on_ready(start.slot)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), death=st.sampled_from([0.0, 0.05, 0.15]))
def test_no_cancelled_episode_is_handed_out_and_every_other_one_is_played_once(seed, death):
    chance = Random(seed)
    work = pending([chance.randint(1, 2000) for _ in range(3)])
    world = Asked(Scheduler(work, {name: Demand(0, 1) for name in work}, 2, 2), chance, death)
    gone: set[int] = set()
    world.take(world.schedule.on_begin())
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
    assert schedule.groups["m"].queued_count == 0


def test_what_a_cancelled_lease_did_not_deliver_never_comes_back_and_its_worker_stops():
    schedule, commands = one_model()
    schedule.cancel("m", range(100))
    first, second = (command for command in commands if isinstance(command, Lease))
    schedule.on_delivery(1, first.lease, first.ordinals[:3])

    assert schedule.on_lease_end(1, first.lease) == []
    assert not schedule.done, "the other lease is not over"
    assert schedule.on_lease_end(1, second.lease) == [Stop(1)]
    assert schedule.done


def test_what_a_dead_worker_held_of_a_cancelled_cell_is_not_played_again():
    schedule, _ = one_model()
    schedule.cancel("m", range(100))

    assert schedule.on_death(1, "killed") == []
    assert schedule.done


def test_the_gpu_of_a_cancelled_model_goes_to_another_one():
    work = {"a": list(range(50)), "b": list(range(50, 100))}
    schedule = Scheduler(work, {name: Demand(0, 1, 1) for name in work}, 2, 1)
    (start,) = schedule.on_begin()
    other = "b" if start.group == "a" else "a"

    commands = schedule.cancel(start.group, range(100))

    assert [type(command) for command in commands] == [Stop, Start]
    assert commands[1].group == other


def test_the_suspects_of_a_cancelled_cell_are_dropped_too():
    schedule, _ = one_model()
    schedule.on_death(1, "killed")
    assert schedule.groups["m"].suspects

    schedule.cancel("m", range(100))

    assert not schedule.groups["m"].suspects
    assert schedule.done


@pytest.mark.parametrize("name", ["nobody", ""])
def test_a_group_that_has_nothing_to_play_has_nothing_to_cancel(name):
    schedule, _ = one_model()

    assert schedule.cancel(name, range(100)) == []


# -- pause, requeue, shares, pace, nodes -----------------------------------------------------------------------------------
NODES = (Node("one", 2), Node("two", 2))


class Somebody:
    """Asks a schedule of three models for random things, and takes all of them back in the end."""

    def __init__(self, world: Asked, chance: Random, work: dict[str, list[int]]) -> None:
        self.world, self.chance, self.work = world, chance, work
        self.held = {name: [range(0), range(0)] for name in work}

    def asks(self) -> None:
        self.chance.choice([self.holds, self.holds, self.drains, self.reshares, self.repaces])()

    def holds(self) -> None:
        name = self.chance.choice(sorted(self.work))
        first, last = sorted(self.chance.choices([*self.work[name], self.work[name][-1] + 1], k=2))
        self.held[name][self.chance.randrange(2)] = range(first, last)
        self.world.take(self.world.schedule.hold(name, *self.held[name]))

    def drains(self) -> None:
        self.world.take(self.world.schedule.drain(self.chance.choice([(), ("one",), ("two",), ("one", "two")])))

    def reshares(self) -> None:
        self.world.take(self.world.schedule.set_shares({"models": self.chance.randint(1, 4)}))

    def repaces(self) -> None:
        self.world.take(
            self.world.schedule.set_concurrency(self.chance.choice(sorted(self.work)), self.chance.choice([1, 8, 64]))
        )

    def takes_all_back(self) -> None:
        for name in self.work:
            self.world.take(self.world.schedule.hold(name))
        self.world.take(self.world.schedule.drain(()))
        self.world.take(self.world.schedule.set_shares({}))

    def barred(self) -> set[int]:
        return {one for ranges in self.held.values() for part in ranges for one in part}


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), death=st.sampled_from([0.0, 0.05]))
def test_whatever_is_asked_every_episode_is_played_once_when_all_is_taken_back(seed, death):
    chance = Random(seed)
    work = pending([chance.randint(1, 2000) for _ in range(3)])
    world = Asked(Scheduler(work, {name: Demand(0, 1) for name in work}, 2, 4, NODES), chance, death)
    somebody = Somebody(world, chance, work)
    world.take(world.schedule.on_begin())
    for _ in range(200):
        if chance.random() < 0.3:
            somebody.asks()
        barred, known = somebody.barred(), {lease.lease for lease in world.leases}
        if world.leases or world.starting:
            world.step()
        new = [lease for lease in world.leases if lease.lease not in known]
        assert not any(barred & set(lease.ordinals) for lease in new), "what is paused or cancelled is not handed out"
    somebody.takes_all_back()
    while not world.schedule.done:
        world.step()

    everything = {ordinal for name, queue in work.items() if name not in world.abandoned for ordinal in queue}
    assert set(world.delivered.values()) <= {1}
    assert everything <= world.delivered.keys() | world.given_up.keys()


def test_a_paused_model_keeps_its_worker_for_a_moment_and_then_gives_its_gpu_back():
    schedule, commands = one_model()
    schedule.hold("m", paused=range(100), now=1.0)
    for lease in (command for command in commands if isinstance(command, Lease)):
        assert schedule.on_lease_end(1, lease.lease, now=2.0) == []

    assert schedule.on_tick(1.0 + PAUSE_GRACE_S - 1) == []
    assert schedule.on_tick(1.0 + PAUSE_GRACE_S) == [Stop(1)]
    assert not schedule.done, "what is paused is pending"


def test_a_paused_model_that_goes_on_within_the_grace_needs_no_new_worker():
    schedule, commands = one_model()
    schedule.hold("m", paused=range(100), now=1.0)
    for lease in (command for command in commands if isinstance(command, Lease)):
        schedule.on_lease_end(1, lease.lease, now=2.0)

    again = schedule.hold("m", now=10.0)

    assert again and {type(command) for command in again} == {Lease}


def test_the_gpu_of_a_paused_model_goes_at_once_to_one_that_waits_for_it():
    work = {"a": list(range(50)), "b": list(range(50, 100))}
    schedule = Scheduler(work, {name: Demand(0, 1, 1) for name in work}, 2, 1)
    (start,) = schedule.on_begin()
    leases = schedule.on_ready(start.slot)
    schedule.hold(start.group, paused=range(100))

    commands = [command for lease in leases for command in schedule.on_lease_end(start.slot, lease.lease)]

    assert [type(command) for command in commands] == [Stop, Start]


def test_what_is_cancelled_and_taken_back_is_played():
    schedule = Scheduler({"m": list(range(10))}, {"m": Demand(0, 1, 1)}, 2, 1)
    schedule.on_begin()
    assert schedule.hold("m", withdrawn=range(10)) == [Stop(1)]
    assert schedule.done

    (start,) = schedule.hold("m")

    assert isinstance(start, Start)
    assert schedule.groups["m"].queued_count == 10


def test_a_requeued_episode_gets_its_two_deaths_again_and_a_group_that_had_nothing_left_comes_back():
    schedule = Scheduler({}, {"m": Demand(0, 1, 1)}, 2, 1)
    schedule.on_begin()
    schedule.lone_deaths["m", 3] = 2

    (start,) = schedule.requeue("m", [3])

    assert isinstance(start, Start)
    (lease,) = schedule.on_ready(start.slot)
    assert lease.ordinals == (3,)
    assert not schedule.lone_deaths


def test_a_smaller_share_lets_workers_go_and_asks_them_for_what_they_have_not_begun():
    schedule = Scheduler({"m": list(range(5000))}, {"m": Demand(0, 1)}, 8, 4, NODES)
    starts = schedule.on_begin(0.0)
    for start in starts[:3]:
        schedule.on_ready(start.slot, 1.0)

    commands = schedule.set_shares({"models": 2}, 2.0)

    assert [command for command in commands if isinstance(command, Stop)] == [Stop(starts[3].slot)]
    leaving = [number for number, slot in schedule.slots.items() if slot.leaving]
    assert len(leaving) == 1
    assert {command.slot for command in commands if isinstance(command, Recall)} == set(leaving)


def test_a_drained_node_gets_no_worker_until_it_is_taken_back():
    schedule = Scheduler({"m": list(range(5000))}, {"m": Demand(0, 1)}, 8, 4, NODES)

    assert schedule.drain(("one",)) == [], "nothing starts before the sweep does"
    assert {start.node for start in schedule.on_begin()} == {"two"}
    assert {command.node for command in schedule.drain(())} == {"one"}


def test_another_pace_is_the_groups_from_then_on():
    schedule, _ = one_model(100, 10)

    (recall,) = schedule.set_concurrency("m", 40)

    assert recall.slot == 1
    assert schedule.groups["m"].demand.concurrency == 40
