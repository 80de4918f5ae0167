"""The scheduler on a virtual clock: its own decisions, with Ray replaced by a heap of events. Equal seeds give equal runs.

Workers are skewed, start slowly, die and fall silent; what is measured is the makespan beside a lower bound that no
schedule can beat.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from orchestrator.scheduling.nodes import Node, nodes_of
from orchestrator.scheduling.scheduler import (
    Abandon,
    Command,
    Demand,
    Drop,
    GiveUp,
    Lease,
    Recall,
    Scheduler,
    Start,
    Stop,
)

BATCH_EPISODES = 64
"""Episodes a worker hands over at once."""
TICK_INTERVAL_S = 30.0
"""Seconds between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class FaultModel:
    """Injected faults and estimate error."""

    seed: int = 0
    deaths: float = 0.0
    """Share of started workers that die, some time in the life they would have had."""
    silent: float = 0.0
    """Share of the deaths that no event reports: the worker only sends nothing any more."""
    skew: float = 0.0
    """Spread (sigma of a log-normal) of a model's true rate and start around what the schedule is told."""
    slowdown: float = 0.0
    """How much slower than its model's true rate, and later than its true start, a replica is at most."""


@dataclass(frozen=True, slots=True)
class Work:
    """One model's true size and speed, which the scheduler only estimates."""

    episodes: int
    gpus: float
    rate: float
    """Episodes/s of one replica."""
    start: float
    """Seconds."""
    at_once: int = 1
    """Episodes a replica plays at once: one alone takes ``at_once / rate`` seconds."""
    replicas: int = 1_000_000
    """The most replicas that can be at work at a time."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Seconds that no schedule can beat, and why."""

    area: float
    """All GPU-seconds, one start for each model included, spread evenly over all GPUs."""
    longest: float
    """The longest of the models on its own: one start, then its episodes over as many replicas as it may have."""

    @property
    def seconds(self) -> float:
        """The larger one."""
        return max(self.area, self.longest)


def lower_bound(works: Sequence[Work], gpus: int) -> Bound:
    """What any schedule needs: each model with work starts at least once, and no GPU does two things at a time."""
    area = sum(work.gpus * (work.start + work.episodes / work.rate) for work in works if work.episodes)
    longest = max((_by_itself(work) for work in works if work.episodes), default=0.0)
    return Bound(area / gpus if gpus else 0.0, longest)


def _by_itself(work: Work) -> float:
    """Seconds that a model needs with the cluster to itself: no episode is split, and no more replicas than it may have."""
    return work.start + max(work.at_once, work.episodes / work.replicas) / work.rate


@dataclass
class Span:
    """One worker's life."""

    slot: int
    group: str
    node: str
    gpus: float
    began: float
    ready: float | None = None
    ended: float = 0.0
    outcome: str = ""
    """``stopped`` or ``lost``."""
    shared: int | None = None
    """The number of the shared GPU that it has a part of."""


@dataclass
class Simulated:
    """What a simulated sweep took and delivered."""

    makespan: float
    spans: list[Span]
    bound: Bound
    delivered: int
    """Episodes."""
    verdicts: int
    """Answers that a judge has read."""
    duplicates: int
    """Deliveries of episodes that had been delivered before."""
    given_up: int
    abandoned: dict[str, str]
    """Model -> why nobody plays it."""

    @property
    def ratio(self) -> float | None:
        """Makespan over the lower bound; None where nothing could be played, so that there is nothing to compare."""
        return self.makespan / self.bound.seconds if self.bound.seconds else None

    @property
    def busy(self) -> float:
        """GPU-seconds that workers held."""
        return sum(span.gpus * (span.ended - span.began) for span in self.spans)

    @property
    def workers_lost(self) -> int:
        """Workers that died or were dropped."""
        return sum(span.outcome == "lost" for span in self.spans)


@dataclass
class Replica:
    """A worker as the simulator knows it."""

    work: Work
    rate: float
    span: Span
    free: float = 0.0
    """When its engine has played all it was given."""
    silent: bool = False
    gone: bool = False
    leases: set[int] = field(default_factory=set)
    recalled: set[int] = field(default_factory=set)
    """Episodes of its leases that it leaves out: what was recalled, less what its engine had at once."""


class Simulation:
    """Acts on the schedule's commands as the driver does, with a heap of events in place of Ray."""

    def __init__(
        self,
        schedule: Scheduler,
        works: Mapping[str, Work],
        faults: FaultModel,
        reads: Mapping[int, int] | None = None,
    ) -> None:
        """``reads``: answer -> its number in the queue of its group's judge."""
        self.schedule, self.works, self.faults, self.reads = schedule, works, faults, reads or {}
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], Sequence[Command]]]] = []
        self.replicas: dict[int, Replica] = {}
        self.spans: list[Span] = []
        self.seen: set[int] = set()
        self.duplicates = 0
        self.given_up: set[int] = set()
        self.abandoned: dict[str, str] = {}
        self._events = 0

    def run(self) -> None:
        """Play until nothing is pending; raises RuntimeError if the schedule is stuck."""
        self._act(self.schedule.begin(0.0))
        self._at(TICK_INTERVAL_S, self._tick)
        while not self.schedule.done:
            self.now, _, event = heapq.heappop(self.events)
            self._act(event())
            if not self.replicas and not self.schedule.done and not self.schedule.slots:
                raise RuntimeError("work is pending, and nobody plays it")
        for replica in list(self.replicas.values()):
            self._end(replica.span.slot, "stopped")

    # -- commands -------------------------------------------------------------------------------------------------------
    def _act(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Start(slot, name, node, shared):
                    self._start(slot, name, node, shared)
                case Lease(slot, lease, ordinals):
                    self._lease(self.replicas[slot], lease, ordinals)
                case Stop(slot):
                    self._end(slot, "stopped")
                case Drop(slot):
                    self._end(slot, "lost")
                case Recall(slot, ordinals):
                    self.replicas[slot].recalled.update(ordinals[self.replicas[slot].work.at_once :])
                case GiveUp(ordinals):
                    self.given_up.update(ordinals)
                case Abandon(name, reason):
                    self.abandoned[name] = reason

    def _start(self, slot: int, name: str, node: str, shared: int | None) -> None:
        work, chance = self.works[name], Random(f"{self.faults.seed}/{slot}/{name}")
        slowdown = self.faults.slowdown * chance.random()
        span = Span(slot, name, node, work.gpus, self.now, shared=shared)
        replica = Replica(work, work.rate * (1.0 - slowdown), span)
        start = work.start * (1.0 + slowdown)
        self.replicas[slot] = replica
        self.spans.append(span)
        self._at(self.now + start, lambda: self._ready(replica))
        replicas = sum(other.span.group == name for other in self.replicas.values())
        life = start + self.schedule.remaining(self.schedule.groups[name]) / work.rate / replicas
        if chance.random() < self.faults.deaths:
            silent = chance.random() < self.faults.silent
            self._at(self.now + life * chance.random(), lambda: self._die(replica, silent))

    def _ready(self, replica: Replica) -> Sequence[Command]:
        if replica.gone or replica.silent:
            return []
        replica.span.ready = self.now
        return self.schedule.ready(replica.span.slot, self.now)

    def _lease(self, replica: Replica, lease: int, ordinals: Sequence[int]) -> None:
        """Leases share one engine; a lease too short to fill it takes as long as one episode does."""
        begin = max(self.now, replica.free)
        replica.free = begin + len(ordinals) / replica.rate
        end = max(replica.free, self.now + replica.work.at_once / replica.rate)
        blocks = [ordinals[first : first + BATCH_EPISODES] for first in range(0, len(ordinals), BATCH_EPISODES)]
        for number, block in enumerate(blocks, start=1):
            when = end - (end - begin) * (1 - number / len(blocks))
            self._at(when, lambda block=block: self._deliver(replica, lease, block))  # type: ignore[misc]
        self._at(end, lambda: self._drain(replica, lease))

    def _deliver(self, replica: Replica, lease: int, block: Sequence[int]) -> Sequence[Command]:
        if replica.gone or replica.silent:
            return []
        block = [ordinal for ordinal in block if ordinal not in replica.recalled]
        fresh = [ordinal for ordinal in block if ordinal not in self.seen]
        self.duplicates += len(block) - len(fresh)
        self.seen.update(fresh)
        commands = self.schedule.delivered(replica.span.slot, lease, block, self.now)
        judge = self.schedule.groups[replica.span.group].demand.judge
        if judge and (answers := [self.reads[ordinal] for ordinal in fresh if ordinal in self.reads]):
            commands += self.schedule.arrived(judge, answers, self.now)
        return commands

    def _drain(self, replica: Replica, lease: int) -> Sequence[Command]:
        if replica.gone or replica.silent:
            return []
        return self.schedule.drained(replica.span.slot, lease, self.now)

    def _die(self, replica: Replica, silent: bool) -> Sequence[Command]:
        if replica.gone:
            return []
        if silent and replica.span.ready is not None:
            replica.silent = True
            return []
        self._end(replica.span.slot, "lost")
        return self.schedule.died(replica.span.slot, "died", self.now)

    def _end(self, slot: int, outcome: str) -> None:
        replica = self.replicas.pop(slot)
        replica.gone, replica.span.ended, replica.span.outcome = True, self.now, outcome

    def _tick(self) -> Sequence[Command]:
        self._at(self.now + TICK_INTERVAL_S, self._tick)
        for slot, replica in self.replicas.items():
            if self.schedule.groups[replica.span.group].demand.serves and not replica.silent:
                self.schedule.heard(slot, 0, self.now)
        return self.schedule.tick(self.now)

    def _at(self, when: float, event: Callable[[], Sequence[Command]]) -> None:
        self._events += 1
        heapq.heappush(self.events, (when, self._events, event))


def true_work(episodes: int, demand: Demand, faults: FaultModel, name: str) -> Work:
    """A model with estimate error: its true rate and start lie around those in its demand."""
    chance = Random(f"{faults.seed}/{name}")
    rate = (demand.rate or 1.0) * chance.lognormvariate(0.0, faults.skew)
    return Work(episodes, demand.gpus, rate, demand.start * chance.lognormvariate(0.0, faults.skew), demand.at_once)


def simulate(
    pending: Mapping[str, Sequence[int]],
    demands: Mapping[str, Demand],
    gpus: int,
    faults: FaultModel = FaultModel(),
    nodes: Sequence[Node] = (),
    shares: Mapping[str, float] | None = None,
    reads: Mapping[int, int] | None = None,
    works: Mapping[str, Work] | None = None,
) -> Simulated:
    """Play a sweep on so many GPUs; the bound counts the models that fit the cluster.

    ``shares``: pool -> GPUs it may take; ``reads``: answer -> its number in the queue of its group's judge; ``works``: the
    true rates and starts, by default drawn from ``faults``.
    """
    reads, nodes = reads or {}, nodes or nodes_of(gpus)
    works = works or {name: true_work(len(queue), demands[name], faults, name) for name, queue in pending.items()}
    schedule = Scheduler(pending, demands, 0, gpus, nodes, shares)
    simulation = Simulation(schedule, works, faults, reads)
    simulation.run()
    verdicts = set(reads.values()).union(
        *(pending[name] for name in {demand.judge for demand in demands.values()} & pending.keys())
    )
    played = {name: queue for name, queue in pending.items() if name not in simulation.abandoned}
    counts = Counter({name: len(queue) for name, queue in played.items()})
    for name, queue in played.items():
        counts[demands[name].judge] += sum(ordinal in reads for ordinal in queue)
        counts[name] -= sum(ordinal in simulation.given_up for ordinal in queue)
    return Simulated(
        makespan=max((span.ended for span in simulation.spans), default=0.0),
        spans=simulation.spans,
        bound=lower_bound(
            [_capped(works[name], counts[name], demands[name], nodes, shares or {}) for name in played], gpus
        ),
        delivered=len(simulation.seen - verdicts),
        verdicts=len(simulation.seen & verdicts),
        duplicates=simulation.duplicates,
        given_up=len(simulation.given_up),
        abandoned=simulation.abandoned,
    )


def _capped(work: Work, episodes: int, demand: Demand, nodes: Sequence[Node], shares: Mapping[str, float]) -> Work:
    """These episodes, and the most replicas that the demand, its pool's share and the nodes' GPUs allow at a time."""
    most = demand.replicas
    if work.gpus:
        fitting = sum(int(node.gpus // work.gpus) for node in nodes if demand.accelerator in ("", node.accelerator))
        most = max(1, min(most, fitting, int(shares.get(demand.pool, work.gpus * most) // work.gpus)))
    return replace(work, episodes=episodes, replicas=most)
