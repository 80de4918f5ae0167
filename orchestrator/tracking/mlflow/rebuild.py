"""Rebuilds the MLflow runs of a run folder (``proactive-sweep track``)."""

import io
import json
import tomllib
from pathlib import Path
from typing import Any

import polars as pl

from actors.text.redaction import redact_address
from envs.errors import RunFolderError
from orchestrator.planning.named_by_user import check_tracking
from orchestrator.storage import checksums, safe_write
from orchestrator.storage.progress_log import Point, stored_points
from orchestrator.tracking.mlflow.client import first_line, now_ms
from orchestrator.tracking.mlflow.local_store import LOCAL
from orchestrator.tracking.mlflow.run import MlflowRun, Update
from orchestrator.tracking.mlflow.run_tree import CELL_NAMES
from orchestrator.tracking.mlflow.traces import send_transcripts
from orchestrator.tracking.tracked_run import TrackedRun, describe_dataset
from orchestrator.tracking.tracker import is_mlflow

TABLES = "mlflow.loggedArtifacts"
"""Tag that lists the artifacts that are tables (``log_table`` sets it)."""


def send_artifacts(run: MlflowRun, folder: Path, rows: pl.DataFrame, data: Path | None = None) -> None:
    """Send all artifacts of a run folder; ``data`` is the folder of the benchmark."""
    from orchestrator.report.read_run import read_run

    try:
        run_data = read_run(folder, data)
    except RunFolderError:
        send_tables(run, {"cells": rows})
        return
    from orchestrator.report.figures import style as plot_style
    from orchestrator.report.figures.draw import draw_figures
    from orchestrator.report.html import write_page
    from orchestrator.report.tables.all_tables import report_tables
    from orchestrator.report.tables.write import measure_frames
    from orchestrator.tracking.transcripts import transcripts

    tables = report_tables(run_data)
    numbers = {table.name: table.numbers for table in tables if table.numbers is not None}
    send_tables(run, {"cells": rows, **numbers, **measure_frames(run_data)})
    for name, figure in draw_figures(run_data).items():
        _send(run, f"figures/{name}.png", plot_style.render(figure, "png"))
    run.client.log_artifact(run.parent, str(write_page(run_data)))
    if run_data.samples:
        run.send_dataset(describe_dataset(run_data.sweep.name, run_data.sweep.data, run_data.samples))
    send_transcripts(run, transcripts(run_data, data), (folder / "results.parquet").stat().st_mtime_ns)


def send_tables(run: MlflowRun, tables: dict[str, pl.DataFrame]) -> None:
    """Send tables in the format of MLflow's ``log_table``, which would append to a table that was sent before."""
    for name, frame in tables.items():
        content = {"columns": frame.columns, "data": [list(map(_json_value, row)) for row in frame.iter_rows()]}
        _send(run, f"tables/{name}.json", json.dumps(content).encode())
    entries = [{"path": f"tables/{name}.json", "type": "table"} for name in tables]
    run.client.set_tag(run.parent, TABLES, json.dumps(entries))


def _json_value(value: Any) -> Any:
    """Return a value that JSON can store; floats are rounded to three decimals, enough for a table on a page."""
    if isinstance(value, float):
        return round(value, 3) if value == value and abs(value) != float("inf") else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _send(run: MlflowRun, name: str, content: bytes) -> None:
    run.client.log_stream(run.parent, io.BytesIO(content), name)


def track(folder: Path, uri: str | None = None, data: Path | None = None) -> None:
    """Send a run folder to MLflow; raises RunFolderError if the folder has no results or MLflow does not accept them.

    This adds what a live sweep has no time for: tables, figures, the report, the data set and a sample of episodes as traces.
    ``data`` is the folder of the benchmark (default: the sweep's).
    """
    safe_write.refuse_links(folder)
    sweep, rows = read_results(folder)
    address = uri or _stored_address(folder, sweep["tracking"].get("uri", LOCAL))
    done, at = int(rows["finished"].sum()), now_ms()
    failed = "failed" in rows.columns and bool(rows["failed"].sum())
    update = Update(
        {row["cell"]: {**row, "at": at} for row in rows.iter_rows(named=True)},
        (*stored_points(folder), Point(done=done, at=at)),
        (folder / "sweep.resolved.toml", folder / "results.json"),
        status="FINISHED" if done == rows["planned"].sum() and not failed else "FAILED",
    )
    try:
        run = MlflowRun(TrackedRun.of(sweep, folder, address))
        run.send(update)
        send_artifacts(run, folder, rows, data)
    except Exception as error:  # MLflow's stores raise any error: SQL, HTTP and file errors among them
        raise RunFolderError(
            f"MLflow at {redact_address(address)} did not accept the runs of {folder}: {first_line(error)}; repeat the "
            f"command once it does, or add `--tracking-uri sqlite` for a file in the folder"
        ) from None


def read_results(folder: Path) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return the resolved sweep and its results; raises RunFolderError."""
    try:
        sweep = tomllib.loads(checksums.read_verified(folder / "sweep.resolved.toml").decode())
        rows = pl.read_parquet(checksums.read_verified(folder / "results.parquet"))
        rows.select(*CELL_NAMES, pl.col("planned", "finished").sum())
        return {"tracking": {}, **sweep, "name": str(sweep["name"])}, rows
    except (OSError, ValueError, KeyError, TypeError, RecursionError, pl.exceptions.PolarsError) as error:
        raise RunFolderError(
            f"{folder} has no results to send ({first_line(error)}); run its sweep first: proactive-sweep run"
        ) from None


def _stored_address(folder: Path, uri: str) -> str:
    """Return the address in a folder's sweep if it is safe to send to; raises RunFolderError.

    A folder may come from someone else, and MLflow sends the user's login to the address, so the user must type the address
    of any other machine. Folders store no passwords.
    """
    if "//***@" in uri:
        raise RunFolderError(f"{folder} does not store the password of {uri}; type the whole address as --tracking-uri")
    if uri == LOCAL or not is_mlflow(uri):
        return LOCAL
    check_tracking(folder, uri)
    return uri
