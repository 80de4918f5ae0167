"""A replica over two real nodes with fake GPUs: it is placed on both, and survives the loss of the one without its actor."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.ground import Ground, finish_process, parts, start_patiently, tally, wait_until_playing
from tests.chaos.stage_engine import SITE
from tests.conftest import ENVIRONMENT, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.long]
PLANNED = 140
STARTS = r"worker \d+ of wide starts on nodes (\w+), (\w+)"
LOST = "a node of its pipeline stages is lost"


@pytest.fixture
def wide_ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    """A head and two nodes with a GPU each, on which the stand-in replaces vLLM's engine."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(SITE)
    fast = {"RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "3"}
    patient = {"RAY_agent_register_timeout_ms": "600000", "RAY_gcs_server_port_wait_time_s": "600"}
    paths = os.pathsep.join((str(tmp_path / "site"), str(ROOT)))
    for name, value in {**ENVIRONMENT, **fast, **patient, "PYTHONPATH": paths}.items():
        monkeypatch.setenv(name, value)
    ground = Ground(num_gpus=0)
    try:
        start_patiently(ground._add)
        yield ground
    finally:
        ground.close()


def test_the_loss_of_its_second_node_loses_and_doubles_nothing(wide_ground, demo_data, tmp_path):
    path, out = tmp_path / "wide.toml", tmp_path / "run"
    path.write_text(
        f'name = "wide"\ndata = "{demo_data}"\nconditions = ["zero-shot", "hint"]\ntracking = {{ uri = "none" }}\n'
        '[[model]]\nname = "wide"\nsource = "org/wide"\ngpus = 2\nin_flight = 2\n'
        "options = { pipeline_parallel_size = 2 }\n"
    )
    running = wide_ground.start("run", path, "--output", out)
    wait_until_playing(out, running, seconds=500)
    path = out / "logs" / "attempt-0001" / "driver.log"
    ((_, other),) = re.findall(STARTS, path.read_text())
    (victim,) = (node for node in wide_ground.cluster.worker_nodes if node.node_id.startswith(other))
    os.kill(wide_ground.raylet(victim), signal.SIGKILL)
    start_patiently(wide_ground._add)
    done = finish_process(running, 500)
    log = path.read_text()

    assert done.returncode == 0, done.stderr
    assert tally(out) == (PLANNED, 0) and len(parts(out)) >= 1
    placed = re.findall(STARTS, log)
    assert len(placed) >= 2 and all(first != second for first, second in placed) and other not in placed[-1]
    assert log.count(f"is dropped ({LOST})") == 1, "the engine hangs, so the driver itself notices"
    assert len(re.findall(r"worker \d+ of wide: \S+: GPUs 0: ", log)) >= 4, "each GPU was checked on its node"
    assert wide_ground.orphans() == []
