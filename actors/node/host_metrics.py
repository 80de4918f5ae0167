"""Load of this node: processor, memory, disk and every GPU, under the names of MLflow's system metrics.

A metric that the node does not report is omitted.
"""

import contextlib
from typing import Any

import psutil

from actors.node import nvml
from actors.node.nvml import DriverUnavailable

SAMPLE_S = 0.5
"""Seconds over which the processor is measured."""


def measure_load(seconds: float = SAMPLE_S, driver: Any = None) -> dict[str, float]:
    """Return metric -> value, in the unit at the end of its name; ``driver`` replaces ``pynvml``."""
    memory = psutil.virtual_memory()
    metrics = {
        "cpu_utilization_percentage": psutil.cpu_percent(seconds),
        "system_memory_usage_megabytes": float((memory.total - memory.available) // 2**20),
        "system_memory_usage_percentage": float(memory.percent),
        "disk_usage_percentage": float(psutil.disk_usage("/").percent),
    }
    with contextlib.suppress(DriverUnavailable):
        metrics |= nvml.utilization(driver)
    return metrics
