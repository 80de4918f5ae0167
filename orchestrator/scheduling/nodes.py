"""The cluster's nodes, their free GPUs, and the GPUs that several narrow workers share.

All GPUs of a replica are on the node where it fits most tightly. A worker that needs a part of a GPU gets it from a shared GPU,
which runs only such workers, and whose parts never add up to more than one GPU.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

NODE_GPUS = 8
"""GPUs per node that are assumed if only the total number of GPUs is known."""


class Node(NamedTuple):
    """One machine of the cluster."""

    name: str
    gpus: int
    accelerator: str = ""
    """The kind of its GPUs as Ray names it (``H200``); empty if unknown."""
    held: int = 0
    """GPUs that other jobs of the cluster hold."""
    cpus: float = math.inf
    """Infinity if unknown."""


class Place(NamedTuple):
    """The node of a replica, and its shared GPU."""

    node: str = ""
    """Empty for a replica without GPUs."""
    shared: int | None = None
    """The number of the shared GPU that it uses a part of; None if it takes free GPUs."""


@dataclass
class SharedGpu:
    """A GPU that several workers use, each only a part of it."""

    node: str
    free: Fraction = Fraction(1)


class Nodes:
    """The cluster's nodes, the free GPUs of each, and the shared GPUs by number."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.free = {node.name: node.gpus - node.held for node in self.nodes}
        """Node -> GPUs that no worker or other job uses; negative while workers wait for GPUs that other jobs took first."""
        self.shared: dict[int, SharedGpu] = {}
        self.total = sum(node.gpus for node in self.nodes)
        self.held = sum(node.held for node in self.nodes)
        """GPUs that other jobs hold."""
        self.usable = self.total - self.held

    def widest(self, accelerator: str = "") -> int:
        """Return the number of GPUs of the largest node with this kind of GPU (of any kind by default)."""
        return max((node.gpus for node in self.of_kind(accelerator)), default=0)

    def tightest_fit(self, gpus: float, accelerator: str = "", without: Collection[str] = ()) -> Place | None:
        """Return the place where this many GPUs fit most tightly, the first of equals; None if they fit nowhere now.

        Nodes in ``without`` are skipped. A part of a GPU goes to the fullest shared GPU that has room for it; if none has, it
        takes a free GPU.
        """
        if gpus < 1:
            part = Fraction(gpus)
            fitting = {node.name for node in self.of_kind(accelerator) if node.name not in without}
            room = {n: gpu.free for n, gpu in self.shared.items() if gpu.node in fitting and gpu.free >= part}
            if room:
                number = min(room, key=lambda candidate: room[candidate])
                return Place(self.shared[number].node, number)
        tightest, least = None, math.inf
        for node in self.of_kind(accelerator):
            if max(gpus, 1) <= (free := self.free[node.name]) < least and node.name not in without:
                tightest, least = Place(node.name), free
        return tightest

    def of_kind(self, accelerator: str) -> Sequence[Node]:
        """Return the nodes with this kind of GPU; all nodes if ``accelerator`` is empty."""
        return [node for node in self.nodes if node.accelerator == accelerator] if accelerator else self.nodes

    def reserve(self, place: Place, gpus: float, worker: int) -> Place:
        """Take GPUs at a free place and return it; a new shared GPU gets the number of its first worker."""
        shared = worker if 0 < gpus < 1 and place.shared is None else place.shared
        reserved = place._replace(shared=shared)
        self.take(reserved, gpus)
        return reserved

    def take(self, place: Place, gpus: float) -> None:
        """Count a replica's GPUs as taken, or its part of a shared GPU; do nothing if the node has left.

        A negative number of GPUs frees them; a shared GPU without workers becomes a free GPU again.
        """
        name, shared = place
        if name not in self.free:
            return
        if shared is None:
            self.free[name] -= int(gpus)
            return
        if shared not in self.shared:
            self.shared[shared] = SharedGpu(name)
            self.free[name] -= 1
        self.shared[shared].free -= Fraction(gpus)
        if self.shared[shared].free == 1:
            del self.shared[shared]
            self.free[name] += 1


def build_nodes(gpus: int, accelerator: str = "", width: int = NODE_GPUS) -> tuple[Node, ...]:
    """Return nodes that have this many GPUs together: ``width`` each, and a last one with the rest."""
    sizes = [width] * (gpus // width) + ([gpus % width] if gpus % width else [])
    return tuple(Node(f"node-{number}", size, accelerator) for number, size in enumerate(sizes))
