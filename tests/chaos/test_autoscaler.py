"""A cluster of a head alone, whose real autoscaler adds nodes with fake GPUs for a sweep and takes them away afterwards."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.chaos.ground import finish_process, sweep, tally
from tests.conftest import ROOT
from tests.orchestrator.rayhead import head

pytestmark = [pytest.mark.slow, pytest.mark.long]

COPIES = 40
"""Names of the policy: 40 x 2 conditions x 70 samples."""
GPU_NODE = {"gpu": {"resources": {"CPU": 1, "GPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 2}}
COUNT_NODES = "import ray; ray.init(logging_level='ERROR'); "
COUNT_NODES += "print(sum('GPU' in n['Resources'] for n in ray.nodes() if n['Alive']))"


def test_nodes_come_for_a_sweep_and_leave_after_it(demo_data, tmp_path):
    with head(node_types=GPU_NODE) as node:
        quiet = {"RAY_SCHEDULER_EVENTS": "0"}  # else the autoscaler writes into the output
        environment = {**node.environment, **quiet, "RAY_ADDRESS": node.address, "PYTHONPATH": str(ROOT)}

        def count_gpu_nodes() -> int:
            done = subprocess.run(
                [sys.executable, "-c", COUNT_NODES], env=environment, capture_output=True, text=True, timeout=120
            )
            return int(done.stdout)

        assert count_gpu_nodes() == 0
        path, folder = sweep(tmp_path / "sweep.toml", demo_data, COPIES), tmp_path / "out"
        command = [sys.executable, "-m", "orchestrator", "run", path, "--output", folder]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        done = finish_process(subprocess.Popen(command, env=environment, cwd=ROOT, text=True, **pipes), 500)
        log = (folder / "logs/attempt-0001/driver.log").read_text("utf-8")

        assert done.returncode == 0, done.stderr
        assert tally(folder) == (COPIES * 140, 0)
        assert "waits up to 2 h for a node with 1 GPU; there is none" in log and "joined or changed: node" in log
        deadline = time.monotonic() + 120
        while count_gpu_nodes():
            assert time.monotonic() < deadline, "the request is withdrawn, and idle nodes stay"
            time.sleep(2)
