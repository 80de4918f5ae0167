"""Why a worker was lost: the last line of its error, without classes of ours, and its output if it raised nothing."""

from __future__ import annotations

import pytest
from ray.exceptions import RayTaskError

from actors.engine.backend import BackendDied, ModelStopped
from actors.node.process_output import WorkerAddress
from orchestrator.execution.worker_pool import last_line, loss_reason


def raised(cause: Exception) -> RayTaskError:
    return RayTaskError("play", f"Traceback\n  File\n{type(cause).__name__}: {cause}\n", cause)


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (raised(BackendDied("the engine is gone")), "the engine is gone"),
        (raised(ValueError("no such model")), "no such model"),
        (raised(ZeroDivisionError("division by zero")), "ZeroDivisionError: division by zero"),
        (RuntimeError("first\n  last  \n\n"), "last"),
        (RuntimeError("x" * 501), "x" * 500),
        (RuntimeError("a\x1b[31m"), "a\\x1b[31m"),
    ],
)
def test_an_error_is_its_last_line(problem: Exception, line: str) -> None:
    assert last_line(problem) == line


def test_output_is_named_only_where_the_worker_raised_nothing() -> None:
    died, address = RuntimeError("the actor died"), WorkerAddress("host", 7, "n", "", ("/w.out", "/w.err"))

    assert loss_reason(died, address) == "the actor died (its output: host:/w.err)"
    assert loss_reason(died, None) == "the actor died" and loss_reason(None, None) == "None"
    assert loss_reason(ModelStopped("key refused"), address) == "key refused"
    assert loss_reason(raised(ValueError("no such model")), address) == "no such model"
