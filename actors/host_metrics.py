"""How busy this node is: processor, memory, disk and every GPU, under the names that MLflow gives its system metrics.

A figure that the node does not tell is left out, never zero.
"""

from __future__ import annotations

import contextlib
from typing import Any

import psutil

from actors import nvml
from actors.nvml import Unmeasurable

SAMPLE_S = 0.5
"""Seconds over which the processor is measured."""


def load(seconds: float = SAMPLE_S, driver: Any = None) -> dict[str, float]:
    """Metric -> value: percent, but ``_megabytes`` and ``_watts``. ``driver`` stands for ``pynvml``."""
    memory = psutil.virtual_memory()
    found = {
        "cpu_utilization_percentage": psutil.cpu_percent(seconds),
        "system_memory_usage_megabytes": float((memory.total - memory.available) // 2**20),
        "system_memory_usage_percentage": float(memory.percent),
        "disk_usage_percentage": float(psutil.disk_usage("/").percent),
    }
    with contextlib.suppress(Unmeasurable):
        found |= nvml.utilization(driver)
    return found
