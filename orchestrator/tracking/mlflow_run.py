"""The runs of a sweep in MLflow: one for the sweep, below it one per model, below each model one per cell.

A random mark identifies the sweep's runs. The run folder stores it before the first run is created, and every run has it as
a tag. So after a lost answer, a kill, a deleted run or an emptied server, existing runs are found and missing ones created, and
everything can be sent again: nothing is created or recorded twice.
"""

import json
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.text.redaction import redact_addresses
from orchestrator.report.scores.answer import folder_answers
from orchestrator.storage.progress_log import stored_points
from orchestrator.tracking import client, rollup
from orchestrator.tracking.client import LOCAL, resolve_uri
from orchestrator.tracking.experiment_page import ANSWER, PAGE, describe_experiment
from orchestrator.tracking.tracker import TrackedRun

MARK = "proactive_sweep.mirror"
"""Tag with the mark."""
PARENT, NOTE = "mlflow.parentRunId", "mlflow.note.content"
LEVEL = "level"
"""Tag: ``sweep``, ``model`` or ``cell``."""
RUN_TYPE, EVALUATION = "mlflow.runType", "evaluation"
"""Tag of a model's run: MLflow's page expands a run that holds evaluations, so it shows the models of a sweep at once."""
FILES = ("sweep.resolved.toml", "results.json")
"""Files of the run folder that the sweep's run holds."""
MAX_MODELS = CELLS_PER_MODEL = 1000
"""Most models, and cells of a model, that start times can order: MLflow's page sorts runs by start."""
MAX_PARAM_CHARS, MAX_TAG_CHARS = 500, 5000
CELL_NAMES = ("cell", "model", "scenario", "condition", "protocol")
"""Columns of a cell's row that identify it; they are tags and parameters of its run."""
FIRST_METRICS = ("asks", "acc", "ps", "aggregate", "category", "suggestion")
"""Sent first: MLflow's page opens on the metrics that it received first."""
DETAILS = re.compile("share_.*|(gave_up|guessed|limit|unreadable).*_(low|high)")
"""Columns of a cell that stay in results.json and the report, since each costs MLflow a row and CPU time."""


@dataclass
class NestedRun:
    """The run of the sweep, a model or a cell, as the server last received it."""

    id: str
    status: str
    names: dict[str, str]
    """The values of ``CELL_NAMES`` for a cell, of ``model`` alone for a model; none for the sweep."""
    metrics: dict[str, float] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    planned: float = 0.0
    """Planned episodes of a cell, which count before the first one is played."""


class MlflowRun:
    """The runs of one sweep, found or created, and how rows, points and files reach them. Any method may raise any error."""

    def __init__(self, run: TrackedRun) -> None:
        self.run, self.folder = run, run.folder
        self.uri = resolve_uri(run.uri, run.folder)
        self.is_local = self.uri == resolve_uri(LOCAL, run.folder)
        self.files = (self.folder / "mlartifacts").resolve().as_uri() if self.uri.startswith("sqlite") else ""
        self.client = client.import_client(self.uri)(tracking_uri=self.uri)
        self.experiment = self._open_experiment(run.experiment)
        self.title = run.name if run.name == run.folder.name else f"{run.name} · {run.folder.name}"
        self.note = PAGE["sweep_note"].replace("FOLDER", self.folder.name)
        self.points_sent = 0
        self.models: dict[str, NestedRun] = {}
        self.cells: dict[str, NestedRun] = {}
        self.mark = client.read_mark(self.folder, self.uri)
        self._open_parent()
        client.remember(self.folder, self.uri, mark=self.mark, experiment=self.experiment, parent=self.parent)
        describe_experiment(self.client, self.experiment)

    def send(self, rows: Iterable[Mapping[str, Any]], status: str = "") -> None:
        """Send what the run folder and its cells' ``rows`` have that the server has not; with a ``status``, also the end."""
        self.send_points()
        self.send_cells(rows)
        if status:
            self.end(status)

    def send_dataset(self, description: Mapping[str, Any]) -> None:
        """Log the data set as an input of the sweep's run; MLflow stores the same name and digest once."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        encoded = {name: json.dumps(description[name]) for name in ("source", "profile")}
        dataset = Dataset(name=description["name"], digest=description["digest"], source_type="local", **encoded)
        self.client.log_inputs(self.parent, [DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])])

    def send_points(self) -> None:
        """Log the points over time that this object has not sent, on the sweep's run; MLflow stores equal ones once."""
        from mlflow.entities import Metric

        points = stored_points(self.folder)
        metrics = [
            Metric(name, value, point.at, point.done)
            for point in points[self.points_sent :]
            for name, value in (("episodes_done", point.done), ("episodes_per_second", point.episodes_per_second))
            if value is not None
        ]
        self.client.log_batch(self.parent, metrics=metrics)
        self.points_sent = len(points)

    def send_cells(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Log what changed in cells since the server received them, then in their models, then in the sweep."""
        at = int(time.time() * 1000)
        for row in rows:
            cell, finished = self._cell_run(row), int(row.get("finished") or 0)
            cell.planned = float(row.get("planned") or 0)
            self._send_metrics(cell, measures(row) if finished else {}, at, finished)
            is_full = finished >= cell.planned
            self._set_status(cell, "RUNNING" if not is_full else "FAILED" if row.get("failed") else "FINISHED")
        for model in self.models.values():
            self._send_model(model, at)
        if self.models:
            metrics = {name: run.metrics for name, run in self.models.items()}
            values, best_model = rollup.sweep_measures(metrics, self.run.baselines)
            self._send_metrics(self.top, values, at, int(sum(model.get("finished", 0) for model in metrics.values())))
            self.client.set_tag(self.parent, "best_model", best_model)

    def end(self, status: str) -> None:
        """Close the sweep's run and the unfinished runs below it; an unfinished run never becomes FINISHED."""
        if sentences := folder_answers(self.folder):
            self.client.set_tag(self.parent, ANSWER, " ".join(sentences)[:MAX_TAG_CHARS])
            self.client.set_tag(self.parent, NOTE, "\n".join([*sentences, "", self.note]))
        self._set_status(self.top, status)
        for run in (*self.models.values(), *self.cells.values()):
            if run.status == "RUNNING":
                self._set_status(run, "FAILED" if status == "FINISHED" else status)
        describe_experiment(self.client, self.experiment)
        for name in FILES:
            if (self.folder / name).is_file():
                self.client.log_artifact(self.parent, str(self.folder / name))

    def _send_model(self, run: NestedRun, at: int) -> None:
        cells = [cell for cell in self.cells.values() if cell.names["model"] == run.names["model"]]
        condition = self.run.main_condition({cell.names["condition"] for cell in cells})
        rows = [{**cell.names, "planned": cell.planned, **cell.metrics} for cell in cells]
        values = rollup.model_measures(rows, condition)
        if values.get("finished"):
            self._send_metrics(run, values, at, int(values["finished"]), condition=condition)
        states = {cell.status for cell in cells}
        self._set_status(run, "RUNNING" if "RUNNING" in states else "FINISHED" if states == {"FINISHED"} else "FAILED")

    def _send_metrics(self, run: NestedRun, values: Mapping[str, float], at: int, step: int, **params: str) -> None:
        """Log changed metrics and, with the first of them, the run's parameters, which MLflow's page filters and groups by."""
        from mlflow.entities import Metric, Param

        changed = {name: value for name, value in values.items() if run.metrics.get(name) != value}
        if not changed:
            return
        if run.names:
            params |= {"sweep": self.title, "kind": self.run.kind(run.names["model"]), **run.names}
        new_params = [Param(name, text) for name, text in params.items() if name not in (*run.params, "cell")]
        metrics = [Metric(name, value, at, step) for name, value in changed.items()]
        self.client.log_batch(run.id, metrics=metrics, params=new_params)
        run.metrics.update(changed)
        run.params.update(params)

    def _set_status(self, run: NestedRun, status: str) -> None:
        """Set the status of a run if it has changed."""
        if run.status != status:
            set_status = self.client.update_run if status == "RUNNING" else self.client.set_terminated
            set_status(run.id, status=status)
        run.status = status

    def _cell_run(self, row: Mapping[str, Any]) -> NestedRun:
        """Return the run of a cell; create it and its model's run if missing."""
        if row["cell"] not in self.cells:
            names = {name: str(row[name]) for name in CELL_NAMES}
            parent = self._model_run(names["model"])
            # MLflow's page sorts runs by their start and shows the first hundred: models first, then cells of the first models
            of_model = sum(cell.names["model"] == names["model"] for cell in self.cells.values())
            start = self.began - 1 - CELLS_PER_MODEL * self.run.rank(names["model"]) - of_model
            parts = [names[part] for part in CELL_NAMES[1:] if names[part] != "mcqa"]
            self.cells[row["cell"]] = self._create(" · ".join(parts), "cell", names, parent.id, start)
        return self.cells[row["cell"]]

    def _model_run(self, model: str) -> NestedRun:
        """Return the run of a model; create it if missing."""
        if model not in self.models:
            name = model if self.is_local else f"{model} · {self.title}"
            start = self.began + MAX_MODELS - self.run.rank(model)
            self.models[model] = self._create(name, "model", {"model": model}, self.parent, start)
        return self.models[model]

    def _create(self, name: str, level: str, names: dict[str, str], parent: str, start: int) -> NestedRun:
        tags = {**names, PARENT: parent, MARK: self.mark, LEVEL: level, "kind": self.run.kind(names["model"])}
        tags |= {RUN_TYPE: EVALUATION} if level == "model" else {}
        created = self.client.create_run(self.experiment, start_time=start, tags=tags, run_name=name)
        return NestedRun(created.info.run_id, "RUNNING", names)

    def _open_experiment(self, name: str) -> str:
        """Return the experiment's id. A local store keeps files in its run folder, even after that is copied or moved."""
        if self.is_local:
            client.keep_files_inside(self.folder / client.NAME, self.files)
        experiment = self.client.get_experiment_by_name(name)
        if self.is_local and "%" in self.uri:  # MLflow makes an empty folder of the quoted name beside the run folder
            with suppress(OSError):
                Path(self.uri.removeprefix("sqlite:///")).parent.rmdir()
        if experiment is None:
            return str(self.client.create_experiment(name, artifact_location=self.files or None))
        if self.is_local:
            client.refuse_outside(experiment.artifact_location, self.files)
        if experiment.lifecycle_stage == "deleted":
            self.client.restore_experiment(experiment.experiment_id)
        return str(experiment.experiment_id)

    def _open_parent(self) -> None:
        """Find or create the sweep's run, and find the runs below it. Parameters that it already has are never replaced."""
        from mlflow.entities import Param

        query = f"tags.`{MARK}` = '{self.mark}'"
        marked = client.all_pages(self.client.search_runs, experiment_ids=[self.experiment], filter_string=query)
        parent = next((run for run in marked if PARENT not in run.data.tags), None)
        if parent is None:
            tags = {MARK: self.mark, LEVEL: "sweep", NOTE: self.note, "sweep": self.run.name}
            parent = self.client.create_run(self.experiment, tags=tags, run_name=self.title)
        else:
            if self.is_local:
                client.refuse_outside(parent.info.artifact_uri, self.files)
            self.client.update_run(parent.info.run_id, status="RUNNING")
        self.parent, self.began = str(parent.info.run_id), int(parent.info.start_time)
        self.top = NestedRun(self.parent, "RUNNING", {}, dict(parent.data.metrics))
        self._find_nested(marked)
        texts = {key: redact_addresses(text)[:MAX_PARAM_CHARS] for key, text in self.run.params.items()}
        if missing := [Param(key, text) for key, text in texts.items() if key not in parent.data.params]:
            self.client.log_batch(self.parent, params=missing)

    def _find_nested(self, marked: Sequence[Any]) -> None:
        """Take over the runs below the sweep's run; runs whose parent was deleted stay as they are, and get successors."""
        parents = {self.parent}
        for level, runs in (("model", self.models), ("cell", self.cells)):
            for run in marked:
                tags = run.data.tags
                if tags.get(LEVEL) == level and tags.get(PARENT) in parents:
                    names = {name: tags[name] for name in CELL_NAMES if name in tags}
                    metrics, params = dict(run.data.metrics), dict(run.data.params)
                    runs[tags[level]] = NestedRun(run.info.run_id, run.info.status, names, metrics, params)
            parents = {run.id for run in runs.values()}


def measures(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a row, ``FIRST_METRICS`` first; missing measures are left out, never zero."""
    return {
        name: rollup.rounded(value)
        for name, value in sorted(row.items(), key=lambda pair: pair[0] not in FIRST_METRICS)
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and not DETAILS.fullmatch(name)
    }
