"""Stages a sweep's data on a node by a task of Ray that takes no CPU; all workers of the node wait for the same task."""

import asyncio
import sys
from collections.abc import Sequence

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.datasets.sources import parse_address
from orchestrator.datasets.staging import stage
from sweeps.spec import Sweep


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def stage_task(data: str, scenarios: Sequence[str], cache: str) -> tuple[str, list[str]]:
    """Return the folder with the data and what staging says. Raises the errors of ``staging.stage``."""
    lines: list[str] = []
    return str(stage(data, scenarios, cache, lines.append)), lines


class NodeStaging:
    """The driver's record of nodes that have the sweep's data or are being staged."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, self.by_address = sweep, parse_address(sweep.data) is not None
        self.tasks: dict[str, asyncio.Task[str]] = {}

    async def folder(self, node: str, host: str) -> str:
        """Wait until a node has the data and return their folder; empty if the data are a local folder. Raises staging errors."""
        if not self.by_address:
            return ""
        task = self.tasks.get(node)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self.tasks[node] = asyncio.create_task(self._stage_node(node, host))
        return await asyncio.shield(task)

    async def _stage_node(self, node: str, host: str) -> str:
        """Stage on a node (Ray id) and print what it says; a task that is no longer waited for is killed."""
        strategy, sweep = NodeAffinitySchedulingStrategy(node, soft=False), self.sweep
        task = stage_task.options(scheduling_strategy=strategy).remote(sweep.data, sweep.scenarios, sweep.staging.cache)
        print(f"node {node[:6]} ({host}): looks for {sweep.data}", file=sys.stderr, flush=True)
        try:
            folder, lines = await task
        except asyncio.CancelledError:
            ray.cancel(task, force=True)
            raise
        for line in lines:
            print(f"node {node[:6]} ({host}): {line}", file=sys.stderr, flush=True)
        return str(folder)

    def close(self) -> None:
        """Cancel all staging."""
        for task in self.tasks.values():
            task.cancel()
