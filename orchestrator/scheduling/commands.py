"""The scheduler's input per group (``Demand``) and its commands to the driver.

Values only, so that equal runs compare equal.
"""

from __future__ import annotations

from dataclasses import dataclass

from sweeps.values import gpus_told

JUDGES = "judges"
"""The pool of judges' workers."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one replica of a group takes, and how many there may be."""

    cpus: float = 1.0
    """Of a replica that takes a part of a GPU: CPUs beside that GPU, whoever shares it."""
    gpus: float = 0
    """A whole number, or the part of one GPU that it shares (0.5, 0.25)."""
    replicas: int = 64
    at_once: int = 1
    """Episodes one worker plays at once; a lease smaller than that leaves its engine half empty."""
    accelerator: str = ""
    """The kind of GPU it must have, as Ray names it (``H200``); empty takes any."""
    pool: str = "models"
    """Whose share of the cluster it takes: ``models`` or ``judges``."""
    rate: float | None = None
    """Episodes/s of one replica, estimated; None is learnt."""
    start: float = 0.0
    """Seconds from the command to a ready worker, estimated; observation corrects both."""
    judge: str = ""
    """The group that reads this one's answers: while it lags far behind, this one gets no new lease."""
    after: bool = False
    """Whether a judge starts only when the groups that it reads are done: one GPU cannot hold both."""

    serves: int = 0
    """Replicas that stand as long as others play, because those groups' episodes wait for their replies; 0 for all but a judge
    of ``oeg-multi`` with an engine of its own."""

    unhurried: bool = False
    """Whether its work may take days (a service's batches): a worker's silence says nothing, and all work is one lease."""

    @property
    def told(self) -> str:
        """``2 GPUs of kind H200``."""
        return gpus_told(self.gpus) + (f" of kind {self.accelerator}" if self.accelerator else "")


@dataclass(frozen=True, slots=True)
class Start:
    slot: int
    group: str
    node: str = ""
    """Where its GPUs were counted; empty for a worker that takes none."""
    shared: int | None = None
    """The number of the shared GPU that it takes a part of; None for whole GPUs."""


@dataclass(frozen=True, slots=True)
class Lease:
    slot: int
    lease: int
    ordinals: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    slot: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Kill this worker, which is silent or far too slow; its work is pending again."""

    slot: int
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """These episodes end as FAILED with this reason; of a judge's group, their answers are stored as unjudged."""

    ordinals: tuple[int, ...]
    reason: str
    group: str


@dataclass(frozen=True, slots=True)
class Abandon:
    """No worker can play this group in this attempt; its episodes stay pending for the next one."""

    group: str
    reason: str


@dataclass(frozen=True, slots=True)
class Recall:
    """Ask a worker to leave out those of these leased episodes that it has not begun; its leases end without them."""

    slot: int
    ordinals: tuple[int, ...]


Command = Start | Lease | Stop | Drop | GiveUp | Abandon | Recall
