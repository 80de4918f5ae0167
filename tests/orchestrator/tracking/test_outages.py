"""A dead, deaf or returning MLflow server never slows or stops a sweep. Real sockets and a real server throughout."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.orchestrator.mlflow_stores import (
    cells,
    client,
    closed_address,
    hand_over,
    parent,
    row,
    runs,
    tracker,
    wait_until,
)

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_refused_connection_prints_one_warning_and_a_summary(tmp_path, capfd):
    run_tracker = tracker(tmp_path, uri=closed_address().replace("//", "//me:hid@den@"))
    run_tracker.start()
    hand_over(run_tracker)
    err = wait_for("cannot be reached", capfd)
    time.sleep(2.5)  # a second failure prints nothing
    run_tracker.close("FINISHED", timeout=300)
    captured = capfd.readouterr()
    err += captured.err

    assert not run_tracker._thread.is_alive(), "a server that is known to be gone is not waited for"
    assert [line.split("***@")[1].split(" ", 1)[1].split(",")[0].split(";")[0] for line in err.splitlines()] == [
        "cannot be reached", "did not receive everything",
    ]  # fmt: skip
    assert "hid" not in err + captured.out and "den@" not in err + captured.out
    assert "the next `run` sends it" in err, "`track` has nothing to send before the first results"


def test_hanging_server_prints_one_warning_and_delay_is_bounded(tmp_path, capfd):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(64)
        run_tracker = tracker(tmp_path, uri=f"http://127.0.0.1:{deaf.getsockname()[1]}")
        run_tracker.start()
        hand_over(run_tracker)
        err = wait_for("cannot be reached", capfd)
        run_tracker.close("KILLED", timeout=2)  # a server that hangs would keep it for ever
        assert run_tracker._process.poll() is not None, "the process that waits for the server is ended"
        err += capfd.readouterr().err

    assert (err.count("cannot be reached"), err.count("did not receive everything"), err.count("\n")) == (1, 1, 2)


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
        wait_until(lambda: healthy(port), 150)
        yield
    finally:
        process.terminate()
        process.wait(60)


def healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


@pytest.mark.slow
def test_returning_server_ends_with_right_values(tmp_path, empty, capfd):
    shutil.copy(empty, tmp_path / "server.db")
    port = int(closed_address().rsplit(":", 1)[1])
    plain, secret = f"http://127.0.0.1:{port}", f"http://me:hidden@127.0.0.1:{port}"
    (tmp_path / "results.json").write_text("[]")
    run_tracker = tracker(tmp_path, uri=secret)
    with server(tmp_path, port):
        run_tracker.start()
        for number in range(10):
            run_tracker.cell(row(number, finished=1, acc=1.0))
        wait_until(lambda: len(runs(plain)) == 1 + 10 + 10)
    hand_over(run_tracker, 1000)
    err = wait_for("cannot be reached", capfd)
    for number in range(50):
        run_tracker.cell(row(number, acc=99.0))
    run_tracker.artifacts([tmp_path / "results.json"])
    with server(tmp_path, port):
        err += wait_for("can be reached again", capfd)
        run_tracker.close("FINISHED", timeout=60)
        mlflow_runs = runs(plain)
        files = client(plain).list_artifacts(parent(mlflow_runs).info.run_id)
    captured = capfd.readouterr()
    err += captured.err

    assert {name: run.data.metrics["acc"] for name, run in cells(mlflow_runs).items()} == {
        f"m{n}/QD/hint": 99.0 for n in range(50)
    }
    assert {run.info.status for run in mlflow_runs} == {"FINISHED"}
    assert [file.path for file in files] == ["results.json"]
    assert (err.count("cannot be reached"), err.count("can be reached again"), err.count("\n")) == (1, 1, 2)
    assert captured.out == "", "MLflow would print the address at each run that ends"
    assert "hidden" not in err + (tmp_path / "mlflow.json").read_text()
