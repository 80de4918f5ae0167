"""What several tests share: one Ray cluster a session, one small benchmark, and the command line as a subprocess."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from typer.testing import CliRunner

from tests.actors.hostile import KEY
from tests.benchmark import STORED

LONG_UNTIL = float(os.environ.get("LONG_UNTIL", "inf"))
"""Seconds since the epoch after which no long test begins (``.ci/run``): a slow machine then skips the rest by name."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("long") and time.time() > LONG_UNTIL:
        pytest.skip("the time for long tests is over; `make long` runs this one")


def pytest_configure(config: pytest.Config) -> None:
    """Give vLLM a folder for its sockets, which engines that are killed leave behind; removed at the end."""
    if not hasattr(config, "workerinput"):
        sockets = tempfile.TemporaryDirectory(prefix="vllm-")
        os.environ["VLLM_RPC_BASE_PATH"] = sockets.name
        config.add_cleanup(sockets.cleanup)


settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "here")
"""No test fails because a machine is busy; CI draws the same examples each time, a developer's machine new ones."""

ROOT = Path(__file__).parents[1]
EXTRAS = [path for path in sorted(ROOT.glob("extras/*")) if str(path) in sys.path]
PYTHONPATH = os.pathsep.join(map(str, (ROOT, *EXTRAS)))
"""The tree, and those of its extras that this process has, for processes that tests start."""
ENGINE_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_worker_niceness": "0",
    **ENGINE_ENVIRONMENT,
    "HOSTILE_KEY": KEY,
    "RAY_raylet_start_wait_time_s": "120",
}
"""What Ray's processes, and so the engines in them, must find when they start."""
CLUSTER = pytest.StashKey[Any]()
os.environ.update(RAY_raylet_start_wait_time_s="120")  # Ray reads it when it is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")  # models here are tiny, and more threads of torch spin for each other


@pytest.fixture(scope="session")
def demo_data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The stored benchmark, ten samples a scenario; no test may add or remove files, because all share them."""
    folder = tmp_path_factory.mktemp("demo") / "data"
    shutil.copytree(STORED, folder)
    files_before = set(folder.rglob("*"))
    yield folder
    assert set(folder.rglob("*")) == files_before, "a test added or removed files of demo_data; it should use a copy"


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random picture model in a folder, for tests of engines that need no skill."""
    pytest.importorskip("torch", reason="the extra 'transformers' is not installed")
    pytest.importorskip("transformers", reason="the extra 'transformers' is not installed")
    from tests.actors.tiny import checkpoint

    folder = tmp_path_factory.mktemp("tiny") / "model"
    checkpoint(folder)
    return folder


@pytest.fixture(scope="session")
def ray_address(pytestconfig: pytest.Config) -> str:
    """The address of a local cluster of real Ray processes with two CPUs; one a process, also for the tests of extras."""
    if CLUSTER not in pytestconfig.stash:
        os.environ.update(ENVIRONMENT)
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        pytestconfig.stash[CLUSTER] = cluster
        pytestconfig.add_cleanup(cluster.shutdown)
    return str(pytestconfig.stash[CLUSTER].address)


@pytest.fixture
def cli(ray_address: str):
    """Start ``proactive-sweep ARGS``; ``start`` gives the process, ``run`` waits for it, ``call`` needs none."""
    return Cli({**os.environ, "RAY_ADDRESS": ray_address, "PYTHONPATH": PYTHONPATH, "PYTHONUNBUFFERED": "1"})


class Cli:
    """The command line in a subprocess, or in this process, which has imported everything."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment

    def start(self, *args: object, **kwargs: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrator", *map(str, args)],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, **kwargs,
        )  # fmt: skip

    def run(self, *args: object, timeout: float = 180) -> subprocess.CompletedProcess[str]:
        process = self.start(*args)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def call(self, *args: object) -> subprocess.CompletedProcess[str]:
        """Run a command in this process, with a connection to Ray of its own; half as expensive as ``run``."""
        from orchestrator.cli.main import add_installed, build_app

        words = list(map(str, args))
        with patch.dict(os.environ, self.environment, clear=True):
            try:
                done = CliRunner().invoke(add_installed(build_app()), words, catch_exceptions=False)
            finally:
                if "ray" in sys.modules:
                    sys.modules["ray"].shutdown()
        return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)
