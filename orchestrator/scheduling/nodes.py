"""The cluster's nodes and their free GPUs, and the GPUs that several narrow workers share.

All GPUs of a replica lie on one node; a replica goes to the node where it fits most tightly. A part of a GPU is always of
a shared one, which holds nothing else: no GPU is ever given out beyond its whole.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

NODE_GPUS = 8
"""GPUs of a usual node, where only their number is known."""


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of the cluster."""

    name: str
    gpus: int
    accelerator: str = ""
    """The kind of its GPUs as Ray names it (``H200``); empty where that is unknown."""


class Place(NamedTuple):
    """Where a replica fits."""

    node: str = ""
    """Empty for one that takes no GPU."""
    shared: int | None = None
    """The number of the shared GPU that has room for it; None where it takes GPUs that nobody holds yet."""


@dataclass
class SharedGpu:
    """One GPU that workers take parts of."""

    node: str
    free: Fraction = Fraction(1)


class Nodes:
    """The cluster's nodes, how many GPUs are free on each, and the shared GPUs by number."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.free = {node.name: node.gpus for node in self.nodes}
        """GPUs that nobody holds, not even a part of."""
        self.shared: dict[int, SharedGpu] = {}
        self.total = sum(node.gpus for node in self.nodes)

    def widest(self, accelerator: str = "") -> int:
        """The most GPUs that one node of this kind has."""
        return max((node.gpus for node in self.nodes if accelerator in ("", node.accelerator)), default=0)

    def best(self, gpus: float, accelerator: str = "", without: Collection[str] = ()) -> Place | None:
        """Where so many GPUs fit most tightly, the first of equals; None where they fit on no node but those ``without``.

        A part of a GPU goes to the fullest shared GPU with room for it, and only else to one that nobody holds.
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
                number = min(room, key=lambda one: room[one])
                return Place(self.shared[number].node, number)
        wide = [name for name, free in fitting.items() if free >= part and free >= 1]
        return Place(min(wide, key=lambda name: fitting[name])) if wide else None

    def take_at(self, place: Place, gpus: float, worker: int) -> Place:
        """A worker takes GPUs at a place that ``best`` found; a GPU is shared under the number of its first worker."""
        shared = worker if 0 < gpus < 1 and place.shared is None else place.shared
        self.take(place.node, gpus, shared)
        return Place(place.node, shared)

    def take(self, name: str, gpus: float, shared: int | None = None) -> None:
        """A worker holds GPUs of this node now, or a part of the ``shared`` one; a node that is gone is passed over."""
        if name not in self.free:
            return
        if shared is None:
            self.free[name] -= int(gpus)
            return
        if shared not in self.shared:
            self.shared[shared] = SharedGpu(name)
            self.free[name] -= 1
        self.shared[shared].free -= Fraction(gpus)

    def give(self, name: str, gpus: float, shared: int | None = None) -> None:
        """A worker's GPUs are free again; a shared one that nobody holds a part of is a GPU like any other."""
        if name not in self.free:
            return
        if shared is None:
            self.free[name] += int(gpus)
            return
        self.shared[shared].free += Fraction(gpus)
        if self.shared[shared].free == 1:
            del self.shared[shared]
            self.free[name] += 1


def nodes_of(gpus: int, accelerator: str = "", width: int = NODE_GPUS) -> tuple[Node, ...]:
    """Nodes that hold so many GPUs: full ones of ``width``, and one with the rest."""
    sizes = [width] * (gpus // width) + ([gpus % width] if gpus % width else [])
    return tuple(Node(f"node-{number}", size, accelerator) for number, size in enumerate(sizes))
