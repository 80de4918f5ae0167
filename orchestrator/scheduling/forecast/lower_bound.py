"""The size and speed of each model's work, and the lower bound: a makespan that no schedule can beat."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
    """Seconds of a start."""
    concurrency: int = 1
    """Episodes that a replica plays at once; a single episode takes ``concurrency / rate`` seconds."""
    replicas: int = 1_000_000
    """The largest number of replicas that can work at the same time."""

    @property
    def load(self) -> Load:
        """This work as an argument of ``tight_end``, before any replica starts."""
        return Load(self.gpus, self.episodes / self.rate, self.start, self.replicas)


@dataclass(frozen=True, slots=True)
class Bound:
    """Three lower bounds of the makespan, in seconds."""

    area: float
    """All GPU-seconds, with one start per model, divided by the number of GPUs."""
    longest: float
    """The longest time of a model alone: one start, then its episodes over as many replicas as it may have."""
    tight: float
    """As ``area``, but with a start of each replica that a model needs to end in this time."""

    @property
    def seconds(self) -> float:
        """The largest of the three."""
        return max(self.area, self.longest, self.tight)


def lower_bound(works: Sequence[Work], gpus: int) -> Bound:
    """Return the bound on this many GPUs; each model with episodes starts at least once."""
    pending = [work for work in works if work.episodes]
    area = sum(work.gpus * (work.start + work.episodes / work.rate) for work in pending)
    alone = [work.start + max(work.concurrency, work.episodes / work.replicas) / work.rate for work in pending]
    tight = tight_end([work.load for work in works], gpus) * (1 - PRECISION) if gpus else 0.0
    return Bound(area / gpus if gpus else 0.0, max(alone, default=0.0), tight)


def cap_replicas(work: Work, episodes: int, demand: Demand, nodes: Sequence[Node], shares: Mapping[str, float]) -> Work:
    """Return the work with this many episodes, and with as many replicas as the demand, the pool's share and the nodes allow."""
    replicas = demand.replicas
    if work.gpus:
        sizes = [node.gpus for node in nodes if demand.accelerator in ("", node.accelerator)]
        stages = demand.stages if work.gpus > max(sizes, default=0) else 1
        fitting = sum(int(size * stages // work.gpus) for size in sizes) // stages
        share = shares.get(demand.pool, work.gpus * replicas)
        replicas = max(1, min(replicas, fitting, int(share // work.gpus)))
    return replace(work, episodes=episodes, replicas=replicas)
