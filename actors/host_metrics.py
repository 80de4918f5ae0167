"""How busy this node is: processor, memory, disk and every GPU, under the names that MLflow gives its system metrics."""

from __future__ import annotations

import contextlib

import psutil

from actors.gpu_check import Unmeasurable, loads

SAMPLE_S = 0.5
"""Seconds over which the processor is measured."""


def load(seconds: float = SAMPLE_S, smi: str = "nvidia-smi") -> dict[str, float]:
    """Metric -> value: percent, but ``_megabytes`` and ``_watts``; no GPU is there where no driver answers."""
    memory = psutil.virtual_memory()
    found = {
        "cpu_utilization_percentage": psutil.cpu_percent(seconds),
        "system_memory_usage_megabytes": float((memory.total - memory.available) // 2**20),
        "system_memory_usage_percentage": float(memory.percent),
        "disk_usage_percentage": float(psutil.disk_usage("/").percent),
    }
    with contextlib.suppress(Unmeasurable):
        for gpu in loads(smi):
            found[f"gpu_{gpu.index}_utilization_percentage"] = gpu.busy
            found[f"gpu_{gpu.index}_memory_usage_megabytes"] = gpu.used
            found[f"gpu_{gpu.index}_memory_usage_percentage"] = 100 * gpu.used / gpu.total
            if gpu.watts is not None:
                found[f"gpu_{gpu.index}_power_usage_watts"] = gpu.watts
    return found
