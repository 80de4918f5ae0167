"""Connects to Ray, reads what its cluster has and is doing, and reserves GPUs that workers share.

No other module asks Ray about nodes. What the scheduler counts as one GPU is one for Ray, too, whatever order workers stop
and start in: a shared GPU is a placement group, held until the last of its workers has gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from actors.printable import one_line
from actors.worker import busy, printed
from orchestrator.scheduling.commands import Demand, Start
from orchestrator.scheduling.nodes import Node
from sweeps.load import SweepError

CONNECT_PAUSES_S = (0.0, 2.0, 5.0)
"""Seconds before each try to reach or start Ray."""
CONNECT_TIMEOUT_S = 5.0
"""Seconds that a cluster's port may take to answer."""
TOLD_INTERVAL_S = 10.0
"""Seconds between two lines that say how long Ray has been starting."""


def capacity() -> tuple[float, int]:
    """CPUs and GPUs of the connected cluster."""
    resources = ray.cluster_resources()
    return float(resources.get("CPU", 1)), int(resources.get("GPU", 0))


def gpu_nodes() -> tuple[Node, ...]:
    """The connected cluster's living nodes that have GPUs, by name, with the kind that Ray found there."""
    found = []
    for node in ray.nodes():
        resources = node["Resources"]
        kinds = [name.partition(":")[2] for name in resources if name.startswith("accelerator_type:")]
        if node["Alive"] and resources.get("GPU", 0) >= 1:
            found.append(Node(node["NodeID"], int(resources["GPU"]), kinds[0] if kinds else ""))
    return tuple(sorted(found, key=lambda node: node.name))


def here() -> str:
    """Ray's name of the node that this process is on."""
    return str(ray.get_runtime_context().get_node_id())


@contextlib.contextmanager
def watching_raylet(ended: Callable[[], None]) -> Iterator[None]:
    """Call ``ended`` in the running loop when Ray's process on this node, its raylet, ends before the block does.

    Some seconds later Ray ends every process that has joined by this node, this one too.
    """
    handle = _raylet()
    if handle is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def heard() -> None:
        loop.remove_reader(handle)
        ended()

    loop.add_reader(handle, heard)
    try:
        yield
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _raylet() -> int | None:
    """A handle that can be read once the raylet of this node has ended; None where the system has no such handles."""
    name = next(node["RayletSocketName"] for node in ray.nodes() if node["NodeID"] == here())
    try:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(name)
            pid, _, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return os.pidfd_open(pid)
    except (OSError, AttributeError):  # another kernel, or a raylet in another container
        return None


async def printed_on(node: str, streams: Sequence[str]) -> str:
    """The kept part of what a worker printed, read by a task on its node; raises RayError when that node is gone."""
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return str(await printed.options(scheduling_strategy=there).remote(list(streams)))


def hosts() -> dict[str, str]:
    """Living nodes -> their hosts."""
    return {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}


async def busy_on(node: str) -> dict[str, float]:
    """How busy a node is, measured by a task there; raises RayError when it is gone."""
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    return dict(await busy.options(scheduling_strategy=there).remote())


class ClusterError(SweepError):
    """Why there is no Ray to run on; its text is the whole message."""


def connect(say: Callable[[str], None] = lambda line: None) -> None:
    """Join the cluster that RAY_ADDRESS names, or start one on this machine without dashboard.

    ``say`` hears what goes on and how long it takes. Raises ClusterError where that fails each time that it is tried.
    """
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    address = os.environ.get("RAY_ADDRESS", "")
    if ray.is_initialized():
        return
    with told_how_long(f"joining Ray at {address}" if address else "starting Ray", say):
        _tried(address)


@contextlib.contextmanager
def told_how_long(what: str, say: Callable[[str], None], interval: float = TOLD_INTERVAL_S) -> Iterator[None]:
    """Say what begins, every ``interval`` seconds that it goes on, and how long it took in all."""
    ended, began = threading.Event(), time.monotonic()

    def tell() -> None:
        while not ended.wait(interval):
            say(f"{what} ... {time.monotonic() - began:.0f} s")

    say(f"{what} ...")
    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
        say(f"{what} took {time.monotonic() - began:.1f} s")
    finally:
        ended.set()
        teller.join()


def _tried(address: str) -> None:
    why = ""
    for pause in CONNECT_PAUSES_S:
        time.sleep(pause)
        try:
            _init(address)
            return
        except (
            Exception
        ) as problem:  # Ray raises what it likes: ConnectionError, RuntimeError, ValueError, errors of its own
            why = one_line(str(problem) or type(problem).__name__)[:300]
            with contextlib.suppress(Exception):
                ray.shutdown()
    if address:
        raise ClusterError(
            f"no Ray cluster answers at RAY_ADDRESS={address} ({why}); start it with `ray start --head`, or unset RAY_ADDRESS"
            " to play on this machine alone"
        )
    raise ClusterError(f"Ray does not start on this machine ({why}); its logs are in /tmp/ray/session_latest/logs")


def _init(address: str) -> None:
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if not address:
        ray.init(address="local", include_dashboard=False, num_cpus=os.cpu_count() or 1, **common)
        return
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdigit():  # Ray itself takes a minute to find that nobody listens
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT_S).close()
    ray.init(**common)


class SharedGpus:
    """Where Ray puts workers: whole GPUs by node, parts of a GPU in the placement group of the GPU that they share."""

    def __init__(self) -> None:
        self.groups: dict[int, PlacementGroup] = {}
        self.members: dict[int, int] = {}
        """Worker -> the shared GPU that it has a part of."""

    def options(self, start: Start, demand: Demand) -> dict[str, Any]:
        """Options of the worker's actor; its shared GPU is reserved if it is the first there."""
        if start.shared is not None:
            return self._part(start, demand)
        kind = {"accelerator_type": demand.accelerator} if demand.accelerator else {}
        place = {"scheduling_strategy": NodeAffinitySchedulingStrategy(start.node, soft=True)} if start.node else {}
        return {"num_gpus": demand.gpus, "num_cpus": demand.cpus, **place, **kind}

    def left(self, slot: int) -> None:
        """A worker has gone; the GPU of the last one is given back."""
        shared = self.members.pop(slot, None)
        if shared is not None and shared not in self.members.values():
            remove_placement_group(self.groups.pop(shared))

    def close(self) -> None:
        """Give every GPU back."""
        for group in self.groups.values():
            remove_placement_group(group)
        self.groups, self.members = {}, {}

    def _part(self, start: Start, demand: Demand) -> dict[str, Any]:
        """Options in the group of a shared GPU, which holds the CPUs beside it: a member takes none of its own."""
        assert start.shared is not None
        if start.shared not in self.groups:
            bundle = {"GPU": 1.0, "CPU": float(demand.cpus)}
            if demand.accelerator:
                bundle[f"accelerator_type:{demand.accelerator}"] = 0.001
            self.groups[start.shared] = placement_group(
                [{name: amount for name, amount in bundle.items() if amount}],
                strategy="STRICT_PACK",
                _soft_target_node_id=start.node,
            )
        self.members[start.slot] = start.shared
        within = PlacementGroupSchedulingStrategy(self.groups[start.shared], placement_group_bundle_index=0)
        return {"num_gpus": demand.gpus, "num_cpus": 0, "scheduling_strategy": within}
