"""A run in MLflow is complete if the server works, and never blocks the sweep if it does not; with real MLflow."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import zlib
from pathlib import Path

import polars as pl
import pytest

from actors.playing.records import EpisodeBatch
from envs.errors import RunFolderError
from orchestrator.execution.attempt import build_tracker
from orchestrator.storage import reused
from orchestrator.storage.episode_store import EpisodeStore
from orchestrator.storage.schemas import EPISODES, TURNS
from orchestrator.tracking.mlflow.links import pages
from orchestrator.tracking.mlflow.rebuild import track
from orchestrator.tracking.tracked_run import Roster, parameters
from sweeps.conditions import Condition
from sweeps.spec import ModelSpec, Sweep
from tests.orchestrator.mlflow_stores import (
    cells,
    client,
    closed_address,
    hand_over,
    mirror,
    models,
    parent,
    record,
    row,
    runs,
    send,
    tracker,
    wait_until,
    write_run_files,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path, empty) -> Path:
    path = tmp_path / "run"
    path.mkdir()
    shutil.copy(empty, path / "mlflow.db")
    return path


@pytest.mark.slow
@pytest.mark.long
def test_770_cells_reach_new_local_store_as_nested_runs(tmp_path, capfd):
    (tmp_path / "results.json").write_text("[]")
    run_tracker = tracker(tmp_path)
    run_tracker.start()
    hand_over(run_tracker)
    for number in range(770):
        run_tracker.cell({**row(number), "model": f"m{number % 50}"})
    record(run_tracker, 7700, episodes_per_second=5.0)
    run_tracker.artifacts([tmp_path / "results.json", tmp_path / "never written"])
    run_tracker.close("FINISHED", timeout=300)
    captured = capfd.readouterr()
    mlflow_runs = runs(tmp_path)
    top, nested = parent(mlflow_runs), cells(mlflow_runs)

    assert (captured.out, captured.err) == ("", "")
    assert set(nested) == {f"m{number}/QD/hint" for number in range(770)}
    assert top.data.params == {"models": "m0, m1"}
    assert set(models(mlflow_runs)) == {f"m{number}" for number in range(50)}
    metrics = {
        name: top.data.metrics[name] for name in ("episodes_done", "episodes_per_second", "acc", "models", "errors")
    }
    assert metrics == {"episodes_done": 7700.0, "episodes_per_second": 5.0, "acc": 50.0, "models": 50.0, "errors": 0.0}
    assert [file.path for file in client(tmp_path).list_artifacts(top.info.run_id)] == ["results.json"]
    assert (tmp_path / "mlartifacts").is_dir()
    assert {run.info.status for run in mlflow_runs} == {"FINISHED"}
    one_cell = nested["m7/QD/hint"]
    names = {"model": "m7", "scenario": "QD", "condition": "hint", "protocol": "mcqa"}
    assert names.items() <= one_cell.data.tags.items()
    assert one_cell.data.params == {**names, "kind": "model", "sweep": f"sweep · {tmp_path.name}"}
    above = models(mlflow_runs)["m7"]
    assert one_cell.data.tags["mlflow.parentRunId"] == above.info.run_id
    assert above.data.tags["mlflow.parentRunId"] == top.info.run_id
    assert one_cell.data.metrics["acc"] == 50.0
    assert "loops" not in one_cell.data.metrics, "no value is no zero"
    assert sqlite3.connect(tmp_path / "mlflow.db").execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_database_alone_is_complete_after_sweep(folder, tmp_path):
    mirror(folder, [row(number) for number in range(10)])
    (tmp_path / "copy").mkdir()
    before = {path.name for path in folder.glob("mlflow.db*")}
    shutil.copy(folder / "mlflow.db", tmp_path / "copy")

    assert before == {"mlflow.db"}
    assert len(cells(runs(tmp_path / "copy"))) == 10


def test_tracker_does_not_import_mlflow():
    code = "import sys, orchestrator.tracking.tracker, orchestrator.tracking.mlflow.process; print('mlflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_uri_none_writes_nothing(tmp_path):
    mirror(tmp_path, [row(0)], uri="none")

    assert list(tmp_path.iterdir()) == []


def test_resumed_sweep_continues_same_runs(folder):
    send(folder, [row(0, finished=4), row(1)], status="KILLED")
    first = runs(folder)
    send(folder, [row(0, acc=70.0), row(1)], params={"models": "m0, m1, m2", "seed": "1"})
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


def test_killed_process_is_restarted(folder, capfd):
    run_tracker = tracker(folder)
    run_tracker.start()
    run_tracker.cell(row(0))
    wait_until(lambda: set(cells(runs(folder))) == {"m0/QD/hint"})
    killed = run_tracker._process.pid
    os.kill(killed, signal.SIGKILL)
    run_tracker.cell(row(1))
    run_tracker.close("FINISHED", timeout=120)

    assert run_tracker._process.pid != killed and run_tracker._process.returncode == 0
    assert set(cells(runs(folder))) == {"m0/QD/hint", "m1/QD/hint"}
    assert parent(runs(folder)).info.status == "FINISHED"
    assert capfd.readouterr().err == ""


def test_kill_after_creating_runs_duplicates_none(folder):
    code = (
        "import sys, time; from pathlib import Path; from tests.orchestrator.mlflow_stores import row, tracker\n"
        "one = tracker(Path(sys.argv[1])); one.start()\n"
        "for n in range(200): one.cell({**row(n), 'model': f'm{n % 10}'})\n"
        "time.sleep(120)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(folder)], cwd=ROOT)
    try:
        deadline = time.monotonic() + 60
        run_count = 0
        while run_count < 20 and time.monotonic() < deadline:
            time.sleep(0.05)
            with sqlite3.connect(folder / "mlflow.db") as store:
                (run_count,) = store.execute("SELECT count(*) FROM runs").fetchone()
            store.close()
    finally:
        process.kill()
        process.wait(30)
    send(folder, [{**row(number), "model": f"m{number % 10}"} for number in range(200)])

    assert 20 <= run_count < 201, "the kill came too early or too late to tell"
    assert (len(cells(runs(folder))), len(models(runs(folder)))) == (200, 10)
    assert parent(runs(folder)).info.status == "FINISHED"


def test_deleted_run_is_recreated_without_delaying_others(folder, capfd):
    run_tracker = tracker(folder)
    run_tracker.start()
    for number in range(2):
        run_tracker.cell(row(number, finished=1))
    wait_until(lambda: len(runs(folder)) == 1 + 2 + 2)
    client(folder).delete_run(cells(runs(folder))["m0/QD/hint"].info.run_id)
    for number in range(2):
        run_tracker.cell(row(number, acc=99.0))
    run_tracker.close("FINISHED", timeout=30)

    assert {name: run.data.metrics["acc"] for name, run in cells(runs(folder)).items()} == {
        "m0/QD/hint": 99.0,
        "m1/QD/hint": 99.0,
    }
    assert capfd.readouterr().err == "", "a server that is there is never said to be gone"
    client(folder).delete_run(parent(runs(folder)).info.run_id)
    for run in list(cells(runs(folder)).values()):
        client(folder).delete_run(run.info.run_id)
    send(folder, [row(0)])
    assert set(cells(runs(folder))) == {"m0/QD/hint"}
    assert parent(runs(folder)).info.status == "FINISHED"


def test_copied_folder_updates_only_its_own_runs(folder, tmp_path):
    both = [{"name": "m0"}, {"name": "m1"}]
    write_run_files(folder, [row(0)], models=both)
    track(folder)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "mlflow.db" not in path.name}
    send(copy, [row(0, acc=1.0)])
    copied_runs, original_runs = runs(copy), runs(folder)

    assert {run.info.run_id for run in copied_runs} == {run.info.run_id for run in original_runs}
    assert [run.data.metrics["acc"] for run in cells(copied_runs).values()] == [1.0]
    assert [run.data.metrics["acc"] for run in cells(original_runs).values()] == [50.0]
    write_run_files(copy, [row(0, acc=2.0)], models=both)
    subprocess.run([sys.executable, "-m", "orchestrator", "track", str(copy)], cwd=ROOT, check=True, timeout=120)
    assert [run.data.metrics["acc"] for run in cells(runs(copy)).values()] == [2.0]
    assert {run.info.artifact_uri for run in runs(copy)} == {
        f"{(copy / 'mlartifacts').as_uri()}/{run.info.run_id}/artifacts" for run in runs(copy)
    }
    assert client(copy).list_artifacts(parent(runs(copy)).info.run_id), "the files are found where the copy lies"
    assert before == {
        path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and "mlflow.db" not in path.name
    }


@pytest.mark.long
def test_copies_of_sweep_share_server_run_and_other_sweep_does_not(folder, tmp_path):
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    folders = [tmp_path / name for name in ("one", "two", "other")]
    for sweep_folder in folders:
        sweep_folder.mkdir()
    send(folders[0], [row(0)], uri=uri)
    for sweep_folder in folders[1:]:
        shutil.copy(folders[0] / "mlflow.json", sweep_folder)
    send(folders[1], [row(0, acc=1.0)], uri=uri)
    send(folders[2], [row(0, acc=2.0)], uri=uri, params={"models": "another"})
    mlflow_runs = runs(folder)

    assert len(mlflow_runs) == 2 * 3
    assert sorted(run.data.metrics["acc"] for run in mlflow_runs if run.data.tags["level"] == "cell") == [1.0, 2.0]
    assert {run.info.run_name for run in mlflow_runs if run.data.tags["level"] == "model"} == {
        "m0 · sweep · one",
        "m0 · sweep · other",
    }


def test_sweep_run_names_reused_folders(folder):
    noted = {
        "key": ["k"],
        "judge": [None],
        "cell": ["c"],
        "folder": ["outputs/old"],
        "taken": ["2026-11-22T10:00:00+00:00"],
    }
    reused.record_reused(folder, pl.DataFrame(noted, schema=reused.REUSED))
    store = EpisodeStore(folder)
    episode = {name: ["k"] if kind == pl.String else [1] for name, kind in EPISODES.items()} | {"correct": [True]}
    store.append(EpisodeBatch([0], episode, {name: [] for name in TURNS}))
    store.close()
    send(folder, [row(0)])

    tag = parent(runs(folder)).data.tags["reused"]
    assert tag == "1 episode was played in outputs/old and taken over on 2026-11-22"


def test_baselines_are_separate_and_sweep_names_best_model(folder):
    roster = Roster(("m0", "m1", "m2"), frozenset({"m0"}), ("hint",))
    send(folder, [row(0, acc=100.0), row(1, acc=20.0), row(2, acc=40.0)], roster=roster)
    mlflow_runs = runs(folder)
    top, below = parent(mlflow_runs), models(mlflow_runs)

    assert (top.data.metrics["acc"], top.data.metrics["best_acc"], top.data.tags["best_model"]) == (30.0, 40.0, "m2")
    assert {name: run.data.params["kind"] for name, run in below.items()} == {
        "m0": "baseline",
        "m1": "model",
        "m2": "model",
    }
    assert below["m2"].data.metrics["acc/QD"] == below["m2"].data.metrics["acc_under/hint"] == 40.0
    newest = [run.data.tags["level"] + run.data.tags.get("model", "") for run in mlflow_runs]
    assert newest == ["modelm1", "modelm2", "modelm0", "sweep", "cellm1", "cellm2", "cellm0"], "as the page sorts them"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"sqlite": 3}', b"\xff\x00", b'{"x": {"mark": "\' OR 1=1"}}'])
def test_broken_mlflow_record_starts_new_mirror(folder, content, capfd):
    (folder / "mlflow.json").write_bytes(content)
    send(folder, [row(0)])

    assert len(cells(runs(folder))) == 1


def test_track_rebuilds_mirror_from_folder_without_duplicates(folder):
    write_run_files(
        folder, [row(0), row(1), row(2, finished=4)], tracking={"uri": "none"}, models=[{"name": "m0"}], seed=3
    )
    track(folder)
    track(folder)
    mlflow_runs = runs(folder)
    nested = cells(mlflow_runs)

    assert parent(mlflow_runs).data.params == {"models": "m0", "seed": "3"}
    assert parent(mlflow_runs).data.metrics["episodes_done"] == 24.0
    assert "episodes_per_second" not in parent(mlflow_runs).data.metrics, "a rate that nobody measured is not made up"
    assert models(mlflow_runs)["m2"].info.status == "FAILED"
    assert {name: run.info.status for name, run in nested.items()} == {
        "m0/QD/hint": "FINISHED", "m1/QD/hint": "FINISHED", "m2/QD/hint": "FAILED",
    }  # fmt: skip
    assert parent(mlflow_runs).info.status == "FAILED"
    assert len(client(folder).get_metric_history(nested["m1/QD/hint"].info.run_id, "acc")) == 1
    assert {file.path for file in client(folder).list_artifacts(parent(mlflow_runs).info.run_id)} == {
        "results.json",
        "sweep.resolved.toml",
        "tables",
    }


def test_track_after_a_live_sweep_changes_nothing(folder):
    mirror(folder, [row(0), row(1)])
    live = {run.info.run_id: (run.data.metrics, run.data.params) for run in runs(folder)}
    write_run_files(folder, [row(0), row(1, finished=10)], seed=0)
    track(folder)
    after = runs(folder)

    assert {run.info.run_id for run in after} == set(live)
    for run in (*cells(after).values(), *models(after).values()):
        assert (run.data.metrics, run.data.params) == live[run.info.run_id]
    assert parent(after).data.metrics == {**live[parent(after).info.run_id][0], "episodes_done": 20.0}


def test_rebuilt_run_has_history_of_live_run(folder, empty, tmp_path):
    run_tracker = tracker(folder)
    run_tracker.start()
    for number in range(3):
        run_tracker.cell(row(0, finished=number + 1))
        record(run_tracker, number, episodes_per_second=5.0 + number)
        record(run_tracker, number, **{"system/gpus_utilization_percentage": 90.0 + number})
        time.sleep(0.01)
    run_tracker.close("FINISHED", timeout=60)
    live = history(folder)
    with (folder / "progress.jsonl").open("a") as file:
        file.write('{"done": 1, "at": "no time"}\n[]\n{"done": 7, "at": 9, "acc\\u0000": 1, "x": NaN}\n{"torn')
    shutil.copy(empty, tmp_path / "mlflow.db")
    write_run_files(folder, [row(0)])
    track(folder, f"sqlite:///{tmp_path / 'mlflow.db'}")
    rebuilt = history(tmp_path)

    assert live["episodes_per_second"] == [(0, 5.0), (1, 6.0), (2, 7.0)]
    assert {name: points for name, points in rebuilt.items() if name != "episodes_done"} == {
        name: points for name, points in live.items() if name != "episodes_done"
    }


def history(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the sweep run's metrics over time: name -> steps and values."""
    top = parent(runs(folder))
    over_time = [name for name in top.data.metrics if name.startswith(("episodes", "system"))]
    return {
        name: [(point.step, point.value) for point in client(folder).get_metric_history(top.info.run_id, name)]
        for name in over_time
    }


def test_experiment_has_views_and_run_folder_their_address(folder):
    send(folder, [row(0)], roster=Roster(("m0",), conditions=("hint",)))
    send(folder, [row(0)], roster=Roster(("m0",), conditions=("zero-shot",)))
    tags = client(folder).get_experiment_by_name("sweep").tags
    views = {key: json.loads(value) for key, value in tags.items() if key.startswith("mlflow.sharedViewState.")}
    packed = views["mlflow.sharedViewState.proactive-sweep-models"]["state"].removeprefix("deflate;")
    state = json.loads(zlib.decompress(base64.b64decode(packed)))
    (line,) = pages(folder)

    assert {view["name"] for view in views.values()} == {"Models", "Sweeps side by side", "Cells"}
    assert state["searchFilter"] == "tags.level = 'model'"
    charted = [chart["selectedMetrics"] for chart in state["compareRunCharts"] if chart["type"] == "PARALLEL"]
    assert charted[0] == ["acc_under/hint", "acc_under/zero-shot"], "conditions of every sweep of the experiment"
    assert line.endswith("/#/experiments/1/runs?viewStateShareKey=proactive-sweep-models")


def test_track_and_live_mirror_record_same_parameters(tmp_path):
    model = ModelSpec(name="m", source="builtin:oracle", backend="builtin", options={"api_key": "hidden"})
    sweep = Sweep(
        name="s", data="d", models=(model,), scenarios=("QD",), conditions=(Condition(name="hint", hint=True),)
    )
    rebuilt = parameters(sweep.model_dump(mode="json", exclude_none=True))
    live = build_tracker(sweep, tmp_path).run.params

    assert rebuilt == {name: text for name, text in live.items() if text != "None"}
    assert rebuilt["models"] == "m"
    assert "hidden" not in str(live)


def test_track_without_results_is_refused(tmp_path):
    with pytest.raises(RunFolderError, match="has no results to send"):
        track(tmp_path)


def test_track_to_missing_server_is_refused_without_password(tmp_path):
    write_run_files(tmp_path, [row(0)], tracking={"uri": "http://***@host"})
    with pytest.raises(RunFolderError, match="type the whole address as --tracking-uri"):
        track(tmp_path)
    with pytest.raises(RunFolderError, match="did not accept the runs") as caught:
        track(tmp_path, closed_address().replace("//", "//me:hidden@"))

    assert "hidden" not in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_of_any_name_holds_its_database_and_files(tmp_path):
    folder = tmp_path / "a?b#c%20 d é"
    folder.mkdir()
    (folder / "results.json").write_text("[]")
    opened = tracker(folder)
    opened.start()
    opened.cell(row(0))
    opened.artifacts([folder / "results.json"])
    opened.close("FINISHED")

    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert (folder / "mlflow.db").stat().st_size and len(list((folder / "mlartifacts").rglob("results.json"))) == 1
    (page,) = pages(folder)
    assert f"'sqlite:///{tmp_path}/a%3Fb%23c%2520 d é/mlflow.db'" in page
