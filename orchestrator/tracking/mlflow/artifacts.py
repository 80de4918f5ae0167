"""Sends tables, figures, the report, the data set and transcripts of a run folder to its runs in MLflow.

Artifacts that are sent again replace themselves. A folder without a plan, or with damaged files, still gets its table of cells.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl

from orchestrator.storage.lock import RunFolderError
from orchestrator.tracking.mlflow.run import MlflowRun
from orchestrator.tracking.mlflow.traces import send_transcripts
from orchestrator.tracking.tracked_run import describe_dataset

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
    from orchestrator.report.figures.draw import run_figures
    from orchestrator.report.html import write_page
    from orchestrator.report.measures.estimates import estimate
    from orchestrator.report.tables.all_tables import report_tables
    from orchestrator.report.tables.write import measure_frames
    from orchestrator.tracking.transcripts import transcripts

    intervals = estimate(run_data)
    tables = report_tables(run_data, intervals)
    numbers = {table.name: table.numbers for table in tables if table.numbers is not None}
    send_tables(run, {"cells": rows, **numbers, **measure_frames(run_data)})
    for name, figure in run_figures(run_data).figures().items():
        _send(run, f"figures/{name}.png", plot_style.render(figure, "png"))
    run.client.log_artifact(run.parent, str(write_page(run_data, data)))
    if run_data.samples:
        run.send_dataset(describe_dataset(run_data.sweep.name, run_data.sweep.data, run_data.samples))
    send_transcripts(run, transcripts(run_data, data), (folder / "results.parquet").stat().st_mtime_ns)


def send_tables(run: MlflowRun, tables: dict[str, pl.DataFrame]) -> None:
    """Send tables in the format of ``log_table``, which itself appends to a table that is sent twice."""
    for name, frame in tables.items():
        content = {"columns": frame.columns, "data": [list(map(_json_value, row)) for row in frame.iter_rows()]}
        _send(run, f"tables/{name}.json", json.dumps(content).encode())
    entries = [{"path": f"tables/{name}.json", "type": "table"} for name in tables]
    run.client.set_tag(run.parent, TABLES, json.dumps(entries))


def _json_value(value: Any) -> Any:
    """Return a value that JSON has, with three decimals, which are enough to look at."""
    if isinstance(value, float):
        return round(value, 3) if value == value and abs(value) != float("inf") else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _send(run: MlflowRun, name: str, content: bytes) -> None:
    run.client.log_stream(run.parent, io.BytesIO(content), name)
