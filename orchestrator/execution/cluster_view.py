"""The nodes of the cluster, the GPUs that other jobs hold on them, and the node on which Ray puts each of our workers.

Ray's view of free resources is up to a second old, so a GPU counts as held by others once two readings in a row agree.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import ray
from ray._private.state import actors, available_resources_per_node
from ray._private.worker import global_worker
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from orchestrator.scheduling.commands import Demand, Start
from orchestrator.scheduling.nodes import Node

ROUNDING = 1e-3
"""A smaller part of a GPU is taken for a rounding error; Ray counts in steps of 1e-4."""


Holding = tuple[str, float, float]
"""A node, and its GPUs and CPUs that are reserved for a worker of ours."""


@dataclass
class ClusterView:
    """The nodes and CPUs that this sweep may use."""

    nodes: tuple[Node, ...] = ()
    cpus: float = 1.0
    """CPUs that no other job holds."""
    draining: frozenset[str] = frozenset()
    """Nodes that Ray drains: no worker starts there, and the workers there take no new lease."""
    _readings: dict[str, int] | None = None
    """Node -> GPUs that other jobs seemed to hold at the last reading; None before the first, which needs no confirmation."""
    _held_cpus: float = math.inf
    """CPUs that other jobs seemed to hold at the last reading."""

    def read(self, holdings: Iterable[Holding]) -> bool:
        """Read the cluster; return True if its nodes, what other jobs hold of them, or the draining nodes have changed.

        ``holdings`` are those of all our placed workers, including workers that are ending.
        """
        own_gpus, own_cpus = defaultdict[str, float](float), 0.0
        for name, gpus, cpus in holdings:
            own_gpus[name] += gpus
            own_cpus += cpus
        nodes, free = gpu_nodes(), available_resources_per_node()
        not_ours = {node.name: node.gpus - own_gpus[node.name] - ROUNDING for node in nodes if node.name in free}
        readings = {name: max(0, math.ceil(gpus - free[name].get("GPU", 0.0))) for name, gpus in not_ours.items()}
        cpus = float(ray.cluster_resources().get("CPU", 1))
        held_cpus = max(0.0, cpus - sum(resources.get("CPU", 0.0) for resources in free.values()) - own_cpus)
        before = self.nodes, self.cpus, self.draining
        earlier = readings if self._readings is None else self._readings
        held = {name: min(gpus, earlier.get(name, 0)) for name, gpus in readings.items()}
        self.nodes = tuple(node._replace(held=held.get(node.name, 0)) for node in nodes)
        self.cpus = cpus - min(held_cpus, self._held_cpus)
        self._readings, self._held_cpus, self.draining = readings, held_cpus, draining_nodes()
        return before != (self.nodes, self.cpus, self.draining)

    @property
    def usable_gpus(self) -> int:
        """The GPUs that no other job holds, without those of draining nodes."""
        return sum(node.gpus - node.held for node in self.nodes if node.name not in self.draining)


def gpu_nodes() -> tuple[Node, ...]:
    """Return the cluster's living nodes with GPUs, sorted by name, with their CPUs and the kind of GPU that Ray detected."""
    nodes = []
    for node in ray.nodes():
        resources = node["Resources"]
        kinds = (name.partition(":")[2] for name in resources if name.startswith("accelerator_type:"))
        if node["Alive"] and (gpus := int(resources.get("GPU", 0))):
            nodes.append(Node(node["NodeID"], gpus, next(kinds, ""), cpus=resources.get("CPU", 0.0)))
    return tuple(sorted(nodes, key=lambda node: node.name))


def draining_nodes() -> frozenset[str]:
    """Return the nodes that Ray drains: a cloud takes them back, the autoscaler ends them, or ``ray drain-node`` named them."""
    return frozenset(global_worker.gcs_client.get_draining_nodes(timeout=30.0))


def node_hosts() -> dict[str, str]:
    """Return living node -> its host name."""
    return {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}


def placed_node(actor: Any) -> str:
    """Return the node whose GPUs and CPUs Ray has given to an actor; empty while the actor waits for them.

    The address of a waiting actor already names the node that it asks, but has no port, because no process runs yet.
    """
    address = actors(actor._actor_id.hex()).get("Address", {})
    return str(address["NodeID"]) if address.get("Port") else ""


class GpuPlacement:
    """Where Ray puts a driver's workers: on a node, or in the placement group of a shared GPU.

    A group exists until the last of its workers has ended, so the scheduler and Ray count the same GPUs in any order of starts
    and stops.
    """

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
            bundles = [{"GPU": 1.0, **cpus, **kind}]
            self.groups[shared] = placement_group(bundles, strategy="STRICT_PACK", _soft_target_node_id=node)
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
