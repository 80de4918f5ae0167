"""The page of an experiment: its kind, so that MLflow opens it at its runs, and a description that leads to results.

MLflow 3.17 ignores the kind and opens every experiment at its chat traces, under the first line of the description: that
line has the best model and the links. A kind or a description that somebody else wrote stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from orchestrator.tracking.mlflow.saved_views import CELLS, MODELS, SWEEPS, link

KIND, RUNS_FIRST = "mlflow.experimentKind", "custom_model_development"
"""Tag and value with which MLflow shows runs first."""
NOTE = "mlflow.note.content"
VIEWS = ((MODELS, "models"), (SWEEPS, "sweeps side by side"), (CELLS, "cells"))
EXPLANATION = """Models see pictures that do not show enough, and may ask for more (ProactiveBench). `acc` is the percentage of
right answers, the mean over scenarios; `mean acc` is over all models without baselines."""
MAX_SWEEPS = 20
SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#!|~&])")


def describe_experiment(client: Any, experiment: str) -> None:
    """Write the kind and the description of an experiment. May raise any error of MLflow."""
    tags = client.get_experiment(experiment).tags
    if KIND not in tags:
        client.set_experiment_tag(experiment, KIND, RUNS_FIRST)
    before = tags.get(NOTE, "")
    note = "\n".join(_note_lines(client, experiment))
    if note != before and (not before or link("", experiment, MODELS)[1:] in before):
        client.set_experiment_tag(experiment, NOTE, note)


def _note_lines(client: Any, experiment: str) -> Iterator[str]:
    runs = client.search_runs([experiment], "tags.level = 'sweep'", max_results=MAX_SWEEPS)
    scored = [run for run in runs if "best_acc" in run.data.metrics and "best_model" in run.data.tags]
    best = max(scored, key=lambda run: run.data.metrics["best_acc"], default=None)
    first = f"best acc {best.data.metrics['best_acc']:.1f}, {_escape(best.data.tags['best_model'])}; " if best else ""
    yield first + "tables: " + ", ".join(f"[{name}]({link('', experiment, view)[1:]})" for view, name in VIEWS)
    yield ""
    yield EXPLANATION
    yield ""
    yield "| sweep | best model | acc | mean acc | status |"
    yield "| --- | --- | --- | --- | --- |"
    for run in sorted(runs, key=lambda run: -run.info.start_time):
        yield _sweep_line(run, experiment)


def _sweep_line(run: Any, experiment: str) -> str:
    metrics = run.data.metrics
    best, acc = (f"{metrics[name]:.1f}" if name in metrics else "-" for name in ("best_acc", "acc"))
    name = f"[{_escape(run.info.run_name)}](#/experiments/{experiment}/runs/{run.info.run_id})"
    return f"| {name} | {_escape(run.data.tags.get('best_model', '-'))} | {best} | {acc} | {run.info.status.lower()} |"


def _escape(text: str) -> str:
    """Return text of one line that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))
