"""Why a worker was lost, in one line."""

from typing import NoReturn

from ray.exceptions import RayTaskError

from actors.engine.backend import BackendError, ModelStopped
from actors.text.printable import one_line

FATAL_START_ERRORS = (ValueError, OSError, ImportError)
"""Errors of loading that any other worker would meet too: an unknown model, a missing package, a refused option."""


def last_line(problem: BaseException | None) -> str:
    """Return the last line of an error, short enough for a table; for our own errors without the name of the class."""
    if isinstance(problem, RayTaskError) and isinstance(problem.cause, (BackendError, *FATAL_START_ERRORS)):
        problem = problem.cause
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return one_line(lines[-1] if lines else type(problem).__name__)[:500]


def loss_reason(problem: BaseException | None, output: str) -> str:
    """Return the error in one line; if the worker died without raising, also name the file with its ``output``.

    ``output`` is empty for a worker that never ran.
    """
    if isinstance(problem, RayTaskError | ModelStopped) or not output:
        return last_line(problem)
    return f"{last_line(problem)} (its output: {output})"


def raise_loss(problem: BaseException | None) -> NoReturn:
    """Raise an error that is not the loss of a worker, so it is a bug or an error of storage."""
    raise problem or RuntimeError("a worker's task ended without a reason")
