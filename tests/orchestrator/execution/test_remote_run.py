"""A sweep whose run folder is an address: killed, it goes on from the bucket alone, and every reader takes the address."""

from __future__ import annotations

import json
import shutil
import signal
import socket
from pathlib import Path

import polars as pl
import pytest

from orchestrator.object_store import run_location as remote
from orchestrator.object_store.bucket import CACHE, Bucket
from orchestrator.object_store.writer_lock import read_holder
from orchestrator.storage.episode_store import episodes
from tests.orchestrator.buckets import wait_for
from tests.orchestrator.execution.test_attempt import assert_stored_once, many_models


@pytest.fixture
def sweep_file(tmp_path: Path, demo_data: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(
        f'# A test.\ndata = "{demo_data}"\nmodels = ["oracle", "uniform", "always-ask"]\n'
        'conditions = ["zero-shot", "hint", "random-proactive", "reference"]\ntracking = { uri = "none" }\n'
    )
    return path


@pytest.mark.slow
@pytest.mark.long
def test_after_kill_9_another_machine_resumes_from_bucket(cli, sweep_file, url, service, tmp_path):
    longer, planned = many_models(sweep_file, 400), 400 * 280
    cli.environment |= {**service.environment, CACHE: str(tmp_path / "first")}
    first = cli.start("run", longer, "--output", url)
    bucket = Bucket(url)

    def has_committed() -> bool:
        assert first.poll() is None, first.stderr.read()
        objects = bucket.list_objects()
        return "plan.json" in objects and any(name.startswith("episodes/") for name in objects)

    wait_for(has_committed, 120)
    first.send_signal(signal.SIGSTOP)
    try:
        outcome = cli.run("status", url, "--json")
    finally:
        first.kill()
        first.communicate()
    assert outcome.returncode == 0, outcome.stderr
    running = json.loads(outcome.stdout)["running"]
    stored_count = stored_rows(url)
    assert (running["host"], running["pid"]) == (socket.gethostname(), first.pid)
    assert 0 < stored_count < planned, "the kill must fall into the middle for this test to mean anything"

    shutil.rmtree(tmp_path / "first")
    cli.environment[CACHE] = str(tmp_path / "second")
    again = cli.run("run", longer, "--output", url)
    undisturbed = cli.run("run", longer, "--output", tmp_path / "whole")
    assert again.returncode == undisturbed.returncode == 0, again.stderr
    assert f"{stored_count:,} finished" in again.stdout
    assert_stored_once(remote.readable_folder(url), planned)
    assert bucket.read("results.json") == (tmp_path / "whole/results.json").read_bytes()
    assert read_holder(bucket) is None
    secret = service.environment["AWS_SECRET_ACCESS_KEY"].encode()
    assert not any(secret in (bucket.read(name) or b"") for name in bucket.list_objects())
    for command in (["status", url], ["plan", longer, "--output", url]):
        outcome = cli.run(*command)
        assert outcome.returncode == 0 and "u0" in outcome.stdout, outcome.stderr

    small = f"{url}-small"  # a report ranks all pairs of models, which takes minutes for 400
    assert cli.run("run", sweep_file, "--output", small).returncode == 0
    outcome = cli.run("report", small, "--brief")
    assert outcome.returncode == 0 and "uniform" in outcome.stdout, outcome.stderr


def stored_rows(url: str) -> int:
    return int(episodes(remote.readable_folder(url, started=False)).select(pl.len()).collect().item())
