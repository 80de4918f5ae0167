"""On a real Ray cluster with two GPUs by name two engines of half a GPU share one, and one of a whole GPU has the other."""

from __future__ import annotations

import os
import re

import pytest

from orchestrator.storage.episode_store import episodes
from tests.conftest import ENVIRONMENT, ROOT, Cli

pytest.importorskip("proactive_demo", reason="the extra `demo` is not installed")

pytestmark = pytest.mark.slow
MODEL = (
    '[[model]]\nname = "{0}"\nsource = "builtin:embedded"\nbackend = "transformers"\ndtype = "float32"\ngpus = {1}\n'
)


@pytest.fixture(scope="module")
def cluster():
    os.environ.update(ENVIRONMENT)
    from ray.cluster_utils import Cluster

    running = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 2, "include_dashboard": False})
    try:
        yield running
    finally:
        running.shutdown()


@pytest.mark.long
def test_two_halves_share_a_gpu_and_a_whole_one_has_another(cluster, demo_data, tmp_path):
    path, out = tmp_path / "shared.toml", tmp_path / "run"
    models = "".join(MODEL.format(name, gpus) for name, gpus in (("half-a", 0.5), ("half-b", 0.5), ("whole", 1)))
    path.write_text(
        f'data = "{demo_data}"\nscenarios = ["QD"]\nselection = {{ limit = 3 }}\ntracking = {{ uri = "none" }}\n'
        f"cluster = {{ workers = 1 }}\n{models}"
    )
    cli = Cli({**os.environ, "RAY_ADDRESS": cluster.address, "PYTHONPATH": str(ROOT)})
    done = cli.run("run", path, "--output", out, timeout=240)
    log = (out / "logs" / "attempt-0001" / "driver.log").read_text()

    assert done.returncode == 0, done.stderr
    assert episodes(out).collect()["key"].n_unique() == 9
    gpus = dict(re.findall(r"worker \d+ of (\S+) is ready \(process \d+ on [^,]+, GPUs ([\d,]+)\)", log))
    assert gpus.keys() == {"half-a", "half-b", "whole"}
    assert gpus["half-a"] == gpus["half-b"] != gpus["whole"]
    checked = set(re.findall(r"worker \d+ of (\S+): GPUs? (\d+)\b", log))
    assert checked == set(gpus.items()), "the check of a worker's GPU is about the GPU that it shares"
    assert len(set(re.findall(r"shared=(\d+)", log))) == 1
