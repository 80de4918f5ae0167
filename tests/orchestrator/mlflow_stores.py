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
from orchestrator.tracking.tracked_run import EMPTY_ROSTER, Roster, TrackedRun
from orchestrator.tracking.tracker import Tracker, open_tracker


def row(number: int, finished: int = 10, acc: float = 50.0) -> dict[str, Any]:
    return {
        "cell": f"m{number}/QD/hint", "model": f"m{number}", "scenario": "QD", "condition": "hint", "protocol": "mcqa",
        "planned": 10, "finished": finished, "errors": 0, "acc": acc, "acc_low": 40.0, "acc_high": 60.0, "ps": 0.5, "loops": None,
    }  # fmt: skip


def client(place: Path | str):
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=place if isinstance(place, str) else f"sqlite:///{place / 'mlflow.db'}")


def runs(place: Path | str, name: str = "sweep"):
    found = client(place)
    return found.search_runs([found.get_experiment_by_name(name).experiment_id], max_results=5000)


def parent(found):
    (one,) = [run for run in found if "mlflow.parentRunId" not in run.data.tags]
    return one


def cells(found) -> dict[str, Any]:
    """Cell -> its run; fails where a cell has two."""
    nested = [run for run in found if run.data.tags["level"] == "cell"]
    assert len({run.data.tags["cell"] for run in nested}) == len(nested), "a cell has two runs"
    return {run.data.tags["cell"]: run for run in nested}


def models(found) -> dict[str, Any]:
    """Model -> its run; fails where a model has two."""
    nested = [run for run in found if run.data.tags["level"] == "model"]
    assert len({run.data.tags["model"] for run in nested}) == len(nested), "a model has two runs"
    return {run.data.tags["model"]: run for run in nested}


def tracker(
    folder: Path, uri: str = "sqlite", params: dict[str, str] | None = None, roster: Roster = EMPTY_ROSTER
) -> Tracker:
    return open_tracker(TrackedRun(uri, "sweep", folder, "sweep", params or {"models": "m0, m1"}, roster))


def record(one: Tracker, done: int, **metrics: float) -> None:
    """A point over time, as ``Progress`` records it."""
    point = Point(done=done, at=int(time.time() * 1000), **metrics)
    if one.enabled:
        append_point(one.run.folder, point)
    one.progress(point)


def mirrored(folder: Path, rows: Sequence[dict[str, Any]], status: str = "FINISHED", **how: Any) -> None:
    one = tracker(folder, **how)
    one.start()
    for number, cell in enumerate(rows):
        one.cell(cell)
        record(one, number, episodes_per_second=5.0)
    one.close(status, timeout=120)


def kept(folder: Path, rows: Sequence[dict[str, Any]], **sweep: Any) -> None:
    """The files of a run folder that ``track`` reads."""
    (folder / "sweep.resolved.toml").write_text(tomli_w.dumps({"name": "sweep", **sweep}))
    pl.DataFrame(rows).write_parquet(folder / "results.parquet")
    (folder / "results.json").write_text(json.dumps(rows))


def hand_over(one: Tracker, number: int = 2000) -> None:
    """Many rows at the pace of a fast sweep; each must be there to be sent, whatever the sender waits for."""
    for count in range(number):
        value = row(count % 50, acc=float(count))
        one.cell(value)
        if count % 100 == 99:
            record(one, count, episodes_per_second=1.0)
            time.sleep(0.05)


def store(folder: Path) -> Path:
    """A store with MLflow's tables and nothing in them: making them takes seconds."""
    client(folder)
    with sqlite3.connect(folder / "mlflow.db") as made:
        made.execute("VACUUM INTO ?", (str(folder / "empty.db"),))
    made.close()
    return folder / "empty.db"


def until(true, seconds: float = 60.0) -> None:
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


def refused() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"
