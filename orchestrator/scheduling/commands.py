"""The scheduler's input per group (``Demand``) and its commands to the driver.

All are plain values, so the commands of two runs can be compared.
"""

from dataclasses import dataclass
from typing import NamedTuple

from orchestrator.scheduling.nodes import Place
from sweeps.values import format_gpus

MODELS, JUDGES = "models", "judges"
"""The pool of the workers that play models, and the pool of the judge's workers."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The resources of one replica of a group, and how many replicas there may be."""

    cpus: float = 1.0
    """For a replica on a part of a GPU: the CPUs of the whole GPU, which all replicas on it share."""
    gpus: float = 0
    """A whole number, or a part of one shared GPU (0.5, 0.25)."""
    replicas: int = 64
    concurrency: int = 1
    """Episodes that one worker plays at once; a smaller lease does not fill its engine."""
    accelerator: str = ""
    """The kind of GPU that it needs, as Ray names it (``H200``); empty if any will do."""
    pool: str = MODELS
    """The pool whose share of the cluster it uses: ``models`` or ``judges``."""
    rate: float | None = None
    """Estimated episodes/s of one replica, corrected while it plays; None if the rate is only learned while it plays."""
    start: float = 0.0
    """Estimated seconds from the command to a ready worker, corrected by observed starts."""
    judge: str = ""
    """The group that reads this group's answers; while it lags far behind, this group gets no new lease."""
    after_writers: bool = False
    """True if a judge starts only when all answers are written, because the GPUs cannot hold it and a model at once."""
    standing_replicas: int = 0
    """Replicas that stay as long as other groups play, because the episodes of those groups wait for their replies.

    0 except for a judge of ``oeg-multi`` that has an engine.
    """

    @property
    def gpu_text(self) -> str:
        """For example ``2 GPUs of kind H200``."""
        return format_gpus(self.gpus) + (f" of kind {self.accelerator}" if self.accelerator else "")


class Start(NamedTuple):
    """Start a worker of a group in this slot."""

    slot: int
    group: str
    place: Place
    """Where its GPUs are counted."""


class Lease(NamedTuple):
    """Have a worker play these episodes."""

    slot: int
    lease: int
    ordinals: tuple[int, ...]


class Stop(NamedTuple):
    """End a worker that has no more work."""

    slot: int


class Drop(NamedTuple):
    """Kill a worker that is silent; its work is pending again."""

    slot: int
    reason: str


class GiveUp(NamedTuple):
    """Store these episodes as FAILED with this reason; for a judge's group, store their answers as unjudged."""

    ordinals: tuple[int, ...]
    reason: str
    group: str


class Abandon(NamedTuple):
    """Stop playing a group in this attempt; its episodes stay pending for the next one."""

    group: str
    reason: str


class Recall(NamedTuple):
    """Ask a worker to skip these leased episodes, except those that it has begun; its leases end without them."""

    slot: int
    ordinals: tuple[int, ...]


Command = Start | Lease | Stop | Drop | GiveUp | Abandon | Recall
