"""Simulates a sweep: the real scheduler on a virtual clock, with a heap of events in place of Ray. Equal inputs give equal runs.

The makespan is compared with a bound that no schedule can beat. ``tests/faults.py`` adds workers that die or fall silent.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count

from orchestrator.scheduling.commands import Abandon, Command, Demand, Drop, GiveUp, Lease, Recall, Start, Stop
from orchestrator.scheduling.forecast.lower_bound import Bound, Work, cap_replicas, lower_bound
from orchestrator.scheduling.forecast.node_loading import EngineStart, NodeLoading
from orchestrator.scheduling.likely_starts import likely_starts
from orchestrator.scheduling.nodes import Node, Place
from orchestrator.scheduling.scheduler import Scheduler

BATCH_EPISODES = 64
"""Episodes per delivered batch."""
TICK_INTERVAL_S = 30.0
"""Seconds of simulated time between two ticks of the scheduler."""


@dataclass
class WorkerSpan:
    """The life of one worker."""

    slot: int
    group: str
    place: Place
    gpus: float
    began: float
    ready: float | None = None
    ended: float = 0.0
    outcome: str = ""
    """``stopped`` or ``lost``."""


@dataclass
class SimulatedSweep:
    """The result of a simulation."""

    makespan: float
    spans: list[WorkerSpan]
    bound: Bound
    delivered: int
    """Number of episodes."""
    verdicts: int
    """Number of answers read by a judge."""
    duplicates: int
    """Number of deliveries of episodes that were already delivered."""
    given_up: int
    """Number of episodes that the scheduler gave up."""
    abandoned: dict[str, str]
    """Group -> why it is not played."""

    @property
    def ratio(self) -> float | None:
        """Makespan divided by the lower bound; None if nothing could be played."""
        return self.makespan / self.bound.seconds if self.bound.seconds else None

    @property
    def busy_gpu_seconds(self) -> float:
        return sum(span.gpus * (span.ended - span.began) for span in self.spans)


@dataclass
class Replica:
    """A simulated worker."""

    work: Work
    span: WorkerSpan
    free_at: float = 0.0
    """Time at which its engine will have played all its leases."""
    gone: bool = False
    """True if it has ended; its later events are ignored."""
    recalled: set[int] = field(default_factory=set)
    """Recalled episodes, except those that its engine had begun."""


class Simulation:
    """Carries out the scheduler's commands as the driver does, with a heap of events in place of Ray."""

    def __init__(self, schedule: Scheduler, works: Mapping[str, Work], reads: Mapping[int, int]) -> None:
        """Start at time 0; ``reads``: ordinal of an answer -> its ordinal in the queue of its group's judge."""
        self.schedule, self.works, self.reads = schedule, works, reads
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], Sequence[Command]]]] = []
        self.replicas: dict[int, Replica] = {}
        self.spans: list[WorkerSpan] = []
        self.delivered: set[int] = set()
        self.duplicates = 0
        self.given_up: set[int] = set()
        self.abandoned: dict[str, str] = {}
        self._event_numbers = count(1)
        self._nodes: dict[str, NodeLoading] = {}
        """Node -> the engines that load there."""

    def run(self, pending: Mapping[str, Sequence[int]]) -> SimulatedSweep:
        """Play until nothing is pending; ``pending``: group -> ordinals. The bound leaves abandoned groups out.

        Raises RuntimeError if work is pending but no worker plays it.
        """
        self._act(self.schedule.on_begin(0.0))
        self._at(TICK_INTERVAL_S, self._tick)
        while not self.schedule.done:
            self.now, _, event = heapq.heappop(self.events)
            self._act(event())
            if self._is_stuck():
                raise RuntimeError("work is pending, but no worker plays it")
        for replica in list(self.replicas.values()):
            self._end(replica.span.slot, "stopped")
        judges = {demand.judge for demand in self.schedule.demands.values()} & pending.keys()
        verdicts = set(self.reads.values()).union(*(pending[name] for name in judges))
        return SimulatedSweep(
            makespan=max((span.ended for span in self.spans), default=0.0),
            spans=self.spans,
            bound=self._bound(pending),
            delivered=len(self.delivered - verdicts),
            verdicts=len(self.delivered & verdicts),
            duplicates=self.duplicates,
            given_up=len(self.given_up),
            abandoned=self.abandoned,
        )

    def _is_stuck(self) -> bool:
        return not self.replicas and not self.schedule.done and not self.schedule.slots

    # -- commands -------------------------------------------------------------------------------------------------------
    def _act(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case Start() as start:
                    self._start(start, self.works[start.group])
                case Lease(slot, lease, ordinals):
                    self._lease(self.replicas[slot], lease, ordinals)
                case Stop(slot):
                    self._end(slot, "stopped")
                case Drop(slot):
                    self._end(slot, "lost")
                case Recall(slot, ordinals):
                    self.replicas[slot].recalled.update(ordinals[self.replicas[slot].work.concurrency :])
                case GiveUp(ordinals):
                    self.given_up.update(ordinals)
                case Abandon(name, reason):
                    self.abandoned[name] = reason

    def _start(self, start: Start, work: Work) -> None:
        span = WorkerSpan(start.slot, start.group, start.place, work.gpus, self.now)
        replica = self.replicas[start.slot] = Replica(work, span)
        self.spans.append(span)
        if work.phases and start.place.node:
            alone = bool(start.place.stages) or not float(work.gpus).is_integer()
            ready = partial(self._ready, replica)
            engine = EngineStart(start.slot, start.group, alone, work.phases, work.weights, ready)
            self._node(start.place.node).join(engine)
        else:
            self._at(self.now + work.start, partial(self._ready, replica), replica)

    def _node(self, name: str) -> NodeLoading:
        return self._nodes.setdefault(name, NodeLoading(self._at, lambda: self.now))

    def _prepare_next(self) -> None:
        """Prepare the weights of models that wait for GPUs, as ``WeightsAhead`` does."""
        for start in likely_starts(self.schedule):
            work = self.works[start.group]
            if work.phases:
                engine = EngineStart(-next(self._event_numbers), start.group, False, work.phases, work.weights, list)
                self._node(start.node).prepare(engine)

    def _ready(self, replica: Replica) -> Sequence[Command]:
        replica.span.ready = self.now
        return self.schedule.on_ready(replica.span.slot, self.now)

    def _lease(self, replica: Replica, lease: int, ordinals: Sequence[int]) -> None:
        """Schedule a lease's deliveries and its end; leases share one engine, and a short one takes as long as an episode."""
        begin = max(self.now, replica.free_at)
        replica.free_at = begin + len(ordinals) / replica.work.rate
        end = max(replica.free_at, self.now + replica.work.concurrency / replica.work.rate)
        blocks = [ordinals[first : first + BATCH_EPISODES] for first in range(0, len(ordinals), BATCH_EPISODES)]
        for number, block in enumerate(blocks, start=1):
            when = end - (end - begin) * (1 - number / len(blocks))
            self._at(when, partial(self._deliver, replica, lease, block), replica)
        self._at(end, lambda: self.schedule.on_lease_end(replica.span.slot, lease, self.now), replica)

    def _deliver(self, replica: Replica, lease: int, block: Sequence[int]) -> Sequence[Command]:
        block = [ordinal for ordinal in block if ordinal not in replica.recalled]
        fresh = [ordinal for ordinal in block if ordinal not in self.delivered]
        self.duplicates += len(block) - len(fresh)
        self.delivered.update(fresh)
        commands = self.schedule.on_delivery(replica.span.slot, lease, block, self.now)
        judge = self.schedule.groups[replica.span.group].demand.judge
        if judge and (answers := [self.reads[ordinal] for ordinal in fresh if ordinal in self.reads]):
            commands += self.schedule.on_answers(judge, answers, self.now)
        return commands

    def _end(self, slot: int, outcome: str) -> None:
        replica = self.replicas.pop(slot)
        replica.gone, replica.span.ended, replica.span.outcome = True, self.now, outcome
        if replica.span.place.node in self._nodes:
            self._nodes[replica.span.place.node].leave(slot)

    def _tick(self) -> Sequence[Command]:
        self._at(self.now + TICK_INTERVAL_S, self._tick)
        for slot, replica in self.replicas.items():
            if self.schedule.groups[replica.span.group].demand.standing_replicas and not replica.gone:
                self.schedule.on_heartbeat(slot, 0, self.now)
        self._prepare_next()
        return self.schedule.on_tick(self.now)

    def _at(self, when: float, event: Callable[[], Sequence[Command]], replica: Replica | None = None) -> None:
        """Schedule ``event`` at this time; it is skipped if ``replica`` is gone by then."""

        def happen() -> Sequence[Command]:
            return [] if replica and replica.gone else event()

        heapq.heappush(self.events, (when, next(self._event_numbers), happen))

    def _bound(self, pending: Mapping[str, Sequence[int]]) -> Bound:
        """Return the lower bound of the makespan for the groups that were not abandoned."""
        played = {name: queue for name, queue in pending.items() if name not in self.abandoned}
        counts = Counter({name: len(queue) for name, queue in played.items()})
        demands, nodes, shares = self.schedule.demands, self.schedule.nodes, self.schedule.shares
        for name, queue in played.items():
            counts[demands[name].judge] += sum(ordinal in self.reads for ordinal in queue)
            counts[name] -= sum(ordinal in self.given_up for ordinal in queue)
        works = [cap_replicas(self.works[name], counts[name], demands[name], nodes.nodes, shares) for name in played]
        return lower_bound(works, nodes.total)


def simulate(
    pending: Mapping[str, Sequence[int]],
    demands: Mapping[str, Demand],
    gpus: int,
    works: Mapping[str, Work],
    nodes: Sequence[Node],
    shares: Mapping[str, float],
    reads: Mapping[int, int],
) -> SimulatedSweep:
    """Play a sweep on a simulated cluster of this many GPUs.

    Args:
        works: group -> its true rate and start time; ``demands`` has the scheduler's estimates.
        shares: pool -> GPUs it may use.
        reads: ordinal of an answer -> its ordinal in the queue of its group's judge.
    """
    return Simulation(Scheduler(pending, demands, 0, gpus, nodes, shares), works, reads).run(pending)
