"""Tells Ray where to put a worker: on a node, or in the placement group of a shared GPU.

A placement group exists until the last of its workers has ended, so the scheduler and Ray count the same GPUs in any order of
starts and stops.
"""

from typing import Any

from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from orchestrator.scheduling.commands import Demand, Start


class GpuPlacement:
    """The placement groups of a driver's workers."""

    def __init__(self) -> None:
        self.groups: dict[int, PlacementGroup] = {}
        """Number of a shared GPU -> its placement group."""
        self.members: dict[int, int] = {}
        """Slot -> the number of the shared GPU that the worker uses."""

    def options(self, start: Start, demand: Demand) -> dict[str, Any]:
        """Return the options of the worker's actor; the first worker of a placement group reserves it.

        The group of a shared GPU also holds the CPUs, so its members reserve none.
        """
        node, shared = start.place
        if shared is None:
            accelerator = {"accelerator_type": demand.accelerator} if demand.accelerator else {}
            strategy = {"scheduling_strategy": NodeAffinitySchedulingStrategy(node, soft=True)} if node else {}
            return {"num_gpus": demand.gpus, "num_cpus": demand.cpus, **strategy, **accelerator}
        if shared not in self.groups:
            kind = {f"accelerator_type:{demand.accelerator}": 0.001} if demand.accelerator else {}
            cpus = {"CPU": float(demand.cpus)} if demand.cpus else {}
            self.groups[shared] = placement_group(
                [{"GPU": 1.0, **cpus, **kind}], strategy="STRICT_PACK", _soft_target_node_id=node
            )
        self.members[start.slot] = shared
        within = PlacementGroupSchedulingStrategy(self.groups[shared], placement_group_bundle_index=0)
        return {"num_gpus": demand.gpus, "num_cpus": 0, "scheduling_strategy": within}

    def remove(self, slot: int) -> None:
        """Remove a worker that has ended; the last one of a placement group releases it."""
        number = self.members.pop(slot, None)
        if number is not None and number not in self.members.values():
            remove_placement_group(self.groups.pop(number))

    def close(self) -> None:
        for group in self.groups.values():
            remove_placement_group(group)
        self.groups, self.members = {}, {}
