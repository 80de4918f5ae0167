"""Stages a sweep's data on a node by a task of Ray that takes no CPU; all workers of the node wait for the same task."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.datasets.sources import parse_address
from orchestrator.datasets.staging import stage
from sweeps.spec import Sweep


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def stage_task(data: str, scenarios: Sequence[str], cache: str) -> Iterator[Any]:
    """Yield a line after the other during staging and finally the folder in a tuple. Raises the errors of ``staging.stage``."""
    yield from stream_lines(lambda say: str(stage(data, scenarios, cache, say)))


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
        """Stage on a node (Ray id) and print its lines; a task that is no longer waited for is killed."""
        strategy, sweep = NodeAffinitySchedulingStrategy(node, soft=False), self.sweep
        task = stage_task.options(scheduling_strategy=strategy, num_returns="streaming")
        stream = task.remote(sweep.data, sweep.scenarios, sweep.staging.cache)
        try:
            while isinstance(message := await (await anext(stream)), str):
                print(f"node {node[:6]} ({host}): {message}", file=sys.stderr, flush=True)
        except asyncio.CancelledError:
            ray.cancel(stream, force=True)
            raise
        return str(message[0])

    def close(self) -> None:
        """Cancel all staging."""
        for task in self.tasks.values():
            task.cancel()


def stream_lines(work: Callable[[Callable[[str], None]], Any]) -> Iterator[Any]:
    """Run ``work`` in a thread; yield its lines, and then its result in a tuple. Raises its errors."""
    messages: SimpleQueue[str | tuple[Any] | BaseException] = SimpleQueue()

    def run() -> None:
        try:
            messages.put((work(messages.put),))
        except BaseException as problem:
            messages.put(problem)

    Thread(target=run, daemon=True).start()
    while isinstance(message := messages.get(), str):
        yield message
    if isinstance(message, BaseException):
        raise message
    yield message
