"""Why a worker was lost, in one line."""

from typing import NoReturn

from ray.exceptions import RayTaskError

from actors.engine.backend import BackendError, ModelStopped
from actors.text.printable import one_line

FATAL_START_ERRORS = (ValueError, OSError, ImportError)
"""Errors of loading that another worker would meet too: no such model, a missing package, a refused option."""


def last_line(problem: BaseException | None) -> str:
    """Return the last line of an error, short enough for a table; a sentence of ours without the name of its class."""
    if isinstance(problem, RayTaskError) and isinstance(problem.cause, (BackendError, *FATAL_START_ERRORS)):
        problem = problem.cause
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return one_line(lines[-1] if lines else type(problem).__name__)[:500]


def loss_reason(problem: BaseException | None, output: str) -> str:
    """Return the error, and the file with its ``output`` (empty if it never ran) if the worker raised nothing itself."""
    if isinstance(problem, RayTaskError | ModelStopped) or not output:
        return last_line(problem)
    return f"{last_line(problem)} (its output: {output})"


def raise_loss(problem: BaseException | None) -> NoReturn:
    """Raise an error that no worker's loss explains: a bug."""
    raise problem or RuntimeError("a worker's task ended without a reason")
