"""A run in MLflow: complete when the server is well, and never in the way when it is not. Real MLflow throughout."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.execution.attempt import tracker_of
from orchestrator.storage.lock import RunFolderError
from orchestrator.tracking.tracker import parameters, track
from sweeps.conditions import Condition
from sweeps.spec import ModelSpec, Sweep
from tests.orchestrator.mlflow_stores import (
    cells,
    client,
    hand_over,
    kept,
    mirrored,
    parent,
    refused,
    row,
    runs,
    tracker,
    until,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """MLflow starts later on a machine with few processors; nobody plays here."""
    monkeypatch.setattr("orchestrator.tracking.tracker.FIRST_SEND_DELAY_S", 0.0)


@pytest.fixture
def folder(tmp_path, empty) -> Path:
    place = tmp_path / "run"
    place.mkdir()
    shutil.copy(empty, place / "mlflow.db")
    return place


def test_770_cells_reach_a_new_local_store_silently_one_parent_and_one_nested_run_each(tmp_path, capfd):
    (tmp_path / "results.json").write_text("[]")
    one = tracker(tmp_path)
    one.start()
    hand_over(one)
    for number in range(770):
        one.cell(row(number))
    one.progress(7700, 7700, 5.0)
    one.artifacts([tmp_path / "results.json", tmp_path / "never written"])
    one.close("FINISHED", timeout=300)
    said = capfd.readouterr()
    found = runs(tmp_path)
    top, nested = parent(found), cells(found)

    assert (said.out, said.err) == ("", "")
    assert set(nested) == {f"m{number}/QD/hint" for number in range(770)}
    assert top.data.params == {"models": "m0, m1"}
    assert top.data.metrics == {"episodes_done": 7700.0, "episodes_per_second": 5.0}
    assert [file.path for file in client(tmp_path).list_artifacts(top.info.run_id)] == ["results.json"]
    assert (tmp_path / "mlartifacts").is_dir()
    assert {run.info.status for run in found} == {"FINISHED"}
    one_cell = nested["m7/QD/hint"]
    assert {name: one_cell.data.tags[name] for name in ("model", "scenario", "condition", "protocol", "mlflow.parentRunId")} == {
        "model": "m7", "scenario": "QD", "condition": "hint", "protocol": "mcqa", "mlflow.parentRunId": top.info.run_id,
    }  # fmt: skip
    assert one_cell.data.metrics["acc"] == 50.0
    assert "loops" not in one_cell.data.metrics, "no value is no zero"
    assert sqlite3.connect(tmp_path / "mlflow.db").execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_importing_and_starting_costs_no_import_of_mlflow():
    code = (
        "import sys, orchestrator.tracking.tracker, orchestrator.tracking.mlflow_client; print('mlflow' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert found.stdout == "False\n"


def test_none_does_nothing(tmp_path):
    mirrored(tmp_path, [row(0)], uri="none")

    assert list(tmp_path.iterdir()) == []


def test_a_resumed_sweep_goes_on_in_the_same_runs_whatever_its_parameters(folder):
    mirrored(folder, [row(0, finished=4), row(1)], status="KILLED")
    first = runs(folder)
    mirrored(folder, [row(0, acc=70.0), row(1)], params={"models": "m0, m1, m2", "seed": "1"})
    again = runs(folder)

    assert {run.info.run_id for run in again} == {run.info.run_id for run in first}
    assert {name: run.data.metrics["acc"] for name, run in cells(again).items()} == {
        "m0/QD/hint": 70.0,
        "m1/QD/hint": 50.0,
    }
    assert {name: run.info.status for name, run in cells(first).items()} == {
        "m0/QD/hint": "KILLED",
        "m1/QD/hint": "FINISHED",
    }
    assert {run.info.status for run in again} == {"FINISHED"}
    assert parent(again).data.params == {"models": "m0, m1", "seed": "1"}, "a parameter is written once"
    history = client(folder).get_metric_history(cells(again)["m1/QD/hint"].info.run_id, "acc")
    assert len(history) == 1, "what did not change is not sent again"


def test_a_kill_between_making_runs_and_anything_else_doubles_none(folder):
    code = (
        "import sys, time; from pathlib import Path; from tests.orchestrator.mlflow_stores import row, tracker\n"
        "import orchestrator.tracking.tracker as tracking; tracking.FIRST_SEND_DELAY_S = 0.0\n"
        "one = tracker(Path(sys.argv[1])); one.start()\n"
        "for n in range(200): one.cell(row(n))\n"
        "time.sleep(120)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], cwd=ROOT)
    try:
        deadline = time.monotonic() + 60
        made = 0
        while made < 20 and time.monotonic() < deadline:
            time.sleep(0.05)
            with sqlite3.connect(folder / "mlflow.db") as store:
                (made,) = store.execute("SELECT count(*) FROM runs").fetchone()
            store.close()
    finally:
        process.kill()
        process.wait(30)
    mirrored(folder, [row(number) for number in range(200)])

    assert 20 <= made < 201, "the kill came too early or too late to tell"
    assert len(cells(runs(folder))) == 200
    assert parent(runs(folder)).info.status == "FINISHED"


def test_a_run_deleted_meanwhile_is_made_anew_and_holds_up_no_other(folder, capfd):
    one = tracker(folder)
    one.start()
    for number in range(2):
        one.cell(row(number, finished=1))
    until(lambda: len(runs(folder)) == 3)
    client(folder).delete_run(cells(runs(folder))["m0/QD/hint"].info.run_id)
    for number in range(2):
        one.cell(row(number, acc=99.0))
    one.close("FINISHED", timeout=30)

    assert {name: run.data.metrics["acc"] for name, run in cells(runs(folder)).items()} == {
        "m0/QD/hint": 99.0,
        "m1/QD/hint": 99.0,
    }
    client(folder).delete_run(parent(runs(folder)).info.run_id)
    for run in list(cells(runs(folder)).values()):
        client(folder).delete_run(run.info.run_id)
    mirrored(folder, [row(0)])
    assert capfd.readouterr().err == "", "a server that is there is never said to be gone"
    assert set(cells(runs(folder))) == {"m0/QD/hint"}
    assert parent(runs(folder)).info.status == "FINISHED"


def test_a_copied_folder_makes_runs_of_its_own_and_leaves_the_other_alone(folder, tmp_path):
    kept(folder, [row(0)])
    track(folder)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    mirrored(copy, [row(0, acc=1.0)])
    track(copy)

    assert [run.data.metrics["acc"] for run in cells(runs(copy, "sweep (2)")).values()] == [50.0]
    assert [run.data.metrics["acc"] for run in cells(runs(copy, "sweep")).values()] == [50.0]
    files = [path.relative_to(folder) for path in folder.rglob("*") if not path.name.startswith("mlflow.db")]
    assert sorted(files) == [path for path in before if not path.name.startswith("mlflow.db")]
    assert len(runs(folder)) == 2


@pytest.mark.parametrize("content", [b"", b"[]", b'{"sqlite": 3}', b"\xff\x00", b'{"x": {"mark": "\' OR 1=1"}}'])
def test_a_broken_memory_is_a_new_mirror_never_an_error(folder, content, capfd):
    (folder / "mlflow.json").write_bytes(content)
    mirrored(folder, [row(0)])

    assert capfd.readouterr().err == ""
    assert len(cells(runs(folder))) == 1


def test_track_rebuilds_the_mirror_from_the_folder_alone_and_doubles_nothing(folder):
    kept(folder, [row(0), row(1), row(2, finished=4)], tracking={"uri": "none"}, models=[{"name": "m0"}], seed=3)
    track(folder)
    track(folder)
    found = runs(folder)
    nested = cells(found)

    assert parent(found).data.params == {"models": "m0", "seed": "3"}
    assert parent(found).data.metrics == {"episodes_done": 24.0}, "a rate that nobody measured is not made up"
    assert {name: run.info.status for name, run in nested.items()} == {
        "m0/QD/hint": "FINISHED", "m1/QD/hint": "FINISHED", "m2/QD/hint": "FAILED",
    }  # fmt: skip
    assert parent(found).info.status == "FAILED"
    assert len(client(folder).get_metric_history(nested["m1/QD/hint"].info.run_id, "acc")) == 1
    assert {file.path for file in client(folder).list_artifacts(parent(found).info.run_id)} == {
        "results.json",
        "sweep.resolved.toml",
        "tables",
    }


def test_track_after_a_live_sweep_changes_nothing(folder):
    mirrored(folder, [row(0), row(1)])
    live = {run.info.run_id: (run.data.metrics, run.data.params) for run in runs(folder)}
    kept(folder, [row(0), row(1, finished=10)], seed=0)
    client(folder).log_metric(parent(runs(folder)).info.run_id, "episodes_done", 20.0, step=20)
    track(folder)
    after = runs(folder)

    assert {run.info.run_id for run in after} == set(live)
    assert {run.info.run_id: run.data.metrics for run in cells(after).values()} == {
        run: metrics for run, (metrics, params) in live.items() if not params
    }
    assert parent(after).data.metrics["episodes_per_second"] == 5.0


def test_track_says_of_a_sweep_what_the_live_mirror_says(tmp_path):
    model = ModelSpec(name="m", source="builtin:oracle", backend="builtin", options={"api_key": "hidden"})
    sweep = Sweep(
        name="s", data="d", models=(model,), scenarios=("QD",), conditions=(Condition(name="hint", hint=True),)
    )
    rebuilt = parameters(sweep.model_dump(mode="json", exclude_none=True))
    live = tracker_of(sweep, tmp_path).params

    assert rebuilt == {name: text for name, text in live.items() if text != "None"}
    assert rebuilt["models"] == "m"
    assert "hidden" not in str(live)


def test_track_of_a_folder_without_results_is_one_sentence(tmp_path):
    with pytest.raises(RunFolderError, match="holds no results to send"):
        track(tmp_path)


def test_track_to_a_server_that_is_not_there_is_one_sentence_without_the_password(tmp_path):
    kept(tmp_path, [row(0)], tracking={"uri": "http://***@host"})
    with pytest.raises(RunFolderError, match="type the whole address as --tracking-uri"):
        track(tmp_path)
    with pytest.raises(RunFolderError, match="did not take the runs") as caught:
        track(tmp_path, refused().replace("//", "//me:hidden@"))

    assert "hidden" not in str(caught.value) and "\n" not in str(caught.value)
