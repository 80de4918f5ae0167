"""A simulated Ray: nodes, placement, actors, and what goes wrong with them, from one seed.

It has the calls of Ray that the orchestrator makes and no others.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.simulation.schedule import Event
from tests.simulation.simulated_actor import ActorHandle, ActorProcess, current_actor

NODE_LOSS_S = (3.0, 12.0)
"""Seconds after which Ray notices the death of a node."""
VIEW_S = 1.0
"""Age that Ray's view of free resources may have."""


@dataclass
class SimulatedNode:
    """A machine."""

    name: str
    gpus: float
    cpus: float
    alive: bool = True
    known_alive: bool = True
    """What Ray says; it notices a death late."""


@dataclass(frozen=True)
class PlacementGroup:
    """GPUs and CPUs reserved on one node for the members of a shared GPU."""

    actor: ActorProcess


class SimulatedRay:
    """The cluster, and the functions of the module ``ray``."""

    def __init__(self, chance: Random, nodes: Sequence[SimulatedNode]) -> None:
        self.chance, self.all_nodes = chance, list(nodes)
        self.actors: list[ActorProcess] = []
        self.running: list[ActorProcess] = []
        """Actors with a process, in the order of their start."""
        self.items = 0
        """Items of streams sent so far; the sets below name items by this number."""
        self.doubled: set[int] = set()
        self.lost_objects: set[int] = set()
        self.late: dict[int, float] = {}
        self.sent = Counter[tuple[str, int]]()
        """Method and item -> how often workers have sent its result."""
        self.faults: list[str] = []
        """What workers did wrong."""
        self._free_view: tuple[float, dict[str, dict[str, float]]] = (-VIEW_S, {})

    @staticmethod
    def later(seconds: float, action: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_later(seconds, action)

    # -- the cluster ---------------------------------------------------------------------------------------------------
    def create(self, build: Callable[[], Any], options: Mapping[str, Any], is_group: bool = False) -> ActorProcess:
        actor = ActorProcess(self, len(self.actors) + 1, build, options, is_group)
        self.actors.append(actor)
        self.place_waiting()
        return actor

    def place_waiting(self) -> None:
        """Give resources to the actors that wait for them, in the order of their requests."""
        for actor in self.actors:
            if actor.node is None and not actor.dead:
                actor.node = self._find_node(actor)
                if actor.node is not None:
                    actor.begin()

    def free(self, node: SimulatedNode) -> tuple[float, float]:
        """Return a node's free GPUs and CPUs; a member of a placement group uses the group's."""
        holders = [a for a in self.actors if a.node is node and not a.dead and self._group(a) is None]
        return node.gpus - sum(a.gpus for a in holders), node.cpus - sum(a.cpus for a in holders)

    def _group(self, actor: ActorProcess) -> ActorProcess | None:
        group = getattr(actor.options.get("scheduling_strategy"), "placement_group", None)
        return None if group is None else group.actor

    def _find_node(self, actor: ActorProcess) -> SimulatedNode | None:
        if (group := self._group(actor)) is not None:
            return None if group.dead else group.node
        alive = [node for node in self.all_nodes if node.alive and node.known_alive]
        wanted = getattr(actor.options.get("scheduling_strategy"), "node_id", actor.options.get("near", ""))
        preferred = [node for node in alive if node.name == wanted and node.gpus >= actor.gpus]
        for node in preferred or alive:
            gpus, cpus = self.free(node)
            if gpus >= actor.gpus - 1e-9 and cpus >= actor.cpus - 1e-9:
                return node
        return None

    def kill_node(self, node: SimulatedNode) -> None:
        """Let a machine fail: its actors end at once, and Ray notices some seconds later."""
        if not node.alive:
            return
        node.alive, notice = False, self.chance.uniform(*NODE_LOSS_S)
        for actor in self.actors:
            if actor.node is node:
                actor.end(notice)

        def forget() -> None:
            node.known_alive = False

        self.later(notice, forget)

    def join_node(self, node: SimulatedNode) -> None:
        """Let a new machine join in place of a failed one."""
        if not node.alive and not node.known_alive:
            self.all_nodes.append(SimulatedNode(f"{len(self.all_nodes) + 1:056x}", node.gpus, node.cpus))
            self.place_waiting()

    # -- the functions of the module ``ray`` ---------------------------------------------------------------------------
    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "NodeID": node.name,
                "Alive": node.known_alive,
                "NodeManagerHostname": f"host-{node.name[-2:]}",
                "NodeManagerAddress": "127.0.0.1",
                "RayletSocketName": "",
                "Resources": {"CPU": node.cpus, **({"GPU": node.gpus} if node.gpus else {})},
            }
            for node in self.all_nodes
        ]

    def cluster_resources(self) -> dict[str, float]:
        alive = [node for node in self.all_nodes if node.known_alive]
        return {"CPU": sum(node.cpus for node in alive), "GPU": sum(node.gpus for node in alive)}

    def put(self, value: Any) -> Any:
        return value

    def kill(self, handle: ActorHandle) -> None:
        handle._process.end()

    def get_gpu_ids(self) -> list[int]:
        return []

    def get_runtime_context(self) -> _RuntimeContext:
        return _RuntimeContext(self)

    # -- what else the orchestrator reads from Ray -----------------------------------------------------------------------
    def describe_actor(self, actor_id: str) -> dict[str, Any]:
        actor = self.actors[int(actor_id, 16) - 1]
        node = actor.node.name if actor.node else ""
        return {"Address": {"NodeID": node, "Port": 1 if actor.instance is not None and not actor.dead else 0}}

    def available_resources(self) -> dict[str, dict[str, float]]:
        """Return node -> its free resources, as old as Ray's view may be."""
        now = asyncio.get_running_loop().time()
        if now - self._free_view[0] >= VIEW_S:
            known = [node for node in self.all_nodes if node.known_alive]
            view = {n.name: dict(zip(("GPU", "CPU"), self.free(n), strict=True)) for n in known}
            self._free_view = now, view
        return self._free_view[1]

    def placement_group(self, bundles: Sequence[Mapping[str, float]], strategy: str, _soft_target_node_id: str) -> Any:
        (bundle,) = bundles
        options = {"num_gpus": bundle.get("GPU", 0), "num_cpus": bundle.get("CPU", 0), "near": _soft_target_node_id}
        return PlacementGroup(self.create(lambda: None, options, is_group=True))

    def remove_placement_group(self, group: PlacementGroup) -> None:
        for actor in self.actors:
            if self._group(actor) is group.actor:
                actor.end()
        group.actor.end()


@dataclass(frozen=True)
class _RuntimeContext:
    ray: SimulatedRay

    def get_node_id(self) -> str:
        """Return the node of the actor that asks, or the driver's."""
        actor = current_actor.get(None)
        node = actor.node if actor is not None and actor.node is not None else self.ray.all_nodes[0]
        return node.name

    def get_actor_id(self) -> str:
        return f"{current_actor.get().number:032x}"


def build_cluster(shape: Sequence[tuple[float, float]], chance: Random, events: Sequence[Event]) -> SimulatedRay:
    """Return a cluster of nodes with these GPUs and CPUs, with the faults of its messages."""
    ray = SimulatedRay(
        chance, [SimulatedNode(f"{n:056x}", gpus, cpus) for n, (gpus, cpus) in enumerate(shape, start=1)]
    )
    ray.doubled = {int(e.at) for e in events if e.kind == "doubled item"}
    ray.lost_objects = {int(e.at) for e in events if e.kind == "lost object"}
    ray.late = {int(e.at): e.value for e in events if e.kind == "late item"}
    return ray
