"""The mirror in MLflow: complete when the server is well, and never in the way when it is not. Real MLflow throughout."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import polars as pl
import pytest

from orchestrator.tracking import Tracker, public, track


def row(number: int, finished: int = 10, acc: float = 50.0) -> dict[str, object]:
    return {
        "cell": f"m{number}/QD/hint", "model": f"m{number}", "scenario": "QD", "condition": "hint", "protocol": "mcqa",
        "planned": 10, "finished": finished, "errors": 0, "acc": acc, "acc_low": 40.0, "acc_high": 60.0, "ps": 0.5, "loops": None,
    }  # fmt: skip


def client(folder: Path):
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow.db'}")


def runs(folder: Path, name: str = "sweep"):
    found = client(folder)
    experiment = found.get_experiment_by_name(name)
    return found.search_runs([experiment.experiment_id], max_results=5000)


def mirrored(folder: Path, rows, uri: str = "sqlite", status: str = "FINISHED") -> Tracker:
    folder.mkdir(exist_ok=True)
    tracker = Tracker(uri, "sweep", folder, {"models": "m0, m1"}, "sweep")
    tracker.start()
    for number, one in enumerate(rows):
        tracker.cell(one)
        tracker.progress(number, len(rows), 5.0)
    tracker.close(status, timeout=60)
    return tracker


def test_one_parent_run_and_one_nested_run_a_cell_filterable_by_its_tags(tmp_path):
    mirrored(tmp_path, [row(n) for n in range(20)])
    found = runs(tmp_path)
    parent = next(run for run in found if "mlflow.parentRunId" not in run.data.tags)
    cells = [run for run in found if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]

    assert parent.data.params["models"] == "m0, m1"
    assert parent.data.metrics["episodes_done"] == 19
    assert {run.data.tags["model"] for run in cells} == {f"m{n}" for n in range(20)}
    assert cells[0].data.metrics["acc"] == 50.0 and "loops" not in cells[0].data.metrics, "no value is no zero"
    assert {run.info.status for run in found} == {"FINISHED"}


def test_a_resumed_sweep_goes_on_in_the_same_runs(tmp_path):
    mirrored(tmp_path, [row(0, finished=4), row(1, finished=4)], status="KILLED")
    first = {run.info.run_id for run in runs(tmp_path)}
    mirrored(tmp_path, [row(0, acc=70.0), row(1)])
    again = runs(tmp_path)

    assert {run.info.run_id for run in again} == first
    assert {run.data.metrics["acc"] for run in again if "acc" in run.data.metrics} == {70.0, 50.0}


def test_a_deleted_run_is_made_anew(tmp_path):
    mirrored(tmp_path, [row(0)])
    for run in runs(tmp_path):
        client(tmp_path).delete_run(run.info.run_id)
    mirrored(tmp_path, [row(0)])

    assert len(runs(tmp_path)) == 2


def test_track_rebuilds_the_mirror_from_the_folder_alone_and_twice_changes_nothing(tmp_path):
    (tmp_path / "sweep.resolved.toml").write_text('name = "sweep"\n[tracking]\nuri = "none"\n')
    pl.DataFrame([row(n) for n in range(3)]).write_parquet(tmp_path / "results.parquet")
    track(tmp_path)
    track(tmp_path)
    found = runs(tmp_path)

    assert len(found) == 4
    cell = next(run for run in found if run.data.tags.get("model") == "m1")
    assert len(client(tmp_path).get_metric_history(cell.info.run_id, "acc")) == 1


def refused() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_a_refused_server_costs_one_warning_and_no_time(tmp_path, capsys):
    tracker = Tracker(refused(), "sweep", tmp_path, {}, "sweep")
    tracker.start()
    began = time.perf_counter()
    for number in range(2000):
        tracker.cell(row(number % 50))
        tracker.progress(number, 2000, 1.0)
    put = time.perf_counter() - began
    time.sleep(8)
    tracker.close("FINISHED", timeout=10)

    assert put < 2, "putting a row must not wait for anybody"
    assert capsys.readouterr().err.count("cannot be reached") == 1


def test_a_hanging_server_delays_the_end_by_no_more_than_the_bound(tmp_path):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        tracker = Tracker(f"http://127.0.0.1:{deaf.getsockname()[1]}", "sweep", tmp_path, {}, "sweep")
        tracker.start()
        tracker.cell(row(0))
        began = time.perf_counter()
        tracker.close("KILLED", timeout=3)

    assert time.perf_counter() - began < 4


def test_a_password_in_an_address_is_never_said():
    assert public("http://user:secret@host:5000/x") == "http://***@host:5000/x"


@pytest.mark.slow
def test_a_server_that_goes_and_comes_back_ends_with_the_right_values(tmp_path):
    port = int(refused().rsplit(":", 1)[1])

    def server() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
             "--backend-store-uri", f"sqlite:///{tmp_path / 'server.db'}", "--artifacts-destination", str(tmp_path / "art")],
            env={**__import__("os").environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 150
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                    return process
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        raise AssertionError("the server did not come up")

    first = server()
    tracker = Tracker(f"http://127.0.0.1:{port}", "sweep", tmp_path, {}, "sweep")
    try:
        tracker.start()
        for number in range(10):
            tracker.cell(row(number, finished=1, acc=1.0))
        time.sleep(6)
    finally:
        first.terminate()
        first.wait(30)
    for number in range(10):
        tracker.cell(row(number, acc=99.0))
    time.sleep(3)
    second = server()
    try:
        tracker.close("FINISHED", timeout=60)
        from mlflow.tracking import MlflowClient

        found = MlflowClient(tracking_uri=f"http://127.0.0.1:{port}")
        cells = [
            run
            for run in found.search_runs([found.get_experiment_by_name("sweep").experiment_id])
            if "mlflow.parentRunId" in run.data.tags
        ]
        assert len(cells) == 10
        assert {run.data.metrics["acc"] for run in cells} == {99.0}
    finally:
        second.terminate()
        second.wait(30)
