"""The size and speed of each model's work, and the lower bound: a makespan that no schedule can beat."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from actors.engine.start_phases import StartPhases
from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.nodes import Node
from orchestrator.scheduling.tight_end import PRECISION, Load, tight_end


@dataclass(frozen=True, slots=True)
class Work:
    """The true size and speed of one model's work; the scheduler only estimates the speed."""

    episodes: int
    gpus: float
    rate: float
    """Episodes/s of one replica."""
    start: float
    """Seconds of a start; with ``phases``, of a start that loads alone on a node that has the weights and compiled kernels."""
    concurrency: int = 1
    """Episodes that a replica plays at once; a single episode takes ``concurrency / rate`` seconds."""
    replicas: int = 1_000_000
    """The largest number of replicas that can work at the same time."""
    per_node: int = 1_000_000
    """The largest number of replicas on one node."""
    phases: StartPhases | None = None
    """Phases of a start; None if all starts take equally long."""

    @property
    def replica_seconds(self) -> float:
        """Seconds in which one replica would play all episodes, without its start."""
        return self.episodes / self.rate

    @property
    def node_start(self) -> float:
        """Extra seconds of a model's first start on a node, which compiles; downloads count 0, because they may end earlier."""
        return self.phases.compile if self.phases else 0.0

    @property
    def load(self) -> Load:
        """This work as an argument of ``tight_end``, before any replica starts."""
        return Load(
            self.gpus,
            self.replica_seconds,
            self.start,
            self.replicas,
            node_start=self.node_start,
            per_node=self.per_node,
        )

    def with_phases(self, phases: StartPhases) -> Self:
        """Return the work with these phases, scaled so that a cached start takes ``start``."""
        if not phases.cached:
            return self
        return replace(self, phases=phases.scaled(self.start / phases.cached))


@dataclass(frozen=True, slots=True)
class Bound:
    """Three lower bounds of the makespan, in seconds."""

    area: float
    """All GPU-seconds, with one start on a new node per model, divided by the number of GPUs."""
    longest: float
    """The longest time of a model alone: one start, then its episodes over as many replicas as it may have."""
    tight: float
    """As ``area``, but with a start of each replica that a model needs to end in this time, on as few nodes as possible."""

    @property
    def seconds(self) -> float:
        """The largest of the three."""
        return max(self.area, self.longest, self.tight)


def lower_bound(works: Sequence[Work], gpus: int) -> Bound:
    """Return the bound on this many GPUs; each model with episodes starts at least once."""
    pending = [work for work in works if work.episodes]
    area = sum(work.gpus * (work.start + work.node_start + work.replica_seconds) for work in pending)
    alone = [work.start + max(work.concurrency, work.episodes / work.replicas) / work.rate for work in pending]
    tight = tight_end([work.load for work in works], gpus) * (1 - PRECISION) if gpus else 0.0
    return Bound(area / gpus if gpus else 0.0, max(alone, default=0.0), tight)


def cap_replicas(work: Work, episodes: int, demand: Demand, nodes: Sequence[Node], shares: Mapping[str, float]) -> Work:
    """Return the work with this many episodes, and with as many replicas as the demand, the pool's share and the nodes allow."""
    replicas, per_node = demand.replicas, work.per_node
    if work.gpus:
        sizes = [node.gpus for node in nodes if demand.accelerator in ("", node.accelerator)]
        stages = demand.stages if work.gpus > max(sizes, default=0) else 1
        fitting = sum(int(size * stages // work.gpus) for size in sizes) // stages
        share = shares.get(demand.pool, work.gpus * replicas)
        replicas = max(1, min(replicas, fitting, int(share // work.gpus)))
        per_node = max(1, int(max(sizes, default=0) // work.gpus))
    return replace(work, episodes=episodes, replicas=replicas, per_node=per_node)
