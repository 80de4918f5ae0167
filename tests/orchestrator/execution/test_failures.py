"""What cannot be played is said with its reason; what can be played goes on. Real Ray, real engines' errors."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from orchestrator.storage.episode_store import episodes
from tests.orchestrator.execution.test_attempt import exactly_once

pytestmark = pytest.mark.slow


def sweep(path: Path, data: Path, models: str, conditions: str = '["zero-shot"]') -> Path:
    path.write_text(f'# A test.\ndata = "{data}"\nconditions = {conditions}\ntracking = {{ uri = "none" }}\n{models}')
    return path


GOOD = '[[model]]\nname = "good"\nsource = "builtin:uniform"\nbackend = "builtin"\ngpus = 0\n'


def test_a_model_that_cannot_load_ends_with_its_reason_and_the_others_go_on(cli, demo_data, tmp_path):
    broken = '[[model]]\nname = "broken"\nsource = "no/such/folder"\nbackend = "transformers"\ngpus = 0\n'
    out = tmp_path / "run"
    done = cli.run("run", sweep(tmp_path / "x.toml", demo_data, GOOD + broken), "--output", out)

    assert done.returncode == 1
    cells = {cell["cell"]: cell for cell in json.loads((out / "status.json").read_text())["cells"]}
    assert cells["good/QD/zero-shot"]["state"] == "complete"
    assert cells["broken/QD/zero-shot"]["state"] == "failed"
    assert cells["broken/QD/zero-shot"]["reason"]
    assert "Traceback" not in done.stderr and "broken: " in done.stderr
    exactly_once(out, 70)


def test_a_model_larger_than_the_cluster_is_named_and_the_others_go_on(cli, demo_data, tmp_path):
    large = '[[model]]\nname = "large"\nsource = "x/y"\nbackend = "vllm"\ngpus = 8\n'
    done = cli.run("run", sweep(tmp_path / "x.toml", demo_data, GOOD + large), "--output", tmp_path / "run")

    assert done.returncode == 1
    assert "large needs 8 GPUs, the cluster has 0" in done.stderr


def test_a_folder_without_pictures_plays_for_who_does_not_look(cli, demo_data, tmp_path):
    """Baselines never open a picture, so a folder without pictures plays."""
    import shutil

    bare = tmp_path / "bare"
    bare.mkdir()
    for file in demo_data.glob("*.jsonl"):
        shutil.copy(file, bare)
    assert cli.run("run", sweep(tmp_path / "x.toml", bare, GOOD), "--output", tmp_path / "run").returncode == 0


def at_work(out: Path) -> list[int]:
    """Pids of the living workers that the run's own driver calls ready: nobody else's, and none that is still starting."""
    told = "".join(path.read_text() for path in out.glob("logs/attempt-*/driver.log"))
    return [int(pid) for pid in re.findall(r"is ready \(process (\d+)", told) if lives(int(pid))]


def lives(pid: int) -> bool:
    try:
        return b"ray::Worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_a_worker_that_is_killed_mid_lease_is_replaced_and_nothing_is_lost_or_doubled(cli, demo_data, tmp_path):
    models = "".join(GOOD.replace('"good"', f'"u{n}"') for n in range(300))
    path = sweep(tmp_path / "x.toml", demo_data, models, '["zero-shot", "hint"]')
    out = tmp_path / "run"
    process = cli.start("run", path, "--output", out)
    kills, deadline = 0, time.monotonic() + 60
    while process.poll() is None and kills < 3 and time.monotonic() < deadline:
        time.sleep(1.0)
        for pid in at_work(out)[:1]:
            os.kill(pid, signal.SIGKILL)
            kills += 1
    _, err = process.communicate(timeout=240)

    assert kills, "the kill must fall into the run for this test to mean anything"
    assert process.returncode == 0, err
    exactly_once(out, 300 * 2 * 70)
    assert episodes(out).filter(ending="failed").collect().height == 0
