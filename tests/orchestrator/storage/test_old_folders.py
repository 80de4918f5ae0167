"""Run folders that versions 0.1.0 and 0.2.0 wrote open, resume and report as they did then.

``old_folders/VERSION`` was written by that version's own code over ``data demo data --scenarios ROD,QD --samples 8 --seed 1``;
of its 32 episodes one was made pending again. ``old_folders/data`` holds that data.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from orchestrator.planning.build_plan import build_plan, cells_with_progress
from orchestrator.storage import checksums, run_folder
from orchestrator.storage.episode_store import episodes, turns
from orchestrator.storage.part_files import list_parts
from orchestrator.storage.status import MISSING, find_faults, read_status
from sweeps.load import load
from tests.orchestrator.report import runs

FOLDERS = Path(__file__).parent / "old_folders"
INTERVAL = {"acc_low", "acc_high"}
"""Columns of another method than in 0.2."""
UNFINISHED = "first-option/ROD/hint"
SWEEP = "old.toml"


@pytest.fixture(params=["0.1", "0.2"])
def folder(request, tmp_path, monkeypatch) -> Path:
    """A copy of an old folder beside its data, as its sweep names them."""
    shutil.copytree(FOLDERS / "data", tmp_path / "data")
    shutil.copytree(FOLDERS / request.param, tmp_path / "run")
    shutil.copy(FOLDERS / SWEEP, tmp_path)
    monkeypatch.chdir(tmp_path)
    return Path("run")


def stored_rows(folder: Path) -> dict[str, list[dict[str, object]]]:
    """Key -> the episode and its turns."""
    rows = {row["key"]: [row] for row in episodes(folder).collect().to_dicts()}
    for turn in turns(folder).collect().to_dicts():
        rows[turn["key"]].append(turn)
    return rows


def results(folder: Path) -> dict[str, dict[str, object]]:
    return {row["cell"]: row for row in json.loads((folder / "results.json").read_text())}


def test_old_folder_opens_and_lists_pending_episodes(folder):
    sweep = load(Path(SWEEP), [])
    plan = build_plan(sweep)

    status = read_status(folder)
    progress = {row["cell"]: (row["done"], row["planned"]) for row in cells_with_progress(plan, folder)}

    with run_folder.claim(folder, sweep):
        assert run_folder.stored_sweep(folder) == sweep
    assert list_parts(folder).bad == checksums.damaged_files(folder) == status["damaged"] == []
    assert progress == {cell.key: (3 if cell.key == UNFINISHED else 4, 4) for cell in plan.cells}
    assert {cell["cell"]: (cell["finished"], cell["planned"]) for cell in status["cells"]} == progress
    assert {cell["cell"] for cell in status["cells"] if cell["state"] != "complete"} == {UNFINISHED}
    assert find_faults(folder) == {}
    (folder / "results.json").unlink()
    assert find_faults(folder) == {"results.json": MISSING}


def test_old_folder_resumes_and_reports_the_same(folder):
    sweep = load(Path(SWEEP), [])
    plan, rows_before, results_before = build_plan(sweep), stored_rows(folder), results(folder)
    pending = set(plan.all_keys()) - rows_before.keys()
    assert len(rows_before) == 31 and len(pending) == 1 and rows_before.keys() < set(plan.all_keys())

    runs.play_sweep(folder, sweep)

    rows_after, results_after = stored_rows(folder), results(folder)
    assert rows_after.keys() - rows_before.keys() == pending
    assert {key: rows_after[key] for key in rows_before} == rows_before, "stored episodes are never played again"
    assert results_after.keys() == results_before.keys() and len(results_before) == 8
    for cell, row in results_before.items():  # also the repaired cell: its lost episode has the same seed
        same = row.keys() - INTERVAL
        assert {name: results_after[cell][name] for name in same} == {name: row[name] for name in same}
