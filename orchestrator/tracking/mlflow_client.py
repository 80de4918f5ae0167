"""The MLflow client of a run folder: a run for the sweep, below it one for each model, below that one for each cell.

Whatever is sent can be sent again, and nothing is made or written twice.

A sweep's run is known by a random mark that the run folder remembers before the run is made, and the others by their tags
under that mark. So an answer that was lost on the way, a kill at any moment, a deleted run and an emptied server all end
in the same place: what exists is found, what is missing is made.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from actors.redaction import redact_addresses
from orchestrator.storage import reused
from orchestrator.tracking import local_store, remembered, rollup, saved_views
from orchestrator.tracking.remembered import LOCAL, address
from orchestrator.tracking.rollup import NOBODY, Roster

MARK = "proactive_sweep.mirror"
"""Tag of every run of a sweep that holds the mark."""
PARENT = "mlflow.parentRunId"
MAX_MODELS = 1000
"""Places in a sweep's table of models."""
METRICS_PER_CALL = 900
"""Metrics a call may carry; MLflow's own limit is 1,000."""
RUNS_PER_PAGE = 200
"""Runs a search may return at once, so that one answer stays far under the time-out."""
MAX_REASON_CHARS = 200
"""Characters of an error message that are shown."""
LEVEL = "level"
"""Tag: ``sweep``, ``model`` or ``cell``."""
RUN_TYPE, EVALUATION = "mlflow.runType", "evaluation"
"""Tag of an evaluation: MLflow's page opens the run that holds one, so that a sweep's models are seen at first."""
NOTE = """The sweep **SWEEP** on ProactiveBench: models look at pictures that do not show enough, and may ask for more.

- **Below it** is one run a model, and below that one a cell (scenario and condition). This row is the mean over models;
  baselines (parameter `kind`) are in no mean. `best_acc` and the tag `best_model` name the best one.
- **Saved views** (*Models*, *Sweeps side by side*, *Cells*) are tables and charts of these.
- **What to look at**: `acc`, percent right under the condition that the parameter `condition` names, mean over scenarios;
  `ps`, suggestions asked for in an episode; `loops`, percent that asked until the limit; `acc/SCENARIO`;
  `acc_under/CONDITION`; of a cell also `acc_low`, `acc_high`, its 95% interval. `errors` are never zeros in `acc`.
- **Over time**: all of these as episodes finish; here also `episodes_done`, `episodes_per_second` and, under *System
  metrics*, how busy every node's processor, memory and GPUs are.
- **Artifacts** and **Traces**: tables, figures, `report.html` and a seeded sample of episodes turn by turn, once
  `proactive-sweep track FOLDER` has been typed. That command rebuilds all of this from the run folder, which is the truth.
"""
FIRST_METRICS = ("acc", "ps", "aggregate", "category", "suggestion")
NAMES = ("cell", "model", "scenario", "condition", "protocol")
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
    """``episodes_per_second``, ``system/...``."""


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
class NestedRun:
    """A model's or a cell's run as the server last had it."""

    id: str
    status: str
    names: dict[str, str]
    """Of a cell its ``NAMES``, of a model ``model`` alone."""
    metrics: dict[str, float] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    planned: int = 0
    """Episodes of a cell, as far as this process heard of it."""

    @property
    def row(self) -> dict[str, Any]:
        """What is known of a cell (``rollup.Row``)."""
        return {**self.names, **({"planned": self.planned} if self.planned else {}), **self.metrics}


class MlflowRun:
    """A sweep's run and those below it, found or made. Every method may raise what MLflow raises."""

    def __init__(
        self, uri: str, experiment: str, folder: Path, params: Mapping[str, str], name: str, roster: Roster = NOBODY
    ) -> None:
        self.folder, self.uri, self.roster = folder, uri, roster
        self.local = uri == address(LOCAL, folder)
        self.client = _client(uri)
        self.experiment = self._experiment(experiment)
        self.metrics: dict[str, float] = {}
        """The sweep's latest metrics, as far as known."""
        self.best = ""
        self.models: dict[str, NestedRun] = {}
        self.cells: dict[str, NestedRun] = {}
        self.title = name if name == folder.name else f"{name} · {folder.name}"
        self.mark = remembered.mark(folder, uri, remembered.identified(name, params))
        self.parent, self.began = self._parent(name, params)
        remembered.remember(folder, uri, mark=self.mark, experiment=self.experiment, parent=self.parent)
        saved_views.send(self.client, self.experiment, roster.conditions)
        if taken := reused.sentences(folder):
            self.client.set_tag(self.parent, "reused", "; ".join(taken))

    def send(self, round_: Round) -> None:
        """One round; files come last, so that a server that takes no files still gets the figures and the end."""
        self.send_progress(round_.progress)
        if round_.data:
            self.send_data(round_.data)
        self.send_cells(round_.cells.values())
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

    def send_cells(self, rows: Collection[Mapping[str, Any]]) -> None:
        """Log what changed in cells since the server heard of them, then in their models, then in the sweep."""
        for row in rows:
            run = self.cells.get(row["cell"]) or self._make_cell(row)
            run.planned = int(row.get("planned") or 0)
            values = measured(row) if row.get("finished") else {}  # what has not begun has a run, and nothing to say
            self._send_metrics(run, values, row["at"], int(row.get("finished") or 0))
            self._set_status(run, _status(row))
        for model in dict.fromkeys(str(row["model"]) for row in rows):
            self._send_model(self.models[model], max(row["at"] for row in rows))
        if rows:
            self._send_sweep(max(row["at"] for row in rows))

    def _send_model(self, run: NestedRun, at: int) -> None:
        cells = [cell for cell in self.cells.values() if cell.names["model"] == run.names["model"]]
        main = self.roster.main(cell.names["condition"] for cell in cells)
        values = rollup.of_model([cell.row for cell in cells], main)
        if values.get("finished"):
            self._send_metrics(run, values, at, int(values["finished"]), {"condition": main})
        states = {cell.status for cell in cells}
        self._set_status(run, "RUNNING" if "RUNNING" in states else "FINISHED" if states == {"FINISHED"} else "FAILED")

    def _send_sweep(self, at: int) -> None:
        from mlflow.entities import Metric

        models = {name: run.metrics for name, run in self.models.items()}
        values, best = rollup.of_sweep(models, filter(lambda name: self.roster.kind(name) == rollup.BASELINE, models))
        new = {name: value for name, value in values.items() if self.metrics.get(name) != value}
        done = int(sum(found.get("finished", 0) for found in models.values()))
        if new:
            self.client.log_batch(self.parent, metrics=[Metric(name, value, at, done) for name, value in new.items()])
            self.metrics.update(new)
        if best and best != self.best:
            self.client.set_tag(self.parent, "best_model", best)
            self.best = best

    def _send_metrics(
        self, run: NestedRun, values: Mapping[str, float], at: int, step: int, more: Mapping[str, str] | None = None
    ) -> None:
        """Metrics that changed and, with the first of them, the run's parameters: filters and groups of MLflow's page."""
        from mlflow.entities import Metric, Param

        new = {name: value for name, value in values.items() if run.metrics.get(name) != value}
        if not new:
            return
        wanted = {"sweep": self.title, "kind": self.roster.kind(run.names["model"]), **run.names, **(more or {})}
        params = [Param(name, text) for name, text in wanted.items() if name not in (*run.params, "cell")]
        metrics = [Metric(name, value, at, step) for name, value in new.items()]
        self.client.log_batch(run.id, metrics=metrics, params=params)
        run.metrics.update(new)
        run.params.update(wanted)

    def send_files(self, paths: Sequence[Path]) -> None:
        """Files to keep with the parent run; one that is not there is left out."""
        for path in paths:
            if path.is_file():
                self.client.log_artifact(self.parent, str(path))

    def end(self, status: str) -> None:
        """Close the sweep's run, then those below that were left unfinished; none of those ever counts as FINISHED."""
        self.client.set_terminated(self.parent, status)
        for run in (*self.models.values(), *self.cells.values()):
            if run.status == "RUNNING":
                self._set_status(run, "FAILED" if status == "FINISHED" else status)

    def _set_status(self, run: NestedRun, status: str) -> None:
        if run.status == status:
            return
        if status == "RUNNING":
            self.client.update_run(run.id, status=status)
        else:
            self.client.set_terminated(run.id, status)
        run.status = status

    def _make_cell(self, row: Mapping[str, Any]) -> NestedRun:
        names = {name: str(row[name]) for name in NAMES}
        model = self.models.get(names["model"]) or self._make_model(names["model"])
        # "Created" is the sweep's begin for all of them: MLflow's page sorts by it, models first
        run = self._make(run_name(row), "cell", names, model.id, self.began - 1 - len(self.cells))
        self.cells[row["cell"]] = run
        return run

    def _make_model(self, model: str) -> NestedRun:
        name = model if self.local else f"{model} · {self.title}"
        began = self.began + MAX_MODELS - self.roster.place(model)
        run = self._make(name, "model", {"model": model}, self.parent, began, {RUN_TYPE: EVALUATION})
        self.models[model] = run
        return run

    def _make(
        self,
        name: str,
        level: str,
        names: dict[str, str],
        above: str,
        began: int,
        more: Mapping[str, str] | None = None,
    ) -> NestedRun:
        kind = self.roster.kind(names["model"])
        tags = {**names, PARENT: above, MARK: self.mark, LEVEL: level, "kind": kind, **(more or {})}
        made = self.client.create_run(self.experiment, start_time=began, tags=tags, run_name=name)
        return NestedRun(made.info.run_id, "RUNNING", names)

    def _experiment(self, name: str) -> str:
        """The sweep's experiment; the files of a local one lie in the run folder, also after that was copied or moved."""
        place = (self.folder / "mlartifacts").resolve().as_uri() if self.uri.startswith("sqlite") else None
        if place and self.local:
            local_store.move_files(self.folder / local_store.NAME, place)
        wanted, number = name, 1
        while (found := self.client.get_experiment_by_name(wanted)) is not None:
            if not self.local or found.artifact_location == place:
                if found.lifecycle_stage == "deleted":
                    self.client.restore_experiment(found.experiment_id)
                return str(found.experiment_id)
            number += 1
            wanted = f"{name} ({number})"
        return str(self.client.create_experiment(wanted, artifact_location=place))

    def _parent(self, name: str, params: Mapping[str, str]) -> tuple[str, int]:
        """Find the sweep's run and what is below it, or make it: its id, and when it began in milliseconds since 1970.

        Parameters are written once, later ones do not replace them.
        """
        from mlflow.entities import Param

        runs = self._search(f"tags.`{MARK}` = '{self.mark}'")
        found = next((run for run in runs if PARENT not in run.data.tags), None)
        if found is None:
            tags = {MARK: self.mark, LEVEL: "sweep", "mlflow.note.content": _note(self.folder, name), "sweep": name}
            found = self.client.create_run(self.experiment, tags=tags, run_name=self.title)
        else:
            self.client.update_run(found.info.run_id, status="RUNNING")
            self.metrics, self.best = dict(found.data.metrics), found.data.tags.get("best_model", "")
        self._take(found, runs)
        missing = [
            Param(key, redact_addresses(text)[:500]) for key, text in params.items() if key not in found.data.params
        ]
        if missing:
            self.client.log_batch(found.info.run_id, params=missing)
        return str(found.info.run_id), int(found.info.start_time)

    def _take(self, parent: Any, runs: Sequence[Any]) -> None:
        """The runs below, put where they belong: after their parent was deleted, and of version 0.1.0, which had no models."""
        self.parent, self.began = str(parent.info.run_id), int(parent.info.start_time)
        old = [] if LEVEL in parent.data.tags else self._search(f"tags.`{PARENT}` = '{self.parent}'")
        for run in runs:
            if run.data.tags.get(LEVEL) == "model":
                self._put_below(run, self.parent, "model")
                self.models[run.data.tags["model"]] = _nested(run, ("model",))
        for run in (*runs, *old):
            if "cell" in run.data.tags:
                model = run.data.tags["model"]
                self._put_below(run, (self.models.get(model) or self._make_model(model)).id, "cell")
                self.cells[run.data.tags["cell"]] = _nested(run, NAMES)
        if old:
            self.client.set_tag(self.parent, LEVEL, "sweep")

    def _put_below(self, run: Any, above: str, level: str) -> None:
        wanted = {MARK: self.mark, LEVEL: level, "kind": self.roster.kind(run.data.tags["model"]), PARENT: above}
        for key, text in wanted.items():
            if run.data.tags.get(key) != text:
                self.client.set_tag(run.info.run_id, key, text)

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


def milliseconds() -> int:
    """Now, as MLflow counts time."""
    return int(time.time() * 1000)


def _status(row: Mapping[str, Any]) -> str:
    if int(row.get("finished") or 0) < int(row.get("planned") or 0):
        return "RUNNING"
    return "FAILED" if row.get("failed") else "FINISHED"


def client_class() -> Any:
    """MLflow's client, imported with our defaults; raises what that import raises."""
    for name, value in CLIENT_DEFAULTS.items():
        os.environ.setdefault(name, value)
    # else every ended run prints the server's address, password and all, between the user's own lines
    os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"
    from mlflow.tracking import MlflowClient

    return MlflowClient


def _client(uri: str) -> Any:
    if uri.startswith("sqlite"):
        local_store.write_ahead()
    found = client_class()
    for name in ("mlflow", "alembic"):  # how it makes its tables is nobody's news
        logging.getLogger(name).setLevel(logging.WARNING)
    return found(tracking_uri=uri)


def _nested(run: Any, keys: Sequence[str]) -> NestedRun:
    names = {name: run.data.tags.get(name, "") for name in keys}
    return NestedRun(run.info.run_id, run.info.status, names, dict(run.data.metrics), dict(run.data.params))


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
