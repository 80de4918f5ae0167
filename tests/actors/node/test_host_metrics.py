"""A node's load is reported under MLflow's names; missing figures are left out, not counted as idle."""

from __future__ import annotations

import pynvml

from actors.node.host_metrics import measure_load
from tests.actors.fake_nvml import MIB, FakeGpu, FakeNvml

USUAL = {
    "cpu_utilization_percentage",
    "system_memory_usage_megabytes",
    "system_memory_usage_percentage",
    "disk_usage_percentage",
}


def test_every_gpu_is_measured_beside_the_node():
    metrics = measure_load(0.0, FakeNvml(FakeGpu(used=72000 * MIB, total=144000 * MIB, busy=97, milliwatts=512250)))

    assert {name: value for name, value in metrics.items() if name not in USUAL} == {
        "gpu_0_utilization_percentage": 97.0,
        "gpu_0_memory_usage_megabytes": 72000.0,
        "gpu_0_memory_usage_percentage": 50.0,
        "gpu_0_power_usage_watts": 512.25,
    }


def test_a_node_without_gpus_has_the_rest():
    metrics = measure_load(0.01, FakeNvml(init_error=pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))

    assert set(metrics) == USUAL and metrics["system_memory_usage_megabytes"] > 0
    assert all(0 <= metrics[name] <= 100 for name in USUAL if name.endswith("percentage"))
