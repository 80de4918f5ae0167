"""MLflow mirrors the store and is never the source of anything: a dead server never slows or stops a sweep.

The sweep only puts the latest value of each cell into a table under a lock; a daemon thread sends what changed, about once a
second. Everything sent can be sent again: times and steps are kept, so nothing is doubled, and ``track`` rebuilds the whole
mirror from the run folder.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import Any

import polars as pl

from orchestrator import durable

LINKS = "mlflow.json"
"""Remembers, per address, which runs mirror which cells."""
EVERY = 1.0
"""Seconds between two rounds of sending."""
COOL_DOWN = 2.0
"""Seconds after a failure before the next try."""
BATCH = 900
"""Metrics a call may carry; MLflow's own limit is 1,000."""
NAMES = ("cell", "model", "scenario", "condition", "protocol")
LOCAL = "sqlite"
OFF = "none"
ENVIRONMENT = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "3",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
}
"""MLflow's defaults keep a caller waiting for 247 seconds when a server is gone."""


class Tracker:
    """The live mirror of one attempt at a sweep."""

    def __init__(self, uri: str, experiment: str, folder: Path, sweep_params: Mapping[str, str], run_name: str) -> None:
        self.off = uri == OFF
        self.uri = address(uri, folder)
        self.experiment, self.folder, self.params, self.name = experiment, folder, dict(sweep_params), run_name
        self._wake = Condition()
        self._cells: dict[str, dict[str, Any]] = {}
        self._progress: list[tuple[int, float, int]] = []
        self._artifacts: list[Path] = []
        self._status = ""
        """Set once, by ``close``: the state in which the parent run ends."""
        self._thread = Thread(target=self._work, name="mlflow-mirror", daemon=True)
        self._warned = False

    def start(self) -> None:
        """Begin to mirror; returns at once."""
        if not self.off:
            self._thread.start()

    def cell(self, row: Mapping[str, Any]) -> None:
        """The newest row of a cell (``score``); it replaces what was not sent yet."""
        with self._wake:
            self._cells[row["cell"]] = {**row, "at": _now()}

    def progress(self, done: int, planned: int, rate: float) -> None:
        """A point of progress over time on the parent run."""
        with self._wake:
            self._progress.append((done, rate, _now()))
            del self._progress[:-BATCH]

    def artifacts(self, paths: Sequence[Path]) -> None:
        """Files to keep with the parent run."""
        with self._wake:
            self._artifacts = list(dict.fromkeys([*self._artifacts, *paths]))

    def close(self, status: str, timeout: float = 20.0) -> None:
        """Send what is left, for at most ``timeout`` seconds, and end the parent run as FINISHED, FAILED or KILLED."""
        if self.off or not self._thread.is_alive():
            return
        with self._wake:
            self._status = status
            self._wake.notify()
        self._thread.join(timeout)
        if self._thread.is_alive():
            _say(
                f"MLflow at {public(self.uri)} did not take everything; `proactive-sweep track {self.folder}` sends it again"
            )

    # -- the thread ---------------------------------------------------------------------------------------------------
    def _work(self) -> None:
        mirror: Mirror | None = None
        while True:
            with self._wake:
                self._wake.wait_for(lambda: bool(self._status), EVERY)
                status, ready = self._status, self._take()
            try:
                mirror = mirror or Mirror(self.uri, self.experiment, self.folder, self.params, self.name)
                mirror.send(*ready)
                if self._warned:
                    _say(f"MLflow at {public(self.uri)} is back")
                    self._warned = False
                if status:
                    mirror.end(status)
                    return
            except Exception as problem:  # whatever MLflow raises: the sweep must not hear of it
                self._give_back(ready, problem)
                if status:
                    return
                time.sleep(COOL_DOWN)

    def _take(self) -> tuple[dict[str, dict[str, Any]], list[tuple[int, float, int]], list[Path]]:
        ready = self._cells, self._progress, self._artifacts
        self._cells, self._progress, self._artifacts = {}, [], []
        return ready

    def _give_back(
        self, ready: tuple[dict[str, Any], list[tuple[int, float, int]], list[Path]], problem: Exception
    ) -> None:
        """Keep what could not be sent, unless something newer took its place; warn once."""
        with self._wake:
            self._cells = {**ready[0], **self._cells}
            self._progress = [*ready[1], *self._progress][-BATCH:]
            self._artifacts = list(dict.fromkeys([*ready[2], *self._artifacts]))
        if not self._warned:
            reason = public(str(problem).splitlines()[0] if str(problem) else type(problem).__name__)[:200]
            _say(f"MLflow at {public(self.uri)} cannot be reached, the sweep goes on without it: {reason}")
            self._warned = True


class Mirror:
    """One parent run and its cells' runs, made or found again. Every call may raise what MLflow raises."""

    def __init__(self, uri: str, experiment: str, folder: Path, params: Mapping[str, str], name: str) -> None:
        self.folder, self.uri = folder, uri
        self.client = _client(uri)
        self.experiment = self._experiment(experiment)
        self.links = _links(folder).get(public(uri), {})
        self.runs: dict[str, str] = dict(self.links.get("cells", {}))
        self.sent: set[str] = set()
        """Runs that this process has found alive."""
        self.parent = self._parent(name, params)

    def send(
        self,
        cells: Mapping[str, Mapping[str, Any]],
        progress: Sequence[tuple[int, float, int]],
        artifacts: Sequence[Path],
    ) -> None:
        """Send rows of cells, points of progress and files."""
        from mlflow.entities import Metric

        points = [
            Metric(key, value, at, done)
            for done, rate, at in progress
            for key, value in (("episodes_done", float(done)), ("episodes_per_second", rate))
        ]
        for first in range(0, len(points), BATCH):
            self.client.log_batch(self.parent, metrics=points[first : first + BATCH])
        made = False
        for row in cells.values():
            made |= self._send_cell(row)
        if made:
            self._remember()
        for path in artifacts:
            if path.is_file():
                self.client.log_artifact(self.parent, str(path))

    def end(self, status: str) -> None:
        """Close the parent run."""
        self._remember()
        self.client.set_terminated(self.parent, status)

    def _send_cell(self, row: Mapping[str, Any]) -> bool:
        """Log one cell; True if its run had to be made."""
        from mlflow.entities import Metric

        run, made = self._cell_run(row)
        step = int(row.get("finished") or 0)
        values = {
            name: float(value)
            for name, value in row.items()
            if name not in (*NAMES, "at") and isinstance(value, int | float) and not isinstance(value, bool)
        }
        self.client.log_batch(
            run, metrics=[Metric(name, value, int(row["at"]), step) for name, value in values.items()]
        )
        if row.get("finished") == row.get("planned"):
            self.client.set_terminated(run, "FINISHED")
        return made

    def _cell_run(self, row: Mapping[str, Any]) -> tuple[str, bool]:
        known = self.runs.get(row["cell"])
        if known is not None and (known in self.sent or self._alive(known)):
            self.sent.add(known)
            return known, False
        tags = {name: str(row[name]) for name in NAMES} | {"mlflow.parentRunId": self.parent}
        run = self.client.create_run(self.experiment, tags=tags, run_name=row["cell"]).info.run_id
        self.runs[row["cell"]] = run
        self.sent.add(run)
        return run, True

    def _experiment(self, name: str) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is None:
            place = (self.folder / "mlartifacts").resolve().as_uri() if self.uri.startswith("sqlite") else None
            return str(self.client.create_experiment(name, artifact_location=place))
        if found.lifecycle_stage == "deleted":
            self.client.restore_experiment(found.experiment_id)
        return str(found.experiment_id)

    def _parent(self, name: str, params: Mapping[str, str]) -> str:
        from mlflow.entities import Param

        known = self.links.get("parent")
        if known is not None and self._alive(known):
            self.client.update_run(known, status="RUNNING")
            return str(known)
        self.runs = {}
        tags = {"mlflow.note.content": _note(self.folder), "sweep": name}
        run = str(self.client.create_run(self.experiment, tags=tags, run_name=name).info.run_id)
        self.client.log_batch(run, params=[Param(key, public(value)[:500]) for key, value in params.items()])
        self.parent = run
        self._remember()
        return run

    def _alive(self, run: str) -> bool:
        """Whether a remembered run still exists and is not in the bin."""
        from mlflow.exceptions import MlflowException

        try:
            return bool(self.client.get_run(run).info.lifecycle_stage == "active")
        except MlflowException as problem:
            if problem.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise

    def _remember(self) -> None:
        links = _links(self.folder)
        links[public(self.uri)] = {"experiment": self.experiment, "parent": self.parent, "cells": self.runs}
        durable.write(self.folder / LINKS, json.dumps(links, indent=1).encode())


def track(folder: Path, uri: str | None = None) -> None:
    """Rebuild the mirror of a run folder; raises what MLflow raises, since here MLflow is all that was asked for."""
    sweep = tomllib.loads((folder / "sweep.resolved.toml").read_text(encoding="utf-8"))
    rows = pl.read_parquet(folder / "results.parquet")
    tracking = sweep.get("tracking", {})
    place = uri or tracking.get("uri", LOCAL)
    mirror = Mirror(
        address(LOCAL if place == OFF else place, folder),
        tracking.get("experiment") or sweep["name"],
        folder,
        {},
        sweep["name"],
    )
    at = int((folder / "results.parquet").stat().st_mtime * 1000)
    finished = int(rows["finished"].sum())
    cells = {row["cell"]: {**row, "at": at} for row in rows.iter_rows(named=True)}
    mirror.send(cells, [(finished, 0.0, at)], [folder / "sweep.resolved.toml", folder / "results.json"])
    mirror.end("FINISHED" if finished == int(rows["planned"].sum()) else "FAILED")


def address(uri: str, folder: Path) -> str:
    """``sqlite`` is a file in the run folder; anything else is an address as it stands."""
    return f"sqlite:///{(folder / 'mlflow.db').resolve()}" if uri == LOCAL else uri


def public(text: str) -> str:
    """The text without a user and password in an address."""
    return re.sub(r"//[^/@\s]+@", "//***@", text)


def _client(uri: str) -> Any:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if uri.startswith("sqlite"):
        _write_ahead()
    from mlflow.tracking import MlflowClient

    for name in ("mlflow", "alembic"):  # how it makes its tables is nobody's news
        logging.getLogger(name).setLevel(logging.WARNING)
    return MlflowClient(tracking_uri=uri)


def _write_ahead() -> None:
    """SQLite in write-ahead mode: five to ten times as many runs a second, and readers do not block."""
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    def pragmas(connection: Any, _: Any) -> None:
        if type(connection).__module__.startswith("sqlite3"):
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")

    if not getattr(Engine, "_proactive_sweep_wal", False):
        event.listen(Engine, "connect", pragmas)
        Engine._proactive_sweep_wal = True


def _links(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / LINKS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _note(folder: Path) -> str:
    return (
        "A proactive-sweep run: every nested run is one cell (model / scenario / condition). Filter by the tags model, scenario "
        "and condition; compare `acc` and `ps`. This mirror can be rebuilt from the run folder with `proactive-sweep track "
        f"{folder.name}`."
    )


def _now() -> int:
    return int(time.time() * 1000)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
