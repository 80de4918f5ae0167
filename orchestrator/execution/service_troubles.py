"""Why services answer nothing now, as their workers say; shown beside a rate of zero, and logged once."""

import logging
from collections.abc import Container, Coroutine
from typing import Any, Protocol

from orchestrator.execution.worker_pool import WorkerHandle, WorkerPool

log = logging.getLogger(__name__)


class Spawn(Protocol):
    """Runs work that belongs to a worker; an error of Ray in it is a loss of that worker."""

    def __call__(self, slot: int, work: Coroutine[Any, Any, None]) -> None: ...


class ServiceTroubles:
    """The present troubles of the groups whose models are services."""

    def __init__(self, pool: WorkerPool, spawn: Spawn) -> None:
        self._pool, self._spawn = pool, spawn
        self._asked: set[int] = set()
        """Workers that have not answered yet."""
        self.by_group: dict[str, str] = {}

    def ask(self, ready: Container[int]) -> None:
        """Ask each ready worker of a service, unless it has not answered yet."""
        for slot, worker in list(self._pool.handles.items()):
            is_service = any(model.backend == "openai" for model in worker.models)
            if is_service and slot in ready and slot not in self._asked:
                self._asked.add(slot)
                self._spawn(slot, self._ask(slot, worker))

    async def _ask(self, slot: int, worker: WorkerHandle) -> None:
        trouble = await worker.actor.describe_trouble.remote()
        if trouble and not self.by_group.get(worker.group):
            log.warning("%s: %s", worker.group, trouble)
        self.by_group[worker.group] = trouble
        self._asked.discard(slot)
