"""Why a worker was lost, in one line, and the clock that counts the silence of workers."""

import logging
import time

from ray.exceptions import RayTaskError

from actors.engine.backend import BackendError, ModelStopped
from actors.node.process_output import WorkerAddress
from actors.text.printable import one_line

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
        reading = time.monotonic()
        if (stopped_for := reading - self._read_at) > STANDSTILL_S:
            log.warning("the driver was stopped for %.0f s, which do not count as silence of workers", stopped_for)
            self._began += stopped_for
        self._read_at = reading
        return reading - self._began
