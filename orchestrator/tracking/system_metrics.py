"""How busy the cluster's nodes are while a sweep plays: every node is asked now and then, and one that is silent is left out.

An idle GPU is what a sweep on a cluster wastes, so the mean over all of them is a measure of its own.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from statistics import fmean
from time import monotonic

from orchestrator.tracking.cell_metrics import interval

SAMPLE_INTERVAL_S = 30.0
"""Seconds between two rounds at first, unless MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL says otherwise."""
SAMPLE_TIMEOUT_S = 10.0
"""Seconds that a node may take to answer a round; it is not asked again before it has."""
ENABLED_VARIABLE, INTERVAL_VARIABLE = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL"
"""MLflow's own: the first turns the rounds off when it is ``false``."""
MEAN_GPU_UTILIZATION = "system/gpus_utilization_percentage"
"""The mean over every GPU that answered."""

Load = Mapping[str, float]
"""Metric -> value (``actors.host_metrics.load``)."""


class SystemMetrics:
    """Asks the nodes of a cluster; ``hosts`` gives node -> its host, ``ask`` a node's load and raises where it is gone."""

    def __init__(self, hosts: Callable[[], Mapping[str, str]], ask: Callable[[str], Awaitable[Load]]) -> None:
        self.hosts, self.ask = hosts, ask
        self._asked: dict[str, asyncio.Task[Load]] = {}

    async def run(self, publish: Callable[[Load], None]) -> None:
        """Publish each round's measures, until cancelled; returns at once where the user wants none."""
        setting, began = os.environ.get(INTERVAL_VARIABLE), monotonic()
        while os.environ.get(ENABLED_VARIABLE, "").lower() != "false":
            await asyncio.sleep(_seconds(setting) or interval(SAMPLE_INTERVAL_S, monotonic() - began))
            if measures := await self.sample():
                publish(measures)

    async def sample(self, timeout: float = SAMPLE_TIMEOUT_S) -> dict[str, float]:
        """``system/HOST/METRIC`` -> value, of the nodes that answer in time."""
        hosts = self.hosts()
        self._asked = {node: task for node, task in self._asked.items() if not task.done()}
        asked = {node: asyncio.ensure_future(self.ask(node)) for node in hosts if node not in self._asked}
        for task in asked.values():
            task.add_done_callback(_read)
        self._asked |= asked
        if asked:
            await asyncio.wait(asked.values(), timeout=timeout)
        answers = {n: task.result() for n, task in asked.items() if task.done() and task.exception() is None}
        names = _names(hosts)
        found = {f"system/{names[n]}/{metric}": value for n, load in answers.items() for metric, value in load.items()}
        busy = [
            value
            for load in answers.values()
            for metric, value in load.items()
            if metric.startswith("gpu_") and metric.endswith("_utilization_percentage")
        ]
        return {**found, MEAN_GPU_UTILIZATION: fmean(busy)} if busy else found


def _read(task: asyncio.Task[Load]) -> None:
    """A node that goes away after its time to answer is no news: asyncio prints a traceback of errors that nobody read."""
    if not task.cancelled():
        task.exception()


def _names(hosts: Mapping[str, str]) -> dict[str, str]:
    """Node -> what it is called: its host, with the start of its id where a host has several nodes."""
    times = Counter(hosts.values())
    return {node: host if times[host] == 1 else f"{host}-{node[:6]}" for node, host in hosts.items()}


def _seconds(setting: str | None) -> float | None:
    """The user's setting, where it is a number."""
    try:
        return max(1.0, float(setting)) if setting else None
    except ValueError:
        return None
