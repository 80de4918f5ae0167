"""Prepares the weights of models that wait for GPUs: downloads them, and reads them into free memory, while others play."""

import asyncio
import logging
import time
from collections.abc import Sequence

from actors.text.printable import printable
from orchestrator.datasets.node_staging import prepare_on_node
from orchestrator.execution.worker_pool import WorkerPool
from orchestrator.scheduling.likely_starts import likely_starts
from orchestrator.scheduling.placement import Placement
from sweeps.spec import ModelSpec

INTERVAL_S = 5.0
"""Seconds between two looks at which models wait."""

log = logging.getLogger(__name__)


class WeightsAhead:
    """Prepares on each node the group that will probably start there next: one at a time, and each only once."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._looked_at = float("-inf")
        self._begun: set[tuple[str, str]] = set()
        """Node, group."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """Node -> its last preparation."""

    def prepare(self, schedule: Placement) -> None:
        """Begin a preparation on each idle node; do nothing within ``INTERVAL_S`` of the last call that looked."""
        if time.monotonic() - self._looked_at < INTERVAL_S:
            return
        self._looked_at = time.monotonic()
        next_groups = {start.node: start.group for start in reversed(likely_starts(schedule))}
        for node, group in next_groups.items():
            task = self._tasks.get(node)
            if (node, group) in self._begun or (task is not None and not task.done()):
                continue
            self._begun.add((node, group))
            if pinned := [self._pool.weights.pin(model) for model in self._pool.models_of(group) if model.is_local]:
                self._tasks[node] = asyncio.create_task(_prepare(node, pinned))

    def close(self) -> None:
        """Cancel what is in progress."""
        for task in self._tasks.values():
            task.cancel()


async def _prepare(node: str, models: Sequence[ModelSpec]) -> None:
    await prepare_on_node(node, models, lambda line: log.info("node %s prepares %s", node[:6], printable(line)))
