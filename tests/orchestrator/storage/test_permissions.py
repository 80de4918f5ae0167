"""A run folder that we make is its owner's alone, whatever the umask; one that was made before keeps its modes, and sets ours."""

import logging
import os
from pathlib import Path

import pytest

from orchestrator.execution.worker_logs import open_attempt_log
from orchestrator.storage.status import write_status
from orchestrator.storage.verdict_store import VerdictStore
from tests.orchestrator.blocks import numbered
from tests.orchestrator.report import runs
from tests.orchestrator.storage.test_flipped_bits import columns, verdict


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=lambda mask: f"umask {mask:03o}")
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def written(folder: Path, data: Path) -> dict[str, int]:
    """A run folder with every kind of file; its modes, by path."""
    runs.played(folder, runs.sweep(data, ["uniform"], ["hint"], scenarios=["QD"], selection={"limit": 2}))
    write_status(folder, [], finished=True)
    with open_attempt_log(folder) as log:
        logging.getLogger("orchestrator.x").info("a line")
        log.save("m", 1, "printed", lost=False)
    store = VerdictStore(folder)
    store.append(columns(verdict(1), verdict(2, cost="much")))
    store.flush()
    assert numbered(1) and (folder / "damaged/rows.jsonl").exists()
    return {path.relative_to(folder).as_posix(): path.stat().st_mode & 0o777 for path in folder.rglob("*")}


def test_a_run_folder_that_was_not_there_is_its_owners_alone(tmp_path, demo_data, umask):
    modes = written(tmp_path / "outputs/run", demo_data)

    assert (tmp_path / "outputs/run").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "outputs").stat().st_mode & 0o777 == 0o777 & ~umask
    assert set(modes.values()) == {0o700, 0o600}, modes


def test_a_folder_made_before_keeps_its_mode_and_nothing_in_it_is_more_open(tmp_path, demo_data, umask):
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o750)
    modes = written(folder, demo_data)

    assert folder.stat().st_mode & 0o777 == 0o750
    assert not [path for path, mode in modes.items() if mode & (0o027 | umask) & ~0o050]
    assert modes["episodes"] == 0o750 & ~umask and modes["results.json"] == 0o640 & ~umask
    assert modes["logs"] == 0o700, "what engines print nobody foresees"
