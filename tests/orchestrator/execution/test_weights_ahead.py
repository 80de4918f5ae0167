"""A model that waits for a GPU has its weights read into the node's memory meanwhile: once by hand, once on a real cluster."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from actors.engine.loader import weight_bytes
from orchestrator.execution import weights_ahead
from orchestrator.scheduling.likely_starts import LikelyStart
from orchestrator.storage.loaded_weights import LoadedWeights
from sweeps.package_models import resolve_source
from sweeps.spec import ModelSpec
from tests.actors.service import completion, service
from tests.chaos.ground import finish_process
from tests.conftest import ROOT
from tests.orchestrator.rayhead import head

pytest.importorskip("proactive_demo", reason="the extra `demo` is not installed")

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
    size = weight_bytes(resolve_source(ModelSpec(name="waiting", source="builtin:embedded")))
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


# -- which weights are prepared where, with starts and a clock set by hand -----------------------------------------------
COMMIT = "a" * 40
ENTRIES = {
    name: [ModelSpec(name=name, source=f"org/{name}", backend=backend)]
    for name, backend in (("next", "vllm"), ("last", "transformers"), ("service", "openai"))
}
ENTRIES["both"] = [*ENTRIES["service"], *ENTRIES["last"]]


class Ahead:
    """A pool of ``ENTRIES`` of which Ray prepares nothing: what it is asked for is recorded, and lasts until ``end``."""

    def __init__(self, monkeypatch, folder):
        self.now, self.starts, self.prepared, self.cancelled = 100.0, [], [], []
        self.ends = {}
        weights = LoadedWeights(folder)
        weights.add(ENTRIES["next"][0], COMMIT)
        monkeypatch.setattr(weights_ahead, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(weights_ahead, "prepare_on_node", self.prepare_on_node)
        monkeypatch.setattr(weights_ahead, "likely_starts", lambda schedule: self.starts)
        self.ahead = weights_ahead.WeightsAhead(SimpleNamespace(weights=weights, models_of=ENTRIES.__getitem__))

    async def prepare_on_node(self, node, models, say):
        self.prepared.append((node, [(model.name, model.revision) for model in models]))
        say("reads \x07")
        self.ends[node] = asyncio.Event()
        try:
            await self.ends[node].wait()
        except asyncio.CancelledError:
            self.cancelled.append(node)
            raise

    async def look(self, after, *starts):
        """Return what a look at these starts, so many seconds after the last one, begins."""
        self.now, self.starts, self.prepared = self.now + after, [LikelyStart(*start) for start in starts], []
        self.ahead.prepare(None)
        for _ in range(3):
            await asyncio.sleep(0)
        return self.prepared

    async def end(self, node):
        self.ends[node].set()
        for _ in range(3):
            await asyncio.sleep(0)


def test_a_node_prepares_its_next_model_with_the_commit_of_the_run(monkeypatch, tmp_path, caplog):
    caplog.set_level(logging.INFO, "orchestrator")
    node, other = "abcdefghij", "other"

    async def looks():
        ahead = Ahead(monkeypatch, tmp_path)
        starts = (1.0, node, "next"), (2.0, other, "both"), (3.0, node, "last")
        begun = await ahead.look(0, *starts)
        ahead.ahead.close()
        await asyncio.sleep(0)
        return begun, ahead.cancelled

    begun, cancelled = asyncio.run(looks())
    assert sorted(begun) == [(node, [("next", COMMIT)]), (other, [("last", "")])]
    assert sorted(cancelled) == [node, other]
    assert sorted(caplog.messages) == ["node abcdef prepares reads \\x07", "node other prepares reads \\x07"]
