"""Stages a sweep's data on each node with one zero-CPU Ray actor, and brings models' weights there with one task.

A node is staged once: every worker that needs the data there waits for the same task.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from orchestrator.datasets.sources import address
from orchestrator.datasets.staging import stage
from orchestrator.datasets.weights import fetch_all
from sweeps.spec import ModelSpec, Sweep

STAGING_TIMEOUT_S = 1800.0
"""Seconds a staging node may say nothing; what arrives or is unpacked says so every five."""


@ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0, max_concurrency=1)
class Stager:
    """Stages the data on the node it runs on."""

    def stage(self, data: str, scenarios: Sequence[str], cache: str) -> Iterator[tuple[str, str]]:
        """("says", a line) as it goes on, and at last ("lies", the folder). Raises what ``staging.stage`` raises."""
        yield from _told(lambda say: str(stage(data, scenarios, cache, say)))


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def fetched(models: Sequence[ModelSpec]) -> Iterator[tuple[str, Any]]:
    """("says", a line) as weights arrive on the node it runs on, and at last ("lies", the models that failed)."""
    yield from _told(lambda say: fetch_all(models, say))


async def fetch_on_nodes(
    nodes: Mapping[str, str], models: Sequence[ModelSpec], say: Callable[[str], None]
) -> list[str]:
    """Bring weights to each node (its Ray id -> its host), side by side; answers what failed, as ``MODEL on HOST``."""

    async def on(node: str, host: str) -> list[str]:
        place = NodeAffinitySchedulingStrategy(node, soft=False)
        stream = fetched.options(scheduling_strategy=place, num_returns="streaming").remote(list(models))
        try:
            while True:
                kind, what = await _next(stream)
                if kind == "lies":
                    return [f"{name} on {host}" for name in what]
                say(f"node {node[:6]} ({host}): {what}")
        except RayError as problem:
            say(f"node {node[:6]} ({host}) is lost: {str(problem).strip().splitlines()[-1]}")
            return [f"{model.name} on {host}" for model in models]

    return [name for failed in await asyncio.gather(*(on(*node) for node in nodes.items())) for name in failed]


def _told(work: Callable[[Callable[[str], None]], Any]) -> Iterator[tuple[str, Any]]:
    """("says", a line) for each line of ``work``, which runs in a thread, then ("lies", its result); raises what it raises."""
    messages: SimpleQueue[tuple[str, Any]] = SimpleQueue()

    def run() -> None:
        try:
            messages.put(("lies", work(lambda line: messages.put(("says", line)))))
        except BaseException as problem:
            messages.put(("failed", problem))

    Thread(target=run, daemon=True).start()
    while True:
        kind, what = messages.get()
        if kind == "failed":
            raise what
        yield kind, what
        if kind == "lies":
            return


class NodeStaging:
    """The driver's side: which nodes have the sweep's data, or are being staged."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep, self.by_address = sweep, address(sweep.data) is not None
        self.tasks: dict[str, asyncio.Task[str]] = {}
        self.actors: dict[str, Any] = {}

    async def folder(self, node: str, host: str) -> str:
        """Where the data lie on a node, once they do; empty where the sweep names a folder. Raises why they cannot."""
        if not self.by_address:
            return ""
        known = self.tasks.get(node)
        if known is None or (known.done() and (known.cancelled() or known.exception() is not None)):
            known = self.tasks[node] = asyncio.create_task(self._staged(node, host))
        return await asyncio.shield(known)

    async def _staged(self, node: str, host: str) -> str:
        place = NodeAffinitySchedulingStrategy(node, soft=False)
        actor = self.actors[node] = Stager.options(scheduling_strategy=place).remote()  # type: ignore[attr-defined]
        stream = actor.stage.options(num_returns="streaming").remote(
            self.sweep.data, self.sweep.scenarios, self.sweep.staging.cache
        )
        try:
            while True:
                kind, what = await asyncio.wait_for(_next(stream), STAGING_TIMEOUT_S)
                if kind == "lies":
                    return str(what)
                print(f"node {node[:6]} ({host}): {what}", file=sys.stderr, flush=True)
        finally:
            self._done(node)

    def close(self) -> None:
        """Nobody waits any more."""
        for task in self.tasks.values():
            task.cancel()
        for node in list(self.actors):
            self._done(node)

    def _done(self, node: str) -> None:
        if (actor := self.actors.pop(node, None)) is not None:
            ray.kill(actor)


async def _next(stream: Any) -> tuple[str, Any]:
    found: tuple[str, Any] = await (await anext(stream))
    return found
