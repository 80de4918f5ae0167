"""Two sweeps on one real cluster: they wait for GPUs that another job holds, say so, and both finish."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.ground import finish_process, parts, sweep, tally
from tests.conftest import ROOT
from tests.orchestrator.rayhead import Head, head

pytestmark = [pytest.mark.slow, pytest.mark.long]

SMALL = 5
"""Names of the policy in each sweep; 140 episodes each, on a fake GPU a worker."""
Start = Callable[..., subprocess.Popen[str]]


OTHER_JOB = """
import os, sys, time
import ray
for _ in range(10):  # the first node of a cluster may take a minute to register on a busy machine
    try:
        ray.init(os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="error")
        break
    except (ConnectionError, RuntimeError):
        time.sleep(5)
class Holder:
    def ready(self):
        return 1
holder = ray.remote(Holder).options(num_gpus=1, num_cpus=1).remote()
ray.get(holder.ready.remote())
print("holds", flush=True)
sys.stdin.read()
"""
"""Another job of the cluster, which holds a GPU until its input ends."""


@pytest.fixture(scope="module")
def node() -> Iterator[Head]:
    """A cluster of one node with two fake GPUs."""
    with head(gpus=2) as running:
        yield running


@pytest.fixture
def start(node: Head) -> Start:
    environment = {**node.environment, "RAY_ADDRESS": node.address, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}

    def start_command(*arguments: object) -> subprocess.Popen[str]:
        command: list[Any] = [sys.executable, "-m", "orchestrator", *map(str, arguments)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=environment, text=True, cwd=ROOT, **pipes)

    return start_command


@pytest.fixture
def free_gpus(node: Head) -> Iterator[Callable[[], None]]:
    """Another job holds both GPUs until this function is called."""
    environment = {**node.environment, "RAY_ADDRESS": node.address, "PYTHONPATH": str(ROOT)}
    job = OTHER_JOB.replace("num_gpus=1, num_cpus=1", "num_gpus=2, num_cpus=0")
    with subprocess.Popen(
        [sys.executable, "-c", job], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin and other.stdout and other.stdout.readline() == "holds\n"
        yield other.stdin.close


def finish(process: subprocess.Popen[str], folder: Path, copies: int) -> None:
    done = finish_process(process, 580)
    assert done.returncode == 0, done.stderr
    assert tally(folder) == (copies * 140, 0)


def test_two_sweeps_wait_for_a_third_job_say_so_and_both_finish(node, start, free_gpus, demo_data, tmp_path):
    folders, waiting = [tmp_path / "first", tmp_path / "second"], "waits for 1 GPU; 2 are held by others"
    path = sweep(tmp_path / "small.toml", demo_data, SMALL)
    processes = [start("run", path, "--output", folder) for folder in folders]
    logs = [folder / "logs" / "attempt-0001" / "driver.log" for folder in folders]
    deadline = time.monotonic() + 300
    while not all(log.exists() and waiting in log.read_text("utf-8") for log in logs):
        assert time.monotonic() < deadline and all(process.poll() is None for process in processes)
        time.sleep(0.5)
    shown = " ".join(finish_process(start("status", folders[0])).stdout.split())
    assert "waits for 1 GPU" in shown and "2 of 2 GPUs are held by others" in shown
    assert not any(map(parts, folders))

    free_gpus()
    for process, folder in zip(processes, folders, strict=True):
        finish(process, folder, SMALL)
