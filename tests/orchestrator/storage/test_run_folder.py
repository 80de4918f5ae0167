"""A run folder has one driver and one configuration."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from envs.errors import RunFolderError
from envs.types import Ending
from orchestrator.storage import lock
from orchestrator.storage.control_log import ControlState
from orchestrator.storage.episode_store import EpisodeStore, episodes
from orchestrator.storage.run_folder import (
    claim,
    differences,
    name_runs,
    planned_cells,
    planned_keys,
    settings,
    stored_sweep,
    sweep_toml,
    to_json,
    write_plan,
)
from orchestrator.storage.status import count_cells, read_status, write_status
from sweeps.load import build
from sweeps.spec import Sweep
from tests.orchestrator.blocks import CELL, batch_of, block, episode

ROOT = Path(__file__).parents[3]
QWEN = {"name": "qwen", "source": "Qwen/Q", "backend": "vllm", "revision": "abc"}


def sweep(**changed_settings):
    table = {"name": "s", "data": "d", "models": ["uniform", QWEN], "scenarios": ["ROD", "QD"], "conditions": ["hint"]}
    return build({**table, **changed_settings}, "test.toml")


def changed_settings(**keys):
    return differences(settings(sweep()), settings(sweep(**keys)))


def claim_folder(folder, spec, update=False):
    with claim(folder, spec, update=update):
        return (folder / "sweep.resolved.toml").read_text()


def test_the_resolved_sweep_reads_back_as_the_sweep(tmp_path):
    spec = sweep(selection={"limit": 5, "ids": {"ROD": [1, 2]}}, sampling={"temperature": 0.7})

    text = claim_folder(tmp_path / "deep" / "run", spec)

    assert Sweep(**tomllib.loads(text)) == spec
    assert claim_folder(tmp_path / "deep" / "run", spec) == text


@pytest.mark.parametrize("read", [stored_sweep, read_status])
def test_a_folder_without_a_run_says_how_to_start_one(tmp_path, read):
    with pytest.raises(RunFolderError, match="holds no run; `proactive-sweep run SWEEP"):
        read(tmp_path / "zzz")


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"sampling": {"max_tokens": 64}}, "sampling.max_tokens was 50, this sweep says 64"),
        ({"selection": {"limit": 5}}, "selection.limit was not set, this sweep says 5"),
        ({"models": ["uniform", {**QWEN, "revision": "x"}]}, 'models.qwen.revision was "abc", this sweep says "x"'),
    ],
)
def test_difference_is_described_in_one_sentence(keys, sentence):
    assert changed_settings(**keys) == [sentence]


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"output": "elsewhere"},
        {"tracking": {"uri": "none"}},
        {"cluster": {"workers": 1}},
        {"staging": {"cache": "/tmp/cache"}},
        {"precision": {"half_width": 2.0}},
        {"models": ["uniform", {**QWEN, "gpus": 4, "in_flight": 7, "options": {"max_num_seqs": 3}, "note": "n"}]},
    ],
)
def test_settings_that_change_no_answer_are_no_difference(keys):
    assert changed_settings(**keys) == []


def add_part(folder):
    """Add an empty part, so that the folder belongs to its configuration."""
    (folder / "episodes").mkdir(parents=True)
    (folder / "episodes" / "part-00000001.parquet").touch()


def test_a_folder_without_an_episode_takes_another_configuration(tmp_path):
    claim_folder(tmp_path, sweep())
    claim_folder(tmp_path, sweep(seed=1))
    assert stored_sweep(tmp_path).seed == 1
    (tmp_path / "sweep.resolved.toml").write_bytes(b"name = ")
    claim_folder(tmp_path, sweep(seed=2))
    add_part(tmp_path)
    with pytest.raises(RunFolderError, match="seed was 2"):
        claim_folder(tmp_path, sweep())


@pytest.mark.parametrize(
    "name", ["damaged/episodes-part-00000001.parquet", "verdicts/part-00000001.parquet", "sums.sha256"]
)
def test_folder_with_damaged_judged_or_removed_parts_counts_as_played(tmp_path, name):
    claim_folder(tmp_path, sweep())
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(f"{'0' * 64}  episodes/part-00000001.parquet\n")
    with pytest.raises(RunFolderError, match="--update"):
        claim_folder(tmp_path, sweep(seed=1))


def test_other_configuration_is_refused_with_remedy(tmp_path):
    claim_folder(tmp_path, sweep())
    add_part(tmp_path)
    before = (tmp_path / "sweep.resolved.toml").read_text()

    with pytest.raises(RunFolderError) as refusal:
        claim_folder(tmp_path, sweep(seed=1, sampling={"max_tokens": 64}))

    text = str(refusal.value)
    assert "sampling.max_tokens was 50, this sweep says 64" in text
    assert "seed was 0, this sweep says 1" in text
    assert "--output" in text and "--update" in text and str(tmp_path) in text
    assert (tmp_path / "sweep.resolved.toml").read_text() == before
    claim_folder(tmp_path, sweep())
    claim_folder(tmp_path, sweep(seed=1), update=True)
    with pytest.raises(RunFolderError, match="seed was 1, this sweep says 0"):
        claim_folder(tmp_path, sweep())


@pytest.mark.parametrize("content", [b"", b"name = ", b"\xff\xfe", b"name = 's'\nunknown = 1\n"])
def test_an_unreadable_configuration_is_refused_and_can_be_replaced(tmp_path, content):
    add_part(tmp_path)
    (tmp_path / "sweep.resolved.toml").write_bytes(content)

    with pytest.raises(RunFolderError, match=r"is damaged or of another version .* --update"):
        claim_folder(tmp_path, sweep())

    claim_folder(tmp_path, sweep(), update=True)
    claim_folder(tmp_path, sweep())


HOLDER = """
import sys, time
from pathlib import Path
from orchestrator.storage.lock import hold
with hold(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=90)


def test_second_driver_is_refused_with_holder(tmp_path, holder):
    with pytest.raises(RunFolderError, match=re.escape(f"process {holder.pid} on {socket.gethostname()}")):
        claim_folder(tmp_path, sweep())
    (tmp_path / "lock").write_text("{")
    with pytest.raises(RunFolderError, match="in use by another process"):
        claim_folder(tmp_path, sweep())
    holder.send_signal(signal.SIGKILL)
    holder.wait(timeout=90)
    claim_folder(tmp_path, sweep())


def test_no_secret_reaches_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden")
    monkeypatch.setattr(sys, "argv", ["proactive-sweep", "--tracking-uri", "http://me:hidden@host:5000/a@b"])
    remote = {"name": "r", "source": "x", "backend": "openai", "endpoint": {"base_url": "https://me:hidden@host/v1"}}

    with claim(tmp_path, sweep(models=[remote], tracking={"uri": "http://me:hidden@host"})):
        write_status(tmp_path, [], finished=True)

    assert "hidden" not in "".join(path.read_text() for path in tmp_path.iterdir())
    assert json.loads((tmp_path / "status.json").read_text())["argv"][2] == "http://***@b"
    spaced = sweep(tracking={"uri": "postgresql://me:hidden one@host/db"})
    assert 'uri = "postgresql://***@host/db"' in sweep_toml(spaced)
    assert "host/v1" in sweep_toml(sweep(models=[remote]))


def plan(folder, count):
    row = {"cell": CELL, "model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "planned": count}
    write_plan(folder, [row])


def test_status_counts_only_episodes_of_current_plan(tmp_path):
    with claim(tmp_path, sweep()):
        opened = EpisodeStore(tmp_path)
        opened.append(block([episode(0), episode(1)]))
        opened.close()
        old = episodes(tmp_path).collect()["key"].to_list()
        row = {"cell": CELL, "model": "m", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "planned": 2}
        write_plan(tmp_path, [row], old)
        cells = [{"cell": CELL, "planned": 2, "finished": 2, "errors": 0, "state": "complete", "reason": ""}]
        write_status(tmp_path, cells, finished=True)
    assert read_status(tmp_path)["cells"] == cells

    write_plan(tmp_path, [row], [old[0], "another"])
    (cell,) = read_status(tmp_path)["cells"]
    assert (cell["finished"], cell["planned"], cell["state"]) == (1, 2, "partial")

    shutil.rmtree(tmp_path / "episodes")
    assert [cell["state"] for cell in read_status(tmp_path)["cells"]] == ["waiting"]


def test_a_sweep_is_finished_whatever_the_order_of_its_cells(tmp_path):
    with claim(tmp_path, sweep()):
        names = {"model": "uniform", "condition": "hint", "protocol": "mcqa", "planned": 0}
        planned = [{**names, "cell": f"uniform/{name}/hint", "scenario": name} for name in ("ROD", "QD")]
        write_plan(tmp_path, planned)
        write_status(tmp_path, count_cells(tmp_path, ControlState())[::-1], finished=True)

    assert read_status(tmp_path)["finished"]


def test_status_of_a_running_sweep_counts_what_is_durable(tmp_path):
    plan(tmp_path, 4)
    with claim(tmp_path, sweep()):
        opened = EpisodeStore(tmp_path)
        assert [cell["state"] for cell in read_status(tmp_path)["cells"]] == ["waiting"]
        opened.append(block([episode(0), episode(1, ending=Ending.FAILED)]))
        opened.flush()

        (cell,) = read_status(tmp_path)["cells"]
        assert cell == {"cell": CELL, "planned": 4, "finished": 2, "errors": 1, "state": "partial", "reason": ""}
        assert read_status(tmp_path)["running"]["pid"] == os.getpid()
        (tmp_path / "live.json").write_text('{"rate": 3}')
        assert read_status(tmp_path)["live"] == {"rate": 3}

        opened.append(batch_of(2, 3))
        opened.close()
        assert [cell["state"] for cell in read_status(tmp_path)["cells"]] == ["failed"]
    # the attempt was killed: its end is not recorded
    write_status(tmp_path, [{**cell, "reason": "no GPU"}], finished=True)
    status = read_status(tmp_path)
    assert status["cells"] == [{**cell, "finished": 4, "state": "failed", "reason": ""}] and not status["finished"]
    assert read_status(tmp_path)["live"] is None, "nobody writes it any more"


def test_reader_of_lock_does_not_block_driver(tmp_path):
    """``status`` takes a shared lock for an instant to see whether a driver holds the folder."""
    (tmp_path / lock.NAME).touch()
    handle = os.open(tmp_path / lock.NAME, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    threading.Timer(0.03, os.close, (handle,)).start()

    with lock.hold(tmp_path):
        assert lock.holder(tmp_path)["pid"] == os.getpid()


def test_the_plan_is_two_files_that_read_back(tmp_path):
    names = {"model": "uniform", "scenario": "QD", "condition": "hint", "protocol": "mcqa"}
    rows = [{**names, "cell": CELL, "planned": 2}, {**names, "cell": "uniform/ROD/hint", "planned": 3}]
    write_plan(tmp_path, rows, ["a", "b"])

    assert json.loads((tmp_path / "plan.json").read_text()) == {"planned": 5, "cells": rows}
    assert planned_cells(tmp_path) == rows
    assert planned_keys(tmp_path).collect()["key"].to_list() == ["a", "b"]
    assert to_json({"name": "ä"}) == '{\n  "name": "ä"\n}\n'.encode()


def test_names_of_runs_are_the_last_parts_of_paths_that_tell_them_apart(tmp_path):
    one, two, other = tmp_path / "a" / "run", tmp_path / "b" / "run", tmp_path / "c" / "other"

    assert name_runs([one, other]) == {"run": one, "other": other}
    assert name_runs([one, two, other]) == {"a/run": one, "b/run": two, "c/other": other}
    with pytest.raises(RunFolderError, match="twice"):
        name_runs([one, one / ".." / "run"])
