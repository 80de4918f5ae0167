"""The load of every node of the cluster while a sweep plays; nodes that do not answer are left out.

Idle GPUs are the main waste of a sweep on a cluster, so the mean utilization of all GPUs is a metric of its own. MLflow's own
monitor measures only the machine that its process runs on (docs/decisions/0016-tracking.md).
"""

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from statistics import fmean
from time import monotonic

from orchestrator.tracking.cell_metrics import interval

SAMPLE_INTERVAL_S = 30.0
"""Seconds between two samples at the start of a sweep, unless MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL is set."""
SAMPLE_TIMEOUT_S = 10.0
"""Seconds that a node has to answer; a node that still owes an answer is not asked again."""
ENABLED_VARIABLE, INTERVAL_VARIABLE = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL"
"""MLflow's own variables; ``false`` in the first turns system metrics off."""
MEAN_GPU_UTILIZATION = "system/gpus_utilization_percentage"
"""The mean over every GPU that answered."""

Load = Mapping[str, float]
"""Metric -> value (``actors.node.host_metrics.measure_load``)."""


class SystemMetrics:
    """Samples the nodes of a cluster: ``hosts`` maps nodes to hosts, ``node_load`` returns a node's load or raises."""

    def __init__(self, hosts: Callable[[], Mapping[str, str]], node_load: Callable[[str], Awaitable[Load]]) -> None:
        self.hosts, self.node_load = hosts, node_load
        self._requests: dict[str, asyncio.Task[Load]] = {}

    async def run(self, publish: Callable[[Load], None]) -> None:
        """Publish each sample until cancelled; return at once if the user has turned system metrics off."""
        setting, began = os.environ.get(INTERVAL_VARIABLE), monotonic()
        while os.environ.get(ENABLED_VARIABLE, "").lower() != "false":
            await asyncio.sleep(_seconds(setting) or interval(SAMPLE_INTERVAL_S, monotonic() - began))
            if metrics := await self.sample():
                publish(metrics)

    async def sample(self, timeout: float = SAMPLE_TIMEOUT_S) -> dict[str, float]:
        """Return ``system/HOST/METRIC`` -> value for the nodes that answer in time."""
        hosts = self.hosts()
        self._requests = {node: task for node, task in self._requests.items() if not task.done()}
        requests = {node: asyncio.ensure_future(self.node_load(node)) for node in hosts if node not in self._requests}
        for task in requests.values():
            task.add_done_callback(_retrieve_error)
        self._requests |= requests
        if requests:
            await asyncio.wait(requests.values(), timeout=timeout)
        loads = {node: task.result() for node, task in requests.items() if task.done() and task.exception() is None}
        names = _display_names(hosts)
        metrics = {
            f"system/{names[node]}/{name}": value for node, load in loads.items() for name, value in load.items()
        }
        utilization = [
            value
            for load in loads.values()
            for name, value in load.items()
            if name.startswith("gpu_") and name.endswith("_utilization_percentage")
        ]
        return {**metrics, MEAN_GPU_UTILIZATION: fmean(utilization)} if utilization else metrics


def _retrieve_error(task: asyncio.Task[Load]) -> None:
    """Retrieve the error of a node that failed after its time-out: asyncio prints a traceback of any unretrieved error."""
    if not task.cancelled():
        task.exception()


def _display_names(hosts: Mapping[str, str]) -> dict[str, str]:
    """Return node -> its host, with the start of the node's id if a host has several nodes."""
    counts = Counter(hosts.values())
    return {node: host if counts[host] == 1 else f"{host}-{node[:6]}" for node, host in hosts.items()}


def _seconds(setting: str | None) -> float | None:
    try:
        return max(1.0, float(setting)) if setting else None
    except ValueError:
        return None
