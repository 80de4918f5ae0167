"""The scheduler in a toy world: whatever fails, each pending episode is delivered once or given up with a reason."""

import dataclasses
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.scheduling.commands import Abandon, Demand, GiveUp, Lease, Start, Stop
from orchestrator.scheduling.nodes import Node, Place
from orchestrator.scheduling.placement import MAX_UNREAD
from orchestrator.scheduling.scheduler import MAX_FAILED_STARTS, Scheduler
from orchestrator.scheduling.state import SILENCE_TIMEOUT_S


class World:
    """Executes commands in random order; workers die at a given rate, and always on a poisonous episode."""

    def __init__(
        self, schedule: Scheduler, rng: Random, death: float = 0.0, poison: frozenset[int] = frozenset()
    ) -> None:
        self.schedule, self.rng, self.death, self.poison = schedule, rng, death, poison
        self.starting: list[int] = []
        self.leases: list[Lease] = []
        self.alive: dict[int, str] = {}
        self.most_alive = 0
        self.delivered: Counter[int] = Counter()
        self.given_up: dict[int, str] = {}
        self.abandoned: dict[str, str] = {}

    def take(self, commands) -> None:
        for command in commands:
            match command:
                case Start(slot, group):
                    self.alive[slot] = group
                    self.starting.append(slot)
                    self.most_alive = max(self.most_alive, len(self.alive))
                case Lease():
                    assert command.slot in self.alive, "a lease must go to a living worker"
                    self.leases.append(command)
                case Stop(slot):
                    assert not [lease for lease in self.leases if lease.slot == slot], "a busy worker is never stopped"
                    del self.alive[slot]
                case GiveUp(ordinals, reason):
                    self.given_up.update(dict.fromkeys(ordinals, reason))
                case Abandon(group, reason):
                    self.abandoned[group] = reason

    def kill(self, slot: int, reason: str = "killed") -> None:
        del self.alive[slot]
        self.leases = [lease for lease in self.leases if lease.slot != slot]
        self.starting = [number for number in self.starting if number != slot]
        self.take(self.schedule.on_death(slot, reason))

    def run(self, steps: int = 20_000) -> None:
        self.take(self.schedule.on_begin())
        for _ in range(steps):
            if self.schedule.done:
                return
            self.step()
        raise AssertionError("the sweep never ends")

    def step(self) -> None:
        if self.alive and self.rng.random() < self.death:
            return self.kill(self.rng.choice(sorted(self.alive)))
        if self.starting and (not self.leases or self.rng.random() < 0.3):
            return self.take(self.schedule.on_ready(self.starting.pop(self.rng.randrange(len(self.starting)))))
        if not self.leases:
            raise AssertionError("work is pending, and nobody has any")
        lease = self.leases.pop(self.rng.randrange(len(self.leases)))
        good = [ordinal for ordinal in lease.ordinals if ordinal not in self.poison]
        self.delivered.update(good[: len(good) // 2])
        self.take(self.schedule.on_delivery(lease.slot, lease.lease, good[: len(good) // 2]))
        if len(good) < len(lease.ordinals):
            return self.kill(lease.slot, "poison")
        self.delivered.update(good[len(good) // 2 :])
        self.take(self.schedule.on_delivery(lease.slot, lease.lease, good[len(good) // 2 :]))
        self.take(self.schedule.on_lease_end(lease.slot, lease.lease))


def pending(sizes):
    numbers = iter(range(sum(sizes)))
    return {f"m{i}": [next(numbers) for _ in range(size)] for i, size in enumerate(sizes)}


@settings(max_examples=60)
@given(
    sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=6),
    gpus=st.integers(1, 8),
    seed=st.integers(0, 10**6),
    death=st.sampled_from([0.0, 0.02, 0.1]),
)
def test_every_episode_is_delivered_exactly_once_whatever_dies(sizes, gpus, seed, death):
    work = pending(sizes)
    world = World(Scheduler(work, {name: Demand(0, 1) for name in work}, 2, gpus), Random(seed), death)
    world.run()

    assert not world.given_up or death
    everything = Counter(o for queue in work.values() for o in queue if o not in world.given_up)
    if not world.abandoned:
        assert world.delivered == everything
    assert world.most_alive <= gpus
    assert set(world.alive) <= set(world.starting), "every worker that has nothing to do is told to stop"


def test_group_that_never_loads_is_abandoned_and_others_play():
    work = {"broken": [1, 2], "fine": [3, 4]}
    schedule = Scheduler(work, {name: Demand(0, 1) for name in work}, 2, 1)
    world = World(schedule, Random(0))
    world.take(schedule.on_begin())
    for _ in range(50):
        if schedule.done:
            break
        broken = [slot for slot, name in world.alive.items() if name == "broken"]
        world.kill(broken[0], "no such file") if broken else world.step()

    assert world.abandoned == {"broken": "no such file"}
    assert world.delivered == Counter([3, 4])
    assert schedule.groups["broken"].failed_starts == MAX_FAILED_STARTS


@pytest.mark.parametrize("gpus", [1, 3, 8])
def test_leases_shrink_towards_the_end(gpus):
    work = {"m": list(range(40_000))}
    sizes = []
    world = World(Scheduler(work, {"m": Demand(0, 1)}, 2, gpus), Random(2))
    take = world.take
    world.take = lambda commands: (
        sizes.extend(len(c.ordinals) for c in commands if isinstance(c, Lease)),
        take(commands),
    )
    world.run()

    assert sizes[0] >= 20 * sizes[-1], "the last leases must be small, so that no straggler holds the sweep"


def test_silent_worker_loses_leases_at_deadline():
    schedule = Scheduler({"m": list(range(8))}, {"m": Demand(0, 1)}, 2, 1)
    schedule.on_begin(0.0)
    schedule.on_ready(1, 10.0)

    assert schedule.on_tick(10.0 + SILENCE_TIMEOUT_S) == []
    dropped, started = schedule.on_tick(11.0 + SILENCE_TIMEOUT_S)
    assert (dropped.slot, started) == (1, Start(2, "m", Place("node-0")))
    assert "silent" in dropped.reason
    assert schedule.on_delivery(1, 1, [0], 950.0) == [], "a late word of the dropped worker changes nothing"
    assert schedule.groups["m"].queued_count == 8


def test_wide_model_gets_room_among_narrow_ones():
    demands = {"narrow": Demand(0, 1), "wide": Demand(0, 4)}
    schedule = Scheduler({"narrow": list(range(9_000)), "wide": []}, demands, 2, 8)
    world = World(schedule, Random(0))
    world.take(schedule.on_begin())
    while schedule.groups["narrow"].queued_count > 6_000:
        world.step()
    schedule.groups["wide"].waiting.extend(range(9_000, 9_100))  # as after the death of a wide model's last worker
    narrow_left = None
    for _ in range(20_000):
        if schedule.done:
            break
        world.take(schedule.on_tick(0.0))
        world.step()
        if narrow_left is None and "wide" in world.alive.values():
            narrow_left = schedule.groups["narrow"].queued_count

    assert world.delivered == Counter(range(9_100))
    assert narrow_left, "the wide one must not wait until the narrow work is over"


def test_new_nodes_are_used_and_lost_nodes_are_not():
    schedule = Scheduler({"m": list(range(1000))}, {"m": Demand(0, 1)}, 2, 1, [Node("a", 1)])
    assert schedule.on_begin(0.0) == [Start(1, "m", Place("a"))]

    assert schedule.on_nodes([Node("a", 1), Node("b", 1)], 2, 5.0) == [Start(2, "m", Place("b"))]
    assert schedule.on_nodes([Node("b", 1)], 2, 6.0) == []
    assert schedule.on_death(1, "its node is gone", 7.0) == []
    assert schedule.on_death(2, "killed", 8.0) == [Start(3, "m", Place("b"))]


@pytest.mark.parametrize(("with_node", "sizes"), [(True, [100]), (False, [16] * 6 + [4])])
def test_only_what_dies_without_its_node_is_suspected(with_node, sizes):
    """Suspects are played in small leases, one after another, which leave an engine nearly empty."""
    schedule = Scheduler({"m": list(range(100))}, {"m": Demand(0, 1, 1, concurrency=400)}, 2, 1)
    schedule.on_begin()
    schedule.on_ready(1)
    schedule.on_death(1, "gone", 1.0, with_node)
    queues = [*map(len, schedule.groups["m"].suspects), len(schedule.groups["m"].waiting)]

    assert [size for size in queues if size] == sizes


def test_what_loses_a_second_node_is_suspected():
    """One that takes all memory of a machine ends each of its nodes."""
    schedule = Scheduler({"m": list(range(100))}, {"m": Demand(0, 1, 1, concurrency=400)}, 2, 1)
    schedule.on_begin()
    for slot in (1, 2):
        schedule.on_ready(slot)
        schedule.on_death(slot, "gone", float(slot), with_node=True)

    assert [*map(len, schedule.groups["m"].suspects)] == [16] * 6 + [4]


# -- judges ------------------------------------------------------------------------------------------------------------
class Court(World):
    """A world in which each delivered episode below ``answers`` becomes an answer to judge."""

    answers = 10_000

    def step(self) -> None:
        before = set(self.delivered)
        super().step()
        written = [n for n in set(self.delivered) - before if n < self.answers]
        if written:
            self.take(self.schedule.on_answers("judge:j", [self.answers + n for n in sorted(written)]))


def court(gpus: int, after: bool = False, shares=None, pending: int = 3000) -> Scheduler:
    demands = {
        "m": Demand(cpus=0, gpus=1, concurrency=16, judge="judge:j"),
        "judge:j": Demand(cpus=0, gpus=1, concurrency=16, pool="judges", after_writers=after),
    }
    return Scheduler({"m": range(pending), "judge:j": ()}, demands, 8, gpus, shares=shares)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.02]), st.sampled_from([(1, True), (2, False), (8, False)]))
@settings(max_examples=40)
def test_every_answer_is_read_once_whatever_dies(seed, death, cluster):
    gpus, after = cluster
    world = Court(court(gpus, after, None if after else {"models": gpus - 1}, pending=600), Random(seed), death)
    world.run()

    written = set(range(600)) - set(world.given_up)
    expected = {*range(600), *(10_000 + n for n in written)}
    assert world.abandoned or set(world.delivered) | set(world.given_up) == expected
    assert max(world.delivered.values()) == 1


def test_judge_far_behind_holds_writers_back_for_a_while():
    schedule = court(2, shares={"models": 1}, pending=3 * MAX_UNREAD)
    world = Court(schedule, Random(0))
    world.take(schedule.on_begin())
    judge = next(slot for slot, worker in schedule.slots.items() if worker.group.name == "m")
    world.take(schedule.on_ready(judge))
    world.starting.remove(judge)
    world.take(schedule.on_answers("judge:j", range(10_000, 10_000 + MAX_UNREAD)))
    for lease in list(world.leases):
        world.leases.remove(lease)
        schedule.on_delivery(lease.slot, lease.lease, lease.ordinals)
        world.take(schedule.on_lease_end(lease.slot, lease.lease))

    assert not world.leases and judge in world.alive, "no new lease, and the writer waits"
    world.take(schedule.on_ready(next(slot for slot, name in world.alive.items() if name == "judge:j")))
    reading = [lease for lease in world.leases if lease.slot != judge]
    for lease in reading:
        world.take(schedule.on_delivery(lease.slot, lease.lease, lease.ordinals))
    assert any(lease.slot == judge for lease in world.leases), "below the mark it writes on"


def test_unstartable_judge_does_not_stop_writers():
    schedule = court(1, shares={"models": 1}, pending=50)
    schedule.groups["judge:j"].demand = dataclasses.replace(schedule.groups["judge:j"].demand, gpus=4)
    world = Court(schedule, Random(0))
    world.run()

    assert "judge:j needs 4 GPUs" in world.abandoned["judge:j"]
    assert set(world.delivered) == set(range(50))
