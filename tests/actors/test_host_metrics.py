"""A node's load is read under MLflow's names; a GPU that says nothing of itself is left out, not counted as idle."""

from __future__ import annotations

from actors.host_metrics import load
from tests.actors.test_gpu_check import driver

USUAL = {
    "cpu_utilization_percentage",
    "system_memory_usage_megabytes",
    "system_memory_usage_percentage",
    "disk_usage_percentage",
}


def test_every_gpu_that_answers_is_measured(tmp_path):
    rows = "0, 97, 72000, 144000, 512.25\\n1, 3, 1000, 144000, [N/A]\\n2, [N/A], [N/A], 144000, 80\\nGPU 3 is lost\\n"
    found = load(0.0, driver(tmp_path, rows))

    assert {name: value for name, value in found.items() if name not in USUAL} == {
        "gpu_0_utilization_percentage": 97.0,
        "gpu_0_memory_usage_megabytes": 72000.0,
        "gpu_0_memory_usage_percentage": 50.0,
        "gpu_0_power_usage_watts": 512.25,
        "gpu_1_utilization_percentage": 3.0,
        "gpu_1_memory_usage_megabytes": 1000.0,
        "gpu_1_memory_usage_percentage": 100 / 144,
    }


def test_a_node_without_gpus_has_the_rest(tmp_path):
    found = load(0.01, str(tmp_path / "nothing"))

    assert set(found) == USUAL and found["system_memory_usage_megabytes"] > 0
    assert all(0 <= found[name] <= 100 for name in USUAL if name.endswith("percentage"))
