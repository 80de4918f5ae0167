"""What the tests of MLflow share: rows, real stores and how to read what they hold."""

from __future__ import annotations

import json
import socket
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import tomli_w

from orchestrator.storage.progress_log import Point, append_point
from orchestrator.tracking.mlflow.client import now_ms
from orchestrator.tracking.mlflow.run import MlflowRun, Update
from orchestrator.tracking.tracked_run import EMPTY_ROSTER, Roster, TrackedRun
from orchestrator.tracking.tracker import Tracker, open_tracker


def row(number: int, finished: int = 10, acc: float = 50.0) -> dict[str, Any]:
    return {
        "cell": f"m{number}/QD/hint", "model": f"m{number}", "scenario": "QD", "condition": "hint", "protocol": "mcqa",
        "planned": 10, "finished": finished, "errors": 0, "acc": acc, "acc_low": 40.0, "acc_high": 60.0, "ps": 0.5, "loops": None,
    }  # fmt: skip


def client(location: Path | str):
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=location if isinstance(location, str) else f"sqlite:///{location / 'mlflow.db'}")


def runs(location: Path | str, name: str = "sweep"):
    mlflow_client = client(location)
    return mlflow_client.search_runs([mlflow_client.get_experiment_by_name(name).experiment_id], max_results=5000)


def parent(all_runs):
    (parent_run,) = [run for run in all_runs if "mlflow.parentRunId" not in run.data.tags]
    return parent_run


def cells(all_runs) -> dict[str, Any]:
    """Cell -> its run; fails where a cell has two."""
    nested = [run for run in all_runs if run.data.tags["level"] == "cell"]
    assert len({run.data.tags["cell"] for run in nested}) == len(nested), "a cell has two runs"
    return {run.data.tags["cell"]: run for run in nested}


def models(all_runs) -> dict[str, Any]:
    """Model -> its run; fails where a model has two."""
    nested = [run for run in all_runs if run.data.tags["level"] == "model"]
    assert len({run.data.tags["model"] for run in nested}) == len(nested), "a model has two runs"
    return {run.data.tags["model"]: run for run in nested}


def tracked_run(
    folder: Path, uri: str = "sqlite", params: dict[str, str] | None = None, roster: Roster = EMPTY_ROSTER
) -> TrackedRun:
    return TrackedRun(uri, "sweep", folder, "sweep", params or {"models": "m0, m1"}, roster)


def tracker(folder: Path, **how: Any) -> Tracker:
    return open_tracker(tracked_run(folder, **how))


def record(tracked: Tracker, done: int, **metrics: float) -> None:
    """A point over time, as ``Progress`` records it."""
    point = Point(done=done, at=int(time.time() * 1000), **metrics)
    if tracked.enabled:
        append_point(tracked.run.folder, point)
    tracked.progress(point)


def send(folder: Path, rows: Sequence[dict[str, Any]], status: str = "FINISHED", **how: Any) -> None:
    """Send what the tracker's process would send, from this process, where MLflow is imported already."""
    cells = {cell["cell"]: {**cell, "at": now_ms()} for cell in rows}
    MlflowRun(tracked_run(folder, **how)).send(Update(cells, status=status))


def mirror(folder: Path, rows: Sequence[dict[str, Any]], status: str = "FINISHED", **how: Any) -> None:
    """Send rows through the tracker and the process it starts."""
    tracked = tracker(folder, **how)
    tracked.start()
    for number, cell in enumerate(rows):
        tracked.cell(cell)
        record(tracked, number, episodes_per_second=5.0)
    tracked.close(status, timeout=120)


def write_run_files(folder: Path, rows: Sequence[dict[str, Any]], **sweep: Any) -> None:
    """Write the files of a run folder that ``track`` reads."""
    (folder / "sweep.resolved.toml").write_text(tomli_w.dumps({"name": "sweep", **sweep}))
    pl.DataFrame(rows).write_parquet(folder / "results.parquet")
    (folder / "results.json").write_text(json.dumps(rows))


def hand_over(tracked: Tracker, number: int = 2000) -> None:
    """Many rows at the pace of a fast sweep; each must be there to be sent, whatever the sender waits for."""
    for count in range(number):
        value = row(count % 50, acc=float(count))
        tracked.cell(value)
        if count % 100 == 99:
            record(tracked, count, episodes_per_second=1.0)
            time.sleep(0.05)


def store(folder: Path) -> Path:
    """A store with MLflow's tables and nothing in them: making them takes seconds."""
    client(folder)
    with sqlite3.connect(folder / "mlflow.db") as connection:
        connection.execute("VACUUM INTO ?", (str(folder / "empty.db"),))
    connection.close()
    return folder / "empty.db"


def wait_until(true, seconds: float = 60.0) -> None:
    """Wait for something that another thread or process does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if true():
                return
        except (AttributeError, OSError):
            pass  # the experiment, or the server, is not there yet
        time.sleep(0.2)
    raise AssertionError("it did not happen in time")


def closed_address() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
