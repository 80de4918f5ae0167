"""Connects to Ray, and reads what its cluster has and is doing.

No other module asks Ray about nodes.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.printable import one_line
from actors.worker import busy, printed
from orchestrator.scheduling.nodes import Node
from sweeps.load import SweepError

CONNECT_PAUSES_S = (0.0, 2.0, 5.0)
"""Seconds before each try to reach or start Ray."""
CONNECT_TIMEOUT_S = 5.0
"""Seconds that a cluster's port may take to answer."""


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


def connect() -> None:
    """Join the cluster that RAY_ADDRESS names, or start one on this machine without dashboard.

    Raises ClusterError where that fails each time that it is tried.
    """
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    address, why = os.environ.get("RAY_ADDRESS", ""), ""
    if ray.is_initialized():
        return
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
