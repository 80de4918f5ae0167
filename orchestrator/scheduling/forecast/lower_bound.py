"""The true size and speed of each model's work, and the makespan that no schedule can beat."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from actors.engine.start_phases import StartPhases
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.nodes import Node
from orchestrator.scheduling.tight_end import PRECISION, Load, tight_end


@dataclass(frozen=True, slots=True)
class Work:
    """One model's true size and speed, which the scheduler only estimates."""

    episodes: int
    gpus: float
    rate: float
    """Episodes/s of one replica."""
    start: float
    """Seconds of a start; with ``phases``, of a lone start on a node that has the weights and compiled kernels."""
    concurrency: int = 1
    """Episodes a replica plays at once: one alone takes ``concurrency / rate`` seconds."""
    replicas: int = 1_000_000
    """The largest number of replicas that can work at a time."""
    per_node: int = 1_000_000
    """The largest number of replicas on one node."""
    phases: StartPhases | None = None
    """Phases of a start; None if replicas start independently of each other."""
    weights: float = 0.0
    """Gigabytes that a start reads."""

    @property
    def replica_seconds(self) -> float:
        """Seconds in which one replica would play all episodes, without its start."""
        return self.episodes / self.rate

    @property
    def node_start(self) -> float:
        """Seconds that the first start on a node takes longer: it compiles. A download may have ended before, so it counts 0."""
        return self.phases.compile if self.phases else 0.0

    @property
    def load(self) -> Load:
        """The argument of ``tight_end`` for this work, of which no replica plays or starts yet."""
        return Load(
            self.gpus,
            self.replica_seconds,
            self.start,
            self.replicas,
            node_start=self.node_start,
            per_node=self.per_node,
        )

    def with_phases(self, phases: StartPhases, weights: float) -> Self:
        """Return the work with these phases, scaled so that a cached start takes ``start``, and with gigabytes of weights."""
        if not phases.cached:
            return self
        return replace(self, phases=phases.scaled(self.start / phases.cached), weights=weights)


@dataclass(frozen=True, slots=True)
class Bound:
    """Seconds that no schedule can beat, derived in three ways."""

    area: float
    """All GPU-seconds, including one start per model on a new node, spread evenly over all GPUs."""
    longest: float
    """The longest model on its own: one start, then its episodes over as many replicas as it may have."""
    tight: float
    """As ``area``, but with a start for each replica that a model needs to end in this time, on as few new nodes as possible."""

    @property
    def seconds(self) -> float:
        """The largest of the three."""
        return max(self.area, self.longest, self.tight)


def lower_bound(works: Sequence[Work], gpus: int) -> Bound:
    """Return the bound: each model with episodes starts at least once, and no GPU does two things at a time."""
    pending = [work for work in works if work.episodes]
    area = sum(work.gpus * (work.start + work.node_start + work.replica_seconds) for work in pending)
    alone = [work.start + max(work.concurrency, work.episodes / work.replicas) / work.rate for work in pending]
    tight = tight_end([work.load for work in works], gpus) * (1 - PRECISION) if gpus else 0.0
    return Bound(area / gpus if gpus else 0.0, max(alone, default=0.0), tight)


def cap_replicas(work: Work, episodes: int, demand: Demand, nodes: Sequence[Node], shares: Mapping[str, float]) -> Work:
    """Return the work with these episodes and the replicas that the demand, the pool's share and the nodes allow."""
    replicas, per_node = demand.replicas, work.per_node
    if work.gpus:
        sizes = [node.gpus for node in nodes if demand.accelerator in ("", node.accelerator)]
        stages = demand.stages if work.gpus > max(sizes, default=0) else 1
        fitting = sum(int(size * stages // work.gpus) for size in sizes) // stages
        share = shares.get(demand.pool, work.gpus * replicas)
        replicas = max(1, min(replicas, fitting, int(share // work.gpus)))
        per_node = max(1, int(max(sizes, default=0) // work.gpus))
    return replace(work, episodes=episodes, replicas=replicas, per_node=per_node)
