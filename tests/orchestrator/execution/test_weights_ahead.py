"""On a real cluster, a model that waits for the only GPU has its weights read into the node's memory meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from actors.embedded import resolve_embedded
from actors.engine.loader import weight_bytes
from sweeps.spec import ModelSpec
from tests.actors.service import completion, service
from tests.chaos.ground import finish_process
from tests.conftest import ROOT
from tests.orchestrator.rayhead import head

SWEEP = """name = "ahead"
data = "{data}"
conditions = ["zero-shot"]
scenarios = ["ROD"]

[[model]]
name = "playing"
source = "playing"
gpus = 1
in_flight = 1
endpoint = {{ base_url = "{url}", key_env = "" }}

[[model]]
name = "waiting"
source = "builtin:embedded"
backend = "transformers"
gpus = 1
"""


@pytest.mark.slow
@pytest.mark.long
def test_weights_are_read_while_another_model_has_the_gpu(demo_data, tmp_path):
    path, folder = tmp_path / "ahead.toml", tmp_path / "out"
    size = weight_bytes(resolve_embedded(ModelSpec(name="waiting", source="builtin:embedded")))
    with head(gpus=1) as node, service(lambda number, body: completion("A"), delay=2.0) as served:
        path.write_text(SWEEP.format(data=demo_data, url=served.url))
        environment = {**node.environment, "RAY_ADDRESS": node.address, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "orchestrator", "run", path, "--output", folder, "--tracking-uri", "none"]
        with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
            line = (
                f"waiting: {size / 1e9:.2f} GB are read into memory"
                if size >= 1e7
                else f"waiting: {size:,} bytes are read"
            )
            log, deadline = folder / "logs" / "attempt-0001" / "driver.log", time.monotonic() + 240
            while not (log.exists() and line in log.read_text("utf-8")):
                assert time.monotonic() < deadline and process.poll() is None, log.exists() and log.read_text()
                time.sleep(0.5)
            assert "worker 2" not in log.read_text("utf-8"), "the waiting model has no worker yet"
            process.terminate()
            finish_process(process, 60)
