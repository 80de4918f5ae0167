"""Rebuilds the MLflow runs of a run folder (``proactive-sweep track``)."""

from collections.abc import Callable
from pathlib import Path

import polars as pl

from actors.text.redaction import redact_address
from envs.errors import RunFolderError
from envs.installed import load_function, offers
from orchestrator.planning.named_by_user import check_tracking
from orchestrator.storage import checksums
from orchestrator.storage.run_folder import stored_sweep
from orchestrator.storage.schemas import UNREADABLE
from orchestrator.tracking.client import LOCAL, first_line
from orchestrator.tracking.mlflow_run import CELL_NAMES, MlflowRun
from orchestrator.tracking.tracker import TrackedRun, describe_dataset, is_mlflow


def track(folder: Path, uri: str | None = None, data: Path | None = None) -> None:
    """Send a run folder to MLflow; raises RunFolderError if the folder has no results or MLflow does not accept them,
    and PackageError if the extra's bridge cannot be imported.

    This adds what a live sweep has no time for: tables, figures, the report, the data set, and an extra's traces.
    ``data`` is the folder of the benchmark (default: the sweep's).
    """
    sweep, rows = stored_sweep(folder), read_results(folder)
    address = uri or _stored_address(folder, sweep.tracking.uri)
    failed = "failed" in rows.columns and bool(rows["failed"].sum())
    send_traces = load_function("bridge", "track") if "track" in offers("bridge") else None
    is_complete = rows["finished"].sum() == rows["planned"].sum() and not failed
    try:
        run = MlflowRun(TrackedRun.of(sweep, folder, address))
        run.send(rows.iter_rows(named=True), "FINISHED" if is_complete else "FAILED")
        _send_report(run, data, send_traces)
    except Exception as error:  # MLflow's stores raise any error: SQL, HTTP and file errors among them
        raise RunFolderError(
            f"MLflow at {redact_address(address)} did not accept the runs of {folder}: {first_line(error)}; repeat the "
            f"command once it does, or add `--tracking-uri sqlite` for a file in the folder"
        ) from None


def _send_report(run: MlflowRun, data: Path | None, send_traces: Callable[..., None] | None) -> None:
    """Send tables, figures, the page, the data set and an extra's traces; nothing if the folder's episodes cannot be read."""
    from orchestrator.report.figures.draw import draw_figures
    from orchestrator.report.html.page import write_page
    from orchestrator.report.read_run import read_run
    from orchestrator.report.tables.all_tables import write_tables

    try:
        run_data = read_run(run.folder, data)
    except RunFolderError:
        return
    for path in write_tables(run_data):
        run.client.log_artifact(run.parent, str(path), "tables")
    for name, figure in draw_figures(run_data).items():
        run.client.log_figure(run.parent, figure, f"figures/{name}.png")
    run.client.log_artifact(run.parent, str(write_page(run_data)))
    if run_data.samples:
        run.send_dataset(describe_dataset(run_data.sweep.name, run_data.sweep.data, run_data.samples))
    if send_traces:
        send_traces(run, run_data, data)


def read_results(folder: Path) -> pl.DataFrame:
    """Return the results of a run, a row per cell; raises RunFolderError."""
    try:
        rows = pl.read_parquet(checksums.read_verified(folder / "results.parquet"))
        rows.select(*CELL_NAMES, pl.col("planned", "finished").sum(), pl.col("^failed$").sum())
        return rows
    except UNREADABLE as error:
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
