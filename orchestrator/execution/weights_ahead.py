"""Prepares the weights of models that wait for GPUs while others play: downloaded, and read into memory that is free."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ray.exceptions import RayError

from orchestrator.datasets.node_staging import prepare_on_node
from orchestrator.scheduling.likely_starts import likely_starts
from orchestrator.scheduling.placement import Placement
from sweeps.spec import ModelSpec

log = logging.getLogger(__name__)


class WeightsAhead:
    """One preparation per node at a time, of the group that will probably start there next; each only once."""

    def __init__(self, models_of: Callable[[str], Sequence[ModelSpec]]) -> None:
        """``models_of`` returns the entries that a worker of a group loads."""
        self._models_of = models_of
        self._begun: set[tuple[str, str]] = set()
        """Node, group."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Node -> its last preparation."""

    def prepare(self, schedule: Placement) -> None:
        """Begin on nodes that prepare nothing, with the model that will probably start there next."""
        next_starts = {start.node: start for start in reversed(likely_starts(schedule))}
        for start in next_starts.values():
            task = self._tasks.get(start.node)
            if (start.node, start.group) in self._begun or (task is not None and not task.done()):
                continue
            self._begun.add((start.node, start.group))
            if models := [
                model for model in self._models_of(start.group) if model.backend not in ("builtin", "openai")
            ]:
                self._tasks[start.node] = asyncio.create_task(self._prepare(start.node, start.group, models))

    async def _prepare(self, node: str, group: str, models: Sequence[ModelSpec]) -> None:
        try:
            await prepare_on_node(node, models, lambda line: log.info("node %s prepares %s", node[:6], line))
        except RayError as problem:  # the worker itself will say what is wrong
            log.warning("node %s cannot prepare %s: %s", node[:6], group, str(problem).strip().splitlines()[-1])

    def close(self) -> None:
        """Cancel what is in progress."""
        for task in self._tasks.values():
            task.cancel()
