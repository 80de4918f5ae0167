"""Sends to MLflow what a reader wants beside the runs: tables, figures, the report, the data set, transcripts.

Sent again it replaces itself. A folder that is no whole run (no plan, a damaged file) still shows its cells.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl

from orchestrator.storage.lock import RunFolderError
from orchestrator.tracking.dataset import described
from orchestrator.tracking.mlflow_client import MlflowRun
from orchestrator.tracking.traces import send_transcripts

TABLES = "mlflow.loggedArtifacts"
"""Tag by which MLflow knows which artifacts are tables (``log_table`` sets it)."""


def send_artifacts(run: MlflowRun, folder: Path, rows: pl.DataFrame, data: Path | None = None) -> None:
    """Send everything that a reader may want and that a live sweep has no time for."""
    from orchestrator.report.run_data import read

    try:
        run_data = read(folder, data)
    except RunFolderError:
        send_tables(run, {"cells": rows})
        return
    from orchestrator.report import plot_style
    from orchestrator.report.estimates import estimate
    from orchestrator.report.figures import figures
    from orchestrator.report.html import write_page
    from orchestrator.report.tables import grids, measures
    from orchestrator.tracking.transcripts import transcripts

    intervals = estimate(run_data)
    made = {grid.name: grid.numbers for grid in grids(run_data, intervals)} | measures(run_data)
    send_tables(run, {"cells": rows, **made})
    for name, figure in figures(run_data).items():
        _send(run, f"figures/{name}.png", plot_style.png(figure))
    run.client.log_artifact(run.parent, str(write_page(run_data, data)))
    if run_data.samples:
        run.send_data(described(run_data.sweep.name, run_data.sweep.data, run_data.samples))
    send_transcripts(run, transcripts(run_data, data), (folder / "results.parquet").stat().st_mtime_ns)


def send_tables(run: MlflowRun, tables: dict[str, pl.DataFrame]) -> None:
    """Tables as ``log_table`` writes them; that one reads back and appends, so a table sent twice would be doubled."""
    for name, frame in tables.items():
        content = {"columns": frame.columns, "data": [list(map(_cell, row)) for row in frame.iter_rows()]}
        _send(run, f"tables/{name}.json", json.dumps(content).encode())
    entries = [{"path": f"tables/{name}.json", "type": "table"} for name in tables]
    run.client.set_tag(run.parent, TABLES, json.dumps(entries))


def _cell(value: Any) -> Any:
    """What JSON and a reader can take: three decimals are enough to look at."""
    if isinstance(value, float):
        return round(value, 3) if value == value and abs(value) != float("inf") else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _send(run: MlflowRun, name: str, content: bytes) -> None:
    run.client.log_stream(run.parent, io.BytesIO(content), name)
