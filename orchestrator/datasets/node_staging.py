"""Stages a sweep's data on a node by tasks of Ray that take no CPU.

A node is staged once; all workers that need its data wait for the same task.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.datasets.sources import parse_address
from orchestrator.datasets.staging import stage
from sweeps.spec import Sweep

STAGING_TIMEOUT_S = 1800.0
"""Seconds without a message after which staging fails."""
SILENCE_S = 60.0
"""Seconds after which work without a line is reported as waiting."""

Say = Callable[[str], None]


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def stage_task(data: str, scenarios: Sequence[str], cache: str) -> Iterator[tuple[str, Any]]:
    """Yield ("line", text) during staging and finally ("result", folder). Raises the errors of ``staging.stage``."""
    yield from _stream_messages(lambda say: str(stage(data, scenarios, cache, say)))


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
        sweep = self.sweep
        stream = _start_on(stage_task, node, sweep.data, sweep.scenarios, sweep.staging.cache)
        return str(
            await _result(stream, lambda line: print(f"node {node[:6]} ({host}): {line}", file=sys.stderr, flush=True))
        )

    def close(self) -> None:
        """Cancel all staging."""
        for task in self.tasks.values():
            task.cancel()


def _start_on(task: Any, node: str, *arguments: Any) -> Any:
    """Start a task on a node (Ray id), and return its stream of messages."""
    strategy = NodeAffinitySchedulingStrategy(node, soft=False)
    return task.options(scheduling_strategy=strategy, num_returns="streaming").remote(*arguments)


async def _result(stream: Any, say: Say) -> Any:
    """Report the lines of a stream and return its result; a task that is no longer waited for is killed."""
    try:
        while True:
            kind, payload = await asyncio.wait_for(_next_message(stream), STAGING_TIMEOUT_S)
            if kind == "result":
                return payload
            if kind == "line":
                say(payload)
    except (asyncio.CancelledError, TimeoutError):
        ray.cancel(stream, force=True)
        raise


async def _next_message(stream: Any) -> tuple[str, Any]:
    message: tuple[str, Any] = await (await anext(stream))
    return message


def _stream_messages(work: Callable[[Say], Any]) -> Iterator[tuple[str, Any]]:
    """Run ``work`` in a thread; yield ("line", text) per line, then ("result", value). Raises its errors."""
    messages: SimpleQueue[tuple[str, Any]] = SimpleQueue()

    def run() -> None:
        try:
            messages.put(("result", work(lambda line: messages.put(("line", line)))))
        except BaseException as problem:
            messages.put(("failed", problem))

    Thread(target=run, daemon=True).start()
    while True:
        try:
            kind, payload = messages.get(timeout=SILENCE_S)
        except Empty:
            kind, payload = "waiting", ""  # the thread works; the network's own timeouts end what hangs
        if kind == "failed":
            raise payload
        yield kind, payload
        if kind == "result":
            return
