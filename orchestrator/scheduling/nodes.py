"""The cluster's nodes and their free GPUs.

All GPUs of a replica lie on one node; a replica goes to the node where it fits most tightly.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

NODE_GPUS = 8
"""GPUs of a usual node, where only their number is known."""


@dataclass(frozen=True, slots=True)
class Node:
    """One machine of the cluster."""

    name: str
    gpus: int
    accelerator: str = ""
    """The kind of its GPUs as Ray names it (``H200``); empty where that is unknown."""


class Nodes:
    """The cluster's nodes and how many GPUs are free on each."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.free = {node.name: node.gpus for node in self.nodes}
        self.total = sum(node.gpus for node in self.nodes)

    def widest(self, accelerator: str = "") -> int:
        """The most GPUs that one node of this kind has."""
        return max((node.gpus for node in self.nodes if accelerator in ("", node.accelerator)), default=0)

    def best(self, gpus: int, accelerator: str = "", without: Collection[str] = ()) -> str | None:
        """The node on which so many GPUs fit most tightly, the first of equals; None where they fit on no other one."""
        fitting = [
            node.name
            for node in self.nodes
            if self.free[node.name] >= gpus and accelerator in ("", node.accelerator) and node.name not in without
        ]
        return min(fitting, key=lambda name: self.free[name], default=None)

    def take(self, name: str, gpus: int) -> None:
        """A worker holds GPUs of this node now; a node that is gone is passed over."""
        if name in self.free:
            self.free[name] -= gpus

    def give(self, name: str, gpus: int) -> None:
        """A worker's GPUs are free again."""
        self.take(name, -gpus)


def nodes_of(gpus: int, accelerator: str = "", width: int = NODE_GPUS) -> tuple[Node, ...]:
    """Nodes that hold so many GPUs: full ones of ``width``, and one with the rest."""
    sizes = [width] * (gpus // width) + ([gpus % width] if gpus % width else [])
    return tuple(Node(f"node-{number}", size, accelerator) for number, size in enumerate(sizes))
