"""Chooses narrow workers that leave one node to make room for a wider replica."""

from collections.abc import Iterable, Sequence
from fractions import Fraction

from orchestrator.scheduling.commands import Demand
from orchestrator.scheduling.nodes import Nodes
from orchestrator.scheduling.state import WorkerSlot


def workers_to_evict(slots: Iterable[WorkerSlot], nodes: Nodes, wide: Demand) -> list[WorkerSlot]:
    """Return the fewest narrower workers of one node, or of one shared GPU, that must leave to make room for a wide replica."""
    slots, choices = list(slots), list[list[WorkerSlot] | None]()
    for node in nodes.nodes:
        if wide.accelerator not in ("", node.accelerator):
            continue
        narrower = [s for s in slots if node.name in s.place.nodes and 0 < s.group.demand.gpus < wide.gpus]
        if wide.gpus >= 1:
            choices.append(_leaving_for(wide.gpus, node.name, Fraction(nodes.free[node.name]), _blocks(narrower)))
        else:
            shared = [(number, gpu.free) for number, gpu in nodes.shared.items() if gpu.node == node.name]
            members = {number: [[s] for s in narrower if s.place.shared == number] for number, _ in shared}
            choices += [_leaving_for(wide.gpus, node.name, free, members[number]) for number, free in shared]
    return min((leaving for leaving in choices if leaving is not None), key=len, default=[])


def _leaving_for(gpus: float, node: str, free: Fraction, blocks: Iterable[list[WorkerSlot]]) -> list[WorkerSlot] | None:
    """Return the workers that must leave until so many GPUs are free, on a node or of a shared GPU; None if too few are.

    ``free``: GPUs that are free before.
    """
    leaving = list[WorkerSlot]()
    for block in sorted(blocks, key=_eviction_order):
        if free < gpus:
            leaving += block
            frees_whole_gpu = block[0].place.shared is not None and gpus >= 1
            free += 1 if frees_whole_gpu else Fraction(block[0].place.share_of(node, block[0].group.demand.gpus))
    return leaving if free >= gpus else None


def _blocks(slots: Iterable[WorkerSlot]) -> list[list[WorkerSlot]]:
    """Group the workers of each shared GPU, which free it only together; every other worker is a block of its own."""
    blocks: dict[tuple[int, int], list[WorkerSlot]] = {}
    for number, slot in enumerate(slots):
        key = (0, number) if (shared := slot.place.shared) is None else (1, shared)
        blocks.setdefault(key, []).append(slot)
    return list(blocks.values())


def _eviction_order(block: Sequence[WorkerSlot]) -> tuple[bool, bool, float]:
    """Return a sort key: blocks that leave anyway come first, then blocks that are still starting, then the oldest."""
    return not all(s.leaving for s in block), any(s.ready for s in block), min(s.started_at for s in block)
