"""The cluster's nodes, their free GPUs, and the GPUs that several narrow workers share.

All GPUs of a replica are on one node; a replica goes to the node where it fits most tightly. A part of a GPU always belongs
to a shared GPU, which runs nothing else: no GPU is given out beyond its whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

NODE_GPUS = 8
"""GPUs of a usual node, if only the total number is known."""


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of the cluster."""

    name: str
    gpus: int
    accelerator: str = ""
    """The kind of its GPUs as Ray names it (``H200``); empty if unknown."""
    held: int = 0
    """GPUs that other jobs of the cluster hold."""


class Place(NamedTuple):
    """A place where a replica fits."""

    node: str = ""
    """Empty for a replica without GPUs."""
    shared: int | None = None
    """The number of the shared GPU that has room for it; None if it takes whole free GPUs."""


@dataclass
class SharedGpu:
    """A GPU that several workers have parts of."""

    node: str
    free: Fraction = Fraction(1)


class Nodes:
    """The cluster's nodes, the free GPUs of each, and the shared GPUs by number."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.free = {node.name: node.gpus - node.held for node in self.nodes}
        """Node -> GPUs of which no part is taken; negative while workers wait for GPUs that others took first."""
        self.shared: dict[int, SharedGpu] = {}
        self.total = sum(node.gpus for node in self.nodes)
        self.held = sum(node.held for node in self.nodes)
        """GPUs that other jobs hold."""

    @property
    def usable(self) -> int:
        """The GPUs that no other job holds."""
        return self.total - self.held

    def widest(self, accelerator: str = "") -> int:
        """Return the largest number of GPUs that one node of this kind has."""
        return max((node.gpus for node in self.nodes if accelerator in ("", node.accelerator)), default=0)

    def tightest_fit(self, gpus: float, accelerator: str = "", without: Collection[str] = ()) -> Place | None:
        """Return the place where this many GPUs fit most tightly, the first of equals; None if they fit nowhere.

        Nodes in ``without`` are skipped. A part of a GPU goes to the fullest shared GPU with room for it, and only otherwise
        to a free one.
        """
        fitting = {
            node.name: self.free[node.name]
            for node in self.nodes
            if accelerator in ("", node.accelerator) and node.name not in without
        }
        part = Fraction(gpus)
        if part < 1:
            room = {n: gpu.free for n, gpu in self.shared.items() if gpu.node in fitting and gpu.free >= part}
            if room:
                number = min(room, key=lambda candidate: room[candidate])
                return Place(self.shared[number].node, number)
        wide = [name for name, free in fitting.items() if free >= part and free >= 1]
        return Place(min(wide, key=lambda name: fitting[name])) if wide else None

    def reserve(self, place: Place, gpus: float, worker: int) -> Place:
        """Take GPUs at a place from ``tightest_fit``; a shared GPU has the number of its first worker."""
        shared = worker if 0 < gpus < 1 and place.shared is None else place.shared
        self.take(place.node, gpus, shared)
        return Place(place.node, shared)

    def take(self, name: str, gpus: float, shared: int | None = None) -> None:
        """Count GPUs of this node as taken, or a part of the ``shared`` one; a node that is gone is skipped.

        A negative number of GPUs is free again; a shared GPU without workers becomes a whole one.
        """
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
    """Return nodes with this many GPUs in all: full ones of ``width``, and one with the rest."""
    sizes = [width] * (gpus // width) + ([gpus % width] if gpus % width else [])
    return tuple(Node(f"node-{number}", size, accelerator) for number, size in enumerate(sizes))
