"""The MLflow client of a run folder: one parent run, and a nested run for each cell.

Whatever is sent can be sent again, and nothing is made or written twice.

A parent run is known by a random mark that the run folder remembers before the run is made, and a cell's run by its tags
under that parent. So an answer that was lost on the way, a kill at any moment, a deleted run and an emptied server all end
in the same place: what exists is found, what is missing is made.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from actors.redaction import redact_address, redact_addresses
from orchestrator.storage import atomic_write
from sweeps.values import digest

LINKS = "mlflow.json"
"""Remembers, per address, which parent run belongs to this folder."""
MARK = "proactive_sweep.mirror"
"""Tag of the parent run that holds the mark."""
PARENT = "mlflow.parentRunId"
METRICS_PER_CALL = 900
"""Metrics a call may carry; MLflow's own limit is 1,000."""
RUNS_PER_PAGE = 200
"""Runs a search may return at once, so that one answer stays far under the time-out."""
MAX_REASON_CHARS = 200
"""Characters of an error message that are shown."""
NOTE = """The sweep **SWEEP** on ProactiveBench: models look at pictures that do not show enough, and may ask for more.

- **Nested runs** are its cells, one for each model, scenario and condition. Filter the list with `tags.model = "..."`,
  `tags.scenario = "ROD"` or `tags.condition = "hint"`; select some and press *Compare*.
- **What to look at**: `acc`, percent right, with its 95% interval `acc_low`, `acc_high`; `ps`, suggestions asked for in an
  episode; `loops`, percent that asked until the limit; `share_*`, what the answers were; `errors` are never zeros in `acc`.
- **Over time**, on this run: `episodes_done`, `episodes_per_second`, `acc_so_far` (of this attempt, all cells together; it
  moves as harder cells are reached) and, under *System metrics*, how busy every node's processor, memory and GPUs are.
- **Artifacts** and **Traces**: tables, figures, `report.html` and a seeded sample of episodes turn by turn, once
  `proactive-sweep track FOLDER` has been typed. That command rebuilds all of this from the run folder, which is the truth.
"""
FIRST_METRICS = ("acc", "ps", "aggregate", "category", "suggestion")
NAMES = ("cell", "model", "scenario", "condition", "protocol")
LOCAL = "sqlite"
CLIENT_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "3",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
}
"""Set unless the user did: MLflow's defaults keep a caller waiting for 247 seconds when a server is gone."""


class Point(NamedTuple):
    """How far the sweep was at one moment, and what else was measured then."""

    done: int
    at: int
    """Milliseconds since 1970."""
    measures: Mapping[str, float] = {}
    """``episodes_per_second``, ``acc_so_far`` (percent right of what this attempt has scored), ``system/...``."""


class Round(NamedTuple):
    """What is sent at once."""

    cells: dict[str, dict[str, Any]]
    """Cell -> its newest row."""
    progress: list[Point]
    files: list[Path]
    data: Mapping[str, Any] | None = None
    """The data set (``dataset.described``)."""
    status: str = ""
    """How the parent run ends; empty while it goes on."""


@dataclass
class CellRun:
    """A cell's run as the server last had it."""

    id: str
    status: str
    metrics: dict[str, float]


class MlflowRun:
    """One parent run and its cells' runs, found or made. Every method may raise what MLflow raises."""

    def __init__(self, uri: str, experiment: str, folder: Path, params: Mapping[str, str], name: str) -> None:
        self.folder, self.uri = folder, uri
        self.client = _client(uri)
        self.experiment = self._experiment(experiment)
        self.metrics: dict[str, float] = {}
        """The parent's latest metrics, as far as known."""
        self.cells: dict[str, CellRun] = {}
        self.parent = self._parent(name, params)

    def send(self, round_: Round) -> None:
        """One round; files come last, so that a server that takes no files still gets the figures and the end."""
        self.send_progress(round_.progress)
        if round_.data:
            self.send_data(round_.data)
        for row in round_.cells.values():
            self.send_cell(row)
        if round_.status:
            self.end(round_.status)
        self.send_files(round_.files)

    def send_data(self, data: Mapping[str, Any]) -> None:
        """The data set as an input of the parent run; MLflow keeps one of the same name and digest once."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        encoded = {name: json.dumps(value) for name, value in data.items() if name in ("source", "schema", "profile")}
        made = Dataset(name=data["name"], digest=data["digest"], source_type="local", **encoded)
        self.client.log_inputs(self.parent, [DatasetInput(made, [InputTag("mlflow.data.context", "evaluation")])])

    def send_progress(self, points: Sequence[Point]) -> None:
        """Points of progress over time on the parent run; one that changes nothing is left out."""
        from mlflow.entities import Metric

        metrics = []
        for point in points:
            now = {"episodes_done": float(point.done), **point.measures}
            if {**self.metrics, **now} != self.metrics:
                self.metrics.update(now)
                metrics += [Metric(name, value, point.at, point.done) for name, value in now.items()]
        for first in range(0, len(metrics), METRICS_PER_CALL):
            self.client.log_batch(self.parent, metrics=metrics[first : first + METRICS_PER_CALL])

    def send_cell(self, row: Mapping[str, Any]) -> None:
        """Log what changed in one cell since the server heard of it."""
        from mlflow.entities import Metric

        run = self.cells.get(row["cell"]) or self._make_cell(row)
        values = measured(row) if row.get("finished") else {}  # what has not begun has a run, and nothing to say
        new = {name: value for name, value in values.items() if run.metrics.get(name) != value}
        if new:
            step = int(row.get("finished") or 0)
            self.client.log_batch(run.id, metrics=[Metric(name, value, row["at"], step) for name, value in new.items()])
            run.metrics.update(new)
        self._set_status(run, _status(row))

    def send_files(self, paths: Sequence[Path]) -> None:
        """Files to keep with the parent run; one that is not there is left out."""
        for path in paths:
            if path.is_file():
                self.client.log_artifact(self.parent, str(path))

    def end(self, status: str) -> None:
        """Close the parent run, then the cells that were left unfinished; none of those ever counts as FINISHED."""
        self.client.set_terminated(self.parent, status)
        for run in self.cells.values():
            if run.status == "RUNNING":
                self._set_status(run, "FAILED" if status == "FINISHED" else status)

    def _set_status(self, run: CellRun, status: str) -> None:
        if run.status == status:
            return
        if status == "RUNNING":
            self.client.update_run(run.id, status=status)
        else:
            self.client.set_terminated(run.id, status)
        run.status = status

    def _make_cell(self, row: Mapping[str, Any]) -> CellRun:
        tags = {name: str(row[name]) for name in NAMES} | {PARENT: self.parent}
        made = self.client.create_run(self.experiment, tags=tags, run_name=run_name(row))
        run = self.cells[row["cell"]] = CellRun(made.info.run_id, "RUNNING", {})
        return run

    def _experiment(self, name: str) -> str:
        """The sweep's experiment; a local one that keeps its files in another folder belongs to a copy, and is not used."""
        place = (self.folder / "mlartifacts").resolve().as_uri() if self.uri.startswith("sqlite") else None
        local = self.uri == address(LOCAL, self.folder)
        wanted, number = name, 1
        while (found := self.client.get_experiment_by_name(wanted)) is not None:
            if not local or found.artifact_location == place:
                if found.lifecycle_stage == "deleted":
                    self.client.restore_experiment(found.experiment_id)
                return str(found.experiment_id)
            number += 1
            wanted = f"{name} ({number})"
        return str(self.client.create_experiment(wanted, artifact_location=place))

    def _parent(self, name: str, params: Mapping[str, str]) -> str:
        """Find the parent run and what is under it, or make it; parameters are written once, later ones do not replace them."""
        from mlflow.entities import Param

        mark = self.mark = self._mark()
        found = next(iter(self._search(f"tags.`{MARK}` = '{mark}'")), None)
        if found is None:
            tags = {MARK: mark, "mlflow.note.content": _note(self.folder, name), "sweep": name}
            title = name if name == self.folder.name else f"{name} · {self.folder.name}"
            found = self.client.create_run(self.experiment, tags=tags, run_name=title)
        else:
            self.client.update_run(found.info.run_id, status="RUNNING")
            self.metrics = dict(found.data.metrics)
            self.cells = self._found_cells(found.info.run_id)
        missing = [
            Param(key, redact_addresses(text)[:500]) for key, text in params.items() if key not in found.data.params
        ]
        if missing:
            self.client.log_batch(found.info.run_id, params=missing)
        parent = str(found.info.run_id)
        self._remember(mark=mark, experiment=self.experiment, parent=parent)
        return parent

    def _found_cells(self, parent: str) -> dict[str, CellRun]:
        return {
            run.data.tags["cell"]: CellRun(run.info.run_id, run.info.status, dict(run.data.metrics))
            for run in self._search(f"tags.`{PARENT}` = '{parent}'")
            if "cell" in run.data.tags
        }

    def _search(self, wanted: str) -> list[Any]:
        """Runs of the experiment that are not in the bin."""
        runs: list[Any] = []
        token: str | None = None
        while True:
            page = self.client.search_runs([self.experiment], wanted, max_results=RUNS_PER_PAGE, page_token=token)
            runs.extend(page)
            token = page.token
            if not token:
                return runs

    def _mark(self) -> str:
        """This folder's mark at this address, made on first use; a folder copied elsewhere makes its own."""
        place = digest(str(self.folder.resolve()))  # no host: a shared folder resumes from any node
        known = _links(self.folder).get(redact_address(self.uri))
        if (
            isinstance(known, dict)
            and known.get("place") == place
            and re.fullmatch("[0-9a-f]{16}", str(known.get("mark")))
        ):
            return str(known["mark"])
        mark = token_hex(8)
        self._remember(place=place, mark=mark)
        return mark

    def _remember(self, **facts: str) -> None:
        links = _links(self.folder)
        key = redact_address(self.uri)
        before = links.get(key)
        known = before if isinstance(before, dict) and before.get("mark") == facts["mark"] else {}
        links[key] = {**known, **facts}
        if links[key] != before:
            atomic_write.write(self.folder / LINKS, (json.dumps(links, indent=1) + "\n").encode())


def measured(row: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a row; what was not measured is no zero. Conclusions first: MLflow opens on what it heard first."""
    return {
        name: float(value)
        for name, value in sorted(row.items(), key=lambda item: item[0] not in FIRST_METRICS)
        if name not in (*NAMES, "at")
        and isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
    }


def address(uri: str, folder: Path) -> str:
    """``sqlite`` is a file in the run folder; anything else is an address as it stands."""
    return f"sqlite:///{(folder / 'mlflow.db').resolve()}" if uri == LOCAL else uri


def milliseconds() -> int:
    """Now, as MLflow counts time."""
    return int(time.time() * 1000)


def _status(row: Mapping[str, Any]) -> str:
    if int(row.get("finished") or 0) < int(row.get("planned") or 0):
        return "RUNNING"
    return "FAILED" if row.get("failed") else "FINISHED"


def _client(uri: str) -> Any:
    for name, value in CLIENT_DEFAULTS.items():
        os.environ.setdefault(name, value)
    # else every ended run prints the server's address, password and all, between the user's own lines
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    if uri.startswith("sqlite"):
        _write_ahead()
    from mlflow.tracking import MlflowClient

    for name in ("mlflow", "alembic"):  # how it makes its tables is nobody's news
        logging.getLogger(name).setLevel(logging.WARNING)
    return MlflowClient(tracking_uri=uri)


def _write_ahead() -> None:
    """SQLite in write-ahead mode: five to ten times as many runs a second, and readers do not block.

    Nothing waits for the disk: ``track`` rebuilds a database that a power cut tears, and the store's own fsync goes first.
    """
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    if not event.contains(Engine, "connect", _pragmas):
        event.listen(Engine, "connect", _pragmas)


def _pragmas(connection: Any, _: Any) -> None:
    if type(connection).__module__.startswith("sqlite3"):
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")


def _links(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / LINKS).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def first_line(problem: Exception) -> str:
    """The first line of an error, without a password."""
    lines = redact_addresses(str(problem)).strip().splitlines()
    return (lines[0] if lines else type(problem).__name__)[:MAX_REASON_CHARS]


def run_name(row: Mapping[str, Any]) -> str:
    """How a cell reads in the list of runs: ``model · scenario · condition``; the protocol where it is not the usual one."""
    parts = [row["model"], row["scenario"], row["condition"]]
    return " · ".join(parts if row["protocol"] == "mcqa" else [*parts, row["protocol"]])


def _note(folder: Path, name: str) -> str:
    return NOTE.replace("FOLDER", folder.name).replace("SWEEP", name)
