"""vLLM on a CPU: scheduler and model share a process, as on a GPU, and leave a core to the front end.

By default, vLLM 0.32 runs the model of a CPU in its own process (``check_and_update_config`` of ``vllm.platforms.cpu``), and
the scheduler polls it without sleeping (``SpinCondition`` of ``vllm.distributed.device_communicators.shm_broadcast``), which
takes a core from the front end. docs/performance.md has figures.
"""

import os

import psutil
from vllm.platforms import current_platform

BIND, THREADS = "VLLM_CPU_OMP_THREADS_BIND", "OMP_NUM_THREADS"
"""Environment variables: the first binds threads of vLLM's separate model process to cores, the second is OpenMP's."""
MEMORY_SHARE = 0.4
"""Share of a machine's memory for an engine unless its options say otherwise, so that a model and its judge fit. vLLM
would take 0.92; Ray ends workers when 0.95 are in use."""
IN_ONE_PROCESS = "vllm.v1.executor.uniproc_executor.UniProcExecutor"
"""vLLM's executor without a separate model process, by its full name: on a CPU, vLLM replaces the short name ``uni``."""


def one_process_flags() -> dict[str, str]:
    """Return the engine's flags for one process; none with a GPU, or if the user binds the model's threads to cores."""
    return (
        {"distributed_executor_backend": IN_ONE_PROCESS} if current_platform.is_cpu() and BIND not in os.environ else {}
    )


def use_all_cores_but_one() -> None:
    """Let processes that start from now on use all cores but one; Ray would limit them to one thread."""
    count = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else count
    if one_process_flags():
        os.environ[THREADS] = str(max(1, min(count, usable) - 1))
