"""What cannot be played is reported with its reason; everything else is played. Real Ray, real engines' errors."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from orchestrator.storage.episode_store import episodes
from tests.actors import service
from tests.orchestrator.execution.test_attempt import assert_stored_once

pytestmark = pytest.mark.slow


def sweep(path: Path, data: Path, models: str, conditions: str = '["zero-shot"]') -> Path:
    path.write_text(f'# A test.\ndata = "{data}"\nconditions = {conditions}\ntracking = {{ uri = "none" }}\n{models}')
    return path


GOOD = '[[model]]\nname = "good"\nsource = "builtin:uniform"\nbackend = "builtin"\ngpus = 0\n'


def test_a_model_that_cannot_load_ends_with_its_reason_and_the_others_go_on(cli, demo_data, tmp_path):
    broken = '[[model]]\nname = "broken"\nsource = "no/such/folder"\nbackend = "transformers"\ngpus = 0\n'
    out = tmp_path / "run"
    done = cli.call("run", sweep(tmp_path / "x.toml", demo_data, GOOD + broken), "--output", out)

    assert done.returncode == 1
    cells = {cell["cell"]: cell for cell in json.loads((out / "status.json").read_text())["cells"]}
    assert cells["good/QD/zero-shot"]["state"] == "complete"
    assert cells["broken/QD/zero-shot"]["state"] == "failed" and cells["broken/QD/zero-shot"]["reason"]
    assert "Traceback" not in done.stderr and "broken: " in done.stderr
    assert_stored_once(out, 70)


def ready_pids(out: Path) -> list[int]:
    """Pids of the living workers that the run's own driver calls ready: nobody else's, and none that is still starting."""
    logs = "".join(path.read_text() for path in out.glob("logs/attempt-*/driver.log"))
    return [int(pid) for pid in re.findall(r"is ready \(process (\d+)", logs) if lives(int(pid))]


def lives(pid: int) -> bool:
    try:
        return b"ray::Worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_killed_worker_is_replaced_and_nothing_lost_or_doubled(cli, demo_data, tmp_path):
    models = "".join(GOOD.replace('"good"', f'"u{n}"') for n in range(150))
    path = sweep(tmp_path / "x.toml", demo_data, models)
    out = tmp_path / "run"
    process = cli.start("run", path, "--output", out)
    kills, deadline = 0, time.monotonic() + 60
    while process.poll() is None and kills < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
        for pid in ready_pids(out)[:1]:
            os.kill(pid, signal.SIGKILL)
            kills += 1
    _, err = process.communicate(timeout=240)

    assert kills, "the kill must fall into the run for this test to mean anything"
    assert process.returncode == 0, err
    assert_stored_once(out, 150 * 70)
    assert episodes(out).filter(ending="failed").collect().height == 0


def test_a_model_whose_service_refuses_pictures_stops_there_and_all_else_goes_on(cli, demo_data, tmp_path):
    """It plays without pictures; once its service takes them, the same command plays the rest."""
    mended = []

    def answer(number, body):
        if mended or "image_url" not in json.dumps(body):
            return service.completion("A")
        time.sleep(0.2 if number > 80 else 0)  # the stop has seconds to arrive before all are asked
        return service.failure(400, "invalid_request", "this model takes no pictures")

    entry = '[[model]]\nname = "{0}"\nsource = "m"\nin_flight = 4\nendpoint = {{ base_url = "{1}", key_env = "" }}\n'
    with service.service(answer) as refusing, service.service(lambda number, body: service.completion("A")) as honest:
        models = entry.format("refusing", refusing.url) + entry.format("honest", honest.url)
        path, out = sweep(tmp_path / "x.toml", demo_data, models, '["zero-shot", "text-only"]'), tmp_path / "run"
        done = cli.call("run", path, "--output", out)
        stored = episodes(out).collect()

        assert done.returncode == 1, done.stderr
        assert stored.filter(model="honest").height == 2 * 70
        assert stored.filter(model="refusing")["condition"].value_counts().rows() == [("text-only", 70)]
        cells = {cell["cell"]: cell for cell in json.loads((out / "status.json").read_text())["cells"]}
        assert cells["refusing/QD/text-only"]["state"] == "complete"
        cell = cells["refusing/QD/zero-shot"]
        assert cell["state"] == "failed" and cell["finished"] == 0
        assert "refused all of its first" in cell["reason"] and "this model takes no pictures" in cell["reason"]
        assert "refusing/*/zero-shot: refusing refused all of its first" in done.stderr
        assert sum("image_url" in json.dumps(body) for body in refusing.bodies) < 60, "it is not asked to the end"

        mended.append(True)
        again = cli.call("run", path, "--output", out)
    assert again.returncode == 0, again.stderr
    assert_stored_once(out, 4 * 70)
