"""A real sweep that stops: the same results with 1 and 4 workers, killed and resumed; without the rule it is the full set."""

import hashlib
import json
import os
import re
import signal
import time

import pytest

pytest.importorskip("openai", reason="the extra 'openai' is not installed")

from orchestrator.storage.episode_store import episodes
from tests.actors.service import completion, service
from tests.orchestrator.precision.wide import wide

pytestmark = pytest.mark.long
SWEEP = """# A test.
data = "{data}"
conditions = ["zero-shot", "hint"]
models = ["served", "uniform"]
tracking = {{ uri = "none" }}
[[model]]
name = "served"
source = "served"
in_flight = 8
endpoint = {{ base_url = "{url}", key_env = "" }}
"""
RULE = "[precision]\nhalf_width = 12.0\n"


def answer(_, body):
    """Answer with a letter that depends only on the messages."""
    prompt = json.dumps(body["messages"], sort_keys=True).encode()
    return completion("ABCD"[hashlib.sha256(prompt).digest()[0] % 4])


def test_one_or_four_workers_killed_or_not_stop_alike_and_resume(cli, demo_data, tmp_path):
    rule, full = tmp_path / "s.toml", tmp_path / "full" / "s.toml"
    full.parent.mkdir()
    data_folder = wide(demo_data, tmp_path / "data", 30)
    with service(answer) as server:
        content = SWEEP.format(data=data_folder, url=server.url)
        rule.write_text(content + RULE)
        full.write_text(content)

        def run_sweep(file, out, workers):
            done = cli.run("run", file, "--output", tmp_path / out, "--set", f"cluster.workers={workers}")
            assert done.returncode == 0, done.stderr
            return (tmp_path / out / "results.json").read_bytes()

        single = run_sweep(rule, "one", 1)
        kill_while_playing(cli, server, rule, tmp_path / "four")
        assert run_sweep(rule, "four", 4) == single, "killed, resumed, four workers"

        rows = json.loads(single)
        assert sum(row["planned"] < row["full"] for row in rows) >= 10
        assert sum(row["full"] for row in rows) == 840 > sum(row["planned"] for row in rows)
        status = cli.run("status", tmp_path / "four").stdout
        assert re.search(r"precision \+-12 points on the average over scenarios: \d+ of 28 cells stopped", status)

        request_count = len(server.bodies)
        again = cli.run("run", rule, "--output", tmp_path / "one")
        assert again.returncode == 0 and " 0 pending" in again.stdout and len(server.bodies) == request_count

        assert run_sweep(full, "one", 4) == run_sweep(full, "undisturbed", 1) != single
        assert episodes(tmp_path / "one").collect()["key"].is_unique().all()


def kill_while_playing(cli, server, file, out):
    """Start the run, and kill its driver by SIGKILL once its service has answered a few requests."""
    before, deadline = len(server.bodies), time.monotonic() + 120
    server.delay = 0.1
    process = cli.start("run", file, "--output", out, "--set", "cluster.workers=4")
    while len(server.bodies) < before + 60:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    server.delay = 0.0
