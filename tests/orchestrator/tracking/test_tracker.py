"""A run in MLflow is complete if the server works, and never blocks the sweep if it does not; with real processes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from envs.errors import RunFolderError
from orchestrator.storage.progress_log import Point, append_point
from orchestrator.tracking.client import pages
from orchestrator.tracking.rebuild import track
from orchestrator.tracking.tracker import TrackedRun, Tracker
from tests.orchestrator.mlflow_stores import (
    cells,
    client,
    closed_address,
    models,
    parent,
    runs,
    start_tracker,
    tracked_run,
    wait_until,
)
from tests.orchestrator.report.runs import play_sweep, sweep

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def played(demo_data, tmp_path_factory):
    """A sweep and its run folder, and the folder of the same sweep after half of its episodes."""
    wanted = sweep(demo_data, ["oracle", "guess"], ["zero-shot", "hint"], scenarios=["QD", "ROD"])
    folder = tmp_path_factory.mktemp("played")
    return wanted, play_sweep(folder / "whole", wanted), play_sweep(folder / "half", wanted, only=40)


@pytest.fixture
def half(played, folder) -> Path:
    shutil.copytree(played[2], folder, dirs_exist_ok=True)
    return folder


def finish(played, folder: Path) -> None:
    """Replace a half played folder by the whole one, as if the sweep had gone on."""
    shutil.copytree(played[1], folder, dirs_exist_ok=True)


def count_cells(folder: Path) -> int:
    """Count the runs of cells without MLflow's client, which would keep the database open."""
    with closing(sqlite3.connect(folder / "mlflow.db")) as store:
        return int(store.execute("SELECT count(*) FROM tags WHERE key = 'level' AND value = 'cell'").fetchone()[0])


def test_live_sweep_is_complete_in_one_file_and_track_changes_nothing(played, half, tmp_path, capfd):
    half = half.rename(tmp_path / "a?b#c%20 d é")  # a name that has to be quoted in the database's address
    tracker = start_tracker(played[0], half)
    for number in range(3):
        append_point(half, Point(done=number, at=1000 + number, episodes_per_second=5.0 + number))
    wait_until(lambda: count_cells(half) == 8)
    finish(played, half)
    tracker.close("FINISHED", timeout=120)
    files = [path.name for path in half.glob("mlflow.db*")]
    assert [path.name for path in tmp_path.iterdir()] == [half.name], "MLflow leaves no folder beside it"
    (page,) = pages(half)
    assert f"'sqlite:///{tmp_path}/a%3Fb%23c%2520 d é/mlflow.db'" in page
    live = {run.info.run_id: (run.data.metrics, run.data.params) for run in runs(half, "test")}
    top = parent(runs(half, "test"))
    track(half)
    after = runs(half, "test")

    assert files == ["mlflow.db"] and all("waiting for MLflow" in s for s in "".join(capfd.readouterr()).splitlines())
    assert {run.info.status for run in after} == {"FINISHED"} and set(models(after)) == {"oracle", "guess"}
    rates = client(half).get_metric_history(top.info.run_id, "episodes_per_second")
    assert [(point.step, point.value) for point in rates] == [(0, 5.0), (1, 6.0), (2, 7.0)]
    artifacts = {file.path for file in client(half).list_artifacts(top.info.run_id)}
    assert artifacts >= {"results.json", "report.html", "tables"}
    assert models(after)["oracle"].data.metrics["acc"] == 100.0 and top.inputs.dataset_inputs
    for run in (*cells(after).values(), *models(after).values()):
        assert (run.data.metrics, run.data.params) == live[run.info.run_id]


def test_tracker_does_not_import_mlflow_and_none_starts_nothing(tmp_path):
    code = "import sys, orchestrator.tracking.tracker, orchestrator.tracking.process; print('mlflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    tracker = Tracker(TrackedRun("none", "e", tmp_path, "s", {}))
    tracker.close("FINISHED")

    assert done.stdout == "False\n" and not tracker.is_tracked
    with pytest.raises(RunFolderError, match=r"//\*\*\*@host:4318: .* left after 0\.2\.0.*MLflow"):
        Tracker(TrackedRun("otlp://me:secret@host:4318", "e", tmp_path, "s", {}))


def test_a_sentence_with_a_byte_that_is_not_utf8_does_not_end_the_recording(tmp_path, capfd):
    folder = tmp_path / os.fsdecode(b"run\xff")
    folder.mkdir()
    with Tracker(tracked_run(folder)) as tracker:
        tracker.start({})
        assert r"run\udcff/mlflow.db" in wait_for("cannot be reached", capfd)
        assert tracker._process.poll() is None


def test_a_run_that_plays_nothing_leaves_no_process_and_no_store(tmp_path):
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with Tracker(tracked_run(tmp_path)) as tracker, tracker.in_background():
        assert os.getpriority(os.PRIO_PROCESS, tracker._process.pid) == min(19, own + 10)

    assert tracker._process.poll() is not None and not list(tmp_path.iterdir())


def test_killed_process_is_reported_and_the_next_attempt_doubles_nothing(played, half, capfd):
    tracker = start_tracker(played[0], half)
    wait_until(lambda: count_cells(half) > 3)
    os.kill(tracker._process.pid, signal.SIGKILL)
    tracker.close("FINISHED", timeout=60)
    assert "lacks what the run folder stored last; send it with: proactive-sweep track " in capfd.readouterr().err
    finish(played, half)
    track(half)

    assert (len(cells(runs(half, "test"))), len(models(runs(half, "test")))) == (8, 2)
    assert parent(runs(half, "test")).info.status == "FINISHED"


@pytest.mark.slow
@pytest.mark.long
def test_hanging_server_prints_one_warning_and_delay_is_bounded(played, half, capfd):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(64)
        tracker = start_tracker(played[0], half, f"http://127.0.0.1:{deaf.getsockname()[1]}")
        err = wait_for("cannot be reached", capfd)
        tracker.close("KILLED", timeout=2)  # a server that hangs would keep it for ever
        assert tracker._process.poll() is not None, "the process that waits for the server is ended"
        err += capfd.readouterr().err

    sentences = ("cannot be reached", "waiting for MLflow", "lacks what")
    assert [err.count(words) for words in (*sentences, "\n")] == [1, 1, 1, 3]


def wait_for(sentence: str, capfd) -> str:
    """Wait for this sentence on standard error; return what was printed until then."""
    printed: list[str] = []
    wait_until(lambda: printed.append(capfd.readouterr().err) or sentence in "".join(printed))
    return "".join(printed)


@contextmanager
def server(folder: Path, port: int) -> Iterator[None]:
    """A real MLflow server, ended by its process id."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
         "--backend-store-uri", f"sqlite:///{folder / 'server.db'}", "--artifacts-destination", str(folder / "art")],
        env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(lambda: is_healthy(port), 150)
        yield
    finally:
        process.terminate()
        process.wait(60)


def is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


@pytest.mark.slow
@pytest.mark.long
def test_returning_server_ends_with_right_values(played, half, tmp_path, empty, capfd):
    shutil.copy(empty, tmp_path / "server.db")
    port = int(closed_address().rsplit(":", 1)[1])
    plain, secret = f"http://127.0.0.1:{port}", f"http://me:hidden@127.0.0.1:{port}"
    with server(tmp_path, port):
        tracker = start_tracker(played[0], half, secret)
        wait_until(lambda: len(runs(plain, "test")) == 1 + 2 + 8)
    append_point(half, Point(done=9, at=9000, episodes_per_second=1.0))
    err = wait_for("cannot be reached", capfd)
    finish(played, half)
    with server(tmp_path, port):
        err += wait_for("can be reached again", capfd)
        tracker.close("FINISHED", timeout=60)
        mlflow_runs = runs(plain, "test")
        files = client(plain).list_artifacts(parent(mlflow_runs).info.run_id)
    captured = capfd.readouterr()
    err += captured.err

    assert len(cells(mlflow_runs)) == 8 and {run.info.status for run in mlflow_runs} == {"FINISHED"}
    assert models(mlflow_runs)["oracle"].data.metrics["acc"] == 100.0
    assert parent(mlflow_runs).data.metrics["episodes_per_second"] == 1.0, "points of the outage are sent too"
    assert [file.path for file in files] == ["results.json", "sweep.resolved.toml"]
    away, again = (line for line in err.splitlines() if "waiting for MLflow" not in line)  # the machine may be busy
    assert "cannot be reached" in away and "can be reached again" in again
    assert captured.out == "", "MLflow would print the address at each run that ends"
    assert "hidden" not in err + (half / "mlflow.json").read_text()
