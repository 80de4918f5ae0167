"""The score of a run in the Hub's format: each model's ``.eval_results/proactivebench.yaml`` and the data set's ``eval.yaml``.

Only the score (``HEADLINE``) is written, never an extension: other conditions, protocols, samples and measures of this program.
Format: https://huggingface.co/docs/hub/eval-results
"""

import re
from pathlib import Path
from typing import Any

import polars as pl
import yaml
from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

from envs.errors import RunFolderError
from orchestrator.report.measures.estimates import estimate
from orchestrator.report.paper.published import foreign_scenarios, subset_scenarios
from orchestrator.report.run_data import RunData
from orchestrator.storage import software
from orchestrator.storage.progress_log import playing_times
from sweeps.model import ModelSpec
from sweeps.protocol import HEADLINE, ZERO_SHOT, Protocol

DATASET = "tdemin16/ProactiveBench"
FRAMEWORK = "proactive-sweep"
TASK, ASKING = "mcqa-zero-shot-v1", "mcqa-zero-shot-v1-suggestions"
"""The tasks of the data set: accuracy in percent, and suggestions an episode."""
RESULTS = ".eval_results/proactivebench.yaml"
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*", re.ASCII)
EVAL: dict[str, Any] = {
    "name": "ProactiveBench",
    "description": f"{HEADLINE}: does a multimodal model ask for a better view before it answers? Zero-shot multiple choice, "
    "unweighted means over seven scenarios, on the 7,557 samples that the paper's filter keeps (arXiv:2603.19466).",
    "evaluation_framework": FRAMEWORK,
    "tasks": [{"id": task, "config": "default", "split": "test"} for task in (TASK, ASKING)],
}


def write(run_data: RunData, folder: Path) -> None:
    """Write the results of every model of the Hub whose score is complete; raises RunFolderError if there is none."""
    if reasons := foreign_scenarios(run_data) | subset_scenarios(run_data):
        scenario, reason = next(iter(reasons.items()))
        raise RunFolderError(f"{run_data.folder} has no {HEADLINE}: {scenario}: {reason}")
    averages = estimate(run_data).averages.filter(
        pl.col("all_seven"), condition=ZERO_SHOT, protocol=Protocol.MCQA.value
    )
    models = {model.name: model for model in run_data.sweep.models if is_on_hub(model)}
    rows = [row for row in averages.iter_rows(named=True) if row["model"] in models]
    if not rows:
        raise RunFolderError(
            f"{run_data.folder} has no {HEADLINE} of a model of the Hub: it needs all episodes of zero-shot in seven scenarios"
        )
    (folder / "eval.yaml").write_text(yaml.safe_dump(EVAL, sort_keys=False), encoding="utf-8")
    for row in rows:
        file = folder / models[row["model"]].source / RESULTS
        file.parent.mkdir(parents=True)
        entries = eval_result_entries_to_yaml(_entries(run_data, models[row["model"]], row))
        file.write_text(yaml.safe_dump(entries, sort_keys=False), encoding="utf-8")


def is_on_hub(model: ModelSpec) -> bool:
    """Return True if the source is OWNER/NAME and no folder of this machine; services have no repository of their model."""
    return model.is_local and bool(HUB_NAME.fullmatch(model.source)) and not Path(model.source).exists()


def _entries(run_data: RunData, model: ModelSpec, row: dict[str, Any]) -> list[EvalResultEntry]:
    times = playing_times(run_data.folder)
    decoding = run_data.sweep.sampling_for(Protocol.MCQA).description
    origin = f"{HEADLINE}; revision {model.revision}; {decoding}; proactive-sweep {software.version()}"
    tasks = {TASK: ("acc", "accuracy in percent"), ASKING: ("ps", "suggestions an episode")}
    return [
        EvalResultEntry(
            dataset_id=DATASET, task_id=task, value=round(row[name], 2),
            date=times[1].date().isoformat() if times else None,
            notes=f"{meaning}, 95% interval {row[f'{name}_low']:.2f} to {row[f'{name}_high']:.2f}; {origin}",
        )
        for task, (name, meaning) in tasks.items()
    ]  # fmt: skip
