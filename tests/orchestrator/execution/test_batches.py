"""A sweep through a Batch API, killed while its batch is out: nothing is paid twice, and nothing differs from a sweep without."""

from __future__ import annotations

import json
import time

import pytest

from orchestrator.execution.batch_name import BATCH_NAME_FILE, batch_name
from orchestrator.storage.episode_store import episodes
from sweeps.load import build
from tests.actors.batch_service import batch_service

SWEEP = """name = "s"
data = "{data}"
models = ["m"]
scenarios = ["ROD", "QD"]
conditions = ["zero-shot", "history"]
[cluster]
max_cost = 1000.0
[tracking]
uri = "none"
[[model]]
name = "m"
source = "gpt-4.1"
batch = {batch}
endpoint = {{base_url = "{url}", key_env = "", prompt_price = 1.0, reply_price = 1.0}}
"""


def test_folder_keeps_its_batch_name_and_makes_one_only_when_needed(tmp_path):
    model = {"name": "m", "source": "s", "endpoint": {"base_url": "http://127.0.0.1:1/v1"}}
    table = {"name": "t", "data": "d", "models": ["m"]}
    assert batch_name(build({**table, "model": [model]}, "a test"), tmp_path) == "" and not list(tmp_path.iterdir())

    batched = build({**table, "model": [{**model, "batch": True}]}, "a test")
    first = batch_name(batched, tmp_path)
    assert len(first) == 24 and batch_name(batched, tmp_path) == first
    for content in (b"", b"x" * 24, b"\xff", b"0" * 2000):
        (tmp_path / BATCH_NAME_FILE).write_bytes(content)
        renewed = batch_name(batched, tmp_path)
        assert renewed != first and len(renewed) == 24 and batch_name(batched, tmp_path) == renewed


@pytest.mark.slow
@pytest.mark.long
def test_a_driver_killed_while_a_batch_is_out_goes_on_with_that_batch(cli, demo_data, tmp_path):
    with batch_service(hold=True, steps=("validating", "in_progress")) as service:
        files = {}
        for way in ("true", "false"):
            files[way] = tmp_path / f"{way}.toml"
            files[way].write_text(SWEEP.format(data=demo_data, url=service.url, batch=way))
        process = cli.start("run", files["true"], "--output", tmp_path / "run")
        until = time.monotonic() + 120
        while not any(service.looks.values()) and time.monotonic() < until and process.poll() is None:
            time.sleep(0.02)
        process.kill()
        process.communicate()
        assert len(service.batches) == 1 and not service.paid
        service.hold = False
        done = cli.run("run", files["true"], "--output", tmp_path / "run")
        assert done.returncode == 0, done.stderr
        assert set(service.paid.values()) == {1}
        plain = cli.run("run", files["false"], "--output", tmp_path / "plain")
        assert plain.returncode == 0 and service.single == len(service.paid), plain.stderr

    rows = episodes(tmp_path / "run").collect()
    assert len(service.batches) == rows["turns"].max() and len(service.paid) == rows["turns"].sum()
    assert (tmp_path / "run/results.json").read_bytes() == (tmp_path / "plain/results.json").read_bytes()
    spent = json.loads((tmp_path / "run/spent.json").read_text())["m"]
    assert spent == pytest.approx(rows["cost"].sum()) == pytest.approx(len(service.paid) * 110 / 2 / 1e6)
