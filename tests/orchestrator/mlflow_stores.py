"""What the tests of MLflow share: rows, real stores and how to read what they hold."""

from __future__ import annotations

import json
import socket
import sqlite3
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from orchestrator.storage.run_folder import sweep_toml
from orchestrator.tracking.client import resolve_uri
from orchestrator.tracking.mlflow_run import MlflowRun
from orchestrator.tracking.tracker import TrackedRun, Tracker, describe_dataset
from sweeps.load import build


def row(number: int, finished: int = 10, acc: float = 50.0) -> dict[str, Any]:
    return {
        "cell": f"m{number}/QD/hint", "model": f"m{number}", "scenario": "QD", "condition": "hint", "protocol": "mcqa",
        "planned": 10, "finished": finished, "errors": 0, "acc": acc, "acc_low": 40.0, "acc_high": 60.0, "ps": 0.5, "loops": None,
    }  # fmt: skip


def client(location: Path | str):
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=location if isinstance(location, str) else resolve_uri("sqlite", location))


def runs(location: Path | str, name: str = "sweep"):
    mlflow_client = client(location)
    return mlflow_client.search_runs([mlflow_client.get_experiment_by_name(name).experiment_id], max_results=5000)


def parent(all_runs):
    (parent_run,) = [run for run in all_runs if "mlflow.parentRunId" not in run.data.tags]
    return parent_run


def _by_tag(level: str, all_runs) -> dict[str, Any]:
    """Cell or model -> its run; fails where one has two."""
    nested = [run for run in all_runs if run.data.tags["level"] == level]
    by_tag = {run.data.tags[level]: run for run in nested}
    assert len(by_tag) == len(nested), f"a {level} has two runs"
    return by_tag


cells, models = partial(_by_tag, "cell"), partial(_by_tag, "model")


def tracked_run(folder: Path, uri: str = "sqlite", params: dict[str, str] | None = None, **more: Any) -> TrackedRun:
    return TrackedRun(uri, "sweep", folder, "sweep", params or {"models": "m0, m1", "conditions": "hint"}, **more)


def send(folder: Path, rows: Sequence[dict[str, Any]], status: str = "FINISHED", **how: Any) -> None:
    """Send rows as the tracker's process would, from this process, where MLflow is imported already."""
    run = MlflowRun(tracked_run(folder, **how))
    run.send_cells(rows)
    if status:
        run.end(status)


def start_tracker(sweep, folder: Path, uri: str = "sqlite") -> Tracker:
    tracker = Tracker(TrackedRun.of(sweep, folder, uri))
    tracker.start(describe_dataset(sweep.name, sweep.data, {}))
    return tracker


def write_run_files(folder: Path, rows: Sequence[dict[str, Any]], **sweep: Any) -> None:
    """Write the files of a run folder that ``track`` reads."""
    table = {"name": "sweep", "data": "d", "model": [{"name": "m0", "source": "s", "backend": "vllm"}], **sweep}
    (folder / "sweep.resolved.toml").write_text(sweep_toml(build(table, "sweep.toml")))
    pl.DataFrame(rows).write_parquet(folder / "results.parquet")
    (folder / "results.json").write_text(json.dumps(rows))


def store(folder: Path) -> Path:
    """A store with MLflow's tables and nothing in them: making them takes seconds."""
    client(folder)
    with sqlite3.connect(folder / "mlflow.db") as connection:
        connection.execute("VACUUM INTO ?", (str(folder / "empty.db"),))
    connection.close()
    return folder / "empty.db"


def wait_until(true, seconds: float = 180.0) -> None:
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
