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
from tests.actors.service import said, service
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
    """A letter that depends on what is asked alone."""
    asked = json.dumps(body["messages"], sort_keys=True).encode()
    return said("ABCD"[hashlib.sha256(asked).digest()[0] % 4])


def test_one_or_four_workers_killed_or_not_stop_alike_and_go_on_to_the_full_set(cli, demo_data, tmp_path):
    rule, full = tmp_path / "s.toml", tmp_path / "full" / "s.toml"
    full.parent.mkdir()
    data = wide(demo_data, tmp_path / "data", 30)
    with service(answer) as one:
        content = SWEEP.format(data=data, url=one.url)
        rule.write_text(content + RULE)
        full.write_text(content)

        def played(file, out, workers):
            done = cli.run("run", file, "--output", tmp_path / out, "--set", f"cluster.workers={workers}")
            assert done.returncode == 0, done.stderr
            return (tmp_path / out / "results.json").read_bytes()

        alone = played(rule, "one", 1)
        killed_while_it_plays(cli, one, rule, tmp_path / "four")
        assert played(rule, "four", 4) == alone, "killed, resumed, four workers"

        rows = json.loads(alone)
        assert sum(row["planned"] < row["full"] for row in rows) >= 10
        assert sum(row["full"] for row in rows) == 840 > sum(row["planned"] for row in rows)
        status = cli.run("status", tmp_path / "four").stdout
        assert re.search(r"precision \+-12 points on the average over scenarios: \d+ of 28 cells stopped", status)

        asked = len(one.bodies)
        again = cli.run("run", rule, "--output", tmp_path / "one")
        assert again.returncode == 0 and " 0 pending" in again.stdout and len(one.bodies) == asked

        assert played(full, "one", 4) == played(full, "undisturbed", 1) != alone
        assert episodes(tmp_path / "one").collect()["key"].is_unique().all()


def killed_while_it_plays(cli, one, file, out):
    """Start the run, and kill its driver by SIGKILL once its service has answered a few requests."""
    before, deadline = len(one.bodies), time.monotonic() + 120
    one.delay = 0.1
    process = cli.start("run", file, "--output", out, "--set", "cluster.workers=4")
    while len(one.bodies) < before + 60:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    one.delay = 0.0
