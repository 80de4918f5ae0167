"""Why a worker was lost or a service answers nothing, in one line, and the clock that counts the silence of workers."""

import logging
import time
from collections.abc import Container, Coroutine
from typing import Any, Protocol

from ray.exceptions import RayTaskError

from actors.engine.backend import BackendError, ModelStopped
from actors.node.process_output import WorkerAddress
from actors.text.printable import one_line
from orchestrator.execution.worker_pool import WorkerHandle, WorkerPool

FATAL_START_ERRORS = (ValueError, OSError, ImportError)
"""Errors of loading that any other worker would meet too: an unknown model, a missing package, a refused option."""
STANDSTILL_S = 5.0
"""The driver reads the clock twice a second; a gap of more seconds means that the driver itself was stopped (SIGSTOP)."""

log = logging.getLogger(__name__)


def last_line(problem: BaseException | None) -> str:
    """Return the last line of an error, short enough for a table; for our own errors without the name of the class."""
    if isinstance(problem, RayTaskError) and isinstance(problem.cause, (BackendError, *FATAL_START_ERRORS)):
        problem = problem.cause
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return one_line(lines[-1] if lines else type(problem).__name__)[:500]


def loss_reason(problem: BaseException | None, address: WorkerAddress | None) -> str:
    """Return the error in one line; if the worker died without raising, also name the file with its output."""
    if isinstance(problem, RayTaskError | ModelStopped) or address is None or not address.streams:
        return last_line(problem)
    return f"{last_line(problem)} (its output: {address.host}:{address.streams[-1]})"


class AttemptClock:
    """The seconds since its creation, without the time for which this process was stopped."""

    def __init__(self) -> None:
        self._began = self._read_at = time.monotonic()

    def now(self) -> float:
        """Return the seconds so far."""
        reading = time.monotonic()
        if (stopped_for := reading - self._read_at) > STANDSTILL_S:
            log.warning("the driver was stopped for %.0f s, which do not count as silence of workers", stopped_for)
            self._began += stopped_for
        self._read_at = reading
        return reading - self._began


class Spawn(Protocol):
    """Runs work that belongs to a worker; an error of Ray in it is a loss of that worker."""

    def __call__(self, slot: int, work: Coroutine[Any, Any, None]) -> None: ...


class ServiceTroubles:
    """Why services answer nothing now, as their workers say; shown beside a rate of zero, and logged once."""

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
