"""The runs of a sweep in MLflow: one for the sweep, below it one per model, below each model one per cell.

A random mark identifies the sweep's runs. The run folder stores it before the first run is created, and every run has it as
a tag. So after a lost answer, a kill, a deleted run or an emptied server, existing runs are found and missing ones created.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.text.redaction import redact_addresses
from orchestrator.tracking.mlflow import links, local_store
from orchestrator.tracking.mlflow.client import all_pages, open_client
from orchestrator.tracking.mlflow.local_store import LOCAL, resolve_uri
from orchestrator.tracking.tracked_run import TrackedRun

MARK = "proactive_sweep.mirror"
"""Tag with the mark."""
PARENT = "mlflow.parentRunId"
LEVEL = "level"
"""Tag: ``sweep``, ``model`` or ``cell``."""
RUN_TYPE, EVALUATION = "mlflow.runType", "evaluation"
"""Tag of a model's run: MLflow's page expands a run that holds evaluations, so it shows the models of a sweep at once."""
MAX_MODELS = 1000
"""Most models that start times can order: MLflow's page sorts runs by start, and a model's start follows from its rank."""
MAX_PARAM_CHARS = 500
CELLS_PER_MODEL = 1000
"""Most cells of a model that start times can order."""
SWEEP_NOTE = """The sweep **SWEEP** on ProactiveBench: models see pictures that do not show enough, and may ask for more.

- **Nested runs**: one per model, and below each one per cell. This row is the mean over models without baselines.
- `acc`: percent correct under the parameter `condition`, mean over scenarios; `ps`: proactive suggestions per episode; `loops`:
  percent of episodes that ask until the limit. Episodes with errors never count as zeros in `acc`.
- **Saved views** show models, cells, and sweeps side by side. `proactive-sweep track FOLDER` rebuilds everything, with tables,
  figures, `report.html` and traces.
"""
"""The description of a sweep's run on MLflow's page."""
CELL_NAMES = ("cell", "model", "scenario", "condition", "protocol")
"""Columns of a cell's row that identify it; they are tags and parameters of its run."""


@dataclass
class NestedRun:
    """The run of a model or a cell, as the server last received it."""

    id: str
    status: str
    names: dict[str, str]
    """The values of ``CELL_NAMES`` for a cell, of ``model`` alone for a model."""
    metrics: dict[str, float] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    planned: int = 0
    """Planned episodes of a cell, once this process has received its row."""

    @property
    def row(self) -> dict[str, Any]:
        """The cell's names, ``planned`` and metrics (``rollup.CellRow``)."""
        return {**self.names, **({"planned": self.planned} if self.planned else {}), **self.metrics}


class RunTree:
    """The runs of one sweep, found or created. Every method may raise any error of MLflow."""

    def __init__(self, run: TrackedRun) -> None:
        self.folder, self.roster = run.folder, run.roster
        self.uri = resolve_uri(run.uri, run.folder)
        self.local = self.uri == resolve_uri(LOCAL, run.folder)
        self.client = open_client(self.uri)
        self.experiment = self._open_experiment(run.experiment)
        local_store.remove_stray_folder(self.uri)
        self.title = run.name if run.name == run.folder.name else f"{run.name} · {run.folder.name}"
        self.note = SWEEP_NOTE.replace("FOLDER", self.folder.name).replace("SWEEP", run.name)
        self.metrics: dict[str, float] = {}
        """The latest metrics of the sweep's run."""
        self.best_model = ""
        self.models: dict[str, NestedRun] = {}
        self.cells: dict[str, NestedRun] = {}
        self.mark = links.mark(self.folder, self.uri, links.identify_sweep(run.name, run.params))
        self.parent, self.began = self._open_parent(run)
        links.remember(self.folder, self.uri, mark=self.mark, experiment=self.experiment, parent=self.parent)

    def set_status(self, run: NestedRun, status: str) -> None:
        """Set the status of a nested run if it has changed."""
        if run.status == status:
            return
        if status == "RUNNING":
            self.client.update_run(run.id, status=status)
        else:
            self.client.set_terminated(run.id, status)
        run.status = status

    def cell_run(self, row: Mapping[str, Any]) -> NestedRun:
        """Return the run of a cell; create it and its model's run if missing."""
        if row["cell"] not in self.cells:
            names = {name: str(row[name]) for name in CELL_NAMES}
            parent = self.model_run(names["model"])
            # MLflow's page sorts runs by their start and shows the first hundred: models first, then cells of the first models
            of_model = sum(cell.names["model"] == names["model"] for cell in self.cells.values())
            start = self.began - 1 - CELLS_PER_MODEL * self.roster.rank(names["model"]) - of_model
            self.cells[row["cell"]] = self._create(cell_run_name(row), "cell", names, parent.id, start)
        return self.cells[row["cell"]]

    def model_run(self, model: str) -> NestedRun:
        """Return the run of a model; create it if missing."""
        if model not in self.models:
            name = model if self.local else f"{model} · {self.title}"
            start = self.began + MAX_MODELS - self.roster.rank(model)
            tags = {RUN_TYPE: EVALUATION}
            self.models[model] = self._create(name, "model", {"model": model}, self.parent, start, tags)
        return self.models[model]

    def _create(
        self,
        name: str,
        level: str,
        names: dict[str, str],
        parent: str,
        start: int,
        tags: Mapping[str, str] | None = None,
    ) -> NestedRun:
        all_tags = {**names, **self._tree_tags(names["model"], level, parent), **(tags or {})}
        created = self.client.create_run(self.experiment, start_time=start, tags=all_tags, run_name=name)
        return NestedRun(created.info.run_id, "RUNNING", names)

    def _tree_tags(self, model: str, level: str, parent: str) -> dict[str, str]:
        return {PARENT: parent, MARK: self.mark, LEVEL: level, "kind": self.roster.kind(model)}

    def _open_experiment(self, name: str) -> str:
        """Return the experiment's id. A local store keeps files in its run folder, even after that is copied or moved."""
        files = (self.folder / "mlartifacts").resolve().as_uri() if self.uri.startswith("sqlite") else None
        if files and self.local:
            local_store.relocate_files(self.folder / local_store.NAME, files)
            local_store.check_files_local(self.folder / local_store.NAME)
        candidate, number = name, 1
        while (experiment := self.client.get_experiment_by_name(candidate)) is not None:
            if not self.local or experiment.artifact_location == files:
                if experiment.lifecycle_stage == "deleted":
                    self.client.restore_experiment(experiment.experiment_id)
                return str(experiment.experiment_id)
            number += 1
            candidate = f"{name} ({number})"
        return str(self.client.create_experiment(candidate, artifact_location=files))

    def _open_parent(self, run: TrackedRun) -> tuple[str, int]:
        """Find or create the sweep's run; return its id and its start in milliseconds since 1970.

        Parameters that the run already has are never replaced.
        """
        from mlflow.entities import Param

        marked = self._search(MARK, self.mark)
        parent = next((candidate for candidate in marked if PARENT not in candidate.data.tags), None)
        if parent is None:
            tags = {MARK: self.mark, LEVEL: "sweep", "mlflow.note.content": self.note, "sweep": run.name}
            parent = self.client.create_run(self.experiment, tags=tags, run_name=self.title)
        else:
            self.client.update_run(parent.info.run_id, status="RUNNING")
            self.metrics, self.best_model = dict(parent.data.metrics), parent.data.tags.get("best_model", "")
        self._adopt(parent, marked)
        missing = [
            Param(key, redact_addresses(text)[:MAX_PARAM_CHARS])
            for key, text in run.params.items()
            if key not in parent.data.params
        ]
        if missing:
            self.client.log_batch(parent.info.run_id, params=missing)
        return self.parent, self.began

    def _adopt(self, parent: Any, marked: Sequence[Any]) -> None:
        """Take over existing runs, and attach those whose parent was deleted."""
        self.parent, self.began = str(parent.info.run_id), int(parent.info.start_time)
        for run in marked:
            if run.data.tags.get(LEVEL) == "model":
                self._attach(run, self.parent, "model")
                self.models[run.data.tags["model"]] = _nested(run, ("model",))
        for run in marked:
            if "cell" in run.data.tags:
                self._attach(run, self.model_run(run.data.tags["model"]).id, "cell")
                self.cells[run.data.tags["cell"]] = _nested(run, CELL_NAMES)

    def _attach(self, run: Any, parent: str, level: str) -> None:
        for key, text in self._tree_tags(run.data.tags["model"], level, parent).items():
            if run.data.tags.get(key) != text:
                self.client.set_tag(run.info.run_id, key, text)

    def _search(self, tag: str, text: str) -> list[Any]:
        """Return the runs of the experiment with this tag, without deleted ones."""
        query = f"tags.`{tag}` = '{text}'"
        return all_pages(self.client.search_runs, experiment_ids=[self.experiment], filter_string=query)


def _nested(run: Any, keys: Sequence[str]) -> NestedRun:
    names = {name: run.data.tags.get(name, "") for name in keys}
    return NestedRun(run.info.run_id, run.info.status, names, dict(run.data.metrics), dict(run.data.params))


def cell_run_name(row: Mapping[str, Any]) -> str:
    """Return ``model · scenario · condition``, with the protocol appended unless it is multiple choice."""
    parts = [row["model"], row["scenario"], row["condition"]]
    return " · ".join(parts if row["protocol"] == "mcqa" else [*parts, row["protocol"]])
