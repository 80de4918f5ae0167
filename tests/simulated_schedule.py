"""Simulates a sweep: the real scheduler on a virtual clock, with a heap of events in place of Ray. Equal inputs give equal runs.

Estimates may be wrong, and workers may be slow, die, or fall silent. No schedule beats the bound beside the makespan.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import Random

from orchestrator.scheduling.balance import Load
from orchestrator.scheduling.commands import Abandon, Command, Demand, Drop, GiveUp, Lease, Recall, Start, Stop
from orchestrator.scheduling.forecast.forecast import count_fitting, lower_bound
from orchestrator.scheduling.nodes import Node
from orchestrator.scheduling.scheduler import Scheduler

BATCH_EPISODES = 64
"""Episodes per delivered batch."""
TICK_INTERVAL_S = 30.0
"""Seconds of simulated time between two ticks of the scheduler."""


@dataclass(frozen=True, slots=True)
class FaultModel:
    """Injected faults and errors of the estimates."""

    seed: int = 0
    deaths: float = 0.0
    """Share of started workers that die, at a random time of the life they would have had."""
    silent: float = 0.0
    """Share of the deaths without an event: the worker only stops sending."""
    skew: float = 0.0
    """Spread (sigma of a log-normal) of a model's true rate and start around the scheduler's estimates."""
    slowdown: float = 0.0
    """Maximum share by which a replica is slower, and starts later, than its model's true values."""


@dataclass(frozen=True, slots=True)
class Work:
    """The size and true speed of one model's work; a single episode takes ``concurrency / rate`` seconds."""

    episodes: int
    gpus: float
    rate: float
    start: float
    concurrency: int = 1
    replicas: int = 1_000_000

    @property
    def load(self) -> Load:
        useful = min(self.replicas, -(-self.episodes // self.concurrency))
        return Load(self.gpus, self.episodes / self.rate, self.start, useful)


@dataclass
class Replica:
    """A simulated worker."""

    start: Start
    work: Work
    began: float
    ready: bool = False
    ended: float = 0.0
    free_at: float = 0.0
    """Time at which its engine will have played all its leases."""
    gone: bool = False
    """True if it has ended or fallen silent; its later events are ignored."""
    recalled: set[int] = field(default_factory=set)
    """Recalled episodes, except those that its engine had begun."""


@dataclass
class SimulatedSweep:
    """The result of a simulation."""

    makespan: float
    replicas: list[Replica]
    bound: float
    """Seconds that no schedule beats."""
    delivered: set[int]
    duplicates: int
    """Number of deliveries of episodes that were already delivered."""
    given_up: set[int]
    abandoned: dict[str, str]
    """Group -> why it is not played."""

    @property
    def ratio(self) -> float:
        return self.makespan / self.bound


class Simulation:
    """Carries out the scheduler's commands as the driver does."""

    def __init__(
        self,
        schedule: Scheduler,
        works: Mapping[str, Work],
        faults: FaultModel = FaultModel(),
        reads: Mapping[int, int] | None = None,
    ) -> None:
        """Start at time 0; ``reads``: ordinal of an answer -> its ordinal in the queue of its group's judge."""
        self.schedule, self.works, self.faults, self.reads = schedule, works, faults, reads or {}
        self.now, self.duplicates = 0.0, 0
        self.events: list[tuple[float, int, Callable[[], Sequence[Command]]]] = []
        self.living: dict[int, Replica] = {}
        self.replicas: list[Replica] = []
        self.delivered: set[int] = set()
        self.given_up: set[int] = set()
        self.abandoned: dict[str, str] = {}
        self._numbers = count()

    def run(self, pending: Mapping[str, Sequence[int]]) -> SimulatedSweep:
        """Play until nothing is pending; raises RuntimeError if work is pending but no worker plays it."""
        self.act(self.schedule.on_begin(0.0))
        self.at(TICK_INTERVAL_S, self._tick)
        while not self.schedule.done:
            self.now, _, event = heapq.heappop(self.events)
            self.act(event())
            if self.is_stuck():
                raise RuntimeError("work is pending, but no worker plays it")
        for slot in list(self.living):
            self.end(slot)
        makespan = max((replica.ended for replica in self.replicas), default=0.0)
        return SimulatedSweep(
            makespan,
            self.replicas,
            self._bound(pending),
            self.delivered,
            self.duplicates,
            self.given_up,
            self.abandoned,
        )

    def is_stuck(self) -> bool:
        return not self.living and not self.schedule.done and not self.schedule.slots

    def at(self, when: float, event: Callable[[], Sequence[Command]], replica: Replica | None = None) -> None:
        """Schedule ``event`` at this time; it is skipped if ``replica`` is gone by then."""
        heapq.heappush(self.events, (when, next(self._numbers), lambda: [] if replica and replica.gone else event()))

    def act(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Start() as start:
                    self._start(start)
                case Lease(slot, lease, ordinals):
                    self._lease(self.living[slot], lease, ordinals)
                case Stop(slot) | Drop(slot):
                    self.end(slot)
                case Recall(slot, ordinals):
                    self.living[slot].recalled.update(ordinals[self.living[slot].work.concurrency :])
                case GiveUp(ordinals):
                    self.given_up.update(ordinals)
                case Abandon(name, reason):
                    self.abandoned[name] = reason

    def end(self, slot: int) -> None:
        """End a worker."""
        replica = self.living.pop(slot)
        replica.gone, replica.ended = True, self.now

    def _start(self, start: Start) -> None:
        chance, work = Random(f"{self.faults.seed}/{start.slot}/{start.group}"), self.works[start.group]
        slowdown = self.faults.slowdown * chance.random()
        seconds = work.start * (1 + slowdown)
        replica = Replica(start, replace(work, rate=work.rate * (1 - slowdown)), self.now)
        self.living[start.slot] = replica
        self.replicas.append(replica)
        self.at(self.now + seconds, partial(self._ready, replica), replica)
        others = sum(other.start.group == start.group for other in self.living.values())
        life = seconds + self.schedule.remaining(self.schedule.groups[start.group]) / work.rate / others
        if chance.random() < self.faults.deaths:
            silent = chance.random() < self.faults.silent
            self.at(self.now + life * chance.random(), partial(self._die, replica, silent), replica)

    def _die(self, replica: Replica, silent: bool) -> Sequence[Command]:
        if silent and replica.ready:
            replica.gone = True
            return []
        self.end(replica.start.slot)
        return self.schedule.on_death(replica.start.slot, "died", self.now)

    def _ready(self, replica: Replica) -> Sequence[Command]:
        replica.ready = True
        return self.schedule.on_ready(replica.start.slot, self.now)

    def _lease(self, replica: Replica, lease: int, ordinals: Sequence[int]) -> None:
        """Deliver a lease in batches; it takes at least as long as an episode."""
        slot, begin = replica.start.slot, max(self.now, replica.free_at)
        replica.free_at = begin + len(ordinals) / replica.work.rate
        end = max(replica.free_at, self.now + replica.work.concurrency / replica.work.rate)
        blocks = [ordinals[first : first + BATCH_EPISODES] for first in range(0, len(ordinals), BATCH_EPISODES)]
        for number, block in enumerate(blocks, start=1):
            when = end - (end - begin) * (1 - number / len(blocks))
            self.at(when, partial(self._deliver, replica, lease, block), replica)
        self.at(end, lambda: self.schedule.on_lease_end(slot, lease, self.now), replica)

    def _deliver(self, replica: Replica, lease: int, block: Sequence[int]) -> Sequence[Command]:
        block = [ordinal for ordinal in block if ordinal not in replica.recalled]
        fresh = [ordinal for ordinal in block if ordinal not in self.delivered]
        self.duplicates += len(block) - len(fresh)
        self.delivered.update(fresh)
        commands = self.schedule.on_delivery(replica.start.slot, lease, block, self.now)
        judge = self.schedule.groups[replica.start.group].demand.judge
        if judge and (answers := [self.reads[ordinal] for ordinal in fresh if ordinal in self.reads]):
            commands += self.schedule.on_answers(judge, answers, self.now)
        return commands

    def _tick(self) -> Sequence[Command]:
        self.at(self.now + TICK_INTERVAL_S, self._tick)
        for slot, replica in self.living.items():
            if self.schedule.groups[replica.start.group].demand.standing_replicas and not replica.gone:
                self.schedule.on_heartbeat(slot, 0, self.now)
        return self.schedule.on_tick(self.now)

    def _bound(self, pending: Mapping[str, Sequence[int]]) -> float:
        """Return the lower bound of the makespan for the groups that were not abandoned."""
        demands, nodes, shares = self.schedule.demands, self.schedule.nodes, self.schedule.shares
        counts = {name: len(self.delivered.intersection(queue)) for name, queue in pending.items()}
        for name in pending:
            judge = demands[name].judge
            counts[judge] = counts.get(judge, 0) + sum(ordinal in self.reads for ordinal in pending[name])
        replicas = {name: max(1, count_fitting(demands[name], nodes.nodes, shares)) for name in pending}
        played = [name for name in pending if name not in self.abandoned]
        works = [replace(self.works[name], episodes=counts[name], replicas=replicas[name]) for name in played]
        return lower_bound([work.load for work in works], nodes.total)


def true_works(
    pending: Mapping[str, Sequence[int]], demands: Mapping[str, Demand], faults: FaultModel
) -> dict[str, Work]:
    """Return each model's work, with a true rate and start drawn around those of its demand."""
    works = {}
    for name, queue in pending.items():
        demand, chance = demands[name], Random(f"{faults.seed}/{name}")
        rate, start = (mean * chance.lognormvariate(0.0, faults.skew) for mean in (demand.rate or 1.0, demand.start))
        works[name] = Work(len(queue), demand.gpus, rate, start, demand.concurrency)
    return works


def simulate(
    pending: Mapping[str, Sequence[int]],
    demands: Mapping[str, Demand],
    gpus: int,
    faults: FaultModel = FaultModel(),
    nodes: Sequence[Node] = (),
    shares: Mapping[str, float] | None = None,
    works: Mapping[str, Work] | None = None,
    reads: Mapping[int, int] | None = None,
) -> SimulatedSweep:
    """Play a sweep on a simulated cluster of this many GPUs; the true ``works`` are by default drawn from the faults."""
    schedule = Scheduler(pending, demands, 0, gpus, nodes, shares)
    return Simulation(schedule, works or true_works(pending, demands, faults), faults, reads).run(pending)
