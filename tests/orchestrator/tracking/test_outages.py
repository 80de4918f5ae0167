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
    hand_over,
    parent,
    refused,
    row,
    runs,
    tracker,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_a_refused_server_costs_one_warning_and_a_last_word(tmp_path, capfd):
    one = tracker(tmp_path, refused().replace("//", "//me:hid@den@"))
    one.start()
    hand_over(one)
    err = wait_for("cannot be reached", capfd)
    time.sleep(2.5)  # a second failure prints nothing
    one.close("FINISHED", timeout=300)
    said = capfd.readouterr()
    err += said.err

    assert not one._thread.is_alive(), "a server that is known to be gone is not waited for"
    assert [line.split("***@")[1].split(" ", 1)[1].split(",")[0].split(";")[0] for line in err.splitlines()] == [
        "cannot be reached", "did not receive everything",
    ]  # fmt: skip
    assert "hid" not in err + said.out and "den@" not in err + said.out
    assert "the next `run` sends it" in err, "`track` has nothing to send before the first results"


def test_a_hanging_server_costs_one_warning_and_delays_the_end_by_no_more_than_the_bound(tmp_path, capfd):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(64)
        one = tracker(tmp_path, f"http://127.0.0.1:{deaf.getsockname()[1]}")
        one.start()
        hand_over(one)
        err = wait_for("cannot be reached", capfd)
        one.close("KILLED", timeout=2)  # a server that hangs would keep it for ever
        assert one._process.poll() is not None, "the process that waits for the server is ended"
        err += capfd.readouterr().err

    assert (err.count("cannot be reached"), err.count("did not receive everything"), err.count("\n")) == (1, 1, 2)


def wait_for(sentence: str, capfd) -> str:
    """What was printed on standard error until this sentence; fails where it does not come."""
    printed: list[str] = []
    until(lambda: printed.append(capfd.readouterr().err) or sentence in "".join(printed))
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
        until(lambda: healthy(port), 150)
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
def test_a_server_that_goes_and_comes_back_ends_with_the_right_values(tmp_path, empty, capfd):
    shutil.copy(empty, tmp_path / "server.db")
    port = int(refused().rsplit(":", 1)[1])
    plain, secret = f"http://127.0.0.1:{port}", f"http://me:hidden@127.0.0.1:{port}"
    (tmp_path / "results.json").write_text("[]")
    one = tracker(tmp_path, secret)
    with server(tmp_path, port):
        one.start()
        for number in range(10):
            one.cell(row(number, finished=1, acc=1.0))
        until(lambda: len(runs(plain)) == 1 + 10 + 10)
    hand_over(one, 1000)
    err = wait_for("cannot be reached", capfd)
    for number in range(50):
        one.cell(row(number, acc=99.0))
    one.artifacts([tmp_path / "results.json"])
    with server(tmp_path, port):
        err += wait_for("can be reached again", capfd)
        one.close("FINISHED", timeout=60)
        found = runs(plain)
        files = client(plain).list_artifacts(parent(found).info.run_id)
    said = capfd.readouterr()
    err += said.err

    assert {name: run.data.metrics["acc"] for name, run in cells(found).items()} == {
        f"m{n}/QD/hint": 99.0 for n in range(50)
    }
    assert {run.info.status for run in found} == {"FINISHED"}
    assert [file.path for file in files] == ["results.json"]
    assert (err.count("cannot be reached"), err.count("can be reached again"), err.count("\n")) == (1, 1, 2)
    assert said.out == "", "MLflow would print the address at each run that ends"
    assert "hidden" not in err + (tmp_path / "mlflow.json").read_text()
