"""Commands to a running schedule: cancelled episodes are never leased again, whatever dies, and all others are played."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.scheduling.commands import Demand, Lease, Recall, Start, Stop
from orchestrator.scheduling.nodes import Node
from orchestrator.scheduling.scheduler import Scheduler
from tests.orchestrator.scheduling.test_scheduler import World, pending


class RecallingWorld(World):
    """A world whose workers give back half of what is recalled, as if they had begun the other half."""

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
                remaining = tuple(ordinal for ordinal in lease.ordinals if ordinal not in left_out)
                self.leases[number] = Lease(lease.slot, lease.lease, remaining)


def one_model(episodes: int = 100, at_once: int = 10) -> tuple[Scheduler, list]:
    """Return a schedule of a model with one ready worker, and its commands so far."""
    schedule = Scheduler({"m": list(range(episodes))}, {"m": Demand(0, 1, 1, at_once)}, 2, 1)
    (start,) = schedule.on_begin()
    return schedule, schedule.on_ready(start.slot)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), death=st.sampled_from([0.0, 0.05, 0.15]))
def test_cancelled_episodes_are_not_leased_and_others_play_once(seed, death):
    chance = Random(seed)
    work = pending([chance.randint(1, 2000) for _ in range(3)])
    world = RecallingWorld(Scheduler(work, {name: Demand(0, 1) for name in work}, 2, 2), chance, death)
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


# -- pause, shares, nodes -----------------------------------------------------------------------------------
NODES = (Node("one", 2), Node("two", 2))


class RandomOperator:
    """Sends random commands to a schedule of three models, and takes all of them back in the end."""

    def __init__(self, world: RecallingWorld, chance: Random, work: dict[str, list[int]]) -> None:
        self.world, self.chance, self.work = world, chance, work
        self.held = {name: [range(0), range(0)] for name in work}

    def asks(self) -> None:
        self.chance.choice([self.holds, self.holds, self.drains, self.reshares])()

    def holds(self) -> None:
        name = self.chance.choice(sorted(self.work))
        first, last = sorted(self.chance.choices([*self.work[name], self.work[name][-1] + 1], k=2))
        self.held[name][self.chance.randrange(2)] = range(first, last)
        self.world.take(self.world.schedule.hold(name, *self.held[name]))

    def drains(self) -> None:
        self.world.take(self.world.schedule.drain(self.chance.choice([(), ("one",), ("two",), ("one", "two")])))

    def reshares(self) -> None:
        self.world.take(self.world.schedule.set_shares({"models": self.chance.randint(1, 4)}))

    def takes_all_back(self) -> None:
        for name in self.work:
            self.world.take(self.world.schedule.hold(name))
        self.world.take(self.world.schedule.drain(()))
        self.world.take(self.world.schedule.set_shares({}))

    def barred(self) -> set[int]:
        return {ordinal for ranges in self.held.values() for part in ranges for ordinal in part}


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), death=st.sampled_from([0.0, 0.05]))
def test_every_episode_is_played_once_after_random_commands(seed, death):
    chance = Random(seed)
    work = pending([chance.randint(1, 2000) for _ in range(3)])
    world = RecallingWorld(Scheduler(work, {name: Demand(0, 1) for name in work}, 2, 4, NODES), chance, death)
    operator = RandomOperator(world, chance, work)
    world.take(world.schedule.on_begin())
    for _ in range(200):
        if chance.random() < 0.3:
            operator.asks()
        barred, lease_ids = operator.barred(), {lease.lease for lease in world.leases}
        if world.leases or world.starting:
            world.step()
        new = [lease for lease in world.leases if lease.lease not in lease_ids]
        assert not any(barred & set(lease.ordinals) for lease in new), "what is paused or cancelled is not handed out"
    operator.takes_all_back()
    while not world.schedule.done:
        world.step()

    everything = {ordinal for name, queue in work.items() if name not in world.abandoned for ordinal in queue}
    assert set(world.delivered.values()) <= {1}
    assert everything <= world.delivered.keys() | world.given_up.keys()


def test_paused_model_releases_its_gpu_until_it_is_resumed():
    schedule, commands = one_model()
    schedule.hold("m", paused=range(100), now=1.0)
    leases = [command.lease for command in commands if isinstance(command, Lease)]
    ends = [schedule.on_lease_end(1, lease, now=2.0) for lease in leases]

    assert ends[-1] == [Stop(1)] and not any(ends[:-1])
    assert not schedule.done, "what is paused is pending"
    assert {type(command) for command in schedule.hold("m", now=10.0)} == {Start}


def test_smaller_share_stops_workers_and_recalls_leases():
    schedule = Scheduler({"m": list(range(5000))}, {"m": Demand(0, 1)}, 8, 4, NODES)
    starts = schedule.on_begin(0.0)
    for start in starts[:3]:
        schedule.on_ready(start.slot, 1.0)

    commands = schedule.set_shares({"models": 2}, 2.0)

    assert [command for command in commands if isinstance(command, Stop)] == [Stop(starts[3].slot)]
    leaving = [number for number, slot in schedule.slots.items() if slot.leaving]
    assert len(leaving) == 1
    assert {command.slot for command in commands if isinstance(command, Recall)} == set(leaving)


def test_drained_node_gets_no_worker_until_drain_ends():
    schedule = Scheduler({"m": list(range(5000))}, {"m": Demand(0, 1)}, 8, 4, NODES)

    assert schedule.drain(("one",)) == [], "nothing starts before the sweep does"
    assert {start.place.node for start in schedule.on_begin()} == {"two"}
    assert {command.place.node for command in schedule.drain(())} == {"one"}
