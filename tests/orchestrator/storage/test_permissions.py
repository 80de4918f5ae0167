"""A run folder that we create is private to its owner; an existing one keeps its mode, which bounds the modes in it."""

import logging
import os
from pathlib import Path

import pytest

from orchestrator.execution.attempt_log import open_attempt_log
from orchestrator.storage.status import write_status
from orchestrator.storage.verdict_store import VerdictStore
from tests.orchestrator.report import runs
from tests.orchestrator.storage.test_flipped_bits import columns, verdict


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=lambda mask: f"umask {mask:03o}")
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def write_run_folder(folder: Path, data_folder: Path) -> dict[str, int]:
    """Write a run folder with every kind of file; return path -> mode."""
    runs.play_sweep(folder, runs.sweep(data_folder, ["uniform"], ["hint"], scenarios=["QD"], selection={"limit": 2}))
    write_status(folder, [], finished=True)
    with open_attempt_log(folder):
        logging.getLogger("orchestrator.x").info("a line")
    store = VerdictStore(folder)
    store.append(columns(verdict(1), verdict(2)))
    store.flush()

    return {path.relative_to(folder).as_posix(): path.stat().st_mode & 0o777 for path in folder.rglob("*")}


def test_new_run_folder_is_private_to_owner(tmp_path, demo_data, umask):
    modes = write_run_folder(tmp_path / "outputs/run", demo_data)

    assert (tmp_path / "outputs/run").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "outputs").stat().st_mode & 0o777 == 0o777 & ~umask
    assert set(modes.values()) == {0o700, 0o600}, modes


def test_existing_folder_keeps_its_mode_and_bounds_its_files(tmp_path, demo_data, umask):
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o750)
    modes = write_run_folder(folder, demo_data)

    assert folder.stat().st_mode & 0o777 == 0o750
    assert not [path for path, mode in modes.items() if mode & (0o027 | umask) & ~0o050]
    assert modes["episodes"] == 0o750 & ~umask and modes["results.json"] == 0o640 & ~umask
    assert modes["logs"] == 0o700, "what engines print nobody foresees"
