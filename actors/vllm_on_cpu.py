"""vLLM on processors: its scheduler and its model share a process, as on a GPU, and leave a core to the front end.

By itself vLLM 0.32 gives the model of a CPU a process of its own (``check_and_update_config`` of ``vllm.platforms.cpu``), and the
scheduler's process asks for its answer again and again without sleeping (``SpinCondition`` of
``vllm.distributed.device_communicators.shm_broadcast``): that takes a core from the front end. docs/performance.md has figures.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from vllm.platforms import current_platform

BIND, THREADS = "VLLM_CPU_OMP_THREADS_BIND", "OMP_NUM_THREADS"
"""Environment variables: vLLM's, which binds the threads of the model's own process to cores; OpenMP's."""
IN_ONE_PROCESS = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
"""By its full name: vLLM replaces the short one, ``uni``, on a CPU."""


def one_process() -> dict[str, str]:
    """The engine's flags for that; none beside a GPU, or where somebody has said which cores the model is bound to."""
    return (
        {"distributed_executor_backend": IN_ONE_PROCESS} if current_platform.is_cpu() and BIND not in os.environ else {}
    )


def cores() -> int:
    """Cores of this machine, at most those that this process may run on."""
    found = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    return min(found, len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else found


@contextmanager
def threads_of_engine() -> Iterator[None]:
    """Meanwhile a process that starts has a thread a core of this machine but one; Ray leaves its workers a single one."""
    before = os.environ.get(THREADS)
    if one_process():
        os.environ[THREADS] = str(max(1, cores() - 1))
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(THREADS, None)
        else:
            os.environ[THREADS] = before
