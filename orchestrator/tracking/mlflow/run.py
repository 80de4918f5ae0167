"""Sends cells, progress, files and the data set of a sweep to its runs in MLflow.

An update can be sent again at any time: nothing is created or recorded twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from orchestrator.report.scores.answer import folder_answers
from orchestrator.storage import reused
from orchestrator.storage.progress_log import Point
from orchestrator.tracking import rollup
from orchestrator.tracking.mlflow import saved_views
from orchestrator.tracking.mlflow.run_tree import CELL_NAMES, NestedRun, RunTree
from orchestrator.tracking.mlflow.saved_views import describe_experiment
from orchestrator.tracking.tracked_run import BASELINE, TrackedRun

METRICS_PER_CALL = 900
"""Metrics that one call carries; MLflow's limit is 1,000."""
FIRST_METRICS = ("acc", "ps", "aggregate", "category", "suggestion")
"""Sent first: MLflow's page opens on the metrics that it received first."""


class Update(NamedTuple):
    """Changes of a sweep that are sent together."""

    cells: Mapping[str, Mapping[str, Any]] = {}
    """Cell -> its newest row, with ``at`` in milliseconds since 1970."""
    points: tuple[Point, ...] = ()
    files: tuple[Path, ...] = ()
    dataset: Mapping[str, Any] | None = None
    """The result of ``describe_dataset``."""
    status: str = ""
    """The final status of the sweep's run; empty while it goes on."""

    def merge(self, newer: Update) -> Update:
        """Return both updates as one: newer rows replace older ones, and the latest ``METRICS_PER_CALL`` points stay."""
        return Update(
            {**self.cells, **newer.cells},
            (*self.points, *newer.points)[-METRICS_PER_CALL:],
            tuple(dict.fromkeys((*self.files, *newer.files))),
            newer.dataset or self.dataset,
            newer.status or self.status,
        )


class MlflowRun(RunTree):
    """The runs of one sweep, and how updates reach them. Every method may raise any error of MLflow."""

    def __init__(self, run: TrackedRun) -> None:
        super().__init__(run)
        saved_views.send(self.client, self.experiment, run.roster.conditions)
        describe_experiment(self.client, self.experiment)
        if sentences := reused.sentences(self.folder):
            self.client.set_tag(self.parent, "reused", "; ".join(sentences))

    def send(self, update: Update) -> None:
        """Send an update; files come last, so that a server that accepts no files still gets the metrics and the end."""
        self.send_points(update.points)
        if update.dataset:
            self.send_dataset(update.dataset)
        self.send_cells(update.cells.values())
        if update.status:
            self.end(update.status)
        self.send_files(update.files)

    def send_dataset(self, description: Mapping[str, Any]) -> None:
        """Log the data set as an input of the sweep's run; MLflow stores the same name and digest once."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        encoded = {name: json.dumps(description[name]) for name in ("source", "schema", "profile")}
        dataset = Dataset(name=description["name"], digest=description["digest"], source_type="local", **encoded)
        self.client.log_inputs(self.parent, [DatasetInput(dataset, [InputTag("mlflow.data.context", "evaluation")])])

    def send_points(self, points: Sequence[Point]) -> None:
        """Log points over time on the sweep's run; a point that changes nothing is skipped."""
        from mlflow.entities import Metric

        metrics = []
        for point in points:
            values = {"episodes_done": float(point.done), **point.metrics}
            if {**self.metrics, **values} != self.metrics:
                self.metrics.update(values)
                metrics += [Metric(name, value, point.at, point.done) for name, value in values.items()]
        for start in range(0, len(metrics), METRICS_PER_CALL):
            self.client.log_batch(self.parent, metrics=metrics[start : start + METRICS_PER_CALL])

    def send_cells(self, rows: Collection[Mapping[str, Any]]) -> None:
        """Log what changed in cells since the server received them, then in their models, then in the sweep."""
        for row in rows:
            run = self.cell_run(row)
            run.planned = int(row.get("planned") or 0)
            finished = int(row.get("finished") or 0)
            self._send_metrics(run, measures(row) if finished else {}, row["at"], finished)
            self.set_status(run, _cell_status(row))
        for model in dict.fromkeys(str(row["model"]) for row in rows):
            self._send_model(self.models[model], max(row["at"] for row in rows))
        if rows:
            self._send_sweep(max(row["at"] for row in rows))

    def send_files(self, paths: Sequence[Path]) -> None:
        """Store files with the sweep's run; missing ones are skipped."""
        for path in paths:
            if path.is_file():
                self.client.log_artifact(self.parent, str(path))

    def end(self, status: str) -> None:
        """Close the sweep's run and the unfinished runs below it; an unfinished run never becomes FINISHED."""
        if sentences := folder_answers(self.folder):
            self.client.set_tag(self.parent, "mlflow.note.content", "\n".join([*sentences, "", self.note]))
        self.client.set_terminated(self.parent, status)
        for run in (*self.models.values(), *self.cells.values()):
            if run.status == "RUNNING":
                self.set_status(run, "FAILED" if status == "FINISHED" else status)
        describe_experiment(self.client, self.experiment)

    def _send_model(self, run: NestedRun, at: int) -> None:
        cells = [cell for cell in self.cells.values() if cell.names["model"] == run.names["model"]]
        condition = self.roster.main_condition(cell.names["condition"] for cell in cells)
        values = rollup.model_measures([cell.row for cell in cells], condition)
        if values.get("finished"):
            self._send_metrics(run, values, at, int(values["finished"]), {"condition": condition})
        states = {cell.status for cell in cells}
        self.set_status(run, "RUNNING" if "RUNNING" in states else "FINISHED" if states == {"FINISHED"} else "FAILED")

    def _send_sweep(self, at: int) -> None:
        from mlflow.entities import Metric

        models = {name: run.metrics for name, run in self.models.items()}
        baselines = [name for name in models if self.roster.kind(name) == BASELINE]
        values, best_model = rollup.sweep_measures(models, baselines)
        changed = {name: value for name, value in values.items() if self.metrics.get(name) != value}
        done = int(sum(metrics.get("finished", 0) for metrics in models.values()))
        if changed:
            metrics = [Metric(name, value, at, done) for name, value in changed.items()]
            self.client.log_batch(self.parent, metrics=metrics)
            self.metrics.update(changed)
        if best_model and best_model != self.best_model:
            self.client.set_tag(self.parent, "best_model", best_model)
            self.best_model = best_model

    def _send_metrics(
        self, run: NestedRun, values: Mapping[str, float], at: int, step: int, params: Mapping[str, str] | None = None
    ) -> None:
        """Log changed metrics and, with the first of them, the run's parameters, which MLflow's page filters and groups by."""
        from mlflow.entities import Metric, Param

        changed = {name: value for name, value in values.items() if run.metrics.get(name) != value}
        if not changed:
            return
        all_params = {"sweep": self.title, "kind": self.roster.kind(run.names["model"]), **run.names, **(params or {})}
        new_params = [Param(name, text) for name, text in all_params.items() if name not in (*run.params, "cell")]
        metrics = [Metric(name, value, at, step) for name, value in changed.items()]
        self.client.log_batch(run.id, metrics=metrics, params=new_params)
        run.metrics.update(changed)
        run.params.update(all_params)


def measures(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a row, ``FIRST_METRICS`` first; missing measures are left out, never zero."""
    return {
        name: float(value)
        for name, value in sorted(row.items(), key=lambda pair: pair[0] not in FIRST_METRICS)
        if name not in (*CELL_NAMES, "at")
        and isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
    }


def _cell_status(row: Mapping[str, Any]) -> str:
    if int(row.get("finished") or 0) < int(row.get("planned") or 0):
        return "RUNNING"
    return "FAILED" if row.get("failed") else "FINISHED"
